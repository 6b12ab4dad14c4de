"""What ``convert`` says of what it does not carry over."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Finished

RunHere = Callable[..., Finished]


def test_members_that_belong_to_no_sample_are_said(run_here: RunHere, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "train.tar", "w") as tar:
        for name in ("README", "a.cls", "b.cls", "LICENSE"):
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"1"))
    done = run_here("convert", tmp_path / "train.tar", tmp_path / "out", "--to", "tfrecord", "-j1")
    assert done.code == 0
    assert "skipped   1 with members that belong to no sample (train.tar)" in done.out
    (skipped,) = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    assert json.loads(skipped) == {"kind": "keyless", "path": "train.tar", "detail": "2 members"}

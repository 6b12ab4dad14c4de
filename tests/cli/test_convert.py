"""What ``convert`` says of what it does not carry over."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from dsprep.formats import FORMATS
from tests.conftest import Finished
from tests.images import jpeg, png

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


@pytest.mark.parametrize("name", FORMATS)
def test_images_of_one_key(run_here: RunHere, tmp_path: Path, name: str) -> None:
    source, dest = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "one.jpg").write_bytes(jpeg(0))
    (source / "one.png").write_bytes(png(1))
    refused = FORMATS[name].keys_must_differ
    done = run_here("convert", source, dest, "--to", name, "--dry-run", "-j1")
    assert (done.code, "--key index" in done.err) == ((4, True) if refused else (0, False))
    done = run_here("convert", source, dest, "--to", name, "-j1")
    assert done.code == (4 if refused else 0)
    if not refused:
        (dest / "manifest.json").unlink(missing_ok=True)
        assert run_here("verify", dest, "-j1").code == 0

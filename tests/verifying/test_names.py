"""`verify` names samples whose names are not text."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import dsprep
from tests.conftest import Finished
from tests.images import image_folder, jpeg


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("stem", ["\udcff\udcfe", "x" * 120 + "/\udcff"], ids=["short", "long"])
def test_a_member_that_is_not_utf8_is_no_sample_of_the_source(
    run_here: Callable[..., Finished], tmp_path: Path, format: int, stem: str
) -> None:
    image_folder(tmp_path / "source", (".",), per_class=2)
    (tmp_path / "image").write_bytes(jpeg(9))
    with tarfile.open(
        tmp_path / "a.tar", "w", format=format, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for path in sorted((tmp_path / "source").iterdir()):
            tar.add(path, path.name)
        tar.add(tmp_path / "image", f"{stem}.jpg")
    source = dsprep.make_source(str(tmp_path / "source"))
    (problem,) = dsprep.verify(str(tmp_path / "a.tar"), against=source, workers=1).problems
    assert problem.message == "the source holds no such sample"
    assert problem.sample.endswith("\\xff\\xfe" if "/" not in stem else "/\\xff")
    assert run_here("verify", tmp_path / "a.tar", "--decode").code == 0

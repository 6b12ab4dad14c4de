"""`verify` of a directory that holds several data sets, each in one file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import dsprep
from dsprep.dataset.names import UNFINISHED
from dsprep.errors import OptionError, SourceError


@pytest.fixture
def both(photos: Path, tmp_path: Path) -> Path:
    for name in ("train.rec", "val.tar"):
        dsprep.pack(str(photos), str(tmp_path / "out" / name), workers=1)
    return tmp_path / "out"


def test_every_one_is_verified(both: Path) -> None:
    report = dsprep.verify(str(both), decode=True, workers=1)
    assert report.manifest
    assert (report.format, report.shards, report.samples) == ("recordio and webdataset", 2, 48)
    assert report.problems == []

    for name in ("train.rec", "val.tar"):
        data = bytearray((both / name).read_bytes())
        data[len(data) // 2] ^= 1
        (both / name).write_bytes(data)
    problems = dsprep.verify(str(both), workers=1).problems
    assert {each.file for each in problems if "crc32c" in each.message} == {"train.rec", "val.tar"}


def test_what_no_manifest_names_is_a_problem_of_the_directory(both: Path) -> None:
    shutil.copy(both / "train.rec", both / "other.rec")
    (problem,) = dsprep.verify(str(both), workers=1).problems
    assert problem.file == "other.rec"
    assert dsprep.verify(str(both / "train.rec"), workers=1).problems == []


def test_what_is_not_finished_and_what_is_of_another_format_are_problems_of_the_directory(
    both: Path,
) -> None:
    shutil.copy(both / "train.rec", both / "other.tfrecord")
    (both / ".test.tar.dsprep").mkdir()
    found = {each.file: each.message for each in dsprep.verify(str(both), workers=1).problems}
    assert found == {
        ".test.tar.dsprep": UNFINISHED,
        "other.tfrecord": "is there, but not in the manifest",
    }
    assert dsprep.verify(str(both / "train.rec"), workers=1).problems == []


@pytest.mark.parametrize("others", [True, False])
def test_an_unfinished_run_beside_no_manifest_is_said(both: Path, others: bool) -> None:
    (both / ".test.tar.dsprep").mkdir()
    for path in both.glob("[!.]*"):
        if not (others and path.name == "val.tar"):
            path.unlink()
    if others:
        (problem,) = dsprep.verify(str(both), workers=1).problems
        assert problem.file == ".test.tar.dsprep"
    else:
        with pytest.raises(SourceError, match="holds no finished shard"):
            dsprep.verify(str(both))


def test_one_source_is_that_of_one(photos: Path, both: Path) -> None:
    source = dsprep.make_source(str(photos))
    with pytest.raises(OptionError, match="one data set"):
        dsprep.verify(str(both), against=source, workers=1)
    assert dsprep.verify(str(both / "val.tar"), against=source, workers=1).problems == []

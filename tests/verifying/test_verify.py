"""`verify` reports the same for any number of workers, which share the images of few shards."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.verifying.report import VerifyReport
from dsprep.verifying.verify import _shares
from tests.images import image_folder, jpeg, truncated

FORMATS = ("webdataset", "tfrecord", "recordio", "parquet", "mds")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Sixteen images; half of those of one class are cut off."""
    image_folder(tmp_path / "source", ("cat", "dog"), per_class=8)
    for path in sorted((tmp_path / "source" / "dog").iterdir())[::2]:
        path.write_bytes(truncated(path.read_bytes()))
    return tmp_path / "source"


def verified(dest: Path, **options: Any) -> VerifyReport:
    """Verify with one worker, and see that several report the same."""
    one, *others = (
        replace(dsprep.verify(str(dest), workers=workers, **options), seconds=0)
        for workers in (1, 2, 3)
    )
    assert others == [one, one]
    return one


@pytest.mark.parametrize("form", FORMATS)
def test_images_that_are_damaged(damaged: Path, tmp_path: Path, form: str) -> None:
    dest = tmp_path / "shards"
    dsprep.pack(str(damaged), str(dest), format=form, shards=1, check="none", workers=1)
    report = verified(dest, decode=True)
    assert [each.offset for each in report.problems] == sorted(
        each.offset or 0 for each in report.problems
    )
    assert len(report.problems) == 4
    assert all("truncated JPEG" in each.message for each in report.problems)
    assert report.samples == 16
    assert [each.samples for each in report.fields] == [16] * len(report.fields)
    (damaged / "cat" / "000.jpg").write_bytes(jpeg(100))
    assert len(verified(dest, decode=True, against=str(damaged)).problems) == 5


@pytest.mark.parametrize("form", FORMATS[:3])
def test_a_shard_that_is_cut_off(damaged: Path, tmp_path: Path, form: str) -> None:
    dest = tmp_path / "shards"
    dsprep.pack(str(damaged), str(dest), format=form, shards=1, check="none", workers=1)
    (shard,) = (path for path in dest.iterdir() if path.name.startswith("train-") if is_shard(path))
    os.truncate(shard, shard.stat().st_size * 2 // 3)
    told = [each.message for each in verified(dest, decode=True).problems]
    assert sum("but the file ends after" in each for each in told) == 1
    assert any("truncated JPEG" in each for each in told)
    (dest / "manifest.json").unlink()
    assert sum("ends after" in each.message for each in verified(dest, decode=True).problems) == 1


def is_shard(path: Path) -> bool:
    return path.suffix in (".tar", ".tfrecord", ".rec")


def test_many_images_that_are_damaged_hide_no_damage_of_the_shard(tmp_path: Path) -> None:
    source, dest = tmp_path / "source", tmp_path / "shards"
    source.mkdir()
    for number in range(150):
        (source / f"{number}.jpg").write_bytes(b"\xff\xd8\xff no image %d" % number)
    dsprep.pack(str(source), str(dest), format="webdataset", shards=1, check="none", workers=1)
    shard = dest / "train-000000.tar"
    os.truncate(shard, shard.stat().st_size // 512 * 512 - 15 * 1024)
    problems = verified(dest, decode=True).problems
    assert [bool(each.sample) for each in problems] == [True] * 100 + [False] * 3
    assert [each.offset is None for each in problems[100:]] == [False, True, True]


@pytest.mark.parametrize(
    ("shards", "workers", "shares"),
    [(1, 1, 1), (1, 8, 8), (6, 2, 1), (5, 2, 2), (6, 4, 2), (8, 2, 1), (9, 8, 3), (0, 3, 1)],
)
def test_few_shards_are_shared(shards: int, workers: int, shares: int) -> None:
    assert _shares(shards, workers) == shares

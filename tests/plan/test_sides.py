"""Sides: each becomes shards of its own, with one list of classes and one manifest."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import DestinationError, OptionError
from tests.images import jpeg

SIDES = {"test": 3, "train": 20, "valid": 6}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "images"
    for side, count in SIDES.items():
        for number in range(count):
            path = root / side / ("cat" if number % 2 else "dog") / f"{side}{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(number, (8, 8)))
    return root


def keys_of(shard: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(shard) as tar:
        for member in tar:
            if member.name.endswith(".cls"):
                yield member.name, tar.extractfile(member).read()  # type: ignore[union-attr]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_side_becomes_its_own_shards(folder: Path, tmp_path: Path, workers: int) -> None:
    out = tmp_path / f"out{workers}"
    report = dsprep.pack(
        folder, out, to="webdataset", sides_from=1, samples_per_shard=8, workers=workers
    )
    assert report.sides == {"train": 20, "valid": 6, "test": 3}  # training first
    assert [shard.name for shard in report.shards] == [
        *(f"train-00000{number}.tar" for number in range(3)),
        *("valid-000000.tar", "test-000000.tar"),
    ]
    assert (out / "classes.txt").read_text() == "cat\ndog\n"
    for side, count in SIDES.items():
        found = dict(each for shard in out.glob(f"{side}-*.tar") for each in keys_of(shard))
        assert len(found) == count
        for name, label in found.items():
            assert name.startswith(f"{side}/")
            assert label == (b"0" if "/cat/" in name else b"1")
        index = json.loads((out / f"{side}.json").read_text())  # what wids opens
        assert sum(shard["nsamples"] for shard in index["shardlist"]) == count
    checked = dsprep.verify(out, against=dsprep.Source(str(folder), sides_from=1))
    assert not checked.problems


def test_a_name_goes_before_that_of_the_side(folder: Path, tmp_path: Path) -> None:
    report = dsprep.pack(folder, tmp_path / "o", to="tfrecord", sides_from=1, name="pets")
    assert [each.name for each in report.shards] == [
        f"pets-{side}-00000-of-00001.tfrecord" for side in ("train", "valid", "test")
    ]


def test_sides_do_not_become_one_file(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="name a directory"):
        dsprep.pack(folder, tmp_path / "all.tar", sides_from=1)


def test_images_that_lie_in_no_side_are_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "stray.jpg").write_bytes(jpeg(1, (8, 8)))
    with pytest.raises(OptionError, match=r"--sides-from 1: .* such as 'stray\.jpg'"):
        dsprep.pack(folder, tmp_path / "out", to="webdataset", sides_from=1)


@pytest.mark.parametrize("source", ["folder", "shards"])
def test_any_source_is_divided_into_sides(folder: Path, tmp_path: Path, source: str) -> None:
    images, out = folder / "train", tmp_path / "out"
    if source == "shards":
        dsprep.pack(images, tmp_path / "before", to="recordio")
        images = tmp_path / "before"
    report = dsprep.convert(images, out, to="webdataset", split="train=0.8,val=0.2", shards=2)
    assert report.sides == {"train": 16, "val": 4}
    assert [each.name for each in report.shards] == [
        f"{side}-00000{number}.tar" for side in ("train", "val") for number in range(2)
    ]
    for side, count in report.sides.items():
        labels = [label for shard in out.glob(f"{side}-*.tar") for _, label in keys_of(shard)]
        assert sorted(labels) == [b"0"] * (count // 2) + [b"1"] * (count // 2)
    assert (out / "classes.txt").read_text() == "cat\ndog\n"
    again = dsprep.convert(images, out, to="webdataset", split="train=0.8,val=0.2", shards=2)
    assert again.state == "already converted"
    with pytest.raises(DestinationError, match="another command"):
        dsprep.convert(images, out, to="webdataset", split="train=0.6,val=0.4", shards=2)


def test_sides_are_not_divided_again(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="has the sides train, valid, test"):
        dsprep.pack(
            folder, tmp_path / "out", to="webdataset", sides_from=1, split="train=0.5,val=0.5"
        )

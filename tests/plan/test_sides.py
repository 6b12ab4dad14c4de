"""Sides: each becomes shards of its own, with one list of classes and one manifest."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import dsprep
from dsprep.errors import DestinationError, OptionError, SourceError
from tests import pixels
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


def test_sides_that_the_shares_name_are_divided_again(folder: Path, tmp_path: Path) -> None:
    report = dsprep.pack(folder, tmp_path / "out", to="webdataset", split="train=0.5,val=0.5")
    assert report.sides == {"train": 13, "val": 13, "test": 3}
    assert "divided again: train, valid of " in (notes := "; ".join(report.notes))
    assert "kept as before: test" in notes
    names = [name for name, _ in keys_of(tmp_path / "out" / "test-000000.tar")]
    assert all(name.startswith("test/") for name in names)
    with pytest.raises(OptionError, match="the shares name a, b, but .* has the sides train"):
        dsprep.pack(folder, tmp_path / "o", to="webdataset", split="a=0.5,b=0.5")


def test_wrong_shares_are_refused_before_the_source_is_read(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"--split: 0\.5 \+ 0\.6 is 1\.1, not 1"):
        dsprep.pack(tmp_path / "none", tmp_path / "o", to="webdataset", split="a=0.5,b=0.6")


@pytest.mark.parametrize("to", ["webdataset", "tfrecord", "recordio", "parquet"])
def test_shards_of_sides_are_read_with_their_sides(folder: Path, tmp_path: Path, to: str) -> None:
    for side, name in (("test", "site 1"), ("valid", "site 2")):
        (folder / side).rename(folder / name)
    first = dsprep.pack(folder, tmp_path / "a", to=to, sides_from=1, name="pets")
    assert first.sides == {"train": 20, "site 1": 3, "site 2": 6}
    again = dsprep.convert(tmp_path / "a", tmp_path / "b", to="webdataset")
    assert again.sides == first.sides
    assert [shard.name for shard in again.shards][0].startswith("pets-train-00000")
    cut = dsprep.shard(tmp_path / "b", tmp_path / "c", samples_per_shard=8)
    assert cut.sides == first.sides
    assert [shard.name for shard in cut.shards] == [
        *(f"train-00000{number}.tar" for number in range(3)),
        *("site 1-000000.tar", "site 2-000000.tar"),
    ]
    assert not dsprep.verify(tmp_path / "c", against=str(tmp_path / "a")).problems
    one = dsprep.convert(str(tmp_path / "c" / "train-*.tar"), tmp_path / "d", to="tfrecord")
    assert (one.sides, one.samples) == ({}, 20)


def test_the_index_of_each_side_is_its_own(folder: Path, tmp_path: Path) -> None:
    for out, name in ((tmp_path / "a", None), (tmp_path / "b", "pets")):
        dsprep.pack(folder, out, to="webdataset", name=name)
        before = {path.name: path.read_bytes() for path in out.glob("*.json")}
        for path in out.glob("t*.json"):
            path.unlink()
        report = dsprep.index(out)
        assert not report.problems
        assert {path.name: path.read_bytes() for path in out.glob("t*.json")}.items() <= (
            before.items()
        )


def test_nothing_is_appended_to_sides_nor_sides_to_one_set(folder: Path, tmp_path: Path) -> None:
    dsprep.pack(folder, tmp_path / "a", to="webdataset")
    with pytest.raises(OptionError, match="has the sides train, valid, test, and append"):
        dsprep.append(folder / "train", tmp_path / "a")
    dsprep.pack(folder / "train", tmp_path / "b", to="webdataset")
    with pytest.raises(SourceError, match="has the sides train, valid, test, and .* has none"):
        dsprep.append(folder, tmp_path / "b")


def test_a_folder_has_the_class_below_the_side(tmp_path: Path) -> None:
    source = pixels.write_directory(tmp_path / "cifar", pixels.cifar10_binary())
    dsprep.convert(source, tmp_path / "out", to="folder")
    found = sorted(path.relative_to(tmp_path / "out") for path in tmp_path.glob("out/**/*.png"))
    assert {path.parts[:2] for path in found} == {
        *(("train", name) for name in ("frog", "truck", "deer", "automobile")),
        *(("test", name) for name in ("cat", "ship")),
    }
    assert dsprep.pack(tmp_path / "out", tmp_path / "o", to="webdataset").sides == {
        "train": 5,
        "test": 2,
    }
    with pytest.raises(OptionError, match="of the side a lies in none"):
        dsprep.convert(source / "train", tmp_path / "f", to="folder", split="a=0.5,train=0.5")


def test_sides_from_goes_with_a_list_and_with_shards(folder: Path, tmp_path: Path) -> None:
    paths = sorted(path.relative_to(folder) for path in folder.glob("*/*/*.jpg"))
    rows = [f"{path},{path.parts[1]}" for path in paths]
    (tmp_path / "all.csv").write_text("path,label\n" + "\n".join(rows))
    report = dsprep.pack(
        folder, tmp_path / "a", to="webdataset", labels=tmp_path / "all.csv", sides_from=1
    )
    assert report.sides == {"train": 20, "valid": 6, "test": 3}
    with pytest.raises(OptionError, match="is one file, and .* has the sides train, valid, test"):
        dsprep.pack(folder, tmp_path / "all.tar", kind="images")
    lines = [f"{number}\t0\t{path}\n" for number, path in enumerate(paths)]
    (tmp_path / "all.lst").write_text("".join(lines))
    dsprep.pack(folder, tmp_path / "all.tar", list_file=tmp_path / "all.lst")
    report = dsprep.convert(tmp_path / "all.tar", tmp_path / "b", to="tfrecord", sides_from=1)
    assert report.sides == {"train": 20, "valid": 6, "test": 3}


def test_hostile_manifests_and_names_of_sides(folder: Path, tmp_path: Path) -> None:
    dsprep.pack(folder, tmp_path / "a", to="webdataset")
    path = tmp_path / "a" / "manifest.json"
    values = json.loads(path.read_text())
    for sides in (["train"], {"train": "1"}, {"train": 10**9, "x": -1}):
        values["options"]["sides"] = sides
        path.write_text(json.dumps(values))
        report = dsprep.convert(tmp_path / "a", tmp_path / "o", to="tfrecord", dry_run=True)
        assert {*report.sides} == {"train", "valid", "test"}  # those of the names
    values["options"]["sides"] = {"../up": 1, "valid": 1, "test": 1}
    path.write_text(json.dumps(values))
    for write in (dsprep.pack, dsprep.convert):
        with pytest.raises(OptionError, match=r"no shards can be called '\.\./up'"):
            write(tmp_path / "a", tmp_path / "o", to="webdataset")
    with pytest.raises(OptionError, match="cannot be the name of a side"):
        dsprep.split(tmp_path / "a", tmp_path / "o")
    (folder / "test").rename(folder / "manifest")
    with pytest.raises(OptionError, match="no shards can be called 'manifest'"):
        dsprep.pack(folder, tmp_path / "o", to="webdataset", sides_from=1)

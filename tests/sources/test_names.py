"""Sides of a split in one source, and where the files of samples lie below what a user names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import SourceError
from dsprep.places.names import (
    SPLITS,
    SideName,
    are_sides,
    depth_of_sides,
    expand,
    located,
    pattern_of,
    require_one_split,
    side_name,
    side_of_source,
    split_of,
    usual_side,
)


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize(
    ("path", "side", "pattern"),
    [
        ("train-000001.tar", "train", "train-*.tar"),
        ("x/imagenet-validation-00000-of-00128", "validation", "x/imagenet-validation-*"),
        ("my_test-train-00000-of-00001.parquet", "train", "my_test-train-*.parquet"),
        ("flowers_train_00000-of-00005.tfrecord", "train", "flowers_train_*.tfrecord"),
        ("a-10/a-10-corrupted.tfrecord-00000-of-00001", "corrupted", None),
        ("data/clean.360-00000-of-00002.parquet", "clean.360", None),
        ("x/VAL.rec", "VAL", "x/VAL.rec"),
        ("train/00000.tar", "train", "train/*.tar"),
        ("trainval-00000.tar", "", "trainval-*.tar"),
        ("contest-00000.tar", "", "contest-*.tar"),
    ],
)
def test_names_tell_the_side(path: str, side: str, pattern: str | None) -> None:
    assert split_of(path) == side
    assert pattern is None or pattern_of([path]) == pattern


SIDES = {
    "train": "train",
    "Training": "train",
    "VALIDATION": "val",
    "bbox_train": "train",
    "train2017": "train",
    "cars_test": "test",
    "WIDER_val": "val",
    "trainA": "train",
    "imagesTest": "test",
    "train_station": "train",  # its neighbors decide
}


def test_a_side_is_a_word_of_a_name() -> None:
    for name, side in SIDES.items():
        assert (found := side_name(name)) is not None
        assert found.side == side
    for name in ("valley", "VALLEY", "tested", "contest", "trainval", "train_val", "", "cat"):
        assert side_name(name) is None


@pytest.mark.parametrize(
    ("names", "are"),
    [
        ("train val trainannot valannot masks", True),
        ("cars_train cars_test", True),
        ("train2017 val2017 test2017", True),
        ("trainA trainB testA testB", True),
        ("train train_extra val", True),
        ("train_station valley", False),
        ("test_tube training_shoe", False),
        ("train train_station", False),
        ("Train train TEST", False),
        ("train training val", False),
        ("train extra test", False),
        ("masks labels", False),
    ],
)
def test_sides_lie_side_by_side(names: str, are: bool) -> None:
    assert are_sides(names.split()) is are


@pytest.mark.parametrize(
    ("directories", "depth"),
    [
        ("horse-or-human/horses horse-or-human/humans"
         " validation-horse-or-human/horses validation-horse-or-human/humans", 1),
        ("x/rps-test-set/paper x/rps-test-set/rock x/rps/paper x/rps/rock", 2),
        ("rps-test-set/paper rps-test-set/rock rps/paper rps/stone", 0),  # of other classes
        ("test_tube tube", 0),  # without classes
        ("test_tube/a test_tube/b tube/a tube/b cup/a cup/b", 0),
        ("tube/a tube/b train_tube/a train_tube/b", 0),  # which one is for training?
    ],
)  # fmt: skip
def test_a_data_set_lies_beside_its_side(directories: str, depth: int) -> None:
    assert depth_of_sides(sorted(directories.split())) == depth


@pytest.mark.parametrize(
    ("source", "side"),
    [
        ("x/val/", "val"),
        ("x/ILSVRC2012_img_val.tar", "val"),
        ("test-{000000..000146}.tar", "test"),
        ("flowers_val_00000-of-00003.tfrecord", "val"),
        ("s3://bucket/val2017", "val2017"),
        ("testA", "testA"),
        ("val_images", "val"),
        ("shards-of-val/manifest.json", "val"),
        ("instances_val2017.json", "val2017"),
        ("test_photos_of_cats", ""),
        ("train_val", ""),
        ("/", ""),
    ],
)
def test_the_name_of_a_source_ends_in_a_side(source: str, side: str) -> None:
    assert side_of_source(source) == side


@given(st.text(), st.sampled_from(sorted(SPLITS)))
def test_any_name_has_a_side_or_none(text: str, word: str) -> None:
    assert side_name(word) == side_name(word.upper()) == SideName(SPLITS[word], "")
    for name in (text, f"{text}_{word}", f"{word}{text}"):
        found = side_name(name)
        assert found is None or found.side in SPLITS.values()
        assert usual_side(name) in (*SPLITS.values(), name)
        assert not are_sides([name])
    digits = f"{word}2017"
    assert side_name(digits) == SideName(SPLITS[word], "2017")


def test_several_patterns_are_one_with_braces() -> None:
    files = ["x/cats-train-0.tar", "x/cats-train-1.tar", "x/dogs-train-0.tar"]
    assert pattern_of(files) == "x/{cats-train-*.tar,dogs-train-*.tar}"
    assert pattern_of([f"x/{n}-train.tar" for n in range(9)]) == "x/*-train.tar"


def test_several_sides_are_refused(tmp_path: Path) -> None:
    files = [f"{tmp_path}/{side}-{n}.tar" for side in ("val", "test", "train") for n in range(2)]
    with pytest.raises(SourceError) as refused:
        require_one_split(str(tmp_path), files)
    assert "several splits, train, val, test: " in str(refused.value)
    patterns = re.findall("'(.*?)'", str(refused.value))
    assert patterns == [
        *(f"{tmp_path}/{side}-*.tar" for side in ("train", "val", "test")),
        f"{tmp_path}/{{train-*.tar,val-*.tar,test-*.tar}}",
    ]
    touch(tmp_path, *map(Path, files))
    for pattern in patterns:
        assert set(expand(pattern)) <= set(files)
    assert sorted(expand(patterns[-1])) == sorted(files)


def test_one_side_and_others_are_not() -> None:
    require_one_split("x", ["train-0.tar", "training-1.tar", "extra-0.tar"])
    require_one_split("x", ["a.tar", "b.tar"])


def test_a_wildcard_over_sides_is_refused(tmp_path: Path) -> None:
    touch(tmp_path, "train-0.tar", "val-0.tar", "train/0.tar", "val/0.tar")
    for pattern in ("*.tar", "*-*", "*/*.tar"):
        with pytest.raises(SourceError, match="several splits, train, val"):
            expand(f"{tmp_path}/{pattern}")
    assert len(expand(f"{tmp_path}/{{train,val}}-*.tar")) == 2
    assert len(expand(f"{tmp_path}/t*.tar")) == 1


def test_a_repository_has_its_files_in_data(tmp_path: Path) -> None:
    touch(tmp_path, "README.md", ".gitattributes", "data/train-00000-of-00001.parquet")
    touch(tmp_path, "data/test-00000-of-00001.parquet", "assets/notes.txt")
    assert located(str(tmp_path)) == f"{tmp_path}/data"
    assert located(f"{tmp_path}/train") == f"{tmp_path}/data/train-*.parquet"
    assert located(f"{tmp_path}/testing") == f"{tmp_path}/data/test-*.parquet"
    assert located(f"{tmp_path}/val") == f"{tmp_path}/val"


def test_a_version_of_tfds(tmp_path: Path) -> None:
    touch(tmp_path, "ants/big/1.0.0/ants-train.tfrecord-00000-of-00001", "ants/big/1.0.0/a.json")
    touch(tmp_path, "ants/big/1.0.0/ants-corrupted.tfrecord-00000-of-00001")
    for name in ("ants", "ants/big", "ants/big/1.0.0"):
        assert located(f"{tmp_path}/{name}") == f"{tmp_path}/ants/big/1.0.0"
    chosen = f"{tmp_path}/ants/big/1.0.0/ants-corrupted.tfrecord-*"
    assert located(f"{tmp_path}/ants/corrupted") == chosen
    touch(tmp_path, "ants/big/2.0.0/ants-train.tfrecord-00000-of-00001")
    with pytest.raises(SourceError, match="several directories.*big/1.0.0, .*big/2.0.0"):
        located(f"{tmp_path}/ants")


def test_a_tree_of_images_is_left_alone(tmp_path: Path) -> None:
    touch(tmp_path, "images/cat/1.jpg", "backup/old.tar", "data/train-0.tar")
    assert located(f"{tmp_path}/images") == f"{tmp_path}/images"
    touch(tmp_path, "photo.png")
    assert located(str(tmp_path)) == str(tmp_path)
    assert located(f"{tmp_path}/photo.png") == f"{tmp_path}/photo.png"
    assert located(f"{tmp_path}/nothing/there") == f"{tmp_path}/nothing/there"
    assert located(f"{tmp_path}/*.tar") == f"{tmp_path}/*.tar"


@pytest.mark.parametrize(
    ("directories", "depth"),
    [
        ("bounding_box_train bounding_box_test query", 1),
        ("a/train a/test a/query b/train b/test", 2),
        ("vehicles/train vehicles/bus tools/test", 0),  # classes of two directories
        ("vehicles/bus vehicles/car lab/train lab/test", 0),
    ],
)
def test_directories_beside_sides_lie_where_these_do(directories: str, depth: int) -> None:
    assert depth_of_sides(sorted(directories.split())) == depth

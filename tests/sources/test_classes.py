"""Directories as classes: their order, and those that are hardly classes."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import dsprep
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding, count_skipped, notes_of
from dsprep.sources.labels.classes import named_by_directories
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.sources.boxes import write


def fill(root: Path, *directories: str) -> Path:
    """Make an image in each directory."""
    for directory in directories:
        (root / directory).mkdir(parents=True, exist_ok=True)
        (root / directory / "1.jpg").write_bytes(directory.encode())
    return root


def notes(root: Path, **options: object) -> list[str]:
    return notes_of(read_source(make_source(str(root), **options))[1])  # type: ignore[arg-type]


# Their order


def test_class_order(tmp_path: Path) -> None:
    root = fill(tmp_path, *(str(number) for number in range(12)))
    plain, findings = read_source(make_source(str(root)))
    assert plain.classes is not None
    assert plain.classes[:4] == ("0", "1", "10", "11")
    assert notes_of(findings) == [
        "classes are numbered in plain order of their names (0, 1, 10, 11, 2, …), as torchvision "
        "does; --class-order natural gives 0, 1, 2, 3, 4, …"
    ]
    natural, findings = read_source(make_source(str(root), class_order="natural"))
    assert natural.classes == tuple(map(str, range(12)))
    assert notes_of(findings) == []
    for catalog in (plain, natural):
        assert catalog.classes is not None
        named = catalog.table.select("path", "cls").rows()
        assert all(catalog.classes[number] == path.split("/")[0] for path, number in named)
        assert catalog.table["path"][2] == "10/1.jpg"


def test_an_order_that_is_the_same_is_not_said(tmp_path: Path) -> None:
    assert notes(fill(tmp_path, "n01", "n02", "n10")) == []


def test_an_order_that_is_given_is_not_said(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", "2", "10")
    (tmp_path / "names.txt").write_text("10\n2\n")
    assert notes(root, classes=str(tmp_path / "names.txt")) == []


def test_the_classes_of_a_table_have_an_order_too(tmp_path: Path) -> None:
    root = fill(tmp_path, "x", "y")
    (root / "t.csv").write_text("path,label\nx/1.jpg,no 10\ny/1.jpg,no 9\n")
    source = make_source(str(root), labels=str(root / "t.csv"), class_order="natural")
    catalog, _ = read_source(source)
    assert catalog.classes == ("no 9", "no 10")
    assert catalog.table["cls"].to_list() == [1, 0]


def test_an_order_that_does_nothing_is_refused(tmp_path: Path) -> None:
    root = fill(tmp_path / "flat", ".")
    with pytest.raises(OptionError, match="--class-order natural has no effect: neither names"):
        read_source(make_source(str(root), class_order="natural"))
    with pytest.raises(OptionError, match="have the order of the file"):
        make_source(str(root), class_order="natural", classes="names.txt")
    with pytest.raises(OptionError, match="--class-order size: choose one of name, natural"):
        make_source(str(root), class_order="size")


# Directories that are hardly classes


@pytest.mark.parametrize(
    ("directories", "said"),
    [
        (("Train", "train", "TEST"), "give --sides-from 1; to read one split"),
        (("a/holdout/x", "a/dev/x", "b/x"), "dsprep pack {root}/a/dev, or {root}/a/holdout"),
        (("ant/train", "ant/test", "bee/train", "cow"), "or list it with --list"),
    ],
)
@pytest.mark.parametrize("parts", [False, True])
def test_sides_that_would_be_parts_of_classes_are_refused(
    tmp_path: Path, directories: tuple[str, ...], said: str, parts: bool
) -> None:
    root = fill(tmp_path, *directories)
    with pytest.raises(SourceError) as refused:
        read_source(make_source(str(root), parts=parts))
    assert said.format(root=tmp_path) in str(refused.value)
    assert "to take all directories for classes: --from images" in str(refused.value)
    assert read_source(make_source(str(root), kind="images"))[0].classes


def test_kinds_of_files_are_said(tmp_path: Path) -> None:
    (note,) = notes(fill(tmp_path, "images/cat", "depth/cat", "x/cat"))
    assert f"name {tmp_path}/images as the source" in note


def test_directories_beside_sides_are_sides_as_well(tmp_path: Path) -> None:
    root = tmp_path / "market"
    for at, side in enumerate(("bounding_box_test", "bounding_box_train", "query", "query")):
        fill(root, side)
        for person in ("0001", "0002"):
            (root / side / f"{person}_c{at}s1.jpg").write_bytes(bytes([at]))
        (root / side / "1.jpg").unlink()
    catalog, findings = read_source(make_source(str(root)))
    assert catalog.sides == ("bounding_box_train", "bounding_box_test", "query")
    said, hint = notes_of(findings)
    assert said.endswith("bounding_box_test/, query/ are sides of the data set, not classes")
    assert (
        hint == "--label-regex '^([^._-]+)[._-].+\\.' takes 2 classes from file names: 0001, 0002"
    )
    assert not read_source(make_source(str(root), kind="images"))[0].sides


def test_directories_of_kinds_of_files_are_said(tmp_path: Path) -> None:
    for directories, said in (
        (("JPEGImages", "masks"), "dsprep pack {root}/JPEGImages --masks {root}/masks"),
        (("images", "depth"), "--pair 'mask.png=depth/*.png'"),
    ):
        root = fill(tmp_path / directories[0], *directories)
        (note,) = notes(root, parts=True)
        assert said.format(root=root) in note


@pytest.mark.parametrize(
    ("directories", "sides", "classes"),
    [
        (("train/ant", "train/bee", "valid/ant"), ("train", "valid"), ("ant", "bee")),
        (("TEST/birds/owl", "Train/birds/owl"), ("Train", "TEST"), ("owl",)),
        (("test", "train", "val"), ("train", "val", "test"), None),
        (("train/ant", "training/ant"), (), ("train/ant", "training/ant")),
        (("train/ant", "extra/ant"), (), ("extra/ant", "train/ant")),
        (("images/train/ant", "images/val/bee"), ("train", "val"), ("ant", "bee")),
        (
            ("nut/train/good", "nut/test/bad", "pin/test/good"),
            ("train", "test"),
            ("nut/bad", "nut/good", "pin/good"),
        ),
        (
            ("train/animal/cat", "train/plant/ivy", "val/animal/cat"),
            ("train", "val"),
            ("animal/cat", "plant/ivy"),
        ),
        (("train/train_images/cat", "val/val_images/cat"), ("train", "val"), ("cat",)),
        (("bbox_train/a/x", "bbox_val/a/y"), ("bbox_train", "bbox_val"), ("x", "y")),
        (("ant", "train/bee", "valid/ant"), ("train", "valid", "ant"), ("ant", "bee")),
        (
            ("seg_train/seg_train/sea", "seg_test/seg_test/sea", "seg_pred/seg_pred"),
            ("seg_train", "seg_test", "seg_pred"),
            ("sea",),
        ),
        (("train/ant", "train/bee", "test/test"), ("train", "test"), ("ant", "bee")),
        (("train/train", "test/train", "test/ant"), ("train", "test"), ("ant", "train")),
        (("ant", "dev_board", "test_board"), (), ("ant", "dev_board", "test_board")),
        (("ant", "train", "bus"), (), ("ant", "bus", "train")),
        (("trainA", "trainB", "testA", "testB"), ("trainA", "trainB", "testA", "testB"), None),
        (("train/train/x", "test/train/x", "test/y/z"), ("train", "test"), ("train/x", "y/z")),
    ],
)
def test_directories_that_are_called_like_sides_are_sides(
    tmp_path: Path,
    directories: tuple[str, ...],
    sides: tuple[str, ...],
    classes: tuple[str, ...] | None,
) -> None:
    root = fill(tmp_path, *directories)
    catalog, findings = read_source(make_source(str(root)))
    assert (catalog.sides, catalog.classes) == (sides, classes)
    if sides:
        assert "are sides of the data set, not classes" in findings[0].detail
    catalog, _ = read_source(make_source(str(root), kind="images"))
    assert catalog.sides == (() if {"ant", "seg_pred"} & {*sides} else sides)


def test_images_beside_sides_that_are_called_like_masks_are_refused(tmp_path: Path) -> None:
    root = fill(tmp_path, "train", "trainannot", "val", "valannot")
    for mask in root.glob("*annot/1.jpg"):
        mask.unlink()
        Image.new("L", (4, 4)).save(mask.with_suffix(".png"))
    with pytest.raises(SourceError) as refused:
        read_source(make_source(str(root)))
    assert f"such as {root}/train --masks {root}/trainannot; or" in str(refused.value)
    assert len(read_source(make_source(str(root / "train"), masks=f"{root}/trainannot"))[0]) == 1
    catalog, _ = read_source(make_source(str(root), kind="images"))
    assert catalog.sides == ("train", "val", "trainannot", "valannot")


def test_classes_in_the_names_of_one_directory_are_said(tmp_path: Path) -> None:
    root = write(tmp_path, {f"coil/obj{at % 3}__{at}.png": None for at in range(9)})
    regex = r"^(\w*?[^\W\d_]\w*?)[._-]*\d+\."
    said = f"--label-regex '{regex}' takes 3 classes from file names: obj0, obj1, obj2"
    assert notes(root) == notes(root / "coil") == [said]


@pytest.mark.parametrize("first", [1, 10])
def test_numbers_of_images_for_tests_are_no_classes(tmp_path: Path, first: int) -> None:
    """Dogs vs. Cats has `train/cat.0.jpg` and `test1/1.jpg`."""
    named = {f"train/{name}.{at}.jpg": None for name in ("cat", "dog") for at in range(8)}
    root = write(tmp_path, named | {f"test1/{first + at}.jpg": None for at in range(8)})
    said = "takes 2 classes from file names: cat, dog"
    assert notes(root)[-1].endswith(f"{said}; for train/ alone: dsprep pack {root}/train")
    assert notes(root / "train")[-1].endswith(said)


# Directories that say nothing of classes


@pytest.mark.parametrize(
    ("directories", "classes"),
    [
        (("images",), None),
        (("photos/JPEGImages",), None),
        (("train/images", "valid/images"), None),
        (("train_images",), None),
        (("image_2",), None),
        (("train",), None),
        (("cat",), ("cat",)),
        (("images/cat",), ("cat",)),
        (("2750/Forest", "2750/River"), ("Forest", "River")),
        (("images/birds", "images/birds/owl"), ("birds", "birds/owl")),
        (("images/x", "imgs/y"), ("images/x", "imgs/y")),
        (("HAM10000_images_part_1", "HAM10000_images_part_2"), None),
        (("images_001/images", "images_002/images"), None),
        (("images_1/cat", "images_2/cat"), ("images_1/cat", "images_2/cat")),
        (("part_1", "part_2"), ("part_1", "part_2")),
    ],
)
def test_directories_of_files_are_no_classes(
    tmp_path: Path, directories: tuple[str, ...], classes: tuple[str, ...] | None
) -> None:
    root = fill(tmp_path / "d", *directories)
    catalog, findings = read_source(make_source(str(root)))
    assert catalog.classes == classes
    said = [note for note in notes_of(findings) if ", which have no labels; --from images" in note]
    assert len(said) == (classes is None)
    whole, _ = read_source(make_source(str(root), kind="images"))
    assert whole.classes is not None


_PARTS = st.sampled_from(["a", "b", "images", "train", "val"])


@given(st.lists(st.lists(_PARTS, min_size=1).map("/".join), min_size=1))
def test_no_two_classes_become_one(directories: list[str]) -> None:
    named = named_by_directories(directories)
    if named.of_files:
        assert len(set(directories)) == 1
        return
    assert named.classes.keys() == set(directories)
    assert len(set(named.classes.values())) == len(named.classes)
    for path, name in named.classes.items():
        assert name != ""
        assert path == os.path.join(named.dropped, name)
    for names in (set(directories), set(named.classes.values())):
        found = named_by_directories(directories, given=names).classes
        assert set(found.values()) == names


def test_the_names_of_a_list_of_classes_win(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", "images/ant", "images/bee")
    names = tmp_path / "names.txt"
    for listed in (("bee", "ant"), ("images/ant", "images/bee"), ("old/ant", "old/bee")):
        names.write_text("".join(f"{name}\n" for name in listed))
        catalog, _ = read_source(make_source(str(root), classes=str(names)))
        assert catalog.classes == listed
        called = dict(catalog.table.select("path", "cls").rows())
        assert listed[called["images/ant/1.jpg"]].endswith("ant")
    names.write_text("images\n")
    fill(tmp_path / "one", "images")
    assert read_source(make_source(str(tmp_path / "one"), classes=str(names)))[0].classes
    names.write_text("dev\ntest\n")
    fill(tmp_path / "two", "dev", "test")
    catalog, _ = read_source(make_source(str(tmp_path / "two"), classes=str(names)))
    assert (catalog.sides, catalog.classes) == ((), ("dev", "test"))


def test_images_of_a_side_without_classes_have_no_label(tmp_path: Path) -> None:
    images = ("train/ant/1.jpg", "train/bee/1.jpg", "test/2.jpg", "test/3.jpg")
    root = write(tmp_path / "data", dict.fromkeys(images))
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1)
    assert report.sides == {"train": 2, "test": 2}
    assert "test/ without directories of classes: the images there have no label" in report.notes
    with tarfile.open(tmp_path / "out" / "test-000000.tar") as tar:
        assert sorted(tar.getnames()) == ["test/2.jpg", "test/3.jpg"]
    assert dsprep.verify(tmp_path / "out", against=root).samples == 4
    with pytest.raises(SourceError, match="a list has one for each: give the directory of a side"):
        dsprep.create_list(root, out=tmp_path / "a.lst")
    fill(root, "test/ant")
    with pytest.raises(SourceError, match="2 images of the side test lie in no directory of a cl"):
        read_source(make_source(str(root)))


@pytest.mark.parametrize(
    "directories", [("bus", "car", "train"), ("mask", "no mask"), ("tested", "training-wheels")]
)
def test_classes_that_are_called_like_a_side_are_classes(
    tmp_path: Path, directories: tuple[str, ...]
) -> None:
    assert notes(fill(tmp_path, *directories)) == []


def test_the_list_of_classes_is_named(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", "ape", "cat", "wolf")
    names = tmp_path / "names.txt"
    names.write_text("cat\n")
    with pytest.raises(SourceError) as caught:
        read_source(make_source(str(root), classes=str(names)))
    assert str(caught.value) == (
        f"{root}: 'ape', 'wolf' are not among the 1 class in {names}: add a line for each to that "
        "file, or leave its images out: --keep-classes takes only the classes that a file names"
    )


def test_classes_that_look_the_same_are_named(tmp_path: Path) -> None:
    root = fill(tmp_path / "photos", "cafe\u0301", "caf\xe9", "a", "A")
    (said,) = notes(root)
    assert said.startswith(r"'cafe\u0301' and 'caf\xe9' are two classes, which look the same")
    names = tmp_path / "names.txt"
    names.write_text("caf\xe9\na\nA\n", encoding="utf-8")
    found, findings = read_source(make_source(str(root), classes=str(names)))
    assert sorted(found.table["cls"]) == [0, 0, 1, 2]
    assert notes_of(findings) == []
    said = "'Cat' and 'cat' are two classes: their names differ in capitals alone; give both one"
    assert said in notes(fill(tmp_path / "pets", "Cat", "cat", "dog"))[0]


# What is skipped


def test_what_is_skipped_is_counted_by_extension() -> None:
    paths = ("a.xml", "b.XML", "c.tar.gz", "d/README", "e/.hidden", "end.", "f.txt")
    findings = [
        *(Finding("not-an-image", path) for path in paths),
        Finding("unlisted", "b/"),
        Finding("unlisted", "c.jpg"),
        Finding("missing", "lost.jpg"),
        Finding("note", "", "not a file"),
    ]
    assert count_skipped(findings) == {
        "not-an-image": {"without extension": 3, ".xml": 2, ".gz": 1, ".txt": 1},
        "unlisted": {".jpg": 1, "directories": 1},
    }

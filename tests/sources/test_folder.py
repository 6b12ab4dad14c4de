"""Folders of classes, and the list that numbers them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.lists.store import format_classes, read_classes
from dsprep.numbering import Known, number_classes
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def read(root: Path, **options: Any) -> tuple[Catalog, list[Finding]]:
    if names := options.pop("classes", None):
        options["classes"] = root.with_name(f"{root.name}.classes.txt")
        options["classes"].write_text("".join(f"{name}\n" for name in names))
    catalog, findings = read_source(make_source(root, **options))
    return catalog, [each for each in findings if each.kind != "source"]


def test_each_directory_is_a_class(tmp_path: Path) -> None:
    fill(tmp_path, "dog/2.jpg", "dog/1.png", "cat/1.JPG", "birds/owl/a.webp")
    catalog, findings = read(tmp_path)
    assert findings == []
    assert catalog.root == str(tmp_path)
    assert catalog.classes == ("birds/owl", "cat", "dog")
    assert catalog.table.select("index", "path", "size", "cls").rows() == [
        (0, "birds/owl/a.webp", 16, 0),
        (1, "cat/1.JPG", 9, 1),
        (2, "dog/1.png", 9, 2),
        (3, "dog/2.jpg", 9, 2),
    ]
    assert catalog.table["mtime"][3] == os.stat(tmp_path / "dog/2.jpg").st_mtime_ns


def test_order_is_by_byte(tmp_path: Path) -> None:
    names = [
        "a/1.jpg",
        "a-b/1.jpg",
        "Z/1.jpg",
        "é/1.jpg",
        "a/b/1.jpg",
        "\U0001f431/1.jpg",
        "猫/1.jpg",
    ]
    fill(tmp_path, *names)
    catalog, _ = read(tmp_path)
    assert catalog.table["path"].to_list() == sorted(names, key=str.encode)
    classes = [os.path.dirname(name) for name in names]
    assert list(catalog.classes or ()) == sorted(classes, key=str.encode)
    assert [
        (catalog.classes or ())[number] + "/1.jpg" for number in catalog.table["cls"]
    ] == sorted(names, key=str.encode)


def test_a_directory_without_images_is_no_class(tmp_path: Path) -> None:
    fill(tmp_path, "cat/1.jpg", "notes/read.txt", "dog/.1.jpg", "deep/er/1.jpg")
    (tmp_path / "empty").mkdir()
    catalog, findings = read(tmp_path)
    assert catalog.classes == ("cat", "deep/er")
    assert findings == [Finding("hidden", "dog/.1.jpg"), Finding("left-over", "notes/read.txt")]


def test_a_flat_folder_has_no_classes(tmp_path: Path) -> None:
    fill(tmp_path, "b.jpg", "a.jpg", "notes/read.txt")
    catalog, _ = read(tmp_path)
    assert catalog.classes is None
    assert catalog.table.columns == ["index", "path", "size", "mtime"]
    assert catalog.table["path"].to_list() == ["a.jpg", "b.jpg"]


def test_extensions_are_a_choice(tmp_path: Path) -> None:
    fill(tmp_path, "a/1.jpg", "a/2.ppm")
    catalog, findings = read(tmp_path, extensions=["ppm"])
    assert catalog.table["path"].to_list() == ["a/2.ppm"]
    assert findings == [Finding("left-over", "a/1.jpg")]


def test_images_beside_class_directories_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, "preview.jpg", "cat/1.jpg", "cat/2.jpg")
    with pytest.raises(SourceError, match=r"1 of 3 images lie in no directory.*'preview\.jpg'"):
        read(tmp_path)


def test_a_side_without_classes_beside_one_with_classes_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "data/train/cat/1.jpg", "data/train/dog/2.jpg", "data/val/3.jpg")
    with pytest.raises(SourceError, match=r"1 of 3 images lie in no directory.*'data/val/3\.jpg'"):
        read(tmp_path)
    fill(tmp_path / "one", "birds/train/cat/1.jpg", "birds/train/dog/2.jpg", "birds/val/3.jpg")
    with pytest.raises(SourceError, match="'birds/val/3"):
        read(tmp_path / "one")


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "a/read.txt", ".hidden/1.jpg")
    with pytest.raises(SourceError, match="no images that dsprep reads, but 1 .txt and 1 hidden"):
        read(tmp_path)


# Given classes


def test_given_classes_keep_their_numbers(tmp_path: Path) -> None:
    fill(tmp_path, "cat/1.jpg", "owl/1.jpg")
    catalog, _ = read(tmp_path, classes=("owl", "dog", "cat"))
    assert catalog.classes == ("owl", "dog", "cat")
    assert catalog.table.select("path", "cls").rows() == [("cat/1.jpg", 2), ("owl/1.jpg", 0)]
    assert catalog.samples_per_class() == {0: 1, 1: 0, 2: 1}


def test_unknown_classes_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, "cat/1.jpg", "wolf/1.jpg", "ape/1.jpg")
    with pytest.raises(SourceError, match="'ape', 'wolf' are not among the 1 class"):
        read(tmp_path, classes=("cat",))


def test_classes_without_directories_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, "1.jpg")
    with pytest.raises(SourceError, match="have no class, but a list of 1 classes was given"):
        read(tmp_path, classes=("cat",))


@pytest.mark.parametrize("name", ["two\nlines", "two\rlines", " "])
def test_class_names_that_no_line_holds_are_refused(tmp_path: Path, name: str) -> None:
    fill(tmp_path, f"{name}/1.jpg")
    with pytest.raises(SourceError, match="does not fit on a line"):
        read(tmp_path)


# The list of classes


@given(
    st.sets(
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r\ufeff"), min_size=1
        ).filter(str.strip),
        min_size=1,
    )
)
def test_classes_survive_their_file(
    tmp_path_factory: pytest.TempPathFactory, names: set[str]
) -> None:
    path = tmp_path_factory.mktemp("classes") / "classes.txt"
    classes = number_classes(names, Known(), "here")
    path.write_text(format_classes(classes), "utf-8", newline="")
    assert read_classes(str(path)) == classes == tuple(sorted(names, key=str.encode))


@pytest.mark.parametrize(
    "data",
    [
        b"owl\ndog\ncat",
        b"owl\ndog\ncat\n",
        b"\xef\xbb\xbfowl\r\ndog\r\ncat\r\n",
        b"owl\ndog\ncat\n\n \n",
    ],
)
def test_classes_as_editors_write_them(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(data)
    assert read_classes(str(path)) == ("owl", "dog", "cat")


def test_classes_with_numbers(tmp_path: Path) -> None:
    """Keras-RetinaNet names its classes so, in any order."""
    path = tmp_path / "classes.csv"
    path.write_text('cat,1\r\nowl,0\r\n"dog, big",2\r\n')
    assert read_classes(str(path)) == ("owl", "cat", "dog, big")
    path.write_text("owl\ncat,1\n")
    assert read_classes(str(path)) == ("owl", "cat,1")  # not all lines have numbers
    for text in ("owl,1\ncat,2\n", "owl,0\ncat,0\n"):
        path.write_text(text)
        with pytest.raises(SourceError, match=r"classes.csv: the numbers .* are not 0 to 1"):
            read_classes(str(path))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"owl\ndog\nowl\n", r"classes.txt:3: 'owl' stands in line 1 already"),
        (b"owl\n\ndog\n", r"classes.txt:2: blank"),
        (b"", r"classes.txt: names no class"),
        (b"\n\n", r"classes.txt: names no class"),
        (b"owl\ncaf\xe9\n", r"classes.txt:2: not UTF-8"),
    ],
)
def test_a_wrong_list_of_classes(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=problem):
        read_classes(str(path))


def test_a_list_of_classes_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"classes.txt: cannot be read: No such file"):
        read_classes(str(tmp_path / "classes.txt"))


@pytest.mark.parametrize(
    ("high", "deep"), [("x", "x/x"), ("nat", "data/nat"), ("Plant", "plant/Plant")]
)
def test_a_tree_that_lies_there_twice_is_refused(tmp_path: Path, high: str, deep: str) -> None:
    names = ("cat/1.jpg", "dog/1.jpg", "dog/2.jpg")
    for top in (high, deep):
        for name in names:
            fill(tmp_path / top, name)
    said = f"{high}/ and {deep}/ hold the same images: "
    advice = f"to have them once, dsprep pack {tmp_path}/{deep}"
    with pytest.raises(SourceError, match=said + advice):
        read(tmp_path)
    assert len(read(tmp_path / deep)[0]) == 3
    fill(tmp_path, "about/1.jpg", "about/2.jpg")  # which the advice would lose
    with pytest.raises(SourceError, match=f"{said}move {deep}/ to another place"):
        read(tmp_path)
    (tmp_path / deep / names[0]).write_bytes(b"another.."[: len(names[0])])
    assert len(read(tmp_path)[0]) == 8


def test_sides_that_lie_there_twice_are_refused(tmp_path: Path) -> None:
    names = [f"{side}/{of}/1.jpg" for side in ("test", "train", "val") for of in ("cat", "dog")]
    for top in (tmp_path, tmp_path / "chest"):
        fill(top, *names)
    said = "test/, train/, val/ and chest/ hold the same images: "
    with pytest.raises(SourceError, match=f"{said}to have them once, dsprep pack {tmp_path}/chest"):
        read(tmp_path)
    assert len(read(tmp_path / "chest")[0]) == 6
    fill(tmp_path / "chest", "more/cat/1.jpg")
    said = (
        "test/, train/, val/ and chest/test/, chest/train/, chest/val/ hold the same images: move"
    )
    with pytest.raises(SourceError, match=said):
        read(tmp_path)


def test_classes_of_one_name_in_several_directories_are_told(tmp_path: Path) -> None:
    fill(tmp_path, *(f"{of}/{name}/1.jpg" for of in ("color", "gray") for name in ("ash", "oak")))
    catalog, (note,) = read(tmp_path)
    assert catalog.classes == ("color/ash", "color/oak", "gray/ash", "gray/oak")
    assert note.detail.startswith("color/, gray/ have the directories ash, oak: each of these is")

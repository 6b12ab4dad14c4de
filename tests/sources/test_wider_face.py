"""WIDER FACE's texts; boxes of Datumaro's own assets are as Datumaro reads them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError
from tests.sources.boxes import boxes, kinds, notes, objects, read, sides, write

TRAIN = (
    "0--Parade/0_Parade_a_1.jpg\n1\n1 2 3 4 0 0 0 0 0 0 \n"
    "0--Parade/0_Parade_b_2.jpg\n0\n0 0 0 0 0 0 0 0 0 0 \n"
    "1--Handshaking/1_c.jpg\n2\n1 1 2 2 0 0 1 0 0 0 \n5 1 2 2 2 0 0 1 2 1 \n"
)
VAL = "0--Parade/0_Parade_d_3.jpg\n1\n3 2 1 2 0 0 0 1 0 0 \n"
TOP = "wider_face_split/wider_face"
SET: dict[str, str | bytes | None] = {
    f"{TOP}_train_bbx_gt.txt": TRAIN,
    f"{TOP}_val_bbx_gt.txt": VAL,
    "WIDER_train/images/0--Parade/0_Parade_a_1.jpg": None,
    "WIDER_train/images/0--Parade/0_Parade_b_2.jpg": None,
    "WIDER_train/images/1--Handshaking/1_c.jpg": None,
    "WIDER_val/images/0--Parade/0_Parade_d_3.jpg": None,
}
BOXES = {
    "WIDER_train/images/0--Parade/0_Parade_a_1.jpg": [("face", 1, 2, 4, 6)],
    "WIDER_train/images/0--Parade/0_Parade_b_2.jpg": [],
    "WIDER_train/images/1--Handshaking/1_c.jpg": [("face", 1, 1, 3, 3), ("face", 5, 1, 7, 3)],
    "WIDER_val/images/0--Parade/0_Parade_d_3.jpg": [("face", 3, 2, 4, 4)],
}


def test_the_official_layout(tmp_path: Path) -> None:
    files = SET | {
        "WIDER_test/images/0--Parade/0_Parade_e_4.jpg": None,
        f"{TOP}_test_filelist.txt": "0--Parade/0_Parade_e_4.jpg\n",
        f"{TOP}_train.mat": b"MATLAB 5.0 MAT-file",
        "wider_face_split/readme.txt": "blur: clear->0",
    }
    catalog, findings = read(write(tmp_path, files))
    assert boxes(catalog) == BOXES
    assert set(sides(catalog).items()) == {(path, path[6:].split("/")[0]) for path in BOXES}
    attributes = objects(catalog)["WIDER_train/images/1--Handshaking/1_c.jpg"].items[1].more
    assert attributes == {
        "blur": 2, "expression": 0, "illumination": 0, "invalid": 1, "occlusion": 2, "pose": 1
    }  # fmt: skip
    assert "2 images with faces that are marked invalid, which are kept" in notes(findings)
    found = kinds(findings)
    assert found.pop("WIDER_test/images/0--Parade/0_Parade_e_4.jpg") == "unlisted"
    assert found.pop("wider_face_split/readme.txt") == "harmless"
    assert set(found.values()) == {"not-read"}
    assert len(found) == 2


@pytest.mark.parametrize("name", ["", "x_val.txt", f"{TOP}_val_bbx_gt.txt", "wider_face_split"])
def test_a_side_alone_is_never_train(tmp_path: Path, name: str) -> None:
    files = {path: content for path, content in SET.items() if "train" not in path}
    if name == "x_val.txt":
        files[name] = files.pop(f"{TOP}_val_bbx_gt.txt")
    root = write(tmp_path, files)
    options: dict[str, Any] = {"annotations": [str(root / name)]} if name else {}
    catalog, _ = read(root, **options)
    assert set(sides(catalog).values()) == {"val"}
    catalog, _ = read(
        root / "WIDER_val", annotations=[str(root / (name or TOP + "_val_bbx_gt.txt"))]
    )
    assert set(sides(catalog).values()) == {"val"}
    assert list(boxes(catalog).values()) == [[("face", 3, 2, 4, 4)]]


def test_texts_above_the_images_are_not_passed_over(tmp_path: Path) -> None:
    root = write(tmp_path, SET)
    with pytest.raises(SourceError, match="_val_bbx_gt.txt may be its annotations: give --annot"):
        read(root / "WIDER_val")


def test_one_directory_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        root = write(tmp_path / "set", SET)
        for name in SET:
            archive.write(root / name, f"WIDER/{name}")
    catalog, _ = read(tmp_path / "a.zip")
    found = {path.removeprefix("WIDER/"): own for path, own in boxes(catalog).items()}
    assert found == BOXES


def test_texts_of_datumaro(tmp_path: Path) -> None:
    """An image without objects has its name alone; unknown attributes are a hyphen."""
    text = (
        "﻿a.jpg\r\n\r\nb c.png\r\n2\r\n1.5 2 3 4 dog\r\n0 0 1 1 2 - - True 0 - cat\r\n\r\n"
        "c.jpg\r\n1\r\n5 6 1 1\r\n"
    )
    catalog, _ = read(
        write(tmp_path, {"gt.txt": text, "a.jpg": None, "b c.png": None, "c.jpg": None})
    )
    assert boxes(catalog) == {
        "a.jpg": [],
        "b c.png": [("dog", 1.5, 2, 4.5, 6), ("cat", 0, 0, 1, 1)],
        "c.jpg": [("face", 5, 6, 6, 7)],
    }
    told = objects(catalog)["b c.png"].items[1].more
    assert told == {"blur": 2, "invalid": 1, "occlusion": 0}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a.jpg\n3\n1 2 3 4 0 0 0 0 0 0\n", "a.jpg: has 1 line of faces, not 3"),
        ("a.jpg\n1\n1 2 3 4 0 0 0\n", "a.jpg: the line '1 2 3 4 0 0 0' has neither 4 nor 10"),
        ("a.jpg\n1\n1 2 3 4 x 0 0 0 0 0\n", "a.jpg: an attribute of a face is 'x', not a number"),
        ("a.jpg\n1\n1 2 -3 4\n", "a.jpg: bbox is"),
        ("a.jpg\n2\n1 2 3 4\n1 2 nan 4\n", "a.jpg: [1.0, 2.0, nan, 4.0]: nan is not a number"),
        ("a.jpg\n1\n1 2 3 4\n1 2 3 4\n", "image 2: '1 2 3 4' stands where an image is named"),
        ("a.jpg\n1\n1 2 3 4\n7\n", "image 2: '7' stands where an image is named"),
        ("a.jpg\n999999\n1 2 3 4\nb.jpg\n0\n", "a.jpg: has 3 lines of faces, not 999,999"),
        ("a.jpg\n1\n1 2 3 4\nb\xff.jpg\n0\n", "is not UTF-8, at byte 16: save the file as UTF-8"),
        ("a.jpg\n1\n1 2 3 4\na.jpg\n1\n1 2 3 4\n", "1 image named by several entries"),
        ("../../a.png\n1\n1 2 3 4\n", "not one of the 1 image that it names"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    root = write(tmp_path, {"gt.txt": text.encode("latin-1"), "a.jpg": None})
    with pytest.raises(SourceError) as caught:
        read(root)
    assert why in str(caught.value)

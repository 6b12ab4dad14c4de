"""KITTI's labels of objects: judged by what readme.txt of its development kit says of each column.

The rows of `OWN` are those of KITTI's own 000001.txt, with boxes of an image of 40 x 20.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.annotations.kitti import parse
from dsprep.errors import SourceError
from dsprep.images.transform import Transform
from tests.sources.boxes import boxes, kinds, notes, objects, read, sides, write

TRUCK = "Truck 0.30 0 -1.57 10 5 30 15 2.85 2.63 12.34 0.47 1.49 69.44 -1.56\n"
CAR = "Car 0.00 3 1.85 2.5 1 8 4 1.67 1.87 3.69 -16.53 2.39 58.49 1.57\n"
REGION = "DontCare -1 -1 -10 0 0 5.5 5 -1 -1 -1 -1000 -1000 -1000 -10\n"
FLAT = "Van 0.0 1 -1 0 2 2 4 -1 -1 -1 -1 -1 -1 -1\n"  # as datumaro writes it
OWN = TRUCK + CAR + REGION
TOP = "training/image_2"
PLACES = [("Truck", 10, 5, 30, 15), ("Car", 2.5, 1, 8, 4), ("DontCare", 0, 0, 5.5, 5)]


def official(**others: str | bytes | None) -> dict[str, str | bytes | None]:
    """The directories of KITTI, with lists of sides as OpenPCDet has them."""
    files: dict[str, str | bytes | None] = {}
    for at in range(3):
        name = f"{at:06d}"
        files |= dict.fromkeys((f"{TOP}/{name}.png", f"training/image_3/{name}.png"))
        files |= {f"testing/image_2/{name}.png": None, f"training/label_2/{name}.txt": OWN}
        files |= {f"training/calib/{name}.txt": "P0: 7.2e+02 0 6.1e+02\n"}
        files |= {f"training/velodyne/{name}.bin": b"1234"}
    files |= {"ImageSets/train.txt": "000000\n000001\n", "ImageSets/val.txt": "000002\n"}
    return files | {"ImageSets/test.txt": "000000\n000001\n000002\n"} | others


def test_what_a_row_tells() -> None:
    found = [each for _, each in parse((OWN + FLAT).encode()).items]
    assert [each.flags for each in found] == [{"truncated"}, set(), {"crowd"}, set()]
    assert found[0].more == {
        "truncation": 0.3,
        "occlusion": 0,
        "alpha": -1.57,
        "dimensions": [2.85, 2.63, 12.34],
        "location": [0.47, 1.49, 69.44],
        "rotation_y": -1.56,
    }
    assert [each.more for each in found[2:]] == [{}, {"truncation": 0, "occlusion": 1}]
    assert parse(CAR.strip().encode() + b" 0.75\n").items[0][1].more["score"] == 0.75


def test_lines_end_in_line_feeds_alone() -> None:
    """As they do in lists and tables: Python divides texts at form feeds, too."""
    with pytest.raises(ValueError, match="line 1: has 30 columns"):
        parse((CAR.strip() + "\x0c" + CAR).encode())
    assert len(parse((CAR.strip() + "\r\n" + CAR).encode()).items) == 2


def test_the_official_directories(tmp_path: Path) -> None:
    root = write(tmp_path, official())
    catalog, findings = read(root)
    assert boxes(catalog) == {f"{TOP}/{at:06d}.png": PLACES for at in range(3)}
    assert catalog.settled.schema.by_name["objects"].names == ("Car", "DontCare", "Truck")
    assert [*sides(catalog).values()] == ["train", "train", "val"]
    assert "6 further files of KITTI not read, such as training/calib/000000.txt" in notes(findings)
    found = kinds(findings)
    assert found["training/velodyne/000001.bin"] == "not-read"
    assert found["training/image_3/000000.png"] == found["testing/image_2/000000.png"] == "unlisted"
    assert found["ImageSets/test.txt"] == "left-over"  # for images without labels


@pytest.mark.parametrize(
    ("images", "texts"),
    [
        ("images/{}.png", "labels/{}.txt"),
        ("{}.png", "{}.txt"),
        ("{}.png", "label/{}.txt"),
        ("rgb/a/{}.png", "gt/a/{}.TXT"),
        ("train/rgb/{}.png", "train/gt/{}.txt"),
        ("rgb/train/{}.png", "gt/train/{}.txt"),
    ],
)
def test_other_directories(tmp_path: Path, images: str, texts: str) -> None:
    files: dict[str, Any] = {images.format(at): None for at in range(4)}
    files |= {texts.format(at): OWN if at else "" for at in range(4)}
    catalog, findings = read(write(tmp_path, files))
    assert boxes(catalog) == {images.format(at): PLACES if at else [] for at in range(4)}
    assert not kinds(findings)


def test_named_from_the_directory_of_images(tmp_path: Path) -> None:
    root = write(tmp_path, official())
    with pytest.raises(SourceError, match="label_2 may be its annotations: give --annotations"):
        read(root / TOP)
    catalog, _ = read(root / TOP, annotations=[str(root / "training/label_2")])
    assert boxes(catalog) == {f"{at:06d}.png": PLACES for at in range(3)}


def test_a_text_means_no_image_of_another_side(tmp_path: Path) -> None:
    files: dict[str, Any] = {f"{side}/images/{side}.png": None for side in ("train", "val")}
    files |= {f"{side}/labels/{side}.txt": OWN for side in ("train", "val")}
    files |= {"val/images/lost.png": None, "train/labels/lost.txt": OWN}
    catalog, findings = read(write(tmp_path, files))
    assert sides(catalog) == {f"{side}/images/{side}.png": side for side in ("train", "val")}
    assert kinds(findings) == {"train/labels/lost": "missing", "val/images/lost.png": "unlisted"}
    (tmp_path / "train/labels/train.txt").unlink()
    assert [*boxes(read(tmp_path)[0])] == ["val/images/val.png"]


def test_an_image_on_two_sides_is_not_for_training(tmp_path: Path) -> None:
    lists = {"train.txt": "a\nb\nlost.png\n", "val.txt": "/data/x/b.png\n", "classes.txt": "Car\n"}
    files = {"a.png": None, "b.png": None, "a.txt": OWN, "b.txt": OWN}
    catalog, findings = read(write(tmp_path, files | lists))
    assert sides(catalog) == {"a.png": "train", "b.png": "val"}
    assert "train.txt: 1 image of other sides, which stay there, such as b.png" in notes(findings)
    assert kinds(findings) == {"lost.png": "missing", "classes.txt": "harmless"}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("Car 0 0 0 1 2 3", "line 1: has 7 columns: a row of KITTI has 15, or 16 with a score"),
        (CAR.replace("2.5", "x"), "are not numbers"),
        (CAR.replace("2.5", "nan"), "is not a number"),
        (CAR.replace("2.5", "1e99"), "is beyond any image"),
        (CAR.replace("2.5", "9"), "the box of 'Car' ends before it begins"),
        (b"\xff\xfe\x00", "is not UTF-8"),
    ],
)
def test_refused(tmp_path: Path, row: str | bytes, why: str) -> None:
    with pytest.raises(SourceError) as refused:
        read(write(tmp_path, official(**{"training/label_2/000002.txt": row})))
    text = str(refused.value)
    assert why in text
    assert "1 file of annotations cannot be read" in text
    assert "training/label_2/000002.txt" in text
    assert "to go on without, --leave-out training/label_2/000002.txt; " in text


def test_two_texts_of_an_image_and_two_images_of_a_text(tmp_path: Path) -> None:
    files = {"rgb/a.png": None, "gt/a.txt": OWN}
    root = write(tmp_path / "1", {**files, "more/a.txt": OWN})
    with pytest.raises(SourceError, match=r"1 image with several files of .*\n  rgb/a.png: gt/a"):
        read(root)
    root = write(tmp_path / "2", {**files, "depth/a.png": None})
    with pytest.raises(SourceError, match="the image of 'gt/a.txt' may be 'depth/a.png' or"):
        read(root)
    catalog, _ = read(root / "rgb", annotations=[str(root / "gt")])
    assert boxes(catalog) == {"a.png": PLACES}


def test_boxes_move_with_the_image_and_regions_are_not_like_objects(tmp_path: Path) -> None:
    root = write(tmp_path / "set", official())
    assert objects(read(root)[0])[f"{TOP}/000000.png"].items[2].flags == {"crowd"}
    options: dict[str, Any] = {"to": "webdataset", "transform": Transform(resize=(20, 10))}
    dsprep.pack(str(root), str(tmp_path / "out"), workers=1, **options)
    with tarfile.open(tmp_path / "out" / "val-000000.tar") as tar:
        (name,) = (name for name in tar.getnames() if name.endswith(".json"))
        found = json.load(tar.extractfile(name))["objects"]  # type: ignore[arg-type]
    assert [each["box"] for each in found] == [
        [5, 2.5, 15, 7.5],
        [1.25, 0.5, 4, 2],
        [0, 0, 2.75, 2.5],
    ]
    assert found[0]["more"]["location"] == [0.47, 1.49, 69.44]
    report = dsprep.convert(str(root), str(tmp_path / "yolo"), to="yolo", workers=1)
    assert any("marked crowd dropped" in note for note in report.notes), report.notes

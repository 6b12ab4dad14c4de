"""Folders as YOLO and Pascal VOC have them, as the code reads them that most people train with."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import dsprep
from dsprep.annotations.objects import SHARES
from dsprep.errors import DsprepError
from tests.missing import framework
from tests.sources.boxes import ROW, image, write

SIZE = (40, 30)
ODD = ['a "b": c', "- #x", "ねこ 😀", "it's <&> {%", "yes", "a\u2028b\x85c\x7fd", "tab\there"]


def packed(root: Path, boxes: dict[str, list[Any]], names: list[str] | None = None) -> Path:
    """Pack images with boxes x y width height, whose classes are the names in turn."""
    names = ODD if names is None else names
    listed, annotations = list[Any](), list[Any]()
    for id, (name, own) in enumerate(boxes.items(), 1):
        path = root / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", SIZE, (id * 20, 9, 90)).save(path)
        listed.append({"id": id, "file_name": name, "width": SIZE[0], "height": SIZE[1]})
        for box in own:
            at = len(annotations)
            values = {"id": at + 1, "image_id": id, "category_id": at % len(names), "bbox": box}
            annotations.append(values | {"area": 1.0, "iscrowd": 0})
    categories = [{"id": id, "name": name} for id, name in enumerate(names)]
    parts = {"images": listed, "annotations": annotations, "categories": categories}
    (root / "a.json").write_text(json.dumps(parts, ensure_ascii=False), "utf-8")
    dsprep.pack(
        *(root / "images", root / "shards"),
        to="webdataset",
        annotations=[root / "a.json"],
        workers=1,
    )
    return root / "shards"


def converted(shards: Path, to: str) -> tuple[Path, list[str]]:
    report = dsprep.convert(shards, shards.with_name(to), to=to, workers=1)
    return shards.with_name(to), list(report.notes)


def check_labels(path: Path, classes: int) -> Any:
    """Ultralytics' check of a label file (``verify_image_label`` in its data/utils.py)."""
    rows = [line.split() for line in path.read_text().strip().splitlines() if len(line)]
    labels = np.array(rows, dtype=np.float32)
    if not len(labels):
        return np.zeros((0, 5), dtype=np.float32)
    assert labels.shape[1] == 5, f"labels require 5 columns, {labels.shape[1]} columns detected"
    assert labels[:, 1:].max() <= 1, "non-normalized or out of bounds coordinates"
    assert labels.min() >= 0, "negative class labels"
    assert labels[:, 0].max() < classes, "label class exceeds dataset class count"
    assert len(np.unique(labels, axis=0)) == len(labels), "duplicate labels removed"
    return labels


BOXES = {
    "train/1.jpg": [[0, 0, 40, 30], [1 / 3, 2 / 3, 7.77, 8.88], [5, 5, 1, 1], [6, 6, 1, 1]],
    "train/2.jpg": [],
    "val/3.jpg": [[10, 10, 5, 5], [11, 10, 5, 5], [12, 10, 5, 5]],
}


def test_ultralytics_takes_labels_and_classes_of_any_name(tmp_path: Path) -> None:
    yaml = framework("yaml")
    out, _ = converted(packed(tmp_path, BOXES), "yolo")
    told = yaml.safe_load((out / "data.yaml").read_text("utf-8"))
    assert told == {"train": "images/train", "val": "images/val", "names": dict(enumerate(ODD))}
    numbers = iter(range(100))
    for name, own in BOXES.items():
        labels = check_labels(out / "labels" / f"{name[:-4]}.txt", len(ODD))
        assert labels[:, 0].tolist() == [next(numbers) for _ in own]
        for row, (x, y, width, height) in zip(labels, own, strict=True):
            center = (x + width / 2) / 40, (y + height / 2) / 30, width / 40, height / 30
            assert row[1:] == pytest.approx(center, abs=1e-6)


def test_ultralytics_finds_the_labels_of_images_in_directories_called_images(
    tmp_path: Path,
) -> None:
    root = write(
        tmp_path / "set",
        {
            "data.yaml": "train: ../train/images\nval: ../valid/images\nnames: [cat]\n",
            "train/images/images/a.jpg": None,
            "train/labels/images/a.txt": ROW,
            "train/images/b/b.jpg": None,
            "train/labels/b/b.txt": ROW,
            "valid/images/c.jpg": None,
            "valid/labels/c.txt": ROW,
        },
    )
    # The first text lies where ultralytics looks for it.
    (root / "train/images/labels").mkdir()
    (root / "train/labels/images/a.txt").rename(root / "train/images/labels/a.txt")
    out = tmp_path / "yolo"
    assert dsprep.convert(root, out, to="yolo", workers=1).samples == 3
    images = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.jpg"))
    assert images == ["images/train/a.jpg", "images/train/b/b.jpg", "images/valid/c.jpg"]
    for path in images:  # `img2label_paths` of ultralytics' data/utils.py
        text = "/labels/".join(f"/{path}".rsplit("/images/", 1)).rsplit(".", 1)[0] + ".txt"
        assert len(check_labels(Path(f"{out}{text}"), 1)) == 1
    # Without what dsprep writes beside it, the folder says the same.
    out.rename(tmp_path / "copy")
    back = dsprep.pack(tmp_path / "copy", tmp_path / "back", to="webdataset", workers=1)
    assert back.sides == {"train": 2, "val": 1}
    assert back.objects is not None and back.objects.objects == 3


@pytest.mark.parametrize("kind", ["yolo", "coco"])
@pytest.mark.parametrize("to", ["webdataset", "coco", "yolo"])
def test_an_image_of_one_pixel_is_not_a_box_in_shares(tmp_path: Path, kind: str, to: str) -> None:
    assert pickle.loads(pickle.dumps(SHARES)) == SHARES != (1.0, 1.0) != SHARES
    root = write(tmp_path / "set", {"images/train/a.jpg": image((1, 1))})
    if kind == "yolo":
        write(root, {"labels/train/a.txt": ROW, "data.yaml": "train: images/train\nnames: [x]\n"})
    else:
        box = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0.25, 0.25, 0.5, 0.5]}
        listed = {"id": 1, "file_name": "images/train/a.jpg", "width": 1, "height": 1}
        parts = {"images": [listed], "annotations": [box], "categories": [{"id": 1, "name": "x"}]}
        write(root, {"annotations/instances_train.json": json.dumps(parts)})
    report = dsprep.convert(root, tmp_path / "out", to=to, workers=1)
    assert (report.samples, len(report.rejects)) == (1, 0)
    assert report.objects is not None and report.objects.objects == 1
    again = dsprep.convert(tmp_path / "out", tmp_path / "again", to="webdataset", workers=1)
    assert (again.samples, len(again.rejects)) == (1, 0)


def test_a_side_called_images_is_told(tmp_path: Path) -> None:
    shards = packed(tmp_path, {"train/1.jpg": [], "train/2.jpg": []})
    report = dsprep.convert(
        shards, tmp_path / "yolo", to="yolo", workers=1, split="images=0.5,train=0.5"
    )
    assert any("no labels of a side called images" in note for note in report.notes), report.notes


def test_names_that_would_be_one_in_yolo_are_an_error(tmp_path: Path) -> None:
    shards = packed(tmp_path, {"train/images/1.jpg": [], "train/1.jpg": []})
    with pytest.raises(
        DsprepError, match=r"1\.\w+: another sample has the file \S+/1\.\w+ already"
    ):
        converted(shards, "yolo")


def test_sides_of_coco_are_those_that_ultralytics_needs(tmp_path: Path) -> None:
    yaml = framework("yaml")
    sets = {"train2017/1.jpg": [], "val2017/2.jpg": []}
    out, _ = converted(packed(tmp_path, sets), "yolo")
    told = yaml.safe_load((out / "data.yaml").read_text("utf-8"))
    sides = {"train": "images/train2017", "val": "images/val2017"}
    assert {name: path for name, path in told.items() if name != "names"} == sides


def test_boxes_outside_do_not_make_yolo_refuse_the_image(tmp_path: Path) -> None:
    boxes = {"train/1.jpg": [[30, 20, 20, 20], [41, 5, 4, 4], [5, 5, 0, 4], [1, 1, 2, 2]]}
    out, notes = converted(packed(tmp_path, boxes), "yolo")
    assert len(check_labels(out / "labels" / "train" / "1.txt", len(ODD))) == 2
    assert any("2 objects dropped" in note and "in the image" in note for note in notes), notes
    assert any("1 object cut at the edge" in note for note in notes), notes


def parse_voc(node: ElementTree.Element) -> dict[str, Any]:
    """Torchvision's ``VOCDetection.parse_voc_xml``."""
    found: dict[str, Any] = {}
    children = list(node)
    if children:
        by_tag: dict[str, list[Any]] = defaultdict(list)
        for child in map(parse_voc, children):
            for tag, value in child.items():
                by_tag[tag].append(value)
        if node.tag == "annotation":
            by_tag["object"] = [by_tag["object"]]
        values = {tag: own[0] if len(own) == 1 else own for tag, own in by_tag.items()}
        found = {node.tag: values}
    if node.text:
        text = node.text.strip()
        if not children:
            found[node.tag] = text
    return found


def test_torchvision_reads_xml_with_classes_of_any_name(tmp_path: Path) -> None:
    names = [*ODD[:5], "bell\x07"]
    out, _ = converted(packed(tmp_path, BOXES, names), "voc")
    numbers = iter(range(100))
    for name, own in BOXES.items():
        stem = name[:-4].rpartition("/")[2]
        root = ElementTree.parse(out / "Annotations" / f"{stem}.xml").getroot()
        found = parse_voc(root)["annotation"]
        assert found["filename"] == f"{stem}.jpg"
        assert (found["size"]["width"], found["size"]["height"]) == ("40", "30")
        assert len(found["object"]) == len(own)
        for each, (x, y, width, height) in zip(found["object"], own, strict=True):
            assert each["name"] == [*ODD[:5], "bell\ufffd"][next(numbers) % 6]
            sides = [float(each["bndbox"][side]) for side in ("xmin", "ymin", "xmax", "ymax")]
            assert sides == pytest.approx([x + 1, y + 1, x + width, y + height], abs=0.0051)
    sides = {path.stem: path.read_text().split() for path in (out / "ImageSets/Main").iterdir()}
    assert {side: sorted(names) for side, names in sides.items()} == {
        "train": ["1", "2"],
        "val": ["3"],
    }


@pytest.mark.parametrize("other", ["a_1.jpg", "val/a/1.jpg"])
def test_names_that_would_be_one_in_voc_are_an_error(tmp_path: Path, other: str) -> None:
    shards = packed(tmp_path, {"a/1.jpg": [], other: []})
    with pytest.raises(
        DsprepError, match=r"1\.\w+: another sample has the file \w+/a_1\.\w+ already"
    ):
        converted(shards, "voc")


def test_ultralytics_needs_a_side_to_validate_with(tmp_path: Path) -> None:
    needed = "data.yaml names no val, which ultralytics needs"
    _, notes = converted(packed(tmp_path, {"train/1.jpg": []}), "yolo")
    assert any(needed in note for note in notes), notes
    _, notes = converted(packed(tmp_path / "two", {"train/1.jpg": [], "valid/2.jpg": []}), "yolo")
    assert not any("data.yaml" in note for note in notes), notes


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('\\"width\\":40', '\\"width\\":0'),
        ('\\"width\\":40', '\\"width\\":NaN'),
        ('\\"width\\":40', '\\"width\\":\\"x\\"'),
        ('\\"width\\":40,', ""),
        ('\\"class\\":1', '\\"class\\":1e3'),
        ('\\"class\\":1', '\\"class\\":1000'),
        ('\\"class\\":1', '\\"more\\": {\\"a\\": NaN},\\"class\\":1'),
    ],
)
def test_a_listing_that_lies_makes_rejects(tmp_path: Path, old: str, new: str) -> None:
    boxes = {"train/1.jpg": [[1, 1, 2, 2]], "train/2.jpg": [[5, 5, 1, 1]]}
    out, _ = converted(packed(tmp_path, boxes), "coco")
    listing = Path(f"{out}.files.jsonl")
    lines = listing.read_text("utf-8").splitlines(keepends=True)
    assert old in lines[0], lines[0]
    listing.write_text("".join([lines[0].replace(old, new), *lines[1:]]), "utf-8")
    for target in ("webdataset", "yolo"):
        report = dsprep.convert(str(out), str(tmp_path / target), to=target, workers=1)
        assert (report.samples, len(report.rejects)) == (1, 1)


@pytest.mark.parametrize("to", ["coco", "voc", "yolo"])
def test_sides_that_no_directory_is_called_like(tmp_path: Path, to: str) -> None:
    boxes: dict[str, list[Any]] = {"a/1.jpg": [[1, 1, 2, 2]], "train/2.jpg": [], "b/3.jpg": []}
    shards = packed(tmp_path, boxes)
    options: dict[str, Any] = {"to": to, "workers": 2, "split": "train=0.34,val=0.66"}
    report = dsprep.convert(shards, tmp_path / to, **options)
    assert report.sides == {"train": 1, "val": 2}
    assert not [note for note in report.notes if "ultralytics" in note]
    back = dsprep.pack(tmp_path / to, tmp_path / "back", to="webdataset", workers=1)
    assert back.sides == report.sides
    if to == "yolo":
        told = framework("yaml").safe_load((tmp_path / to / "data.yaml").read_text("utf-8"))
        assert [told["train"], told["val"]] == ["images/train", "images/val"]
    # Without what dsprep writes beside it, the folder says the same.
    copy = tmp_path / "copy"
    (tmp_path / to).rename(copy)
    again = dsprep.pack(copy, tmp_path / "again", to="webdataset", workers=1)
    assert again.sides == report.sides
    folds = dsprep.convert(shards, tmp_path / "folds", **options | {"split": "a=0.5,b=0.5"})
    back = dsprep.pack(tmp_path / "folds", tmp_path / "ab", to="webdataset", workers=1)
    assert back.sides == folds.sides == {"a": 2, "b": 1}

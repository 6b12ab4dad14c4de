"""BDD100K's JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError
from tests.sources.boxes import notes, objects, read, write


def image(name: str, *labels: dict[str, Any], **more: Any) -> dict[str, Any]:
    return (
        {"name": name, "attributes": {"weather": "clear", "scene": "street"}}
        | more
        | {"labels": [*labels]}
    )


def label(category: str, **more: Any) -> dict[str, Any]:
    box = {"x1": 1.5, "y1": 2, "x2": 3, "y2": 4}
    return {"category": category, "box2d": box} | more


def area(*types: str, closed: bool = True) -> list[dict[str, Any]]:
    vertices = [[1, 2], [9, 2], [9, 8]]
    return [{"vertices": vertices, "types": each, "closed": closed} for each in types]


CAR = label("car", id=7, attributes={"occluded": True, "truncated": True})
SET: dict[str, Any] = {
    "images/100k/train/a.jpg": None,
    "images/100k/val/a.jpg": None,
    "labels/bdd100k_labels_images_train.json": json.dumps([image("a.jpg", CAR)]),
    "labels/bdd100k_labels_images_val.json": json.dumps([image("a.jpg", label("bus", id="12"))]),
}
ONE_SIDE = {path: data for path, data in SET.items() if "val" not in path}


def test_boxes_sides_and_attributes(tmp_path: Path) -> None:
    root = write(tmp_path, SET)
    catalog, findings = read(root)
    assert catalog.sides == ("train", "val")
    own = {path: each.items for path, each in objects(catalog).items()}
    (car,), (bus,) = (own[f"images/100k/{side}/a.jpg"] for side in catalog.sides)
    assert (car.box, car.flags, car.id, car.more) == (
        (1.5, 2, 3, 4), {"truncated"}, 7, {"occluded": True}
    )  # fmt: skip
    assert (bus.number, bus.id) == (0, 12)
    assert "not read: 'scene', 'weather'; --annotations PATH --label-column" in notes(findings)
    labels = f"{root}/labels"
    catalog, _ = read(root, annotations=[labels], label_columns=["weather"])
    assert catalog.classes == ("clear",)


def test_polygons_lines_and_curves(tmp_path: Path) -> None:
    labels = [
        {"category": "drivable", "poly2d": area("LLL", "LCC")},
        {"category": "lane", "poly2d": area("LLL", closed=False)},
        {"category": "car", "box3d": {}},
    ]
    files = {"a.jpg": None, "b.jpg": None}
    text = json.dumps([image("a.jpg", *labels), image("b.jpg") | {"labels": None}])
    catalog, findings = read(write(tmp_path, files | {"x.json": text}))
    own = {path: each.items for path, each in objects(catalog).items()}
    (drivable,) = own["a.jpg"]
    assert (drivable.box, drivable.polygons) == ((1, 2, 9, 8), ((1, 2, 9, 2, 9, 8),))
    assert not own["b.jpg"]
    for said in ("1 'drivable' curve,", "1 'lane' line,", "1 'car' label without a box,"):
        assert said in notes(findings)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"name": 3}, "names no image"),
        ({"labels": 3}, "its labels are 3"),
        ({"attributes": [3]}, r"its attributes are \[3\]"),
        ({"labels": [label("")]}, "the category of a label is ''"),
        ({"labels": [label("\ud800")]}, "the category of a label is '.ud800'"),
        ({"labels": [label("a", box2d={"x1": 1})]}, "the box2d of 'a' is {'x1': 1}, no x1, y1, "),
        ({"labels": [label("a", box2d=dict.fromkeys(("x1", "y1", "x2", "y2"), "1"))]}, "not a num"),
        ({"labels": [label("a", attributes=3)]}, "the attributes of a label are 3"),
        ({"labels": [label("a", poly2d=[3])]}, r"the poly2d of 'a' is \[3\]"),
        ({"labels": [label("a", poly2d=[{"vertices": [3]}])]}, r"the vertices of 'a' are \[3\]"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, wrong: dict[str, Any], why: str) -> None:
    text = json.dumps([image("a.jpg", CAR), image("b.jpg") | wrong])
    with pytest.raises(SourceError, match=why):
        read(write(tmp_path, {"a.jpg": None, "b.jpg": None, "x.json": text}))

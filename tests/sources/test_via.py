"""VGG Image Annotator: exports and projects of version 2, version 1, and CSV."""

from __future__ import annotations

import csv
import json
import math
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import OptionError, SourceError
from tests.sources.boxes import boxes, kinds, notes, objects, read, sides, write

HEADER = ["filename", "file_size", "file_attributes", "region_count", "region_id"]
HEADER += ["region_shape_attributes", "region_attributes"]
RECT = {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}
BALLOON = {"name": "polygon", "all_points_x": [1, 5, 5], "all_points_y": [2, 2, 8]}


def region(shape: Any = RECT, **attributes: Any) -> dict[str, Any]:
    return {"shape_attributes": shape, "region_attributes": attributes}


def item(name: str, *regions: Any, **attributes: Any) -> dict[str, Any]:
    return {
        name + "99": {
            "filename": name,
            "size": 99,
            "regions": list(regions),
            "file_attributes": attributes,
        }
    }


def export(*items: dict[str, Any]) -> str:
    return json.dumps({key: value for each in items for key, value in each.items()})


def table(*items: dict[str, Any], mark: str = "") -> str:
    out = StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow([mark + HEADER[0], *HEADER[1:]])
    for each in items:
        (told,) = each.values()
        head = told["filename"], 99, json.dumps(told["file_attributes"])
        for number, own in enumerate(told["regions"]):
            cells = (json.dumps(own[name]) for name in ("shape_attributes", "region_attributes"))
            rows.writerow([*head, len(told["regions"]), number, *cells])
        if not told["regions"]:
            rows.writerow([*head, 0, 0, "{}", "{}"])
    return out.getvalue()


SHAPES = (
    region(type="a"),
    region(BALLOON, type="b"),
    region({"name": "circle", "cx": 20, "cy": 10, "r": 5}, type="a"),
    region(
        {"name": "ellipse", "cx": 20, "cy": 10, "rx": 8, "ry": 4, "theta": math.pi / 2}, type="a"
    ),
    region({"name": "point", "cx": 7, "cy": 8}, type="a"),
    region({"name": "polyline", "all_points_x": [1, 2], "all_points_y": [3, 4]}, type="a"),
    region(type=""),
)
ITEMS = item("a.jpg", *SHAPES, caption="x"), item("d,e.jpg")


@pytest.mark.parametrize("text", [
    export(*ITEMS),
    json.dumps({"_via_settings": {"ui": {"regions": 1}},
                "_via_img_metadata": json.loads(export(*ITEMS)),
                "_via_attributes": {"region": {}, "file": {}}, "_via_data_format_version": "2.0.10",
                "_via_image_id_list": ["a.jpg99"]}),
    table(*ITEMS),
    table(*ITEMS, mark="#").replace("\n", "\r\n"),
])  # fmt: skip
def test_all_shapes(tmp_path: Path, text: str) -> None:
    name = "via.json" if text.startswith("{") else "via.csv"
    root = write(tmp_path, {name: text, "a.jpg": None, "d,e.jpg": None})
    catalog, findings = read(root)
    assert boxes(catalog) == {
        "a.jpg": [
            ("a", 1, 2, 4, 6),
            ("b", 1, 2, 5, 8),
            ("a", 15, 5, 25, 15),
            ("a", 16, 2, 24, 18),
            ("a", 7, 8, 7, 8),
        ],
        "d,e.jpg": [],
    }
    found = objects(catalog)["a.jpg"].items
    assert found[1].polygons == ((1, 2, 5, 2, 5, 8),)
    assert [len(each.polygons[0]) for each in found[2:4]] == [72, 72]
    assert found[3].polygons[0][:2] == (20, 18)
    assert found[4].keypoints == (7, 8, 2)
    said = notes(findings).split("\n")
    assert said[:4] == [
        "1 attribute of images, not read",
        "1 polyline, not read",
        "1 region without a class, not read",
        "1 image with circles or ellipses, which are kept as polygons of 36 corners: a.jpg",
    ]
    assert boxes(read(root, annotations=[str(root / name)])[0]) == boxes(catalog)


def test_the_balloons_of_matterport(tmp_path: Path) -> None:
    """Version 1: regions are an object, and have no attributes."""
    told = {"fileref": "", "size": 99, "base64_img_data": "", "file_attributes": {}}
    files: dict[str, Any] = {}
    for side, name in (("train", "1.jpg"), ("val", "2.jpg")):
        regions = {"0": region(BALLOON), "1": region(BALLOON)}
        items = {f"{name}99": told | {"filename": name, "regions": regions}}
        files |= {f"{side}/via_region_data.json": json.dumps(items), f"{side}/{name}": None}
    catalog, _ = read(write(tmp_path, files))
    balloon = ("object", 1, 2, 5, 8)
    assert boxes(catalog) == {"train/1.jpg": [balloon] * 2, "val/2.jpg": [balloon] * 2}
    assert sides(catalog) == {"train/1.jpg": "train", "val/2.jpg": "val"}


def test_the_attribute_that_is_the_class(tmp_path: Path) -> None:
    checked = {"good": True, "dark": False}
    items = item(
        "a.jpg", region(name="cat", sex="f", quality=checked), region(name="dog", quality={})
    )
    files = {"x.json": export(items), "a.jpg": None}
    root = write(tmp_path, files)
    with pytest.raises(OptionError) as caught:
        read(root)
    given = f"give --annotations {root}/x.json --label-column with the one that is the class: "
    assert f"several attributes: {given}'name', 'quality', 'sex'" in str(caught.value)
    named = [str(root / "x.json")]
    with pytest.raises(OptionError, match="several attributes: give --label-column with the one"):
        read(root, annotations=named)
    catalog, _ = read(root, annotations=named, label_columns=["name"])
    assert [each[0] for each in boxes(catalog)["a.jpg"]] == ["cat", "dog"]
    assert objects(catalog)["a.jpg"].items[0].more == {"sex": "f", "quality": checked}
    catalog, findings = read(root, annotations=named, label_columns=["quality"])
    assert boxes(catalog)["a.jpg"] == [("good", 1, 2, 4, 6)]
    assert "1 region without a class, not read" in notes(findings)
    with pytest.raises(
        OptionError, match="--label-column x: is no attribute of regions in .*'sex'"
    ):
        read(root, annotations=named, label_columns=["x"])


def test_lines(tmp_path: Path) -> None:
    """People draw outlines by lines that end where they begin."""
    line = {"name": "polyline", "all_points_x": [1, 5, 5], "all_points_y": [2, 2, 8]}
    closed = {"name": "polyline", "all_points_x": [1, 5, 5, 1], "all_points_y": [2, 2, 8, 2]}
    root = write(tmp_path, {"x.json": export(item("a.jpg", region(line))), "a.jpg": None})
    with pytest.raises(
        SourceError, match="x.json: has no objects that dsprep reads, but 1 polyline"
    ):
        read(root)
    root = write(tmp_path, {"x.json": export(item("a.jpg", region(line), region(closed)))})
    catalog, findings = read(root)
    assert objects(catalog)["a.jpg"].items[0].polygons == ((1, 2, 5, 2, 5, 8, 1, 2),)
    assert boxes(catalog) == {"a.jpg": [("object", 1, 2, 5, 8)]}
    said = "1 image with polylines that end where they begin, which are kept as polygons: a.jpg"
    assert said in notes(findings)


def test_json_counts_if_both_are_there(tmp_path: Path) -> None:
    files = {
        "x.json": export(item("a.jpg", region(a="b"))),
        "x.csv": table(item("a.jpg")),
        "a.jpg": None,
    }
    root = write(tmp_path, files)
    catalog, findings = read(root)
    assert boxes(catalog) == {"a.jpg": [("b", 1, 2, 4, 6)]}
    assert kinds(findings)["x.csv"] == "not-read"
    with pytest.raises(OptionError, match="are JSON and CSV of VIA"):
        read(root, annotations=[str(root / "x.json"), str(root / "x.csv")])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (export(item("a.jpg", region({"name": "rect", "x": 1}))), "a.jpg: a rect has no y"),
        (export(item("a.jpg", region(RECT | {"width": -1}))), "a.jpg: bbox is"),
        (export(item("a.jpg", region({"name": ["rect"]}))), "1 region of shape None"),
        (export(item("a.jpg", region(RECT | {"x": "1"}))), "'1' is not a number"),
        (export(item("a.jpg", region(BALLOON | {"all_points_x": [1]}))), "has no x and y of each"),
        (export(item("a.jpg", region({"name": "circle", "cx": 1, "cy": 1, "r": -1}))), "radii -1"),
        (export(item("a.jpg", region(), 3)), "a.jpg: has no list of regions"),
        (export(item("a.jpg", {"shape_attributes": RECT, "region_attributes": [1]})), "are [1]"),
        (export(item("a.jpg", region(a={"x": True, "y": True}))),
         "regions of several classes in 1 image (a.jpg): leave one class for each region"),
        (export(item("a.jpg", region())).replace('"filename": "a.jpg"', '"filename": null'),
         "has no filename"),
        (export(item("a.jpg", region()))[:-9], "is no list of images, or ends early"),
        (table(item("a.jpg", region())).replace("file_size,", ""), "are not those of VIA"),
        (table(item("a.jpg", region())) + "a.jpg,1\n", "a.jpg: has 2 cells in a row, not 7"),
        (table(item("a.jpg", region())).replace('""x"": 1', "x"), "is no object of JSON"),
        (table(item("a.jpg", region()), item("b.jpg"), item("a.jpg")), "named by several entries"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    name = "x.json" if text.startswith("{") else "x.csv"
    with pytest.raises(SourceError) as caught:
        read(write(tmp_path, {name: text, "a.jpg": None}))
    assert why in str(caught.value)

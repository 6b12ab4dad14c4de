"""Create ML's JSON, as Apple and Roboflow write it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsprep.errors import SourceError
from tests.sources.boxes import boxes, objects, read, sides, write


def at(label: Any, *sides: Any, **more: Any) -> dict[str, Any]:
    return {
        "label": label,
        "coordinates": dict(zip(("x", "y", "width", "height"), sides, strict=True)),
        **more,
    }


def test_x_and_y_are_the_center(tmp_path: Path) -> None:
    """Apple's example, `x` 120, `y` 164, `width` 230, `height` 119, in a smaller image."""
    items = [
        {"image": "a.jpg",
         "annotations": [at("Café", 12, 16, 23, 12), at("cat", 1, 1, 2, 2.5, n=1)]},
        {"imagefilename": "b.jpg", "annotation": [at("cat", 3, 3, 2, 2, type="rectangle")]},
        {"image": "c.jpg", "annotations": []},
    ]  # fmt: skip
    files = {"x.json": json.dumps(items, ensure_ascii=False, indent=2)} | dict.fromkeys(
        ("a.jpg", "b.jpg", "c.jpg")
    )
    catalog, _ = read(write(tmp_path, files))
    assert boxes(catalog) == {
        "a.jpg": [("Café", 0.5, 10, 23.5, 22), ("cat", 0, -0.25, 2, 2.25)],
        "b.jpg": [("cat", 2, 2, 4, 4)],
        "c.jpg": [],
    }
    assert [each.more for each in objects(catalog)["a.jpg"].items] == [{}, {"n": 1}]


def test_the_export_of_roboflow(tmp_path: Path) -> None:
    """A file for each side, which may name images alike; the first image may have no boxes."""
    text = json.dumps(
        [
            {"image": "1.jpg", "annotations": []},
            {"image": "2.jpg", "annotations": [at("a", 5, 5, 2, 2)]},
        ]
    )
    side_of = {"train": "train", "valid": "val", "test": "test"}
    files: dict[str, Any] = {f"{side}/_annotations.createml.json": text for side in side_of}
    paths = {f"{name}/{number}.jpg": side for name, side in side_of.items() for number in (1, 2)}
    root = write(tmp_path, files | {"README.roboflow.txt": "x", **dict.fromkeys(paths)})
    catalog, _ = read(root)
    assert sides(catalog) == paths
    assert boxes(catalog)["valid/2.jpg"] == [("a", 4, 4, 6, 6)]
    named = [str(root / name) for name in files]
    assert boxes(read(root, annotations=named)[0]) == boxes(catalog)
    alone, _ = read(root, annotations=named[1:2])
    assert sides(alone) == {"valid/1.jpg": "val", "valid/2.jpg": "val"}


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"annotations": []}, "image 2: names no image"),
        ({"image": 3, "annotations": []}, "image 2: names no image"),
        ({"image": "b.jpg"}, "b.jpg: has no list of annotations"),
        ({"image": "b.jpg", "annotations": "cat"}, "b.jpg: has no list of annotations"),
        ({"image": "b.jpg", "annotations": [3]}, "b.jpg: an annotation is 3"),
        ({"image": "b.jpg", "annotations": [at("", 1, 2, 3, 4)]}, "label of an annotation is ''"),
        ({"image": "b.jpg", "annotations": [at(None, 1, 2, 3, 4)]}, "an annotation is None"),
        ({"image": "b.jpg", "annotations": [{"label": "a"}]}, "the coordinates of 'a' are no x, y"),
        ({"image": "b.jpg", "annotations": [at("a", 1, 2, -3, 4)]}, "not x, y, width and height"),
        ({"image": "b.jpg", "annotations": [at("a", "1", 2, 3, 4)]}, "'1' is not a number"),
        ({"image": "b.jpg", "annotations": [at("a", 1, 2, 3e9, 4)]}, "is beyond any image"),
        ({"image": "b.jpg", "annotations": [at("a", 1, 2, 3, 4, x=float("nan"))]}, "is NaN or"),
        ({"image": "b.jpg", "annotations": [at("a", 0.5, 0.5, 0.2, 0.2)]},
         "does not read coordinates as shares of images:\n  coordinates as shares of images in 1 "
         "image (b.jpg): write the coordinates in pixels"),
        (3, "image 2: 3 is no object of JSON"),
        ({"image": "a.jpg", "annotations": []}, "1 image named by several entries"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, item: Any, why: str) -> None:
    items = [{"image": "a.jpg", "annotations": [at("a", 9, 9, 3, 4)]}, item]
    with pytest.raises(SourceError) as caught:
        read(write(tmp_path, {"x.json": json.dumps(items), "a.jpg": None, "b.jpg": None}))
    assert why in str(caught.value)

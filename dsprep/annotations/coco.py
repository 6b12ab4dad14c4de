"""COCO's annotations: the objects of an image as items of the list ``annotations``.

A box is x, y, width and height in pixels, a polygon the edges of pixels, crowds are runs of pixels
down the columns (cocodataset.org, "Data format").
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dsprep.annotations.masks import mask_of
from dsprep.annotations.objects import (
    Object,
    box_of,
    box_of_sides,
    is_id,
    keypoints,
    numbers,
    plain,
    polygon,
    rle,
)

_KNOWN = frozenset(
    ("id", "image_id", "category_id", "bbox", "area", "iscrowd", "segmentation", "keypoints")
    + ("num_keypoints",)
)
_CROWD, _PLAIN = frozenset({"crowd"}), frozenset[str]()


def parse(texts: Sequence[bytes], classes: Mapping[int, int]) -> tuple[Object, ...]:
    """Return the objects of an image, from texts of annotations, and class numbers by id."""
    try:  # one text takes half the time of many
        items = json.loads(b"[%s]" % b",".join(texts))
    except (ValueError, RecursionError):
        items = map(json.loads, texts)
    return tuple([parse_object(each, classes) for each in items])


def parse_object(values: Mapping[str, Any], classes: Mapping[int, int]) -> Object:
    """Return the object of one annotation."""
    number = classes.get(values.get("category_id"))  # type: ignore[arg-type]
    if number is None:
        raise ValueError(f"the category {values.get('category_id')!r:.60} is not in categories")
    shape, crowd = values.get("segmentation"), values.get("iscrowd")
    runs = rle(shape) if type(shape) is dict else None
    polygons = tuple(map(polygon, shape)) if shape and type(shape) is list else ()
    found = values.get("bbox")
    if found:
        box = box_of_sides(found)
    elif polygons:
        box = box_of(polygons)
    elif runs is not None and (edges := mask_of(runs).getbbox()) is not None:
        x0, y0, x1, y1 = map(float, edges)
        box = x0, y0, x1, y1
    else:
        raise ValueError("has no bbox")
    area, points = values.get("area"), values.get("keypoints")
    return Object(
        box,
        number,
        _CROWD if crowd else _PLAIN,
        polygons,
        runs,
        keypoints(points) if points else (),
        values["id"] if is_id(values.get("id")) else None,
        numbers([area])[0] if type(area) in (int, float) else None,
        {}
        if values.keys() <= _KNOWN
        else plain({name: value for name, value in values.items() if name not in _KNOWN}),
    )

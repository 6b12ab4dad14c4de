"""COCO's annotations: the objects of an image as items of the list ``annotations``.

A box is x, y, width and height in pixels, a polygon the edges of pixels, crowds are runs of pixels
down the columns (cocodataset.org, "Data format").
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

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


def parse(texts: Iterable[bytes], classes: Mapping[int, int]) -> tuple[Object, ...]:
    """Return the objects of an image, from the texts of its annotations, and class numbers by id.

    Raises:
        ValueError: If one of them is damaged.
    """
    return tuple(parse_object(json.loads(text), classes) for text in texts)


def parse_object(values: Mapping[str, Any], classes: Mapping[int, int]) -> Object:
    """Return the object of one annotation."""
    number = classes.get(values.get("category_id"))  # type: ignore[arg-type]
    if number is None:
        raise ValueError(f"the category {values.get('category_id')!r:.60} is not in categories")
    shape, crowd = values.get("segmentation"), values.get("iscrowd")
    runs = rle(shape) if isinstance(shape, dict) else None
    polygons = tuple(map(polygon, shape)) if isinstance(shape, list) else ()
    found = values.get("bbox")
    if found:
        box = box_of_sides(found)
    elif polygons:
        box = box_of(polygons)
    else:
        raise ValueError("has no bbox")
    area = values.get("area")
    return Object(
        box,
        number,
        frozenset({"crowd"}) if crowd else frozenset(),
        polygons,
        runs,
        keypoints(values.get("keypoints") or ()),
        values["id"] if is_id(values.get("id")) else None,
        numbers([area])[0] if type(area) in (int, float) else None,
        plain({name: value for name, value in values.items() if name not in _KNOWN}),
    )

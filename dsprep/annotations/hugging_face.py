"""Objects as Hugging Face's data sets have them: ``{"bbox": …, "category": …}``, a list of each.

A box is x, y, width and height in pixels. Rows of Parquet hold a struct of lists, or a list of
structs; the names beyond bbox and category are those of COCO.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dsprep.annotations.objects import (
    FLAGS,
    SHARES,
    Box,
    Object,
    Objects,
    area_of_object,
    box_of_sides,
    extent_of_pixels,
    numbers,
    to_object,
)
from dsprep.annotations.orders import Order

BOX = "bbox"
DOCUMENTED = Order("xywh")
CATEGORIES = ("category", "categories", "category_id", "label", "labels")
_FLAGS = {"iscrowd": "crowd", **{flag: flag for flag in FLAGS if flag != "crowd"}}
APART = frozenset(name for name, flag in _FLAGS.items() if flag != "truncated")
_KNOWN = {BOX, *_FLAGS, "id", "area", "segmentation", "rle", "keypoints", "more"}


def category_in(names: Any) -> str | None:
    """Return which name holds the class of an object, given those of all parts; None if none."""
    return next((each for each in CATEGORIES if each in names), None) if BOX in names else None


def has_form(value: Any) -> bool:
    """Return whether a value is objects of this form."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(each, dict) and category_in(each) for each in value)
    return isinstance(value, dict) and category_in(value) is not None


def parse(value: Any, order: Order = DOCUMENTED) -> Objects:
    """Return the objects of a struct of lists, or of a list of structs."""
    items = tuple(_object(each, order) for each in structs_of(value))
    return Objects(items, SHARES if order.shares else None)


def classes_in(value: Any) -> list[Any]:
    """Return the classes of objects as they are written; nothing for another value."""
    if isinstance(value, dict):
        own = value[category] if (category := category_in(value)) else ()
        return own if isinstance(own, list) else []
    is_list = isinstance(value, list) and has_form(value)
    return [each[category_in(each)] for each in value] if is_list else []


def numbered(value: Any, numbers: Mapping[str, int]) -> Any:
    """Return objects, as they are, with numbers of classes instead of names; None for no name."""

    def number(name: Any) -> int | None:
        return numbers.get(name) if isinstance(name, str) else None

    if isinstance(value, dict):
        category = category_in(value)
        return {**value, category: [*map(number, value[category])]}
    return [{**each, category_in(each): number(each[category_in(each)])} for each in value]


def structs_of(value: Any) -> list[dict[str, Any]]:
    """Return a struct of lists as a list of structs."""
    if isinstance(value, dict):
        if not isinstance(value.get(BOX), list | tuple):
            raise ValueError(f"has no list {BOX}")
        lists = {name: each for name, each in value.items() if each is not None}
        if {*map(len, lists.values())} - {len(lists[BOX])}:
            raise ValueError("has lists of different lengths")
        parts = (dict(zip(lists, each, strict=True)) for each in zip(*lists.values(), strict=True))
        return list(parts)
    return list(value)


def _object(values: dict[str, Any], order: Order) -> Object:
    segmentation = values.get("segmentation") or ()
    is_runs = isinstance(segmentation, dict)
    category = category_in(values)
    known = _KNOWN | {category}
    others = {name: each for name, each in values.items() if name not in known}
    own = {
        "box": box_of_sides(values[BOX]) if order == DOCUMENTED else _box(values[BOX], order),
        "class": values[category or BOX],
        "polygons": () if is_runs else segmentation,
        "rle": segmentation if is_runs else values.get("rle"),
        "more": {**json.loads(values.get("more") or "{}"), **others},
    }
    return to_object(values | own | {flag: bool(values.get(name)) for name, flag in _FLAGS.items()})


def _box(values: Any, order: Order) -> Box:
    """Return the box of four numbers in another order than the documented one."""
    found = numbers(values)
    if len(found) == 4:
        x0, y0, x1, y1 = order.corners(*found)
        if x0 <= x1 and y0 <= y1:
            return x0, y0, x1, y1
    raise ValueError(f"bbox is {values!r:.60}, not {order.words}")


def write(objects: Objects) -> dict[str, list[Any]]:
    """Return objects as a struct of lists; an area that is not known is that of the shape."""
    extent_of_pixels(objects)
    items = objects.items
    more = (json.dumps(each.more, ensure_ascii=False) if each.more else None for each in items)
    boxes = (each.box for each in items)
    found: dict[str, list[Any]] = {
        "id": [each.id for each in items],
        "area": [area_of_object(each) for each in items],
        BOX: [[x0, y0, x1 - x0, y1 - y0] for x0, y0, x1, y1 in boxes],
        CATEGORIES[0]: [each.number for each in items],
    }
    found |= {name: [flag in each.flags for each in items] for name, flag in _FLAGS.items()}
    return found | {
        "segmentation": [list(map(list, each.polygons)) for each in items],
        "rle": [each.rle and each.rle.to_json() for each in items],
        "keypoints": [list(each.keypoints) for each in items],
        "more": list(more),
    }

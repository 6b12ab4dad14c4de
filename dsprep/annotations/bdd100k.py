"""BDD100K's labels of an image: boxes, and polygons whose corners are joined by lines or curves.

A label has ``box2d``, ``poly2d`` or both. Coordinates are pixels. ``types`` of a polygon has a
letter for each vertex: L is a corner, and C controls a Bézier curve between corners. What is not
closed is a line, such as the mark of a lane (doc.bdd100k.com, "Label Format").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dsprep.annotations.objects import Object, Polygon, box, box_of, is_id, plain, polygon
from dsprep.units import is_text

_SIDES = ("x1", "y1", "x2", "y2")


def parse_labels(labels: Any) -> tuple[Sequence[tuple[str, Object]], Counter[str]]:
    """Return the objects of an image, each with the name of its class; and what has no place."""
    shapes, left_out = list[tuple[str, Object]](), Counter[str]()
    if labels is None:  # an image without objects
        return shapes, left_out
    if not isinstance(labels, list) or not all(isinstance(each, dict) for each in labels):
        raise ValueError(f"its labels are {labels!r:.60}, no list of objects of JSON")
    for label in labels:
        name = label.get("category")
        if not is_text(name) or not name:
            raise ValueError(f"the category of a label is {name!r:.40}")
        polygons = _polygons(name, label.get("poly2d"), left_out)
        if label.get("box2d") is not None:
            shapes.append((name, _object(label, _box(name, label["box2d"]), polygons)))
        elif polygons:
            shapes.append((name, _object(label, box_of(polygons), polygons)))
        elif not label.get("poly2d"):
            left_out[f"{name!r:.40} label without a box"] += 1
    return shapes, left_out


def attributes_of(image: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is told of a whole image, such as the weather."""
    told = image.get("attributes") or {}
    if not isinstance(told, dict):
        raise ValueError(f"its attributes are {told!r:.60}")
    return {name: [value] for name, value in told.items() if is_text(name) and is_text(value)}


def _object(label: Mapping[str, Any], around: Any, polygons: Sequence[Polygon]) -> Object:
    told = label.get("attributes") or {}
    if not isinstance(told, dict):
        raise ValueError(f"the attributes of a label are {told!r:.60}")
    flags = frozenset(flag for flag in ("crowd", "truncated") if told.get(flag))
    more = {name: value for name, value in told.items() if name not in ("crowd", "truncated")}
    id = label.get("id")
    if isinstance(id, str) and id.isascii() and id.isdecimal():
        id = int(id[:20])
    if id is not None and not is_id(id):
        more["track"] = id
    return Object(
        around, -1, flags, tuple(polygons), id=id if is_id(id) else None, more=plain(more)
    )


def _box(name: str, sides: Any) -> Any:
    if not isinstance(sides, dict) or not sides.keys() >= {*_SIDES}:
        raise ValueError(f"the box2d of {name!r:.40} is {sides!r:.60}, no x1, y1, x2 and y2")
    return box([sides[side] for side in _SIDES])


def _polygons(name: str, drawn: Any, left_out: Counter[str]) -> list[Polygon]:
    """Return the polygons of a label that have corners alone; count others."""
    if drawn is None:
        return []
    if not isinstance(drawn, list) or not all(isinstance(each, dict) for each in drawn):
        raise ValueError(f"the poly2d of {name!r:.40} is {drawn!r:.60}")
    found = []
    for each in drawn:
        vertices = each.get("vertices")
        if not isinstance(vertices, list) or not all(
            isinstance(point, list) and len(point) == 2 for point in vertices
        ):
            raise ValueError(f"the vertices of {name!r:.40} are {vertices!r:.60}")
        if not each.get("closed", True):
            left_out[f"{name!r:.40} line"] += 1
        elif "C" in str(each.get("types")):
            left_out[f"{name!r:.40} curve"] += 1
        else:
            found.append(polygon([at for point in vertices for at in point]))
    return found

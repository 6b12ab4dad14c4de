"""VGG Image Annotator 1 and 2: regions of an image, each a shape with free attributes.

Shapes are ``rect``, ``polygon``, ``circle``, ``ellipse``, ``point`` and ``polyline``, in pixels.
An attribute has a text or, as a group of checkboxes, a true or false for each option. Which one is
the class is free.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dsprep.annotations.objects import Object, box_of, box_of_sides, numbers, plain, polygon
from dsprep.annotations.outlines import CLOSED, ellipse
from dsprep.tuples import NamedTuple

ONE = "object"  # the class of regions without attributes
ROUND = "with circles or ellipses, which are kept as polygons of 36 corners"
SEVERAL = "regions of several classes"
_REMARKS = {"circle": ROUND, "ellipse": ROUND, "closed": CLOSED}


class ViaRegions(NamedTuple):
    """What the regions of an image tell."""

    shapes: Sequence[tuple[str, Object]]  # with the names of their classes
    left_out: Counter[str]
    remarks: Sequence[str]
    refused: Sequence[str]


def regions_of(item: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the regions of an image: a list or, of version 1, an object."""
    found = item.get("regions")
    found = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("has no list of regions")
    return found


def attributes_of(region: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes of a region, by name."""
    found = region.get("region_attributes") or {}
    if not isinstance(found, dict):
        raise ValueError(f"the attributes of a region are {found!r:.40}")
    return found


def texts_of(value: Any) -> Sequence[str]:
    """Return what an attribute says: a text, or the options that are checked."""
    if isinstance(value, dict):
        return [name for name, is_checked in value.items() if is_checked]
    return [] if value is None or value == "" else [str(value)]


def parse_regions(regions: Iterable[Mapping[str, Any]], attribute: str | None) -> ViaRegions:
    """Return the objects of an image, given the attribute that is the class, if there is one."""
    shapes, left_out = list[tuple[str, Object]](), Counter[str]()
    remarks, refused = dict[str, None](), dict[str, None]()
    for each in regions:
        shape, told = each.get("shape_attributes") or {}, attributes_of(each)
        kind = _kind_of(shape)
        classes = [ONE] if attribute is None else texts_of(told.get(attribute))
        if kind not in _SHAPES:
            left_out["polyline" if kind == "polyline" else f"region of shape {kind!r:.40}"] += 1
        elif not classes:
            left_out["region without a class"] += 1
        elif len(classes) > 1:
            refused[SEVERAL] = None
        else:
            more = {name: value for name, value in told.items() if value != ""}
            more.pop(str(attribute), None)
            shapes.append((classes[0], _SHAPES[kind](shape)._replace(more=plain(more))))
            remarks |= {_REMARKS[kind]: None} if kind in _REMARKS else {}
    return ViaRegions(shapes, left_out, [*remarks], [*refused])


def _kind_of(shape: Any) -> Any:
    """Return what kind of shape a region has."""
    kind = shape.get("name") if isinstance(shape, dict) else None
    if not isinstance(kind, str):
        return None
    return "closed" if kind == "polyline" and _is_closed(shape) else kind


def _is_closed(shape: Mapping[str, Any]) -> bool:
    """Return whether a line ends where it begins."""
    ends = [shape.get(name) for name in ("all_points_x", "all_points_y")]
    return all(isinstance(each, list) and len(each) > 3 and each[0] == each[-1] for each in ends)


def _values(shape: Mapping[str, Any], *names: str) -> tuple[float, ...]:
    missing = [name for name in names if name not in shape]
    if missing:
        raise ValueError(f"a {shape['name']} has no {missing[0]}")
    return numbers([shape[name] for name in names])


def _rect(shape: Mapping[str, Any]) -> Object:
    return Object(box_of_sides(_values(shape, "x", "y", "width", "height")), -1)


def _polygon(shape: Mapping[str, Any]) -> Object:
    across, down = shape.get("all_points_x"), shape.get("all_points_y")
    if not isinstance(across, list) or not isinstance(down, list) or len(across) != len(down):
        raise ValueError("a polygon has no x and y of each of its points")
    corners = polygon([each for point in zip(across, down, strict=True) for each in point])
    return Object(box_of([corners]), -1, polygons=(corners,))


def _circle(shape: Mapping[str, Any]) -> Object:
    x, y, radius = _values(shape, "cx", "cy", "r")
    box, corners = ellipse(x, y, radius, radius, 0)
    return Object(box, -1, polygons=(corners,))


def _ellipse(shape: Mapping[str, Any]) -> Object:
    x, y, wide, high = _values(shape, "cx", "cy", "rx", "ry")
    (turn,) = _values(shape, "theta") if "theta" in shape else (0.0,)  # radians
    box, corners = ellipse(x, y, wide, high, math.degrees(turn))
    return Object(box, -1, polygons=(corners,))


def _point(shape: Mapping[str, Any]) -> Object:
    x, y = _values(shape, "cx", "cy")
    return Object((x, y, x, y), -1, keypoints=(x, y, 2.0))


_SHAPES: Mapping[Any, Callable[[Mapping[str, Any]], Object]] = {
    "rect": _rect,
    "polygon": _polygon,
    "circle": _circle,
    "ellipse": _ellipse,
    "point": _point,
    "closed": _polygon,
}

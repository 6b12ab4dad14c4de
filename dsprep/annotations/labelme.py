"""labelme's JSON: a file for each image, with the shapes that somebody drew in it.

The form is that of _label_file.py and _shape.py in wkentaro/labelme; older versions have no
`shape_type` and no `group_id`, and X-AnyLabeling adds further keys.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, TypeAlias

from dsprep.annotations.masks import runs_of
from dsprep.annotations.named import Named, NamedObjects
from dsprep.annotations.objects import Extent, Object, Polygon, box_of, numbers, plain

Counts: TypeAlias = Counter[str]

_SHAPE = {"label", "points", "shape_type", "flags", "mask", "difficult", "line_color", "fill_color"}
_NO_AREA = {"point": "point", "points": "set of points", "line": "line", "linestrip": "line"}
_MOST_PIXELS = 1 << 28  # of a mask
_CORNERS = 12, 360  # fewest and most of a circle


def parse(data: bytes) -> NamedObjects:
    """Return what a file tells of its image."""
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("has too many lists in one another") from None
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from None
    shapes = found.get("shapes") if isinstance(found, dict) else None
    if not isinstance(shapes, list) or not all(isinstance(each, dict) for each in shapes):
        raise ValueError("has no list of shapes, as labelme's JSON has")
    extent, left_out, remarks = _extent(found), Counter[str](), Counter[str]()
    items = []
    for at, shape in enumerate(shapes):
        try:
            named = _named(shape, extent, left_out, remarks)
        except ValueError as error:
            raise ValueError(f"shape {at}: {error}") from None
        items += [] if named is None else [named]
    path, flags = found.get("imagePath"), found.get("flags")
    flags = flags if isinstance(flags, dict) else {}
    return NamedObjects(
        items,
        extent,
        left_out,
        remarks,
        path if isinstance(path, str) else "",
        {str(name): value is True for name, value in flags.items()},
        bool(found.get("imageData")),
    )


def _extent(found: Mapping[str, Any]) -> Extent | None:
    """Return the size of the image; some tools write none."""
    width, height = (found.get(f"image{side}") or 0 for side in ("Width", "Height"))
    across, down = numbers([width, height])
    return (across, down) if across > 0 and down > 0 else None


def _named(
    shape: Mapping[str, Any], extent: Extent | None, left_out: Counts, remarks: Counts
) -> Named | None:
    """Return a shape as an object; None if it has no area, which is counted."""
    label, kind = shape.get("label"), str(shape.get("shape_type") or "polygon")
    if not isinstance(label, str) or not label:
        raise ValueError(f"its label is {label!r:.40}, not the name of a class")
    points = shape.get("points")
    if not isinstance(points, list) or not all(_is_point(each) for each in points):
        raise ValueError(f"its points are {points!r:.60}")
    corners = numbers([value for point in points for value in point])
    if what := _without_area(kind, corners):
        left_out[what] += 1
        return None
    flags = frozenset({"difficult"}) if shape.get("difficult") is True else frozenset[str]()
    if kind == "mask":
        own = _of_mask(shape.get("mask"), corners, extent)
    elif kind in _SHAPES:
        own = _SHAPES[kind](corners, remarks)
    else:
        raise ValueError(f"dsprep knows no shape of the type {kind!r:.40}")
    return label, own._replace(flags=flags, more=_attributes(shape))


def _is_point(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _without_area(kind: str, corners: Polygon) -> str:
    """Return what a shape without an area is called; empty for others."""
    if kind == "polygon" and len(corners) < 6:
        return "polygon of fewer than 3 corners"
    return _NO_AREA.get(kind, "")


def _attributes(shape: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what else a shape has: its group, its description, flags that are set, others."""
    found = {name: value for name, value in shape.items() if name not in _SHAPE}
    flags = shape.get("flags")
    if isinstance(flags, dict):
        found["flags"] = [name for name, value in flags.items() if value is True]
    return plain({name: value for name, value in found.items() if value not in (None, "", [], {})})


# Shapes


def _rectangle(corners: Polygon, remarks: Counts) -> Object:
    if len(corners) not in (4, 8):
        raise ValueError(f"a rectangle has {len(corners) // 2} points, not 2")
    return Object(box_of([corners]), -1)


def _polygon(corners: Polygon, remarks: Counts) -> Object:
    return Object(box_of([corners]), -1, polygons=(corners,))


def _oriented(corners: Polygon, remarks: Counts) -> Object:
    if len(corners) != 8:
        raise ValueError(f"an oriented rectangle has {len(corners) // 2} points, not 4")
    return _polygon(corners, remarks)


def _circle(corners: Polygon, remarks: Counts) -> Object:
    """Return a circle by its center and a point on it: a polygon within half a pixel of it."""
    if len(corners) != 4:
        raise ValueError(f"a circle has {len(corners) // 2} points, not 2")
    x, y = corners[:2]
    radius = math.dist(corners[:2], corners[2:])
    step = math.acos(1 - 0.5 / radius) if radius > 0.5 else math.pi
    count = min(max(math.ceil(math.pi / step), _CORNERS[0]), _CORNERS[1])
    angles = [2 * math.pi * at / count for at in range(count)]
    around = [(x + radius * math.cos(angle), y + radius * math.sin(angle)) for angle in angles]
    remarks["circle"] += 1
    box = x - radius, y - radius, x + radius, y + radius
    return Object(box, -1, polygons=(tuple(value for point in around for value in point),))


_SHAPES: Mapping[str, Callable[[Polygon, Counts], Object]] = {
    "rectangle": _rectangle,
    "polygon": _polygon,
    "oriented_rectangle": _oriented,
    "rotation": _oriented,  # as X-AnyLabeling calls it
    "circle": _circle,
}


def _size_of(corners: Polygon, most: tuple[int, int]) -> tuple[int, int]:
    x0, y0, x1, y1 = map(int, corners)
    return min(most[0], max(x1 - x0 + 1, 1)), min(most[1], max(y1 - y0 + 1, 1))


def _of_mask(text: Any, corners: Polygon, extent: Extent | None) -> Object:
    """Return a mask, which is a PNG of the pixels of a box, whose last ones are inside."""
    from PIL import Image

    if len(corners) != 4 or not isinstance(text, str) or extent is None:
        raise ValueError("a mask needs two points, a PNG, and the size of the image")
    width, height = int(extent[0]), int(extent[1])
    if width * height > _MOST_PIXELS:
        raise ValueError(f"its mask is for an image of {width} x {height} pixels")
    left, top = round(corners[0]), round(corners[1])
    try:
        with Image.open(BytesIO(base64.b64decode(text)), formats=["PNG"]) as png:
            if png.width * png.height > _MOST_PIXELS:
                raise ValueError(f"its PNG has {png.width} x {png.height} pixels")
            inside = png.convert("L").point([0] + [1] * 255)
        if all(value.is_integer() for value in corners):  # as older versions cut it
            inside = inside.crop((0, 0, *_size_of(corners, inside.size)))
    except (OSError, SyntaxError) as error:
        raise ValueError(f"its mask is no PNG: {error}") from None
    except Image.DecompressionBombError as error:
        raise ValueError(f"its mask is no PNG that dsprep reads: {error}") from None
    mask = Image.new("L", (width, height))
    mask.paste(inside, (left, top))
    box = float(left), float(top), float(left + inside.width), float(top + inside.height)
    return Object(box, -1, rle=runs_of(mask))

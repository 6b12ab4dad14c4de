"""CVAT's XML 1.1 for images: an element for each image, with what was drawn in it.

Coordinates are edges of pixels from the upper left corner. A box may be turned clockwise around its
center, by degrees. A mask is runs along the rows of its box, the first of them outside
(docs.cvat.ai, "XML annotation format").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from xml.etree.ElementTree import Element

from dsprep.annotations.masks import runs_of
from dsprep.annotations.objects import Box, Extent, Object, Rle, box, box_of, numbers, polygon
from dsprep.annotations.outlines import CLOSED, ellipse, turned_box
from dsprep.tuples import NamedTuple

TURNED = "with rotated boxes, which are kept as polygons of 4 corners and the boxes around these"
ELLIPSES = "with ellipses, which are kept as polygons of 36 corners"
_MOST_PIXELS = 1 << 28
_PLAIN: Mapping[str, str] = {"occluded": "0", "z_order": "0", "group_id": "0", "source": "manual"}
"""What shapes tell of themselves besides, with what is not worth keeping."""


class CvatImage(NamedTuple):
    """What an element tells of its image."""

    shapes: Sequence[tuple[str, Object]]  # with the names of their classes
    extent: Extent | None
    tags: Sequence[str]  # the labels of the image itself
    left_out: Counter[str]
    remarks: Sequence[str]


def parse_image(image: Element, parts: Mapping[str, Sequence[str]]) -> CvatImage:
    """Return what is told of an image; a ValueError says what is wrong with it.

    Args:
        image: The element.
        parts: The points of each skeleton, by its label, in their order.
    """
    extent = _extent_of(image)
    shapes, tags, left_out = list[tuple[str, Object]](), list[str](), Counter[str]()
    remarks = dict[str, None]()
    for each in image:
        label, is_known = each.get("label"), each.tag in _LABELED
        if is_known and not label:
            left_out[f"{each.tag} without a label"] += 1
        elif each.tag == "tag":
            tags.append(str(label))
            left_out["attribute of tags"] += len(each.findall("attribute"))
        elif made := _object_of(each, extent, parts):
            shapes.append((str(label), made._replace(more=_more(each))))
            remarks |= {_remark_on(each, made): None}
        else:
            left_out[each.tag if is_known else f"<{each.tag:.40}>"] += 1
    return CvatImage(shapes, extent, tags, +left_out, [*filter(None, remarks)])


def _object_of(
    element: Element, extent: Extent | None, parts: Mapping[str, Sequence[str]]
) -> Object | None:
    """Return the object that is drawn, without its class; None if it has no place."""
    if element.tag == "polyline" and _is_closed(element):
        return _polygon(element, extent)
    if element.tag == "skeleton" and element.get("label") in parts:
        return _skeleton(element, parts[element.attrib["label"]])
    return _SHAPES[element.tag](element, extent) if element.tag in _SHAPES else None


def _remark_on(element: Element, made: Object) -> str:
    """Return what a user should know of a shape that is kept as another one; empty if nothing."""
    is_turned = element.tag == "box" and made.polygons
    return {"ellipse": ELLIPSES, "polyline": CLOSED, "box": TURNED * bool(is_turned)}.get(
        element.tag, ""
    )


def _is_closed(element: Element) -> bool:
    """Return whether an element is a line that ends where it begins."""
    points = (element.get("points") or "").split(";")
    return len(points) > 3 and points[0] == points[-1]


def _extent_of(image: Element) -> Extent | None:
    if not image.get("width") or not image.get("height"):
        return None
    width, height = _values(image, "width", "height")
    if width * height > _MOST_PIXELS or min(width, height) < 0:
        raise ValueError(f"its size is {width:g} x {height:g} pixels")
    return (width, height) if width and height else None


def _more(element: Element) -> Mapping[str, str]:
    """Return the attributes of a shape, and what else CVAT tells of it."""
    told = {name: element.get(name, plain) for name, plain in _PLAIN.items()}
    more = {name: value for name, value in told.items() if value not in ("", _PLAIN[name])}
    for each in element.iterfind("attribute"):
        more[each.get("name", "")] = each.text or ""
    return more


def _values(element: Element, *names: str) -> tuple[float, ...]:
    """Return numbers that an element has as its attributes."""
    missing = [name for name in names if element.get(name) is None]
    if missing:
        raise ValueError(f"a <{element.tag}> has no {missing[0]}")
    return numbers([_number(str(element.get(name)), element.tag) for name in names])


def _number(text: str, tag: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"a <{tag}> has {text!r:.40} where a number stands") from None


def _points(element: Element) -> tuple[float, ...]:
    pairs = [pair.split(",") for pair in (element.get("points") or "").split(";")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"the points of a <{element.tag}> are {element.get('points')!r:.60}")
    return numbers([_number(each, element.tag) for pair in pairs for each in pair])


def _box(element: Element, extent: Extent | None) -> Object:
    edges = x0, y0, x1, y1 = box(_values(element, "xtl", "ytl", "xbr", "ybr"))
    if x0 > x1 or y0 > y1:
        raise ValueError(f"a box ends before it begins: {edges}")
    degrees = _number(element.get("rotation") or "0", "box")
    if degrees % 360 == 0:
        return Object(edges, -1)
    corners = turned_box(edges, *numbers([degrees]))
    return Object(box_of([corners]), -1, polygons=(corners,))


def _polygon(element: Element, extent: Extent | None) -> Object:
    corners = polygon(_points(element))
    return Object(box_of([corners]), -1, polygons=(corners,))


def _keypoints(element: Element, extent: Extent | None) -> Object:
    found = _points(element)
    seen = 1.0 if element.get("occluded") == "1" else 2.0
    pairs = zip(found[::2], found[1::2], strict=True)
    return Object(box_of([found]), -1, keypoints=tuple(v for x, y in pairs for v in (x, y, seen)))


def _skeleton(element: Element, parts: Sequence[str]) -> Object:
    """Return the points of a skeleton in their order; those outside of the image are not there."""
    named = {each.get("label"): each for each in element.iterfind("points")}
    if unknown := sorted(str(name) for name in named.keys() - {*parts}):
        raise ValueError(
            f"a skeleton has a point {unknown[0]!r:.40}, which is not among its points"
        )
    found, seen = list[float](), list[float]()
    for part in parts:
        point = named.get(part)
        if point is None or point.get("outside") == "1":
            found += 0.0, 0.0, 0.0
            continue
        x, y, *others = _points(point)
        if others:
            raise ValueError(f"the point {part!r:.40} of a skeleton is {point.get('points')!r:.40}")
        found += x, y, 1.0 if point.get("occluded") == "1" else 2.0
        seen += x, y
    return Object(box_of([tuple(seen)] if seen else [(0.0,) * 4]), -1, keypoints=tuple(found))


def parts_of_skeletons(meta: Element) -> Mapping[str, tuple[str, ...]]:
    """Return the points of each skeleton that the head of a file declares, by its label."""
    parts: dict[str, list[str]] = {}
    for label in meta.iter("label"):
        if parent := label.findtext("parent"):
            parts.setdefault(parent, []).append(label.findtext("name") or "")
    return {name: tuple(own) for name, own in parts.items()}


def _ellipse(element: Element, extent: Extent | None) -> Object:
    degrees = _number(element.get("rotation") or "0", "ellipse")
    across, down, wide, high = _values(element, "cx", "cy", "rx", "ry")
    around, corners = ellipse(across, down, wide, high, degrees)
    return Object(around, -1, polygons=(corners,))


def _mask(element: Element, extent: Extent | None) -> Object:
    if extent is None:
        raise ValueError("has a mask, and no size of the image")
    sides = _values(element, "left", "top", "width", "height")
    left, top, width, height = map(int, sides)
    right, bottom = left + width, top + height
    if min(left, top, width - 1, height - 1) < 0 or right > extent[0] or bottom > extent[1]:
        raise ValueError(f"a mask of {width} x {height} at {left}, {top} lies beyond the image")
    texts = (element.get("rle") or "").split(",")
    runs = [int(text) if text.strip().isdecimal() else -1 for text in texts]
    if min(runs) < 0 or sum(runs) != width * height:
        raise ValueError(f"the runs of a mask are no {width} x {height} pixels")
    size = int(extent[0]), int(extent[1])
    runs_down, around = _mask_of(runs, (left, top, width, height), size)
    told = sides[0], sides[1], float(right), float(bottom)
    return Object(around or told, -1, rle=runs_down)


def _mask_of(
    runs: Sequence[int], sides: Sequence[int], size: tuple[int, int]
) -> tuple[Rle, Box | None]:
    """Return runs down the columns of an image, of those along the rows of a part of it.

    Also return the box around the pixels inside, as other tools write the whole image as the part.
    """
    from PIL import Image  # not before there is a mask

    left, top, width, height = sides
    pixels = b"".join((b"\1" if at % 2 else b"\0") * run for at, run in enumerate(runs))
    mask = Image.new("L", size)
    mask.paste(Image.frombytes("L", (width, height), pixels), (left, top))
    edges = mask.getbbox()
    return runs_of(mask), None if edges is None else (*map(float, edges),)  # type: ignore[return-value]


_SHAPES: Mapping[str, Callable[[Element, Extent | None], Object]] = {
    "box": _box,
    "polygon": _polygon,
    "points": _keypoints,
    "ellipse": _ellipse,
    "mask": _mask,
}
_LABELED = {*_SHAPES, "polyline", "cuboid", "skeleton", "tag"}

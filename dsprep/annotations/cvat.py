"""CVAT's XML 1.1 for images: an element for each image, with what was drawn in it.

Coordinates are edges of pixels from the upper left corner. A box may be turned clockwise around its
center, by degrees. A mask is runs along the rows of its box, the first of them outside
(docs.cvat.ai, "XML annotation format").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element

from dsprep.annotations.masks import runs_of
from dsprep.annotations.objects import Box, Extent, Object, Rle, box, box_of, numbers, polygon
from dsprep.annotations.outlines import CLOSED, ellipse, turned_box

TURNED = "with rotated boxes, which are kept as polygons of 4 corners and the boxes around these"
ELLIPSES = "with ellipses, which are kept as polygons of 36 corners"
_UNREAD = ("polyline", "cuboid", "skeleton")
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


def parse_image(image: Element) -> CvatImage:
    """Return what is told of an image; a ValueError says what is wrong with it."""
    extent = _extent_of(image)
    shapes, tags, left_out = list[tuple[str, Object]](), list[str](), Counter[str]()
    remarks = dict[str, None]()
    for each in image:
        if each.tag in {*_SHAPES, "tag"} and not each.get("label"):
            left_out[f"{each.tag} without a label"] += 1
        elif each.tag in _SHAPES or _is_closed(each):
            made = _SHAPES.get(each.tag, _polygon)(each, extent)
            shapes.append((each.attrib["label"], made._replace(more=_more(each))))
            remarks |= {ELLIPSES: None} if each.tag == "ellipse" else {}
            remarks |= {CLOSED: None} if each.tag == "polyline" else {}
            remarks |= {TURNED: None} if each.tag == "box" and made.polygons else {}
        elif each.tag == "tag":
            tags.append(each.attrib["label"])
            left_out["attribute of tags"] += len(each.findall("attribute"))
        elif each.tag in _UNREAD:
            left_out[each.tag] += 1
        else:
            left_out[f"<{each.tag:.40}>"] += 1
    return CvatImage(shapes, extent, tags, +left_out, [*remarks])


def _is_closed(element: Element) -> bool:
    """Return whether an element is a line that ends where it begins."""
    points = (element.get("points") or "").split(";") if element.tag == "polyline" else [""]
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

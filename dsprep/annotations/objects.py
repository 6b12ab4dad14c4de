"""Objects in an image: what a value is, and its form as JSON.

A box is x0 y0 x1 y1 in pixels: edges, not numbers of pixels, so the first pixel is 0 0 1 1. The
origin is the upper left corner of the upright image.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dsprep.errors import BadSample
from dsprep.printable import json_values
from dsprep.tuples import NamedTuple

Box: TypeAlias = tuple[float, float, float, float]
Extent: TypeAlias = tuple[float, float]
Polygon: TypeAlias = tuple[float, ...]
"""x and y of each corner, in turn."""

FLAGS = ("crowd", "difficult", "truncated", "group_of")
APART = frozenset({"crowd", "difficult", "group_of"})
"""Flags of objects that are not like others: no training takes them for ordinary ones."""
PARTS = ("polygons", "rle", "keypoints", "id", "area", "more")
"""What objects may have besides a box, a class and flags."""


class _Shares(tuple[float, float]):
    """An extent of 1 and 1 that is not the one of an image of a single pixel."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shares)

    def __ne__(self, other: object) -> bool:
        return not self == other


SHARES: Extent = _Shares((1.0, 1.0))
"""The extent of boxes whose coordinates are shares of the image's width and height."""

MOST_CLASSES = 1 << 20
"""How many classes there may be if nothing names them."""

_ALL = frozenset((*FLAGS, *PARTS))
_DIGITS = 6  # decimal places by which boxes are compared
_LARGEST = 2.0**31  # pixels; what is further out is damage
_MOST_PIXELS = 1 << 28  # largest number of pixels in the mask of an object
_NUMERIC = frozenset({int, float})


class Rle(NamedTuple):
    """The pixels of an object: lengths of runs down the columns, the first of them outside."""

    height: int
    width: int
    counts: tuple[int, ...]

    def to_json(self) -> dict[str, list[int]]:
        """Return runs as COCO has them, not compressed."""
        return {"size": [self.height, self.width], "counts": [*self.counts]}


class Object(NamedTuple):
    """One object."""

    box: Box
    number: int  # the class number of the object
    flags: frozenset[str] = frozenset()  # some of `FLAGS`
    polygons: tuple[Polygon, ...] = ()
    rle: Rle | None = None
    keypoints: tuple[float, ...] = ()  # x, y and visibility (0, 1 or 2, as COCO has it) of each
    id: int | None = None
    area: float | None = None  # pixels
    more: Mapping[str, Any] = {}  # what else its source says of it, as JSON has it


class Objects(NamedTuple):
    """The objects of an image: a value of a field of the type `objects`."""

    items: Sequence[Object] = ()
    # width and height of the picture that they are measured on; None for those of the image
    extent: Extent | None = None


class BoxesAlone(Sequence[Object]):
    """Objects of an image with nothing but boxes, which are made when they are asked for.

    Most images are written without asking: what is known of all of their boxes is enough.
    """

    # `find` returns the objects of several images; those of this one are a part of these.
    def __init__(
        self, find: Callable[[], Sequence[Object]], part: slice, summary: BoxSummary
    ) -> None:
        self.summary = summary
        self._find, self._part = find, part

    def __len__(self) -> int:
        count: int = self._part.stop - self._part.start
        return count

    def __getitem__(self, at: Any) -> Any:
        return self._made()[at]

    def __iter__(self) -> Iterator[Object]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | BoxesAlone) and self._made() == (*other,)

    def __hash__(self) -> int:
        return hash(self._made())

    def __reduce__(self) -> Any:
        """Travel to another process as objects that are made."""
        return tuple, (self._made(),)

    def _made(self) -> tuple[Object, ...]:
        return tuple(self._find()[self._part])


class BoxSummary(NamedTuple):
    """What is known of the boxes of an image together."""

    text: str  # the items of the list that :func:`to_json` makes of them
    left: float  # of the smallest box around them
    top: float
    right: float
    bottom: float
    flat: int  # how many have no width or no height
    least: int  # the least class number
    most: int  # the largest class number


class ObjectCounts(NamedTuple):
    """Counts of the objects of a data set."""

    objects: int  # number of all objects
    classes: int  # how many classes there are
    samples: int  # how many samples have objects
    without: int  # how many have none
    per_class: Mapping[str, int] = {}  # objects by class name; empty if they were not looked at

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "objects": self.objects,
                "classes": self.classes,
                "samples": self.samples,
                "without": self.without,
                "per_class": self.per_class,
            }
        )


class Move(NamedTuple):
    """What is done to an upright image: it is resized, then a window is cut out."""

    size: tuple[int, int]  # before
    scaled: tuple[int, int]  # after resizing
    # the part of the scaled image that is kept: left, top, right and bottom
    window: tuple[int, int, int, int]


class Warp(NamedTuple):
    """What is done to an image besides, without changing its size: a map of its points.

    Both are a·x + b·y + c and d·x + e·y + f, in pixels.
    """

    inverse: tuple[float, ...]  # where the points of the new image come from
    mask_fill: int  # the number of pixels of a mask that come from beyond its edges

    @property
    def forward(self) -> tuple[float, ...]:
        """Where points go."""
        a, b, c, d, e, f = self.inverse
        det = a * e - b * d
        return e / det, -b / det, (b * f - c * e) / det, -d / det, a / det, (c * d - a * f) / det


def to_objects(value: Any) -> Objects | None:
    """Make a value of a raw one: what :func:`to_json` returns, or the list that this text says."""
    if value is None or isinstance(value, Objects):
        return value
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], bytes):
        value = value[0]
    if isinstance(value, bytes | str):
        value = json.loads(value)
    if not isinstance(value, list | tuple):
        raise ValueError("is no list of objects")
    return Objects(tuple(map(to_object, value)))


def has_form(value: Any) -> bool:
    """Return whether a value is a list of objects as :func:`to_json` writes it."""
    return isinstance(value, list | tuple) and all(
        isinstance(each, dict) and {"box", "class"} <= each.keys() for each in value
    )


def to_json(objects: Objects) -> str:
    """Return objects as the text of JSON: a list, without what is not known."""
    extent_of_pixels(objects)
    items = objects.items
    text = items.summary.text if isinstance(items, BoxesAlone) else ",".join(map(_text, items))
    return f"[{text}]"


def numbers_of(objects: Objects) -> Iterable[int]:
    """Return the class numbers of objects, the least and the largest among them."""
    items = objects.items
    if isinstance(items, BoxesAlone):
        return items.summary.least, items.summary.most
    return (each.number for each in items)


def _text(each: Object) -> str:
    box, number, flags, polygons, rle, keypoints, id, area, more = each
    if flags or polygons or rle or keypoints or more:
        return _encode(_values(each))
    # Most have a box alone, which takes half the time this way.
    x0, y0, x1, y1 = box
    text = f'{{"box":[{x0!r},{y0!r},{x1!r},{y1!r}],"class":{number}'
    text += "" if id is None else f',"id":{id}'
    text += "" if area is None else f',"area":{area!r}'
    return text + "}"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def content_of_objects(objects: Objects, exact: bool) -> bytes:
    """Return bytes that only equal objects have; or, if not exact, equal boxes and classes.

    An area that is not told equals that of the shape.
    """
    if exact:
        # A box of x, y, width and height may have another last digit than one of its edges, and
        # Parquet and COCO tell the area of each object, also where its source does not.
        values = [_values(each) for each in objects.items]
        for own, each in zip(values, objects.items, strict=True):
            own["box"] = [round(edge, _DIGITS) for edge in each.box]
            own["area"] = round(area_of_object(each), _DIGITS)
        return json.dumps(values, sort_keys=True).encode()
    # Formats that keep less have shares of the image as 32-bit floats.
    width, height = objects.extent or SHARES
    parts = []
    for each in objects.items:
        x0, y0, x1, y1 = each.box
        parts.append(struct.pack("<4f", x0 / width, y0 / height, x1 / width, y1 / height))
        parts.append(b" %d\n" % each.number)
    return b"".join(parts)


def _values(each: Object) -> dict[str, Any]:
    box, number, flags, polygons, rle, keypoints, id, area, more = each
    values: dict[str, Any] = {"box": list(box), "class": number}
    if flags:
        values |= {flag: True for flag in FLAGS if flag in flags}
    if polygons:
        values["polygons"] = [list(polygon) for polygon in polygons]
    if rle:
        values["rle"] = rle.to_json()
    if keypoints:
        values["keypoints"] = list(keypoints)
    if id is not None:
        values["id"] = id
    if area is not None:
        values["area"] = area
    if more:
        values["more"] = dict(more)
    return values


def to_object(values: Any) -> Object:
    """Make an object of a raw one; a ValueError says what is wrong with it."""
    if not isinstance(values, dict):
        raise ValueError("is no object of JSON")
    number, id, area = values.get("class"), values.get("id"), values.get("area")
    more = values.get("more") or {}
    if type(number) is not int or not isinstance(more, dict) or not (id is None or is_id(id)):
        raise ValueError("has no class number, or an id that is none")
    polygons = tuple(map(polygon, values.get("polygons") or ()))
    return Object(
        box(values.get("box")),
        number,
        frozenset(flag for flag in FLAGS if values.get(flag) is True),
        polygons,
        rle(values["rle"]) if values.get("rle") else None,
        keypoints(values.get("keypoints") or ()),
        id,
        None if area is None else numbers([area])[0],
        plain(more),
    )


def fitted(
    objects: Objects, kept: Collection[str], keeps_apart: bool, place: str, counts: Counter[str]
) -> Objects:
    """Return the objects that a place can hold which keeps some flags and parts; count the rest.

    Objects whose flag is not kept would look like ordinary ones. They are dropped, unless
    ``keeps_apart``.
    """
    if _ALL.issubset(kept):
        return objects
    gone = [part for part in PARTS if part not in kept]
    items = []
    for each in objects.items:
        if each.flags and (lost := sorted((each.flags & APART).difference(kept))):
            marks = " and ".join(lost).replace("_", "-")
            if not keeps_apart:
                counts[
                    f"object marked {marks} dropped, as {place} has no such mark: --crowd "
                    "keep keeps such objects"
                ] += 1
                continue
            counts[f"object kept without its mark: {marks}"] += 1
        items.append(each)
        for part in gone:
            if getattr(each, part) not in (None, (), {}):
                what = _SHOWN.get(part, part)
                counts[f"object without {what}, as {place} has no place for that"] += 1
        if "truncated" in each.flags and "truncated" not in kept:
            counts[f"object without the mark truncated, as {place} has no place for that"] += 1
    return objects._replace(items=tuple(items))


_SHOWN = {"rle": "runs", "more": "other attributes"}

# What each part of an object has to be. A ValueError says what is wrong with it.


def plain(more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what else is told of an object, if JSON can hold it: Python's also reads NaN."""
    for name, value in more.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise ValueError(f"its {name!r:.60} is NaN or infinite: write null instead") from None
    return more


def is_id(value: Any) -> bool:
    """Return whether a value is an id: a whole number that other tools can hold, too."""
    return type(value) is int and abs(value) < 2**63


def numbers(values: Any) -> tuple[float, ...]:
    """Return finite numbers as floats."""
    if not isinstance(values, list | tuple):
        raise ValueError(f"{values!r:.60} is no list of numbers")
    try:
        found = tuple(map(float, values)) if _NUMERIC.issuperset(map(type, values)) else (math.nan,)
    except OverflowError:
        found = (math.nan,)
    # No number is larger than all are as a vector: three times as fast as looking at each.
    if not (math.hypot(*found) < _LARGEST or all(abs(each) < _LARGEST for each in found)):
        wrong = next(v for v in values if type(v) not in _NUMERIC or not abs(v) < _LARGEST)
        is_large = type(wrong) in _NUMERIC and wrong == wrong
        what = "beyond any image" if is_large else "not a number"
        raise ValueError(f"{values!r:.60}: {wrong!r:.30} is {what}")
    return found


def box(values: Any) -> Box:
    """Return x0, y0, x1 and y1."""
    found = numbers(values)
    if len(found) != 4:
        raise ValueError(f"{values!r:.60} is no box of four numbers")
    return found


def polygon(values: Any) -> Polygon:
    """Return a polygon, which has three corners or more."""
    found = numbers(values)
    if len(found) < 6 or len(found) % 2:
        raise ValueError(f"{values!r:.60} is no polygon: it needs x and y of three corners or more")
    return found


def keypoints(values: Any) -> tuple[float, ...]:
    """Return x, y and visibility of keypoints."""
    found = numbers(values)
    if len(found) % 3:
        raise ValueError(f"{values!r:.60} are no keypoints: each has x, y and visibility")
    return found


def rle(values: Any) -> Rle:
    """Return runs, plain or as COCO compresses them."""
    size = values.get("size") if isinstance(values, dict) else None
    if not isinstance(size, list | tuple) or len(size) != 2 or {*map(type, size)} != {int}:
        raise ValueError(f"{values!r:.60} are no runs of a mask: they need a size")
    if min(size) < 1 or size[0] * size[1] > _MOST_PIXELS:
        raise ValueError(f"the mask of an object has a size of {size!r:.40} pixels")
    counts = values.get("counts")
    if isinstance(counts, str | bytes):
        counts = _decompressed(counts)
    if not isinstance(counts, list | tuple) or any(
        type(each) is not int or each < 0 for each in counts
    ):
        raise ValueError("the runs of a mask are no list of lengths")
    if sum(counts) != size[0] * size[1]:
        raise ValueError(f"the runs of a mask are {sum(counts)} pixels, not {size[0]} x {size[1]}")
    return Rle(size[0], size[1], tuple(counts))


def _decompressed(text: str | bytes) -> list[int]:
    # rleFrString of COCO's maskApi.c: digits of 5 bits from the lowest, bit 6 that more follow, the
    # last one signed; from the fourth run on, what a run has more than the one before the last.
    counts: list[int] = []
    value = shift = 0
    for byte in text.encode("latin-1", "replace") if isinstance(text, str) else text:
        digit = byte - 48
        if not 0 <= digit < 64 or shift > 30:
            raise ValueError("the runs of a mask are compressed in no way that COCO knows")
        value |= (digit & 0x1F) << shift
        shift += 5
        if not digit & 0x20:
            value -= (1 << shift) if digit & 0x10 else 0
            counts.append(value + (counts[-2] if len(counts) > 2 else 0))
            value = shift = 0
    if shift:
        raise ValueError("the runs of a mask end early")
    return counts


def box_of(polygons: Iterable[Polygon]) -> Box:
    """Return the smallest box around polygons."""
    corners = [each for polygon in polygons for each in polygon]
    across, down = corners[::2], corners[1::2]
    return min(across), min(down), max(across), max(down)


def corners_of(polygon: Polygon) -> list[tuple[float, float]]:
    """Return x and y of each corner."""
    return list(zip(polygon[::2], polygon[1::2], strict=True))


def area_of(polygon: Polygon) -> float:
    """Return the area of a polygon."""
    corners = corners_of(polygon)
    crosses = (corners[at - 1][0] * y - x * corners[at - 1][1] for at, (x, y) in enumerate(corners))
    return abs(sum(crosses)) / 2


def area_of_object(each: Object) -> float:
    """Return the area that an object is said to have; else that of its polygons, or of its box."""
    return visible_area(each) if each.area is None else each.area


def visible_area(each: Object) -> float:
    """Return the area by which an object is judged: of its polygons, its mask, or its box."""
    x0, y0, x1, y1 = each.box
    area = sum(map(area_of, each.polygons)) or float(pixels_of(each.rle))
    return area or max(x1 - x0, 0.0) * max(y1 - y0, 0.0)


def pixels_of(runs: Rle | None) -> int:
    """Return how many pixels are inside."""
    return sum(runs.counts[1::2]) if runs else 0


def box_of_sides(values: Any) -> Box:
    """Return the box of x, y, width and height."""
    found = numbers(values)
    if len(found) != 4 or found[2] < 0 or found[3] < 0:
        raise ValueError(f"bbox is {values!r:.60}, not x, y, width and height")
    x, y, width, height = found
    return x, y, x + width, y + height


def extent_of_pixels(objects: Objects) -> None:
    """Refuse objects whose coordinates are no pixels, because their sample has no image."""
    if isinstance(objects.extent, _Shares) and objects.items:
        raise BadSample("has boxes in shares of the size of its image, and no image that tells it")


def extent_of(objects: Objects) -> Extent:
    """Return the size of the image, for formats that write boxes as shares of it."""
    if objects.extent is None:
        raise BadSample("has boxes, but no image that tells its size")
    return objects.extent

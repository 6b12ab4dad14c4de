"""Pascal VOC's annotations: an XML file for each image.

Its boxes count pixels from 1, and the last pixel is inside: ``xmin`` 1 and ``xmax`` 1 are the first
pixel. Some tools count from 0, and write edges.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from xml.etree.ElementTree import Element

from dsprep.annotations.elements import root_of
from dsprep.annotations.objects import Extent, Object, Objects
from dsprep.tuples import NamedTuple

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_FLAGS = ("difficult", "truncated")


class Named(NamedTuple):
    """An object as the XML has it."""

    name: str  # the name of the object's class
    sides: tuple[float, ...]  # xmin, ymin, xmax and ymax
    flags: frozenset[str]
    more: Mapping[str, str]  # its other elements that hold a text


class VocImage(NamedTuple):
    """The size and the objects of an image, from its XML file."""

    extent: Extent | None
    named: Sequence[Named]
    # elements of an object that have elements of their own, such as `part`, with counts
    unread: Mapping[str, int]


def parse(data: bytes) -> VocImage:
    """Read the XML of an image."""
    root = root_of(data)
    if root.tag != "annotation":
        raise ValueError(f"is no annotation of VOC's: <{root.tag:.40}>")
    named: list[Named] = []
    unread: Counter[str] = Counter()
    for each in root.iterfind("object"):
        named.append(_named(_texts([*each, *each.iterfind("bndbox/*")])))
        unread.update(part.tag for part in each if len(part) and part.tag != "bndbox")
    size = _texts(root.iterfind("size/*"))
    width, height = (_number(size.get(side) or "0", side) for side in ("width", "height"))
    return VocImage((width, height) if width and height else None, named, unread)


def _texts(elements: Iterable[Element]) -> dict[str, str]:
    """Return the texts of elements that hold no others, by name."""
    return {each.tag: (each.text or "").strip() for each in elements if not len(each)}


def counts_from_0(voc: VocImage) -> bool:
    """Return whether a coordinate shows that they do not count from 1."""
    return any(side < 1 for each in voc.named for side in each.sides[:2])


def objects_of(voc: VocImage, numbers: Mapping[str, int], origin: int) -> Objects:
    """Return the objects of an image, given the numbers of classes by their names."""
    return Objects(tuple(_object(each, numbers, origin) for each in voc.named), voc.extent)


def _object(each: Named, numbers: Mapping[str, int], origin: int) -> Object:
    x0, y0, x1, y1 = each.sides
    box = x0 - origin, y0 - origin, x1, y1
    if each.name not in numbers:
        raise ValueError(f"the class {each.name!r:.60} is not among the {len(numbers)} classes")
    return Object(box, numbers[each.name], each.flags, more=each.more)


def _named(texts: Mapping[str, str]) -> Named:
    name = texts.get("name")
    if not name:
        raise ValueError("an object has no name")
    if missing := [side for side in _SIDES if side not in texts]:
        raise ValueError(f"an object {name!r:.60} has no {missing[0]}")
    sides = tuple(_number(texts[side], side) for side in _SIDES)
    if sides[0] > sides[2] or sides[1] > sides[3]:
        raise ValueError(f"the box of {name!r:.60} ends before it begins: {sides}")
    known = {"name", "bndbox", *_SIDES, *_FLAGS}
    return Named(
        name,
        sides,
        frozenset(flag for flag in _FLAGS if texts.get(flag, "0") not in ("0", "")),
        {tag: value for tag, value in texts.items() if tag not in known and value},
    )


def _number(text: str, tag: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) < 2**31:
        raise ValueError(f"{tag} is {text!r:.40}, not a number of pixels")
    return value

"""Create ML's JSON: a list of images with labeled boxes, whose x and y are the center in pixels.

This is Apple's default (``MLObjectDetector.AnnotationType.boundingBox``); no file tells another
unit, anchor or origin. Roboflow writes ``image`` and ``annotations``; Apple's own pages also have
``imagefilename`` and ``annotation``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dsprep.annotations.objects import Object, box_of_sides, numbers, plain

_IMAGES, _LISTS = ("imagefilename", "image"), ("annotations", "annotation")
_SIDES = ("x", "y", "width", "height")
_KNOWN = {"label", "coordinates", "type"}


def image_of(item: Mapping[str, Any]) -> str:
    """Return what an item calls its image; a ValueError says that it names none."""
    name = next((item[key] for key in _IMAGES if key in item), None)
    if not isinstance(name, str) or not name:
        raise ValueError("names no image")
    return name


def parse_item(item: Mapping[str, Any]) -> Sequence[tuple[str, Object]]:
    """Return the objects of an item, each with the name of its class."""
    listed = next((item[key] for key in _LISTS if key in item), None)
    if not isinstance(listed, list):
        raise ValueError("has no list of annotations")
    return list(map(_object, listed))


def are_shares(shapes: Sequence[tuple[str, Object]]) -> bool:
    """Return whether the boxes of an image are shares of its size: no edge is beyond 1."""
    return bool(shapes) and all(max(map(abs, each.box)) <= 1 for _, each in shapes)


def _object(values: Any) -> tuple[str, Object]:
    if not isinstance(values, dict):
        raise ValueError(f"an annotation is {values!r:.40}")
    label, sides = values.get("label"), values.get("coordinates")
    if not isinstance(label, str) or not label:
        raise ValueError(f"the label of an annotation is {label!r:.40}")
    if not isinstance(sides, dict) or not sides.keys() >= {*_SIDES}:
        raise ValueError(f"the coordinates of {label!r:.40} are no x, y, width and height")
    x, y, width, height = numbers([sides[side] for side in _SIDES])
    box = box_of_sides((x - width / 2, y - height / 2, width, height))
    more = {name: value for name, value in values.items() if name not in _KNOWN}
    return label, Object(box, -1, more=plain(more))

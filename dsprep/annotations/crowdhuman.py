"""CrowdHuman's line of an image: an object of JSON with the boxes of its persons.

A person has three boxes of x, y, width and height in pixels: ``fbox`` of the full body, which may
reach beyond the image, ``vbox`` of what is visible, and ``hbox`` of the head. The tag ``mask``
marks regions that nobody labeled (crowdhuman.org, "Data format").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dsprep.annotations.objects import Object, box_of_sides, is_id, plain
from dsprep.units import is_text

_IGNORED = "mask"
_OTHER = {"vbox": "visible", "hbox": "head"}


def parse_boxes(boxes: Any) -> tuple[Sequence[tuple[str, Object]], Counter[str]]:
    """Return the full bodies in an image, each with its tag; and the boxes that have no place."""
    if not isinstance(boxes, list) or not all(isinstance(each, dict) for each in boxes):
        raise ValueError(f"its gtboxes are {boxes!r:.60}, no list of objects of JSON")
    left_out = Counter(
        f"{name} box" for each in boxes for key, name in _OTHER.items() if key in each
    )
    return list(map(_object, boxes)), left_out


def _object(values: Mapping[str, Any]) -> tuple[str, Object]:
    tag, told = values.get("tag"), values.get("extra") or {}
    if not is_text(tag) or not tag:
        raise ValueError(f"the tag of a box is {tag!r:.40}")
    if not isinstance(told, dict):
        raise ValueError(f"the extra of a box is {told!r:.60}")
    flags = {"crowd": tag == _IGNORED, "difficult": tag != _IGNORED and bool(told.get("ignore"))}
    id = told.get("box_id")
    more = {name: value for name, value in told.items() if name not in ("box_id", "ignore")}
    return tag, Object(
        box_of_sides(values.get("fbox")),
        -1,
        frozenset(flag for flag, is_so in flags.items() if is_so),
        id=id if is_id(id) else None,
        more=plain(more),
    )

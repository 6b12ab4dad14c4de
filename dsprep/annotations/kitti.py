"""KITTI's labels: a text for each image of the left color camera, with a row for each object.

A row has 15 columns, as readme.txt of KITTI's object development kit says: the type; how much of
the object is truncated, from 0 to 1; how it is occluded, from 0 to 3; alpha; the box, with left,
top, right and bottom; height, width and length in meters; a place in coordinates of the camera; and
the rotation about its vertical axis. Results have a 16th, the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsprep.annotations.named import Named, NamedObjects, numbers_in, read_rows
from dsprep.annotations.objects import Object
from dsprep.patterns import pattern

_COLUMNS = (15, 16)
_REGION = "DontCare"  # a region whose objects nobody labeled
_UNKNOWN = -1.0  # of truncation and occlusion

ROW = pattern(r"[^\W\d][^\s,;:|#]*(?:[ \t]+[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?){14,15}")
"""What a row is like."""


def parse(data: bytes) -> NamedObjects:
    """Return the objects of an image."""
    return NamedObjects(read_rows(data, _object))


def _object(cells: Sequence[str]) -> Named:
    if len(cells) not in _COLUMNS:
        raise ValueError(f"has {len(cells)} columns: a row of KITTI has 15, or 16 with a score")
    name, values = cells[0], numbers_in(cells[1:])
    x0, y0, x1, y1 = values[3:7]
    if x0 > x1 or y0 > y1:
        raise ValueError(f"the box of {name!r:.60} ends before it begins: {x0, y0, x1, y1}")
    flags = {"crowd": name == _REGION, "truncated": values[0] > 0}
    own = frozenset(flag for flag, is_so in flags.items() if is_so)
    return name, Object((x0, y0, x1, y1), -1, own, more=_attributes(values))


def _attributes(values: Sequence[float]) -> dict[str, Any]:
    """Return what a row tells besides the box, without what it does not know.

    The names of the first two are those of readLabels.m in the development kit. An object without a
    size has no place in space.
    """
    truncation, occlusion, alpha = values[:3]
    size, place, rotation, score = values[7:10], values[10:13], values[13], values[14:]
    found: dict[str, Any] = {"truncation": truncation, "occlusion": occlusion}
    found = {name: value for name, value in found.items() if value != _UNKNOWN}
    if min(size) > 0:
        found |= {"alpha": alpha, "dimensions": [*size], "location": [*place]}
        found["rotation_y"] = rotation
    return found | ({"score": score[0]} if score else {})

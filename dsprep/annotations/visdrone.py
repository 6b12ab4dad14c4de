"""VisDrone's labels of objects in images: a text for each image, with a row for each object.

A row has left, top, width and height of the box in pixels, a score, the category, and how much of
the object is truncated and occluded, with commas between. A score of 0 marks what evaluation
ignores. Truncation is 0 or 1, occlusion 0 to 2, and the categories are 0 to 11
(aiskyeye.com, "Object detection in images"). Some lines of the official files end in a comma.
"""

from __future__ import annotations

from collections.abc import Sequence

from dsprep.annotations.named import Named, NamedObjects, numbers_in, read_rows
from dsprep.annotations.objects import Object, box_of_sides
from dsprep.patterns import pattern

_COLUMNS = 8
_NAMES = (
    *("ignored regions", "pedestrian", "people", "bicycle", "car", "van", "truck", "tricycle"),
    *("awning-tricycle", "bus", "motor", "others"),
)

ROW = pattern(r"(?:\d+,){4}[01],(?:\d|1[01]),[01],[0-2],?")
"""What a row is like."""


def parse(data: bytes) -> NamedObjects:
    """Return the objects of an image; regions that nobody labeled are a crowd."""
    return NamedObjects(read_rows(data, _object, ","))


def _object(cells: Sequence[str]) -> Named:
    own = cells[: -1 if cells[-1] == "" else None]
    if len(own) != _COLUMNS:
        raise ValueError(f"has {len(own)} columns: a row of VisDrone has {_COLUMNS}")
    values = numbers_in(own)
    score, category, truncation, occlusion = values[4:]
    if category not in range(len(_NAMES)):
        raise ValueError(f"the category is {own[5]}: VisDrone has 0 to {len(_NAMES) - 1}")
    flags = {"crowd": not category, "difficult": not score, "truncated": truncation > 0}
    told = frozenset(flag for flag, is_so in flags.items() if is_so)
    more = {"truncation": truncation, "occlusion": occlusion}
    return _NAMES[int(category)], Object(box_of_sides(values[:4]), -1, told, more=more)

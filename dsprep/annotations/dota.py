"""DOTA's labels: a text for each image, with a row of four corners for each object.

A row has x and y of the corners of an oriented box in pixels, the class, and a 1 if the object is
difficult. Two lines may stand above: the source of the image, and the size of a pixel on the ground
(captain-whu.github.io/DOTA, "Annotation format").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dsprep.annotations.named import Named, NamedObjects, numbers_in, read_rows
from dsprep.annotations.objects import Object, box_of
from dsprep.patterns import pattern

_CORNERS = 8  # numbers
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"

HEAD_LINE = pattern(r"(imagesource|gsd)\s*:.*")
"""What a line above the rows is like."""

ROW = pattern(rf"(?:{_NUMBER}[ \t]+){{{_CORNERS}}}[^\W\d][^\s,]*(?:[ \t]+-?\d+)?")
"""What a row is like."""


def parse(data: bytes) -> NamedObjects:
    """Return the objects of an image, whose corners are those of a polygon."""
    left_out = Counter[str]()

    def read(cells: Sequence[str]) -> Named | None:
        if head := HEAD_LINE.fullmatch(" ".join(cells)):
            left_out[f"{head[1]} line"] += 1
            return None
        return _object(cells)

    rows = read_rows(data, read)
    return NamedObjects([each for each in rows if each is not None], left_out=left_out)


def _object(cells: Sequence[str]) -> Named:
    if len(cells) not in (_CORNERS + 1, _CORNERS + 2):
        raise ValueError(
            f"has {len(cells)} columns: a row of DOTA has 8 numbers, a class and 0 or 1"
        )
    corners, name, *difficult = numbers_in(cells[:_CORNERS]), *cells[_CORNERS:]
    flags = frozenset({"difficult"} if difficult and difficult[0] != "0" else ())
    return name, Object(box_of([corners]), -1, flags, polygons=(corners,))

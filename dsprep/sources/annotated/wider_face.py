"""WIDER FACE's texts: the name of an image, the number of its faces, and a line for each.

The readme of ``wider_face_split`` tells the order of the numbers: x, y, width and height, then
blur, expression, illumination, invalid, occlusion and pose. An image without faces has a line of
zeros. Datumaro writes neither that nor the 0 for such an image, ``-`` for what is not known, and
the class of an object that is no face after the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from dsprep.annotations.objects import Object, box_of_sides
from dsprep.sources.annotated.spans import LineSpans, ParsedImage
from dsprep.units import format_count

_ATTRIBUTES = ("blur", "expression", "illumination", "invalid", "occlusion", "pose")
_FACE = "face"
_COUNT = re.compile(r"\s*\d{1,6}\s*")
_ZEROS = re.compile(r"\s*0(?:\s+[0-]){3,9}\s*")  # the line of an image without faces
_INVALID = "with faces that are marked invalid, which are kept as any others"


class WiderFaces(LineSpans):
    """The faces of each image."""

    noun: ClassVar[str] = "image"

    def belongs(self, lines: Sequence[str], line: str) -> bool:
        if len(lines) == 1:
            return _COUNT.fullmatch(line) is not None
        count = int(lines[1])
        return len(lines) < 2 + count or (
            count == 0 and len(lines) == 2 and _ZEROS.fullmatch(line) is not None
        )

    def name_of(self, piece: Any) -> str:
        name: str = piece[0].strip()
        if _COUNT.fullmatch(name) or len(name.split()) > 3 and not name.lower().endswith("g"):
            raise ValueError(f"{name!r:.60} stands where an image is named: a count is wrong")
        return name

    def parse(self, piece: Any) -> ParsedImage:
        count = int(piece[1]) if len(piece) > 1 else 0
        rows = piece[2 : 2 + count]
        if len(rows) < count:
            raise ValueError(f"has {format_count(len(rows), 'line')} of faces, not {count:,}")
        faces = list(map(_face, rows))
        has_invalid = any(face.more.get("invalid") for _, face in faces)
        return ParsedImage(faces, remarks=[_INVALID] if has_invalid else ())


def _face(row: str) -> tuple[str, Object]:
    """Return an object, with the name of its class, of a line."""
    sides, rest = row.split()[:4], row.split()[4:]
    name = rest.pop() if len(rest) in (1, 7) else _FACE
    if len(sides) < 4 or len(rest) not in (0, 6):
        raise ValueError(f"the line {row!r:.60} has neither 4 nor 10 numbers")
    told = [each for each in zip(_ATTRIBUTES, rest, strict=False) if each[1] != "-"]
    more = {attribute: _number(value) for attribute, value in told}
    return name, Object(box_of_sides(list(map(float, sides))), -1, more=more)


def _number(value: str) -> int:
    if value in ("True", "False"):
        return int(value == "True")
    if not re.fullmatch(r"-?\d{1,9}", value):
        raise ValueError(f"an attribute of a face is {value!r:.40}, not a number")
    return int(value)

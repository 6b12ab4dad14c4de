"""The texts of CamVid: names and colors of classes, and the frames of a side."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from dsprep.annotations.masks import Color
from dsprep.errors import SourceError
from dsprep.sources.annotated.mask_sets import text_beside
from dsprep.sources.annotated.parallel_masks import MaskMeaning, Parallel
from dsprep.units import lines_of

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace

# Of the masks that SegNet's tutorial has, where no table names them.
OF_SEGNET = (
    *("Sky", "Building", "Pole", "Road", "Pavement", "Tree", "SignSymbol", "Fence", "Car"),
    *("Pedestrian", "Bicyclist", "Unlabelled"),
)
_LEVELS = r"\s*(?P<red>\d{1,3})[\s,]+(?P<green>\d{1,3})[\s,]+(?P<blue>\d{1,3})"
_ROW = re.compile(rf"{_LEVELS}[\s,]+(?P<name>\S.*)")
_CELLS = re.compile(rf"(?P<name>[^,]+),{_LEVELS}")


def meaning_of(place: AnnotatedPlace, found: Parallel, *, are_frames: bool) -> MaskMeaning:
    """Read the names and colors of classes, and the frames that are for validation."""
    path, text = text_beside(place, "label_colors.txt", "class_dict.csv")
    named = colors_in(text, path) if path else {}
    codes, lines = text_beside(place, "codes.txt")
    names = tuple(named.values()) or tuple(filter(None, map(str.strip, lines_of(lines))))
    if not names and are_frames and found.sides:
        names = OF_SEGNET
    valid, listed = text_beside(place, "valid.txt")
    own = {line.strip() for line in lines_of(listed)}
    are_valid = [posixpath.basename(image) in own for image in found.images]
    sides = tuple("val" if each else "train" for each in are_valid) if any(are_valid) else ()
    used = (path, "" if named else codes, valid if sides else "")
    colors = {color: number for number, color in enumerate(named)} or None
    return MaskMeaning(names, colors, sides=sides, used=tuple(filter(None, used)))


def colors_in(text: str, path: str) -> dict[Color, str]:
    """Return the names of classes by color, in their order.

    A line is ``64 128 64 Animal``, as the authors have it, or ``Animal,64,128,64`` behind a header.
    """
    are_cells = path.endswith(".csv")
    lines = [line.strip() for line in lines_of(text) if line.strip() and line[0] != "#"]
    rows = [(line, (_CELLS if are_cells else _ROW).fullmatch(line)) for line in lines]
    found: dict[Color, str] = {}
    for line, row in rows[1:] if are_cells else rows:
        levels = [int(row[level]) if row else 256 for level in ("red", "green", "blue")]
        if row is None or max(levels) > 255:
            raise SourceError(f"{path}: {line!r:.60} is no color of a class: 64 128 64 Animal")
        red, green, blue = levels
        if (red, green, blue) in found:
            raise SourceError(f"{path}: {line!r:.60} has a color that is there twice")
        found[red, green, blue] = row["name"].strip()
    return found

"""The texts of CamVid: names and colors of classes, and the frames of a side."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from dsprep.sources.annotated.mask_sets import text_beside
from dsprep.sources.annotated.masks import read_color_table
from dsprep.sources.annotated.parallel_masks import MaskMeaning, Parallel
from dsprep.units import lines_of

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace

# Of the masks that SegNet's tutorial has, where no table names them.
OF_SEGNET = (
    *("Sky", "Building", "Pole", "Road", "Pavement", "Tree", "SignSymbol", "Fence", "Car"),
    *("Pedestrian", "Bicyclist", "Unlabelled"),
)


def meaning_of(place: AnnotatedPlace, found: Parallel, *, are_frames: bool) -> MaskMeaning:
    """Read the names and colors of classes, and the frames that are for validation."""
    path, text = text_beside(place, "label_colors.txt", "class_dict.csv")
    named = read_color_table(text, path)
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

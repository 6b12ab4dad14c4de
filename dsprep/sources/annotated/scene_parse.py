"""The texts of SceneParse150: names of classes, and the scene of each image."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.sources.annotated.image_values import class_of_images
from dsprep.sources.annotated.mask_sets import text_beside
from dsprep.sources.annotated.parallel_masks import MaskMeaning, Parallel
from dsprep.units import lines_of

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_OTHER = "other"  # what the number 0 means: pixels of none of the classes
_MOST = 255


def meaning_of(source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
    """Read the names of classes, and the scene of each image."""
    path, text = text_beside(place, "objectInfo150.txt")
    names = names_in(text, path) if path else ()
    scenes, listed = text_beside(place, "sceneCategories.txt")
    rows = (line.split() for line in lines_of(listed))
    known = {row[0]: row[1] for row in rows if len(row) == 2}
    own = [known.get(posixpath.splitext(posixpath.basename(each))[0]) for each in found.images]
    label = class_of_images(own, source, scenes) if any(own) else None
    used = (path, *([scenes] if label else []))
    return MaskMeaning(names, images=label, used=tuple(filter(None, used)))


def names_in(text: str, path: str) -> tuple[str, ...]:
    """Return the names of classes, by number: the column ``Name`` behind the number in ``Idx``.

    The file has a header line and columns divided by tabs (the README of the benchmark).
    """
    header, *rows = (line.split("\t") for line in lines_of(text) if line.strip())
    try:
        number, name = header.index("Idx"), header.index("Name")
        named = {int(row[number]): row[name].strip() for row in rows}
    except (ValueError, IndexError):
        raise SourceError(f"{path}: has no columns Idx and Name, divided by tabs") from None
    if [*named] != [*range(1, len(named) + 1)] or not 0 < len(named) < _MOST:
        raise SourceError(f"{path}: the numbers in Idx do not count from 1")
    return (_OTHER, *named.values())

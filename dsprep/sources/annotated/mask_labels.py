"""What directories or names of files tell of images that have masks and no annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.places.files import sides_of
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.sources.labels.classes import (
    classes_in_names,
    classes_of_directories,
    depth_unless_classes,
)

if TYPE_CHECKING:
    import polars as pl

    from dsprep.sources.source import Source


def labels_beside_masks(source: Source, paths: pl.Series) -> tuple[ImageValues, list[Finding]]:
    """Return the labels that images would have without masks, with notes on them.

    Directories of a segmentation set may be no classes. What the rules for classes refuse is then
    a note, unless the user asks for labels.

    Args:
        source: What the user named, with the options.
        paths: The paths of the images.
    """
    root, known = source.root, source.known_classes()
    try:
        depth = source.sides_from or depth_unless_classes(paths, known, root)
        if source.label_regex is not None:
            below = sides_of(paths, depth, root)[0] if depth else paths
            regex, label_type = source.label_regex, source.choice.label_type
            label, classes, notes = classes_in_names(below, root, known, regex, label_type)
        else:
            label, classes, notes = classes_of_directories(paths, root, known, depth=depth)
    except SourceError as error:
        if source.label_regex is not None or known.classes:
            raise
        said = str(error).removeprefix(f"{root}: ")
        return ImageValues(), [Finding("note", "", f"no labels: {said}")]
    # Notes on directories that are no classes say what is plain beside masks.
    return (ImageValues(), []) if label is None else (ImageValues(label, classes), notes)

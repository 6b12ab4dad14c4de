"""What directories or names of files tell of images that have masks and no annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources.annotated.image_values import ImageValues
from dsprep.sources.labels.classes import depth_unless_classes, labels_in_paths

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
        label, classes, notes = labels_in_paths(paths, source, known, depth=depth)
    except SourceError as error:
        if source.label_regex is not None or known.classes:
            raise
        said = str(error).removeprefix(f"{root}: ")
        return ImageValues(), [Finding("note", "", f"no labels: {said}")]
    # Notes on directories that are no classes say what is plain beside masks.
    return (ImageValues(), []) if label is None else (ImageValues(label, classes), notes)

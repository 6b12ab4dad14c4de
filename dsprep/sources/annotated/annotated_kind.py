"""Images with the annotations or masks that a user names, as a kind of source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.kind import HEAD, Claim, SourceKind, SourcePlace, Sure
from dsprep.storage.files import is_file, open_file

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.files import Files
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source


class AnnotatedKind(SourceKind):
    """Images with the annotations or masks that a user names, or with a list of boxes.

    Annotations that lie among the images of a tree are recognized when that is read (`added_to`).
    """

    noun: ClassVar[str] = "images with annotations"
    adds: ClassVar[bool] = True
    surest: ClassVar[Sure] = Sure.NAMED
    _lists_boxes: bool = False

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.annotated import AnnotatedReader
        from dsprep.sources.annotated.masks import (
            BlackAndWhiteMasks,
            Masks,
            SegmentMasks,
            TableMasks,
        )

        return {
            "annotated-reader": AnnotatedReader,
            "masks": Masks,
            "black-and-white-masks": BlackAndWhiteMasks,
            "segment-masks": SegmentMasks,
            "table-masks": TableMasks,
        }

    @property
    def named(self) -> str:
        return "--annotations"

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.list_file is not None and source.kind is None:
            self._lists_boxes = place.is_dir and has_boxes(source.list_file)
        if source.annotations:
            return Claim(Sure.NAMED, "images with --annotations")
        if source.masks is not None:
            return Claim(Sure.NAMED, "images with --masks")
        return Claim(Sure.NAMED, "a list of boxes") if self._lists_boxes else None

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        from dsprep.sources.annotated.annotated import catalog_of, list_images
        from dsprep.sources.annotated.recognized import below_top, named_scan, recognized_scan
        from dsprep.sources.leftover import looked_into

        source.require_alone()
        below, files = below_top(source, list_images(source, run_all))
        scan, labels_files = None, source.chooses or source.label_regex is not None
        if source.annotations:
            scan = named_scan(below, files, run_all)
        elif source.kind is None and (self._lists_boxes or not labels_files):
            # A list of boxes that was made of this folder chooses from its annotations, which say
            # more.
            scan = recognized_scan(below, files, run_all)
        if scan is source.masks is None:
            return None
        return looked_into(below, files, catalog_of(source, scan, files, run_all), run_all)

    def added_to(self, source: Source, files: Files, run_all: RunAll) -> SourceScan | None:
        from dsprep.sources.annotated.recognized import below_top, recognized_scan

        below, own = below_top(source, files)
        scan = recognized_scan(below, own, run_all)
        if scan is None:
            return None
        from dsprep.sources.annotated.annotated import catalog_of
        from dsprep.sources.leftover import looked_into

        return looked_into(below, own, catalog_of(source, scan, own, run_all), run_all)


def has_boxes(path: str) -> bool:
    """Return whether the first line of a list has boxes."""
    from dsprep.annotations.mxnet import is_detection_label

    if not is_file(path):
        return False
    with open_file(path) as file:
        cells = file.pread(HEAD, 0).split(b"\n")[0].split(b"\t")[1:-1]
    try:
        return is_detection_label(tuple(map(float, cells)))
    except ValueError:
        return False

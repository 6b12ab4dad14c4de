"""Images with a line of metadata for each, as a kind of source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.pictures.parts_kind import is_downloaded

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source


class DescribedKind(SourceKind):
    """A folder that dsprep wrote, or Hugging Face's ``imagefolder``."""

    names: ClassVar[tuple[str, ...]] = ("imagefolder",)
    help: ClassVar[str] = "imagefolder, as Hugging Face has it"
    noun: ClassVar[str] = "imagefolder"
    surest: ClassVar[Sure] = Sure.RECORDED
    _metadata: list[str] | None = None  # the files of metadata, if the claim looked for them

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.pictures.described import (
            DescribedColumns,
            DescribedReader,
            FolderReader,
        )

        return {
            "described-reader": DescribedReader,
            "folder-reader": FolderReader,
            "described-columns": DescribedColumns,
        }

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        from dsprep.sources.pictures.described import listing_beside, metadata_below

        if source.chooses or source.others or not place.is_dir:
            return None
        if source.kind is None and is_downloaded(place):
            return None  # the reports of img2dataset tell more than a file of metadata
        sure = Sure.RECORDED if source.kind is None else Sure.NAMED
        if not (source.kind or source.classes) and listing_beside(place.path):
            return Claim(sure, "a listing by dsprep")
        self._metadata = metadata_below(place)
        return Claim(sure, self._metadata[0]) if self._metadata else None

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        from dsprep.sources.pictures.described import metadata_below, read_described, read_written

        if self._metadata is None:
            if found := read_written(source.root, run_all):
                return found
            self._metadata = metadata_below(place)  # the folder has been edited
        if not self._metadata:
            return None
        from dsprep.places.files import with_sides_of_directories

        known = source.known_classes()
        catalog, findings = read_described(
            source.root, self._metadata, known=known, run_all=run_all
        )
        return with_sides_of_directories(catalog)[0], findings

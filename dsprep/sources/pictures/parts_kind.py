"""Files that make up samples, as a kind of source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.declared import Options
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.sources.pictures.parts_options import PartsOptions

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.places.scan import RunAll
    from dsprep.sources.source import Source

_STATS = "_stats.json"  # names of img2dataset's reports end with this


class PartsKind(SourceKind):
    """Samples of several files each: ``--parts``, ``--pair``, or files that img2dataset wrote."""

    names: ClassVar[tuple[str, ...]] = ("parts",)
    help: ClassVar[str] = "parts, files that make up samples"
    noun: ClassVar[str] = "files that make up samples"
    options: ClassVar[type[Options]] = PartsOptions
    same_by_name: ClassVar[bool] = False  # the reports of img2dataset then tell nothing
    surest: ClassVar[Sure] = Sure.RECORDED

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.readers import ArchivedParts, PartFiles, PartReader

        return {"part-reader": PartReader, "part": PartFiles, "archived-parts": ArchivedParts}

    def is_implied(self, source: Source) -> bool:
        is_manifest = source.kind is None and source.is_manifest
        given = bool(source.parts or source.pairs)
        return given and not is_manifest and source.kind != "augmented-manifest"

    def takes_as_given(self, source: Source) -> bool:
        return source.kind in self.names

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.kind is None and not source.chooses and is_downloaded(place):
            return Claim(Sure.RECORDED, "reports of img2dataset")
        return self.named_claim(source)

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan | None:
        from dsprep.sources.leftover import files_beside
        from dsprep.sources.pictures.parts import read_parts

        source.require_alone()
        is_downloaded = source.kind is None
        found = read_parts(source, run_all, downloaded=is_downloaded)
        if not is_downloaded:
            return found
        # The directories are listed for parts, and not what lies above them.
        return found[0], [*found[1], *files_beside(place, ())]


def is_downloaded(place: SourcePlace) -> bool:
    """Return whether img2dataset wrote files: in directories, with a table beside each."""
    found = {entry.name: entry for entry in place.peek}
    return any(
        name + _STATS in found and f"{name}.parquet" in found and entry.is_dir()
        for name, entry in found.items()
    )

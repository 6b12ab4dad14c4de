"""The lists of FGVC-Aircraft, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_LIST = pattern(r"(?:^|/)images_(?:variant|family|manufacturer)_(?:train|val|trainval|test)\.txt$")


class AircraftKind(AnnotationKind):
    """FGVC-Aircraft: lists of the variant, the family and the manufacturer of each image."""

    names: ClassVar = ("fgvc-aircraft",)
    words: ClassVar = "FGVC-Aircraft"
    contents: ClassVar = (
        "the variant of each image as its class, `family` and `manufacturer`, the box; sides"
    )
    not_read: ClassVar = "the lists of `trainval` beside those of `train` and `val`"
    example: ClassVar = "dsprep pack fgvc-aircraft-2013b/data shards --to webdataset"
    files: ClassVar = pattern(
        r"(?:^|/)(?:images_(?:(?:variant|family|manufacturer)_)?(?:train|val|trainval|test)"
        r"|images_box|variants|families|manufacturers)\.txt$"
    )
    texts: ClassVar = files
    reads: ClassVar = ("--label-column",)
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def is_own(self, path: str, head: bytes) -> bool:
        return _LIST.search(path) is not None

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = place.first(_LIST, "txt")
        return Claim(Sure.MARKED, found) if found else None

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.single_boxes import scan_aircraft

        return scan_aircraft(source, place, self.files)

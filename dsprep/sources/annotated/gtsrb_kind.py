"""The tables of the German Traffic Sign Recognition Benchmark, as a kind of annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_CSV = re.compile(r"(?i)\.csv$")
_ROI = re.compile(r"(?i)[^\n]*\bRoi\.X1[;,]Roi\.Y1[;,]Roi\.X2[;,]Roi\.Y2\b")


class GtsrbKind(AnnotationKind):
    """GTSRB: traffic signs, with a class and a box each, in a table for each class or side."""

    names: ClassVar = ("gtsrb",)
    words: ClassVar = "GTSRB"
    contents: ClassVar = "the class of each image, and the box of its sign; sides"
    not_read: ClassVar = "`Meta.csv` and its pictures of signs"
    example: ClassVar = "dsprep pack GTSRB shards --to webdataset"
    texts: ClassVar = _CSV
    takes_several: ClassVar = True
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def is_own(self, path: str, head: bytes) -> bool:
        return _CSV.search(path) is not None and _ROI.match(text_of(head)) is not None

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        heads = place.heads(_CSV)
        found = min((path for path in heads if self.is_own(path, heads[path])), default="")
        return Claim(Sure.MARKED, found) if found else None

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        return self._own(place)

    def _own(self, place: AnnotatedPlace) -> list[str]:
        tables = sorted(place.with_extension("csv"))
        heads = place.heads_of(tables)
        return [path for path in tables if self.is_own(path, heads.get(path, b""))]

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.single_boxes import scan_gtsrb

        return scan_gtsrb(source, place, self._own(place))

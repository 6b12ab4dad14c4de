"""The tables of the German Traffic Sign Recognition Benchmark, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.box_set_kind import BoxSetKind
from dsprep.sources.annotation_kind import AnnotatedPlace

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_CSV = pattern(r"(?i)\.csv$")
_ROI = pattern(r"(?i)[^\n]*\bRoi\.X1[;,]Roi\.Y1[;,]Roi\.X2[;,]Roi\.Y2\b")


class GtsrbKind(BoxSetKind):
    """GTSRB: traffic signs, with a class and a box each, in a table for each class or side."""

    names: ClassVar = ("gtsrb",)
    words: ClassVar = "GTSRB"
    contents: ClassVar = "the class of each image, and the box of its sign; sides"
    not_read: ClassVar = "`Meta.csv` and its pictures of signs"
    example: ClassVar = "dsprep pack GTSRB shards --to webdataset"
    texts: ClassVar = _CSV
    takes_several: ClassVar = True
    marker: ClassVar = _CSV
    endings: ClassVar = ("csv",)
    begins: ClassVar = _ROI

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        return self._own(place)

    def _own(self, place: AnnotatedPlace) -> list[str]:
        tables = sorted(place.with_extension("csv"))
        heads = place.heads_of(tables)
        return [path for path in tables if self.is_own(path, heads.get(path, b""))]

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.single_boxes import scan_gtsrb

        return scan_gtsrb(source, place, self._own(place))

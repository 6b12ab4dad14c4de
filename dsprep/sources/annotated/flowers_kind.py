"""Oxford Flowers-102, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_LABELS = pattern(r"(?:^|/)imagelabels\.mat$")


class FlowersKind(AnnotationKind):
    """Oxford Flowers-102: a class and a side of each image, in files of MATLAB."""

    names: ClassVar = ("flowers-102",)
    words: ClassVar = "Oxford Flowers-102"
    contents: ClassVar = "classes of `imagelabels.mat`, numbered from 0; the sides of `setid.mat`"
    not_read: ClassVar = "names of the classes, which no file has (`--classes`); segmentations"
    example: ClassVar = "dsprep pack flowers-102 shards --to webdataset"
    files: ClassVar = pattern(r"(?:^|/)(?:imagelabels|setid)\.mat$")
    texts: ClassVar = files
    takes_members: ClassVar = True

    def is_own(self, path: str, head: bytes) -> bool:
        return _LABELS.search(path) is not None

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = place.first(_LABELS, "mat")
        return Claim(Sure.MARKED, found) if found else None

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.matlab_sets import scan_flowers

        return scan_flowers(source, place)

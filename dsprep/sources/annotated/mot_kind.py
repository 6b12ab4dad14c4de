"""MOT's ground truth, as a kind of annotations."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.annotations.mot import ROW
from dsprep.patterns import pattern
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, DirectoryAbove, NamedPath
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.unread import first_lines

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_TRUTH = pattern(r"(?:^|/)gt/gt\.txt$")


class MotKind(AnnotationKind):
    """MOT: a text for each sequence, with a row for each object in a frame."""

    names: ClassVar = ("mot",)
    words: ClassVar = "MOT"
    contents: ClassVar = (
        "boxes; tracks and visibility as attributes; those that evaluation ignores are difficult"
    )
    not_read: ClassVar = "detections, other texts of `gt`, places in space of MOT15"
    example: ClassVar = "dsprep pack MOT17/train shards --to webdataset"
    files: ClassVar = _TRUTH
    texts: ClassVar = pattern(r"(?:^|/)(?:gt/(?:gt|labels)\.txt|seqinfo\.ini)$")
    directories: ClassVar = ("img1",)

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.annotations.mot import parse
        from dsprep.sources.annotated.image_texts import NamedTexts

        return {"named-texts": NamedTexts, "mot": parse}

    def is_own(self, path: str, head: bytes) -> bool:
        first = next(iter(first_lines(head)), "")
        return _TRUTH.search(path) is not None and ROW.fullmatch(first) is not None

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = place.first(_TRUTH, "txt")
        is_own = found and self.is_own(found, place.head(found))
        return Claim(Sure.MARKED, found) if is_own else None

    def looks_like(self, path: NamedPath) -> bool:
        return "gt.txt" in (*path.names, os.path.basename(path.path))

    def found_above(self, above: DirectoryAbove) -> str:
        inside = above.inside("gt") if above.name in self.directories else ()
        return above.directory("gt") if any(each.name == "gt.txt" for each in inside) else ""

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.mot import scan_mot

        return scan_mot(source, place)

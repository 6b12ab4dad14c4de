"""Open Images' tables, as a kind of annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_CSV = re.compile(r"(?i)\.csv$")
_COLUMNS = re.compile(r'"?ImageID"?,"?Source"?,"?LabelName"?,"?Confidence"?[,\r\n]')


class OpenImagesKind(AnnotationKind):
    """Open Images: a table of boxes and one of labels for each side, and names of classes."""

    names: ClassVar = ("open-images",)
    words: ClassVar = "Open Images"
    contents: ClassVar = (
        "boxes, group-of and truncated; labels of images that a human verified, as tags; the names "
        "in `class-descriptions*.csv`; a side from each table"
    )
    not_read: ClassVar = "masks, relationships, labels of machines, other marks of boxes"
    example: ClassVar = "dsprep pack open-images shards --to webdataset"
    reads: ClassVar = ("--class-names", "--no-object", "--path-column", "--label-column")
    takes_several: ClassVar = True
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def is_own(self, path: str, head: bytes) -> bool:
        return _CSV.search(path) is not None and _COLUMNS.match(text_of(head)) is not None

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        heads = place.heads(_CSV)
        found = min((path for path in heads if self.is_own(path, heads[path])), default="")
        return Claim(Sure.MARKED, found) if found else None

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.open_images import scan_open_images

        return scan_open_images(source, place)

"""Open Images' tables, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.box_set_kind import BoxSetKind
from dsprep.sources.annotation_kind import AnnotatedPlace

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_CSV = pattern(r"(?i)\.csv$")
_COLUMNS = pattern(r'"?ImageID"?,"?Source"?,"?LabelName"?,"?Confidence"?[,\r\n]')


class OpenImagesKind(BoxSetKind):
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
    marker: ClassVar = _CSV
    endings: ClassVar = ("csv",)
    begins: ClassVar = _COLUMNS

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.open_images import scan_open_images

        return scan_open_images(source, place)

"""DOTA's labels, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from dsprep.annotations.dota import HEAD_LINE, ROW
from dsprep.patterns import pattern
from dsprep.sources.annotated.image_texts_kind import ImageTextsKind
from dsprep.sources.unread import first_lines

if TYPE_CHECKING:
    from dsprep.annotations.named import NamedObjects


class DotaKind(ImageTextsKind):
    """DOTA: a text for each image, with the four corners of each object."""

    names: ClassVar = ("dota",)
    words: ClassVar = "DOTA"
    contents: ClassVar = "oriented boxes as polygons of four corners, difficult"
    not_read: ClassVar = "the lines `imagesource` and `gsd`"
    example: ClassVar = "dsprep pack DOTA shards --to webdataset"
    extension: ClassVar = "txt"
    texts: ClassVar = pattern(r"(?i)\.txt$")
    directories: ClassVar = ("images",)
    beside: ClassVar = (("labelTxt", "images"), ("annfiles", "images"), ("labels", "images"))

    @classmethod
    def reader(cls) -> Callable[[bytes], NamedObjects]:
        from dsprep.annotations.dota import parse

        return parse

    def is_own(self, path: str, head: bytes) -> bool:
        lines = first_lines(head)
        rows = [line for line in lines if not HEAD_LINE.fullmatch(line)]
        is_own = bool(lines) and all(map(ROW.fullmatch, rows))
        return path.lower().endswith(".txt") and is_own

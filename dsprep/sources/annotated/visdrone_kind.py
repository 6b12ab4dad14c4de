"""VisDrone's labels of objects in images, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from dsprep.annotations.visdrone import ROW
from dsprep.patterns import pattern
from dsprep.sources.annotated.image_texts_kind import ImageTextsKind
from dsprep.sources.unread import first_lines

if TYPE_CHECKING:
    from dsprep.annotations.named import NamedObjects


class VisDroneKind(ImageTextsKind):
    """VisDrone: a text for each image, with a row of eight numbers for each object."""

    names: ClassVar = ("visdrone",)
    words: ClassVar = "VisDrone"
    contents: ClassVar = (
        "boxes; ignored regions are crowd, what evaluation ignores is difficult; truncation and "
        "occlusion are attributes; a side from each directory"
    )
    not_read: ClassVar = "its videos, whose rows have ten numbers"
    example: ClassVar = "dsprep pack VisDrone2019-DET-train shards --to webdataset"
    extension: ClassVar = "txt"
    texts: ClassVar = pattern(r"(?i)\.txt$")
    directories: ClassVar = ("images",)
    beside: ClassVar = (("annotations", "images"),)

    @classmethod
    def reader(cls) -> Callable[[bytes], NamedObjects]:
        from dsprep.annotations.visdrone import parse

        return parse

    def is_own(self, path: str, head: bytes) -> bool:
        lines = first_lines(head)
        return path.lower().endswith(".txt") and bool(lines) and all(map(ROW.fullmatch, lines))

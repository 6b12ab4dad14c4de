"""KITTI's labels of objects, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from dsprep.annotations.kitti import ROW
from dsprep.patterns import pattern
from dsprep.sources.annotated.image_texts_kind import ImageTextsKind
from dsprep.sources.unread import first_lines

if TYPE_CHECKING:
    from dsprep.annotations.named import NamedObjects


class KittiKind(ImageTextsKind):
    """KITTI: a text for each image, with a row of 15 columns for each object."""

    names: ClassVar = ("kitti",)
    words: ClassVar = "KITTI"
    contents: ClassVar = (
        "boxes; `DontCare` is crowd; truncation, occlusion, score and the numbers in space are "
        "attributes; sides of `ImageSets`"
    )
    not_read: ClassVar = "calibration, point clouds, tracks"
    example: ClassVar = "dsprep pack training shards --to webdataset"
    extension: ClassVar = "txt"
    texts: ClassVar = pattern(r"(?i)\.txt$")
    directories: ClassVar = ("image_2", "images")
    beside: ClassVar = (("label_2", "image_2"), ("labels", "images"))
    other_files: ClassVar = pattern(
        r"(?:^|/)(?:calib/.*\.txt|(?:velodyne\w*/.*\.bin)|planes/.*\.txt)$"
    )

    @classmethod
    def reader(cls) -> Callable[[bytes], NamedObjects]:
        from dsprep.annotations.kitti import parse

        return parse

    def is_own(self, path: str, head: bytes) -> bool:
        lines = first_lines(head)
        return path.lower().endswith(".txt") and bool(lines) and all(map(ROW.fullmatch, lines))

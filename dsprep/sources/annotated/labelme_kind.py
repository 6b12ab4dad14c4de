"""labelme's JSON, as a kind of annotations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.image_texts_kind import ImageTextsKind
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.annotations.named import NamedObjects

_WORDS = (r'"shapes"\s*:\s*\[', '"imagePath"|"imageData"|"shape_type"|"points"')
_LONG = pattern(r'"imageData"\s*:\s*"(?:/9j/|iVBORw0KG)')  # it may stand before the shapes


class LabelmeKind(ImageTextsKind):
    """labelme: a JSON file for each image."""

    names: ClassVar = ("labelme",)
    words: ClassVar = "labelme"
    contents: ClassVar = (
        "rectangles, polygons, circles (as polygons), oriented rectangles and masks; groups, "
        "descriptions and flags of shapes as attributes; flags of images as tags"
    )
    not_read: ClassVar = "points and lines"
    example: ClassVar = "dsprep pack photos shards --to webdataset"
    extension: ClassVar = "json"
    texts: ClassVar = pattern(r"(?i)\.(?:json|txt)$")
    directories: ClassVar = ("images", "jpegimages")
    beside: ClassVar = (("labels", "images"), ("annotations", "images"), ("json", "images"))

    @classmethod
    def reader(cls) -> Callable[[bytes], NamedObjects]:
        from dsprep.annotations.labelme import parse

        return parse

    def is_own(self, path: str, head: bytes) -> bool:
        text = text_of(head)
        is_json = path.lower().endswith(".json") and text.lstrip()[:1] == "{"
        has_words = all(re.search(word, text) for word in _WORDS)
        return is_json and (has_words or _LONG.search(text) is not None)

"""SA-1B's JSON, as a kind of annotations."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.image_texts_kind import ImageTextsKind
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.annotations.named import NamedObjects

_WORDS = (r'"annotations"\s*:\s*\[', '"predicted_iou"', '"segmentation"')


class SegmentAnythingKind(ImageTextsKind):
    """SA-1B of Segment Anything: a JSON file for each image."""

    names: ClassVar = ("segment-anything",)
    words: ClassVar = "SA-1B"
    contents: ClassVar = (
        "boxes and runs of one class, ids; how sure the model was, its points and its crop as "
        "attributes"
    )
    example: ClassVar = "dsprep pack sa_000000 shards --to webdataset"
    extension: ClassVar = "json"
    texts: ClassVar = pattern(r"(?i)\.json$")
    directories: ClassVar = ("images",)
    beside: ClassVar = (("annotations", "images"),)

    @classmethod
    def reader(cls) -> Callable[[bytes], NamedObjects]:
        from dsprep.annotations.segment_anything import parse

        return parse

    def is_own(self, path: str, head: bytes) -> bool:
        text = text_of(head)
        is_json = path.lower().endswith(".json") and text.lstrip()[:1] == "{"
        return is_json and all(re.search(word, text) for word in _WORDS)

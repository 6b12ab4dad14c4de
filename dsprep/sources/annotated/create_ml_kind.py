"""Create ML's JSON, as a kind of annotations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.spans_kind import SpansKind
from dsprep.sources.annotation_kind import names_with
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.sources.annotated.spans import Spans

_BEGINS = pattern(r"\s*\[\s*\{")
_WORDS = (r'"image(?:filename)?"\s*:\s*"', r'"annotations?"\s*:\s*\[')
_OF_BOX = pattern(r'"(?:coordinates|label)"\s*:')
_OF_LABEL_STUDIO = pattern(r'"data"\s*:\s*\{')


class CreateMlKind(SpansKind):
    """Create ML's JSON: a list of images with boxes, as Apple and Roboflow write it."""

    names: ClassVar = ("create-ml",)
    words: ClassVar = "Create ML"
    contents: ClassVar = "boxes; a side from each file"
    not_read: ClassVar = "coordinates as shares of images: refused"
    example: ClassVar = "dsprep pack birds.v1.createml shards --to tfrecord"
    file_names: ClassVar = ("_annotations.createml.json",)
    texts: ClassVar = names_with("json")
    below: ClassVar = ("", "images", "../images", "{side}")

    @classmethod
    def spans(cls) -> type[Spans]:
        from dsprep.sources.annotated.create_ml import CreateMlImages

        return CreateMlImages

    def is_own(self, path: str, head: bytes) -> bool:
        text = text_of(head)
        if self.texts.search(path) is None or _BEGINS.match(text) is None:
            return False
        has_boxes = path.endswith(".createml.json") or _OF_BOX.search(text) is not None
        has_items = all(re.search(word, text) for word in _WORDS)
        return has_items and has_boxes and _OF_LABEL_STUDIO.search(text) is None

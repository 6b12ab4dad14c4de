"""BDD100K's JSON, as a kind of annotations."""

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
_WORDS = (r'"name"\s*:\s*"', r'"labels"\s*:\s*\[', r'"(?:box2d|poly2d)"\s*:')


class Bdd100kKind(SpansKind):
    """BDD100K: a list of images with their labels for each side, as Scalabel writes it."""

    names: ClassVar = ("bdd100k",)
    words: ClassVar = "BDD100K"
    contents: ClassVar = (
        "boxes, polygons with corners alone, truncated, attributes of labels, ids; the attribute "
        "of images that `--label-column` names, as their labels; a side from each file"
    )
    not_read: ClassVar = "lines of lanes, outlines with curves"
    example: ClassVar = "dsprep pack bdd100k shards --to webdataset"
    reads: ClassVar = ("--label-column",)
    texts: ClassVar = names_with("json")
    below: ClassVar = (
        *("../images/100k/{side}", "../../images/100k/{side}", "images/100k/{side}"),
        *("{side}", "", "images", "../images"),
    )

    @classmethod
    def spans(cls) -> type[Spans]:
        from dsprep.sources.annotated.bdd100k import Bdd100kImages

        return Bdd100kImages

    def is_own(self, path: str, head: bytes) -> bool:
        text = text_of(head)
        is_list = self.texts.search(path) is not None and _BEGINS.match(text) is not None
        return is_list and all(re.search(word, text) for word in _WORDS)

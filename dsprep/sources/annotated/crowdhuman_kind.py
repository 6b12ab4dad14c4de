"""CrowdHuman's `.odgt`, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.spans_kind import SpansKind
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.sources.annotated.spans import Spans


class CrowdHumanKind(SpansKind):
    """CrowdHuman: an `.odgt` file for each side, with a line of JSON for each image."""

    names: ClassVar = ("crowdhuman",)
    words: ClassVar = "CrowdHuman"
    contents: ClassVar = (
        "boxes of full bodies; the tag mask is crowd, what evaluation ignores is difficult; "
        "occlusion as an attribute, ids; a side from each file"
    )
    not_read: ClassVar = "boxes of heads and of visible parts"
    example: ClassVar = "dsprep pack CrowdHuman shards --to webdataset"
    texts: ClassVar = pattern(r"(?i)\.odgt$")
    below: ClassVar = ("CrowdHuman_{side}/Images", "{side}/Images", "Images", "", "{side}")

    @classmethod
    def spans(cls) -> type[Spans]:
        from dsprep.sources.annotated.crowdhuman import CrowdHumanImages

        return CrowdHumanImages

    def is_own(self, path: str, head: bytes) -> bool:
        return self.texts.search(path) is not None and '"gtboxes"' in text_of(head)

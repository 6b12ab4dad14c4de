"""CVAT's XML for images, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.spans_kind import SpansKind
from dsprep.sources.annotation_kind import AnnotatedPlace, DirectoryAbove
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.sources.annotated.spans import Spans
    from dsprep.sources.source import Source

_BEGINS = pattern(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--[^>]{0,999}-->\s*)?<annotations>\s*"
    r"<(?:version|meta|image|track)\b"
)


class CvatKind(SpansKind):
    """CVAT's XML 1.1 for images: of a task, or of a project with a side from each subset."""

    names: ClassVar = ("cvat",)
    words: ClassVar = "CVAT"
    contents: ClassVar = (
        "boxes, polygons, points and skeletons as keypoints, masks, ellipses and rotated boxes as "
        "polygons, attributes; tags as labels; sides of subsets, or from each file"
    )
    not_read: ClassVar = "polylines, cuboids, attributes of tags; tracks: refused"
    example: ClassVar = "dsprep pack task_1.zip shards --to webdataset"
    file_names: ClassVar = ("annotations.xml",)
    texts: ClassVar = pattern(r"(?i)\.xml$")
    directories: ClassVar = ("images",)
    below: ClassVar = ("images", "", "../images", "images/{side}", "{side}")

    @classmethod
    def spans(cls) -> type[Spans]:
        from dsprep.sources.annotated.cvat import CvatImages

        return CvatImages

    def made(self, source: Source, place: AnnotatedPlace, paths: Sequence[str]) -> Spans:
        from dsprep.sources.annotated.cvat import spans_of

        return spans_of(source, place, paths)

    def is_own(self, path: str, head: bytes) -> bool:
        is_xml = self.texts.search(path) is not None
        return is_xml and _BEGINS.match(text_of(head)) is not None

    def found_above(self, above: DirectoryAbove) -> str:
        found = above.entries.get("annotations.xml") if above.name == "images" else None
        return found.path if found is not None and found.is_file() else ""

"""Label Studio's export, as a kind of annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, NamedPath
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source


_WORDS = (r"^\s*\[\s*\{", '"original_width"|"annotations"', '"data"')  # of a list of tasks


class LabelStudioKind(AnnotationKind):
    """Label Studio's export as JSON: a list of tasks."""

    names: ClassVar = ("label-studio",)
    words: ClassVar = "Label Studio"
    help: ClassVar = "Label Studio's JSON"
    contents: ClassVar = (
        "boxes and polygons; choices as labels of images, of the question that `--label-column` "
        "names"
    )
    not_read: ClassVar = "rotated boxes, ellipses, keypoints and brush strokes: refused"
    example: ClassVar = "dsprep pack photos shards --to webdataset --annotations export.json"
    reads: ClassVar = ("--path-column", "--label-column")

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.label_studio import LabelStudioTasks

        return {"label-studio": LabelStudioTasks}

    def is_own(self, path: str, head: bytes) -> bool:
        text = text_of(head)
        is_json = path.lower().endswith(".json")
        return is_json and all(re.search(word, text) for word in _WORDS)

    def looks_like(self, path: NamedPath) -> bool:
        return path.head.startswith("[")

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.label_studio import LabelStudioTasks
        from dsprep.sources.annotated.spans import scan_spans

        (named,) = place.named
        spans = LabelStudioTasks(column=source.path_column)
        return scan_spans(spans, [named.path], source, place.files)

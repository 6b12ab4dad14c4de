"""VGG Image Annotator, as a kind of annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotated.spans_kind import SpansKind
from dsprep.sources.annotation_kind import AnnotatedPlace, names_with
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.sources.annotated.spans import Spans
    from dsprep.sources.source import Source

_PROJECT = '"_via_img_metadata"'
_ITEM = (r'"regions"\s*:\s*[\[{]', '"shape_attributes"|"file_attributes"')
_COLUMNS = ("filename,", "region_shape_attributes", "region_attributes")


class ViaKind(SpansKind):
    """VGG Image Annotator 1 and 2: JSON of images or of a project, or CSV with a row a region."""

    names: ClassVar = ("via",)
    words: ClassVar = "VIA"
    contents: ClassVar = (
        "boxes, polygons, circles and ellipses as polygons, points as keypoints, attributes of "
        "regions; `--label-column` names the attribute that is the class; a side from each file"
    )
    not_read: ClassVar = "polylines, attributes of images"
    example: ClassVar = (
        "dsprep pack photos shards --to webdataset --annotations via.json --label-column name"
    )
    reads: ClassVar = ("--label-column",)
    file_names: ClassVar = ("via_region_data.json",)
    texts: ClassVar = names_with("json", "csv")
    below: ClassVar = ("", "images", "../images", "{side}")

    @classmethod
    def spans(cls) -> type[Spans]:
        from dsprep.sources.annotated.via import ViaImages

        return ViaImages

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.via import ViaImages, ViaRows

        return {"via": ViaImages, "via-rows": ViaRows}

    def made(self, source: Source, place: AnnotatedPlace, paths: Sequence[str]) -> Spans:
        from dsprep.sources.annotated.via import spans_of

        return spans_of(source, place, paths)

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        own = super().read_in_archive(place)
        return [path for path in own if not _is_table(path)] or own

    def beside(self, place: AnnotatedPlace, used: Collection[str]) -> Iterable[str]:
        # people export both, and each tells all
        return [] if any(map(_is_table, used)) else super().read_in_archive(place)

    def is_own(self, path: str, head: bytes) -> bool:
        text = text_of(head)
        if _is_table(path):
            first = text.partition("\n")[0]
            return all(column in first for column in _COLUMNS)
        is_object = path.lower().endswith(".json") and text.lstrip().startswith("{")
        return is_object and (_PROJECT in text or all(re.search(word, text) for word in _ITEM))


def _is_table(path: str) -> bool:
    return path.lower().endswith(".csv")

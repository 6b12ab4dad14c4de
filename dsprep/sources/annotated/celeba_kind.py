"""CelebA's tables, as a kind of annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_OWN = re.compile(r"(?i)(?:^|/)(?:list_(?:attr|bbox|landmarks(?:_align)?)|identity)_celeba\.\w+$")


class CelebaKind(AnnotationKind):
    """CelebA: attributes, boxes, landmarks and sides of faces, in a table each."""

    names: ClassVar = ("celeba",)
    words: ClassVar = "CelebA"
    contents: ClassVar = (
        "attributes as tags, the box and five keypoints of the face, `identity`; the sides of "
        "`list_eval_partition`"
    )
    not_read: ClassVar = "boxes and landmarks of the images before they were aligned, or after"
    example: ClassVar = "dsprep pack celeba shards --to webdataset"
    files: ClassVar = re.compile(
        r"(?i)(?:^|/)(?:list_(?:attr|bbox|landmarks(?:_align)?)_celeba|identity_celeba"
        r"|list_eval_partition)\.(?:txt|csv)$"
    )
    texts: ClassVar = files
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def is_own(self, path: str, head: bytes) -> bool:
        return _OWN.search(path) is not None

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = place.first(_OWN, "txt", "csv")
        return Claim(Sure.MARKED, found) if found else None

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.celeba import scan_celeba

        return scan_celeba(source, place)

"""CelebA's tables, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.box_set_kind import BoxSetKind
from dsprep.sources.annotation_kind import AnnotatedPlace

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_OWN = pattern(r"(?i)(?:^|/)(?:list_(?:attr|bbox|landmarks(?:_align)?)|identity)_celeba\.\w+$")


class CelebaKind(BoxSetKind):
    """CelebA: attributes, boxes, landmarks and sides of faces, in a table each."""

    names: ClassVar = ("celeba",)
    words: ClassVar = "CelebA"
    contents: ClassVar = (
        "attributes as tags, the box and five keypoints of the face, `identity`; the sides of "
        "`list_eval_partition`"
    )
    not_read: ClassVar = "boxes and landmarks of the images before they were aligned, or after"
    example: ClassVar = "dsprep pack celeba shards --to webdataset"
    files: ClassVar = pattern(
        r"(?i)(?:^|/)(?:list_(?:attr|bbox|landmarks(?:_align)?)_celeba|identity_celeba"
        r"|list_eval_partition)\.(?:txt|csv)$"
    )
    texts: ClassVar = files
    marker: ClassVar = _OWN
    endings: ClassVar = ("txt", "csv")

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.celeba import scan_celeba

        return scan_celeba(source, place)

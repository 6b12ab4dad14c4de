"""The texts of CUB-200-2011 and of sets like it, as a kind of annotations."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.box_set_kind import BoxSetKind
from dsprep.sources.annotation_kind import AnnotatedPlace, NamedPath
from dsprep.sources.kind import Claim

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_CLASSES_OF_IMAGES, _IMAGES = "image_class_labels.txt", "images.txt"
_OWN = pattern(rf"(?:^|/){re.escape(_CLASSES_OF_IMAGES)}$")


class CubKind(BoxSetKind):
    """CUB-200-2011: a text each for the names, classes, boxes and sides of images, by their ids."""

    names: ClassVar = ("cub",)
    words: ClassVar = "CUB-200-2011"
    contents: ClassVar = (
        "a class and a box for each image, its parts as keypoints; the sides of `train_test_split`"
    )
    not_read: ClassVar = "attributes, clicks on parts, segmentations"
    example: ClassVar = "dsprep pack CUB_200_2011 shards --to webdataset"
    files: ClassVar = pattern(
        r"(?:^|/)(?:images|classes|image_class_labels|bounding_boxes|train_test_split"
        r"|part_locs|parts)\.txt$"
    )
    texts: ClassVar = files
    takes_members: ClassVar = False
    marker: ClassVar = _OWN
    endings: ClassVar = ("txt",)

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        claim = super().claim(place)
        images = posixpath.join(posixpath.dirname(claim.why), _IMAGES) if claim else ""
        return claim if images in place.others else None

    def looks_like(self, path: NamedPath) -> bool:
        return {_CLASSES_OF_IMAGES, _IMAGES} <= set(path.names)

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.cub import scan_cub

        return scan_cub(source, place)

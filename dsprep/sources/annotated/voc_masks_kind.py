"""Masks in the directories of Pascal VOC, without its XML files, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.mask_set_kind import MaskSetKind
from dsprep.sources.annotated.parallel_masks import TOP, Directories, MaskMeaning

if TYPE_CHECKING:
    from dsprep.sources.annotated.parallel_masks import Parallel
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_MASKS = ("SegmentationClass", "SegmentationClassPNG", "SegmentationClassContext")
_OTHERS = r"Segmentation(?:Object|Class)(?:PNG|Npy|Visualization)?/|ImageSets/"


class VocMasksKind(MaskSetKind):
    """Masks in Pascal VOC's directories, without XML files, as CVAT and labelme write them."""

    names: ClassVar = ("voc-masks",)
    words: ClassVar = "masks of Pascal VOC"
    contents: ClassVar = (
        "masks of `SegmentationClass`, of numbers or of the colors in `labelmap.txt`, with the "
        "names in it or in `class_names.txt`; sides of `ImageSets/Segmentation`"
    )
    not_read: ClassVar = "`SegmentationObject`, pictures of the masks"
    example: ClassVar = "dsprep pack task_1 shards --to webdataset"
    texts: ClassVar = pattern(
        r"(?:^|/)(?:(?:labelmap|class_names)\.txt|ImageSets/Segmentation[^/]*/[^/]+\.txt)$"
    )
    directories_of_masks: ClassVar = tuple(
        Directories(
            f"{name}/",
            rf"{TOP}JPEGImages/(?P<key>.+)\.(?:jpe?g|JPE?G|png)$",
            rf"{TOP}{name}/(?P<key>.+)\.png$",
        )
        for name in _MASKS
    )
    others: ClassVar = pattern(rf"(?:^|/)(?:{_OTHERS})")

    def is_unmistakable(self, place: AnnotatedPlace, found: Parallel) -> bool:
        return not any("Annotations/" in path for path in place.with_extension("xml"))

    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        from dsprep.sources.annotated.voc_masks import meaning_of

        return meaning_of(place, found)

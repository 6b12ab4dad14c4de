"""MVTec AD, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.mask_set_kind import MaskSetKind
from dsprep.sources.annotated.parallel_masks import TOP, Directories, MaskMeaning

if TYPE_CHECKING:
    from dsprep.sources.annotated.parallel_masks import Parallel
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_GOOD = "good"


class MVTecKind(MaskSetKind):
    """MVTec AD: images of one kind of thing or of several, by side and defect, with masks.

    Those for training are good; masks of 0 and 255 are there for defects.
    """

    names: ClassVar = ("mvtec",)
    words: ClassVar = "MVTec AD"
    contents: ClassVar = "masks of `ground_truth`, the defect as class, the sides train and test"
    not_read: ClassVar = "masks in several files for an image, as MVTec LOCO AD has them"
    example: ClassVar = "dsprep pack mvtec/bottle shards --to webdataset"
    directories_of_masks: ClassVar = (
        Directories(
            "ground_truth/",
            rf"{TOP}(?P<side>train|test)/(?P<label>[^/]+)/(?P<key>[^/]+)\.(?:png|jpg|JPG)$",
            rf"{TOP}ground_truth/(?P<label>[^/]+)/(?P<key>[^/]+)_mask\.png$",
            "test",
        ),
    )
    others: ClassVar = pattern(r"^$")

    def is_unmistakable(self, place: AnnotatedPlace, found: Parallel) -> bool:
        rows = [*zip(found.sides, found.labels, found.masks, strict=True)]
        defects = [bool(mask) for side, label, mask in rows if label != _GOOD and side == "test"]
        are_good = all(label == _GOOD for side, label, _ in rows if side == "train")
        return are_good and 2 * sum(defects) >= len(defects)  # a mask or two may be lost

    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        from dsprep.sources.annotated.image_values import class_of_images

        things = [image.split("/")[-4] if image.count("/") > 2 else "" for image in found.images]
        labels = found.labels
        if len(set(things)) > 1:  # the defects of a bottle are not those of a cable
            labels = [f"{thing}/{label}" for thing, label in zip(things, labels, strict=True)]
        return MaskMeaning(
            ("good", "defect"), values={255: 1}, images=class_of_images(labels, source, place.root)
        )

"""Oxford-IIIT Pet, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.mask_set_kind import MaskSetKind
from dsprep.sources.annotated.parallel_masks import TOP, Directories, MaskMeaning
from dsprep.sources.kind import Sure

if TYPE_CHECKING:
    from dsprep.sources.annotated.parallel_masks import Parallel
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_LISTS = pattern(r"(?:^|/)annotations/(?:list|trainval|test)\.txt$")


class OxfordPetKind(MaskSetKind):
    """Oxford-IIIT Pet: photographs, the breed and a trimap of each, lists of two sides.

    Trimaps have 1 for the pet, 2 for the background and 3 for pixels that are not classified. Some
    pets have XML with a box of the head, which Pascal VOC would claim.
    """

    names: ClassVar = ("oxford-pet",)
    words: ClassVar = "Oxford-IIIT Pet"
    contents: ClassVar = "masks of `trimaps`, the breed as class, the sides trainval and test"
    not_read: ClassVar = "boxes of heads in `xmls`, `.mat` files"
    example: ClassVar = "dsprep pack oxford-iiit-pet shards --to webdataset"
    texts: ClassVar = _LISTS
    surest: ClassVar = Sure.RECORDED
    directories_of_masks: ClassVar = (
        Directories(
            "trimaps/",
            rf"{TOP}images/(?P<key>[^/]+)\.jpg$",
            rf"{TOP}annotations/trimaps/(?P<key>[^/]+)\.png$",
        ),
    )
    others: ClassVar = pattern(
        r"(?:^|/)(?:annotations/(?:xmls/[^/]+\.xml|trimaps/.*)|images/[^/]+\.mat)$"
    )

    def is_unmistakable(self, place: AnnotatedPlace, found: Parallel) -> bool:
        return any(map(_LISTS.search, place.with_extension("txt")))

    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        from dsprep.sources.annotated.oxford_pet import meaning_of

        return meaning_of(source, place, found)

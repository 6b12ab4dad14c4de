"""CamVid, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.mask_set_kind import MaskSetKind
from dsprep.sources.annotated.parallel_masks import TOP, Directories, MaskMeaning

if TYPE_CHECKING:
    from dsprep.sources.annotated.parallel_masks import Parallel
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_SIDE = r"(?P<side>train|val|test)"
_TABLES = ("label_colors.txt", "class_dict.csv", "codes.txt")
_FRAME = pattern(r"(?:^|/)(?:0001TP_|0006R0_f|0016E5_|Seq05VD_f)\w+\.[^/]*$")


class CamVidKind(MaskSetKind):
    """CamVid: frames and masks of a name, as SegNet, Kaggle and the authors have them.

    SegNet has ``train`` and ``trainannot``; the authors have ``_L`` in the names of masks, which
    are colors.
    """

    names: ClassVar = ("camvid",)
    words: ClassVar = "CamVid"
    contents: ClassVar = (
        "masks, of numbers or of the colors in `label_colors.txt` or `class_dict.csv`, with their "
        "names; sides of directories and of `valid.txt`"
    )
    not_read: ClassVar = "lists of SegNet"
    example: ClassVar = "dsprep pack CamVid shards --to webdataset"
    texts: ClassVar = pattern(r"(?:^|/)(?:label_colors|codes|valid)\.txt$|class_dict\.csv$")
    directories_of_masks: ClassVar = (
        Directories(
            "annot/",
            rf"{TOP}{_SIDE}/(?P<key>[^/]+)\.(?:png|jpg)$",
            rf"{TOP}{_SIDE}annot/(?P<key>[^/]+)\.png$",
        ),
        Directories(
            "_labels/",
            rf"{TOP}{_SIDE}/(?P<key>[^/]+)\.(?:png|jpg)$",
            rf"{TOP}{_SIDE}_labels/(?P<key>[^/]+?)_L\.png$",
        ),
        Directories(
            "_L.png",
            rf"{TOP}[^/]+/(?P<key>[^/]+)\.(?:png|jpg)$",
            rf"{TOP}[^/]+/(?P<key>[^/]+)_L\.png$",
        ),
        Directories(
            "_P.png",
            rf"{TOP}[^/]+/(?P<key>[^/]+)\.(?:png|jpg)$",
            rf"{TOP}[^/]+/(?P<key>[^/]+)_P\.png$",
        ),
    )
    others: ClassVar = pattern(r"(?:^|/)(?:train|val|test)\.txt$")

    def is_unmistakable(self, place: AnnotatedPlace, found: Parallel) -> bool:
        has_table = any(path.rpartition("/")[2] in _TABLES for path in place.others)
        return has_table or _FRAME.search(found.images[0]) is not None

    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        from dsprep.sources.annotated.camvid import meaning_of

        are_frames = all(map(_FRAME.search, (found.images[0], found.images[-1])))
        return meaning_of(place, found, are_frames=are_frames)

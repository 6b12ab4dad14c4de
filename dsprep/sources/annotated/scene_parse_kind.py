"""SceneParse150, the benchmark of ADE20K, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.mask_set_kind import MaskSetKind
from dsprep.sources.annotated.parallel_masks import TOP, Directories, MaskMeaning

if TYPE_CHECKING:
    from dsprep.sources.annotated.parallel_masks import Parallel
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_TEXTS = r"(?:^|/)(?:objectInfo150|sceneCategories)\.txt$"
_NAMED = pattern(r"(?:^|/)ADE_(?:train|val)_\d{8}\.")


class SceneParseKind(MaskSetKind):
    """ADE20K's SceneParse150: ``images/training`` and ``annotations/training``, 0 is no class."""

    names: ClassVar = ("sceneparse150",)
    words: ClassVar = "SceneParse150"
    contents: ClassVar = (
        "masks, with the names of `objectInfo150.txt`, 0 being other; the class of "
        "`sceneCategories.txt`; sides"
    )
    not_read: ClassVar = "instances"
    example: ClassVar = "dsprep pack ADEChallengeData2016 shards --to webdataset"
    texts: ClassVar = pattern(_TEXTS)
    directories_of_masks: ClassVar = (
        Directories(
            "annotations/",
            rf"{TOP}images/(?P<side>training|validation)/(?P<key>.+)\.jpg$",
            rf"{TOP}annotations/(?P<side>training|validation)/(?P<key>.+)\.png$",
        ),
    )
    others: ClassVar = pattern(r"(?:^|/)annotations_instance/")

    def is_unmistakable(self, place: AnnotatedPlace, found: Parallel) -> bool:
        has_text = any(map(self.texts.search, place.with_extension("txt")))
        return has_text or _NAMED.search(found.images[0]) is not None

    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        from dsprep.sources.annotated.scene_parse import meaning_of

        return meaning_of(source, place, found)

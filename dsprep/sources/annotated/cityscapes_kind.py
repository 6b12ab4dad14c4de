"""Cityscapes, as a kind of annotations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from dsprep.sources.annotated.mask_set_kind import MaskSetKind
from dsprep.sources.annotated.parallel_masks import TOP, Directories, MaskMeaning

if TYPE_CHECKING:
    from dsprep.sources.annotated.parallel_masks import Parallel
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

# The ids of `labels.py` in cityscapesScripts, from 0; the license plate, -1, is not drawn.
NAMES = (
    *("unlabeled", "ego vehicle", "rectification border", "out of roi", "static", "dynamic"),
    *("ground", "road", "sidewalk", "parking", "rail track", "building", "wall", "fence"),
    *("guard rail", "bridge", "tunnel", "pole", "polegroup", "traffic light", "traffic sign"),
    *("vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus", "caravan"),
    *("trailer", "train", "motorcycle", "bicycle"),
)


class CityscapesKind(MaskSetKind):
    """Cityscapes: images in ``leftImg8bit``, masks in ``gtFine``, by side and by city.

    Masks are those of ``labelIds``; where a finer one is there, that of ``gtCoarse`` is not read.
    """

    names: ClassVar = ("cityscapes",)
    words: ClassVar = "Cityscapes"
    contents: ClassVar = "masks of `labelIds`, with the names of their classes; sides"
    not_read: ClassVar = "`color`, `instanceIds`, `labelTrainIds` and polygons; right images"
    example: ClassVar = "dsprep pack cityscapes shards --to webdataset"
    directories_of_masks: ClassVar = (
        Directories(
            "_labelIds.png",
            rf"{TOP}leftImg8bit/(?P<side>[^/]+)/(?P<key>.+)_leftImg8bit\.(?:png|jpg)$",
            rf"{TOP}gt(?:Fine|Coarse)/(?P<side>[^/]+)/(?P<key>.+)_gt(?:Fine|Coarse)_labelIds\.png$",
        ),
    )
    others: ClassVar = re.compile(
        r"(?:^|/)(?:gt(?:Fine|Coarse|Bbox\w*)|rightImg8bit|disparity|camera|vehicle|timestamp)/"
    )

    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        return MaskMeaning(NAMES)

"""Cityscapes, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
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

# The classes of `trainId` in labels.py, from 0; the others are 255, as the script that writes these
# masks (createTrainIdLabelImgs.py) has it.
_TRAIN_NAMES = (
    *("road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign"),
    *("vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus", "train"),
    *("motorcycle", "bicycle"),
)
_NAME = pattern(r"(?:(\d+)\s+(\d+)\s+(\d+)\s+)?(\S.*)")  # a line of `label_colors.txt`


class CityscapesKind(MaskSetKind):
    """Cityscapes: images in ``leftImg8bit``, masks in ``gtFine``, by side and by city.

    Masks are those of ``labelIds``, or of ``labelTrainIds`` where there are none of these; where a
    finer one is there, that of ``gtCoarse`` is not read. What datumaro exports has classes of its
    own, in ``label_colors.txt``.
    """

    names: ClassVar = ("cityscapes",)
    words: ClassVar = "Cityscapes"
    contents: ClassVar = (
        "masks of `labelIds`, else of `labelTrainIds`, with the names of their classes, or with "
        "those of `label_colors.txt`; sides"
    )
    not_read: ClassVar = "`color`, `instanceIds` and polygons; right images"
    example: ClassVar = "dsprep pack cityscapes shards --to webdataset"
    files: ClassVar = pattern(r"(?:^|/)label_colors\.txt$")
    texts: ClassVar = files
    directories_of_masks: ClassVar = tuple(
        Directories(
            f"_{ids}.png",
            rf"{TOP}leftImg8bit/(?P<side>[^/]+)/(?P<key>.+)_leftImg8bit\.(?:png|jpg)$",
            rf"{TOP}gt(?:Fine|Coarse)/(?P<side>[^/]+)/(?P<key>.+)_gt(?:Fine|Coarse)_{ids}\.png$",
        )
        for ids in ("labelIds", "labelTrainIds")
    )
    others: ClassVar = pattern(
        r"(?:^|/)(?:gt(?:Fine|Coarse|Bbox\w*)|rightImg8bit|disparity|camera|vehicle|timestamp)/"
    )

    def meaning(self, source: Source, place: AnnotatedPlace, found: Parallel) -> MaskMeaning:
        from dsprep.sources.annotated.mask_sets import text_beside

        path, text = text_beside(place, "label_colors.txt")
        if path:
            return MaskMeaning(_names_in(text), used=(path,))
        are_ids = next(filter(None, found.masks)).endswith("_labelIds.png")
        return MaskMeaning(NAMES if are_ids else _TRAIN_NAMES)


def _names_in(text: str) -> tuple[str, ...]:
    """Return the classes that datumaro wrote, by number.

    A line is the color and the name, or the name alone. Datumaro leaves out the black background,
    or takes it out of the order; it is 0 then (datumaro's ``cityscapes.py``).
    """
    rows = [match for line in text.split("\n") if (match := _NAME.fullmatch(line.strip()))]
    names = [row[4] for row in rows if not row[0].startswith("#")]
    if any(row.groups()[:3] == ("0", "0", "0") for row in rows):
        return tuple(names)
    return ("background", *(name for name in names if name != "background"))

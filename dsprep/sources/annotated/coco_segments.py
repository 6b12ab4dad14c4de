"""COCO's panoptic annotations: one for each image, with its segments and the name of their PNG.

A segment is what an annotation of another file is: a category, a box, an area and an id, which is
that of the pixels of the PNG (cocodataset.org, "Data format", 4. Panoptic Segmentation).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dsprep.annotations.masks import IGNORED
from dsprep.errors import SourceError
from dsprep.sources.annotated.masks import SegmentMasks
from dsprep.units import format_count

SEGMENTS = "segments_info"
_LIST = re.compile(rf'"{SEGMENTS}"\s*:\s*\[')  # in a text, its quotes would have a backslash
_BETWEEN = re.compile(r"[\s,]*")
_scan = json.JSONDecoder().raw_decode


def segments_in(
    text: str, start: int, item: Mapping[str, Any], path: str
) -> Iterator[tuple[str, int, int, Any]]:
    """Yield the segments of an annotation, each with the id of its image.

    Args:
        text: The annotation, a character for each byte.
        start: Where it begins in the file.
        item: What the text says.
        path: The file, for messages.

    Yields:
        `SEGMENTS`, where the segment begins in the file, its size in bytes, and itself.
    """
    lists = [found.end() for found in _LIST.finditer(text)]
    if len(lists) != 1:
        raise SourceError(f"{path}: byte {start:,}: an annotation has {SEGMENTS} more than once")
    stop = lists[0]
    for segment in item[SEGMENTS]:
        at = _BETWEEN.match(text, stop).end()  # type: ignore[union-attr]
        _, stop = _scan(text, at)
        yield SEGMENTS, start + at, stop - at, {**segment, "image_id": item["image_id"]}


class CocoPanoptic:
    """The PNGs that the annotations of files have told so far."""

    def __init__(self) -> None:
        self.pngs: dict[tuple[int, int], str] = {}  # by file and id of the image

    def add(self, file: int, directory: str, image: int, item: Mapping[str, Any]) -> None:
        """Take the annotation of an image, given the directory of its PNG."""
        segments = item[SEGMENTS]
        if not isinstance(segments, list) or not all(isinstance(each, dict) for each in segments):
            raise TypeError(f"{SEGMENTS} of {item['image_id']!r:.40} is no list of objects")
        if (file, image) in self.pngs:
            raise ValueError(f"several are of the image {item['image_id']!r:.40}")
        self.pngs[file, image] = posixpath.join(directory, str(item["file_name"]))

    def masks(
        self, images: Mapping[tuple[int, int], int], classes: tuple[str, ...], where: str
    ) -> SegmentMasks | None:
        """Return the masks of images, whose files are still to be found; None without any."""
        if not self.pngs:
            return None
        if lost := self.pngs.keys() - images.keys():
            count = format_count(len(lost), "annotation")
            raise SourceError(f"{where}: {count} with image_id that the list of images lacks")
        if len(classes) > IGNORED:
            raise SourceError(
                f"{where}: has {len(classes):,} categories, and masks at most {IGNORED}: make some "
                "of them one class with --classes FILE"
            )
        paths = [""] * (1 + max(images.values()))
        for image, path in self.pngs.items():
            if images[image] >= 0:  # an image that is left out has no number
                paths[images[image]] = path
        return SegmentMasks("", tuple(paths), [0] * len(paths), names=classes)

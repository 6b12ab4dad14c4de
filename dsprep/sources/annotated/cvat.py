"""CVAT's XML for images: the elements of images, and the labels that the head of the file names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dsprep.annotations.cvat import parse_image
from dsprep.errors import SourceError
from dsprep.places.names import usual_side
from dsprep.sources.annotated.json_file import Update
from dsprep.sources.annotated.spans import ParsedImage, XmlSpans

_NO_SUBSET = ("", "default")


@dataclass(frozen=True)
class CvatImages(XmlSpans):
    """The images of a task or a project."""

    root: ClassVar[str] = "annotations"
    advice: ClassVar[Mapping[str, str]] = {"skeleton": "to take them, export as COCO Keypoints 1.0"}

    def pieces(self, file: Any, path: str, *updates: Update) -> Iterator[tuple[int, int, Any]]:
        for found in super().pieces(file, path, *updates):
            if found[-1].tag == "track":
                raise SourceError(
                    f"{path}: has tracks of a video, which dsprep does not read: export the task "
                    "from CVAT as CVAT for images 1.1, and save its images"
                )
            yield found

    def name_of(self, piece: Any) -> str:
        name: str = piece.get("name") or "" if piece.tag == "image" else ""
        if piece.tag == "image" and not name:
            raise ValueError("has no name")
        return name

    def parse(self, piece: Any) -> ParsedImage:
        found = parse_image(piece)
        subset = piece.get("subset") or ""
        side = "" if subset in _NO_SUBSET else usual_side(subset)
        return ParsedImage(
            found.shapes,
            found.extent,
            found.left_out,
            found.remarks,
            side=side,
            directories=[*dict.fromkeys((subset, subset.lower(), side, ""))],
            tags=dict.fromkeys(found.tags),
        )

    def classes_in(self, piece: Any) -> Collection[str]:
        """Return the labels of objects that the head of a file declares."""
        labels = piece.iter("label") if piece.tag == "meta" else ()
        return {
            label.findtext("name") or ""
            for label in labels
            if label.findtext("type") != "tag" and label.find("parent") is None
        } - {""}

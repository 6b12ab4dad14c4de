"""CVAT's XML for images: the elements of images, and the labels that the head of the file names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.annotations.cvat import parse_image, parts_of_skeletons
from dsprep.errors import SourceError
from dsprep.places.names import usual_side
from dsprep.sources.annotated.spans import ParsedImage, XmlSpans, opened_at

if TYPE_CHECKING:
    from dsprep.sources.annotation_kind import AnnotatedPlace
    from dsprep.sources.source import Source

_NO_SUBSET = ("", "default")


class CvatImages(XmlSpans):
    """The images of a task or a project."""

    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of skeletons, by label
    root: ClassVar[str] = "annotations"
    advice: ClassVar[Mapping[str, str]] = {"skeleton": "no label of the file declares their points"}

    def pieces(self, file: Any, path: str) -> Iterator[tuple[int, int, Any]]:
        for found in super().pieces(file, path):
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
        found = parse_image(piece, self.parts)
        subset = piece.get("subset") or ""
        side = "" if subset in _NO_SUBSET else usual_side(subset)
        return ParsedImage(
            found.shapes,
            found.extent,
            found.left_out,
            found.remarks,
            side=side,
            directories=[*dict.fromkeys((subset, subset.lower(), side, ""))],
            tags={"": dict.fromkeys(found.tags)} if found.tags else {},
        )

    def classes_in(self, piece: Any) -> Collection[str]:
        """Return the labels of objects that the head of a file declares."""
        labels = piece.iter("label") if piece.tag == "meta" else ()
        return {
            label.findtext("name") or ""
            for label in labels
            if label.findtext("type") != "tag" and label.find("parent") is None
        } - {""}


def spans_of(source: Source, place: AnnotatedPlace, paths: Sequence[str]) -> CvatImages:
    """Return what reads some files, with the points of skeletons, which their heads declare."""
    parts: dict[str, tuple[str, ...]] = {}
    for path in paths:
        with opened_at(path, source, place.files) as file:
            elements = (piece for *_, piece in CvatImages().pieces(file, path))
            head = next((each for each in elements if each.tag in ("meta", "image")), None)
        declared = {} if head is None else parts_of_skeletons(head)
        for label, own in declared.items():
            if parts.setdefault(label, own) != own:
                raise SourceError(
                    f"{path}: the skeleton {label!r:.60} has other points than in {paths[0]}: pack "
                    "the files apart"
                )
    return CvatImages(parts=parts)

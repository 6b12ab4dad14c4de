"""Pascal VOC, as a kind of annotations."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotated.voc_options import VocOptions
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, DirectoryAbove, NamedPath
from dsprep.sources.kind import Claim, Sure

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source


class VocKind(AnnotationKind):
    """Pascal VOC: an XML file for each image, and lists of the images of each side."""

    names: ClassVar = ("voc",)
    words: ClassVar = "Pascal VOC"
    help: ClassVar = "a directory of Pascal VOC's XML files"
    files: ClassVar = re.compile(r"(?:^|/)Annotations/[^/]+\.xml$", re.IGNORECASE)
    texts: ClassVar = re.compile(r"(?i)\.(?:xml|txt)$")
    directories: ClassVar = ("jpegimages", "segmentationclass", "segmentationobject")
    options: ClassVar = VocOptions

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.voc import VocTexts

        return {"voc": VocTexts}

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        if found := place.first(self.files, "xml"):
            return Claim(Sure.MARKED, found)
        beside = place.beside_an_image("xml")
        is_own = beside and b"<annotation" in place.head(beside)
        return Claim(Sure.MARKED, beside) if is_own else None

    def looks_like(self, path: NamedPath) -> bool:
        is_own = any(name.lower().endswith(".xml") for name in path.names)
        return is_own or path.head.startswith("<")

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.voc import scan_voc

        below = source.root
        if place.named:
            (named,) = place.named
            below = named.path if named.is_dir else os.path.dirname(named.path)
        return scan_voc(source, place.files, below, run_all)

    def unclear(self, place: AnnotatedPlace) -> str:
        # Masks that no XML goes with are images among the images.
        paths = place.files.table["path"]
        masks = paths.filter(paths.str.contains("Segmentation", literal=True))  # fast: few have it
        masks = masks.filter(masks.str.contains(r"(?:^|/)Segmentation(?:Class|Object)/"))
        if masks.is_empty():
            return ""
        advice = f"give --masks {os.path.join(place.root, posixpath.dirname(masks[0]))}"
        if place.files.archive is not None:
            advice = "masks in an archive are not read: unpack it, and give --masks DIR"
        return (
            f"has masks, such as {masks[0]}, which are no images of a class: {advice} and the "
            "directory of the images as SOURCE, or --from images to pack all as images"
        )

    def found_above(self, above: DirectoryAbove) -> str:
        inside = above.inside("annotations")
        is_own = any(entry.name.endswith(".xml") for entry in inside)
        return above.directory("annotations") if is_own else ""

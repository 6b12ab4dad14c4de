"""Pascal VOC, as a kind of annotations."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.voc_options import VocOptions
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind, DirectoryAbove, NamedPath
from dsprep.sources.kind import Claim, Sure
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_XML, _TXT = pattern(r"(?i)(?:\.xml|(?:^|/)[^/.]+)$"), pattern(r"(?i)\.txt$")
_ROOT = pattern(r"<([A-Za-z][\w:.-]*)")
_OBJECT, _BOX, _POLYGON = "<object", "<bndbox", "<polygon"  # LabelMe's objects have polygons
_LOOKED_INTO = 256  # XML files that no image has the name of


def _is_annotation(text: str) -> bool:
    """Return whether XML that begins so has VOC's root, and no polygons as LabelMe's has."""
    root = _ROOT.search(text)
    return root is not None and root[1] == "annotation" and _POLYGON not in text


def _group(path: str) -> tuple[str, str]:
    """Return the directory and the extension of a file."""
    return posixpath.dirname(path), posixpath.splitext(path)[1].lower()


class VocKind(AnnotationKind):
    """Pascal VOC: an XML file for each image, and lists of the images of each side."""

    names: ClassVar = ("voc",)
    words: ClassVar = "Pascal VOC"
    help: ClassVar = "a directory of Pascal VOC's XML files"
    contents: ClassVar = (
        "boxes, difficult and truncated; sides of `ImageSets`, masks of `SegmentationClass`"
    )
    not_read: ClassVar = "`<part>`, `<pose>`, `SegmentationObject`, other lists of `ImageSets`"
    example: ClassVar = "dsprep pack VOC2012 shards --to tfrecord"
    files: ClassVar = pattern(r"(?:^|/)Annotations/[^/]+\.xml$", re.IGNORECASE)
    texts: ClassVar = pattern(r"(?i)\.(?:xml|txt)$")
    directories: ClassVar = ("jpegimages", "segmentationclass", "segmentationobject")
    options: ClassVar = VocOptions

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.voc import VocTexts

        return {"voc": VocTexts}

    def is_own(self, path: str, head: bytes) -> bool:
        text = text_of(head)
        has_boxes = _OBJECT in text and _BOX in text
        return _XML.search(path) is not None and has_boxes and _is_annotation(text)

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        heads = place.heads(_XML)
        if found := min((path for path in heads if self.is_own(path, heads[path])), default=""):
            return Claim(Sure.MARKED, found)
        # Images without objects have files that tell no more than their names and sizes.
        named = {*filter(self.files.search, heads), *place.named_as_images(heads)}
        bare = (path for path in named if _is_annotation(text_of(heads[path])))
        found = min(bare, default="")
        return Claim(Sure.SHAPED, found) if found else None

    def read_in_archive(self, place: AnnotatedPlace) -> Sequence[str]:
        return [*self._files(place), *filter(_TXT.search, place.others)]

    def _files(self, place: AnnotatedPlace) -> frozenset[str]:
        """Return the XML files of images: those of an image's name, and those beside them."""
        heads = place.heads(_XML)
        own = {_group(path) for path, head in heads.items() if _is_annotation(text_of(head))}
        has_bare = any(not extension for _, extension in own)
        xmls = [path for path in place.others if _XML.search(path)]
        named = {path for path in place.named_as_images(xmls) if has_bare or _group(path)[1]}
        lost = [path for path in xmls if path not in named and _group(path) in own]
        heads = place.heads_of(lost[:_LOOKED_INTO])
        others = {path for path, head in heads.items() if not _is_annotation(text_of(head))}
        return frozenset(named.union(lost) - others)

    def looks_like(self, path: NamedPath) -> bool:
        is_own = any(name.lower().endswith(".xml") for name in path.names)
        return is_own or path.head.startswith("<")

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.voc import scan_voc

        if not place.named:
            return scan_voc(source, place.files, source.root, run_all, self._files(place))
        (named,) = place.named
        below = named.path if named.is_dir else os.path.dirname(named.path)
        return scan_voc(source, place.files, below, run_all)

    def unclear(self, place: AnnotatedPlace) -> str:
        # Masks that no XML goes with are images among the images.
        paths = place.files.table["path"]
        # a fast test first: few paths contain the word
        masks = paths.filter(paths.str.contains("Segmentation", literal=True))
        masks = masks.filter(masks.str.contains(r"(?:^|/)Segmentation(?:Class|Object)/"))
        if masks.is_empty():
            return ""
        advice = f"give --masks {os.path.join(place.root, posixpath.dirname(masks[0]))}"
        return (
            f"has masks, such as {masks[0]}, which are no images of a class: {advice} and the "
            "directory of the images as SOURCE, or --from images to pack all as images"
        )

    def found_above(self, above: DirectoryAbove) -> str:
        inside = above.inside("annotations")
        is_own = any(entry.name.endswith(".xml") for entry in inside)
        return above.directory("annotations") if is_own else ""

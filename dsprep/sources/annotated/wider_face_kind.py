"""WIDER FACE, as a kind of annotations."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.spans_kind import SpansKind
from dsprep.sources.annotation_kind import AnnotatedPlace, DirectoryAbove
from dsprep.sources.unread import text_of

if TYPE_CHECKING:
    from dsprep.sources.annotated.spans import Spans

_NAME = pattern(r"[^\n]{1,999}\.(?:jpe?g|png)", re.IGNORECASE)
_COUNT = pattern(r"\d{1,6}")
_ROW = pattern(r"-?\d[\d.]*(?:[ \t]+-?\d[\d.]*){3}(?:[ \t].*)?")
_LOOKED_AT = 16  # lines that are looked at; Datumaro writes images without faces as their names
# What lies beside them in `wider_face_split`: the same for MATLAB, and names of images.
_BESIDE = pattern(r"(?:^|/)wider_face_\w+(?:\.mat|_filelist\.txt)$", re.IGNORECASE)


class WiderFaceKind(SpansKind):
    """WIDER FACE: a text for each side, with the faces of one image after those of another."""

    names: ClassVar = ("wider-face",)
    words: ClassVar = "WIDER FACE"
    contents: ClassVar = (
        "boxes; blur, expression, illumination, invalid, occlusion and pose as attributes; a side "
        "from each file"
    )
    not_read: ClassVar = "MATLAB's copies of the texts, `wider_face_test_filelist.txt`"
    example: ClassVar = "dsprep pack WIDER shards --to webdataset"
    texts: ClassVar = pattern(r"(?i)\.txt$")
    directories: ClassVar = ("wider_train", "wider_val")
    below: ClassVar = ("../WIDER_{side}/images", "WIDER_{side}/images", "images", "../images", "")

    @classmethod
    def spans(cls) -> type[Spans]:
        from dsprep.sources.annotated.wider_face import WiderFaces

        return WiderFaces

    def is_own(self, path: str, head: bytes) -> bool:
        return self.texts.search(path) is not None and _are_faces(text_of(head))

    def found_above(self, above: DirectoryAbove) -> str:
        inside = (entry.path for entry in above.inside("wider_face_split"))
        own = sorted(
            path for path in inside if path.lower().endswith(f"{above.name[6:]}_bbx_gt.txt")
        )
        return own[0] if own and above.name in self.directories else ""

    def beside(self, place: AnnotatedPlace, used: Collection[str]) -> Iterable[str]:
        directories = {posixpath.dirname(path) for path in used}
        found = filter(_BESIDE.search, place.others)
        return (path for path in found if posixpath.dirname(path) in directories)


def _are_faces(text: str) -> bool:
    """Return whether a text begins with names of images, the number of faces and one of them."""
    lines = [line.strip() for line in text.split("\n", _LOOKED_AT)[:_LOOKED_AT] if line.strip()]
    names = list(takewhile(_NAME.fullmatch, lines))
    count, row, *_ = (*lines[len(names) :], "", "")
    return bool(names and _COUNT.fullmatch(count) and _ROW.fullmatch(row))

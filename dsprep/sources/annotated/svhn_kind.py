"""SVHN's whole images, as a kind of annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind
from dsprep.sources.kind import Claim, Sure

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_DIGITS = re.compile(r"(?:^|/)(?:(?:train|test|extra)_)?digitStruct\.mat$")


class SvhnKind(AnnotationKind):
    """SVHN's whole house numbers: boxes of digits, in a file of MATLAB for each side."""

    names: ClassVar = ("svhn",)
    words: ClassVar = "SVHN"
    contents: ClassVar = "boxes of digits, a side from each `digitStruct.mat`; needs h5py"
    not_read: ClassVar = "programs of MATLAB"
    example: ClassVar = "dsprep pack svhn shards --to webdataset"
    files: ClassVar = _DIGITS
    texts: ClassVar = _DIGITS
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def is_own(self, path: str, head: bytes) -> bool:
        return _DIGITS.search(path) is not None

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = place.first(_DIGITS, "mat")
        return Claim(Sure.MARKED, found) if found else None

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.svhn import scan_svhn

        return scan_svhn(source, place)

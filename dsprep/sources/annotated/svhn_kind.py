"""SVHN's whole images, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.box_set_kind import BoxSetKind
from dsprep.sources.annotation_kind import AnnotatedPlace

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_DIGITS = pattern(r"(?:^|/)(?:(?:train|test|extra)_)?digitStruct\.mat$")


class SvhnKind(BoxSetKind):
    """SVHN's whole house numbers: boxes of digits, in a file of MATLAB for each side."""

    names: ClassVar = ("svhn",)
    words: ClassVar = "SVHN"
    contents: ClassVar = "boxes of digits, a side from each `digitStruct.mat`; needs h5py"
    not_read: ClassVar = "programs of MATLAB"
    example: ClassVar = "dsprep pack svhn shards --to webdataset"
    files: ClassVar = _DIGITS
    texts: ClassVar = _DIGITS
    marker: ClassVar = _DIGITS
    endings: ClassVar = ("mat",)

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.svhn import scan_svhn

        return scan_svhn(source, place)

"""Stanford Cars, as a kind of annotations."""

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

_ANNOTATIONS = re.compile(r"(?:^|/)cars_(?:annos|train_annos|test_annos(?:_withlabels)?)\.mat$")


class CarsKind(AnnotationKind):
    """Stanford Cars: a class, a box and a side of each image, in files of MATLAB."""

    names: ClassVar = ("stanford-cars",)
    words: ClassVar = "Stanford Cars"
    contents: ClassVar = "the class as label, the box, both sides; class names of `cars_meta.mat`"
    not_read: ClassVar = "boxes without a class, as `cars_test_annos.mat` has them"
    example: ClassVar = "dsprep pack stanford_cars shards --to webdataset"
    files: ClassVar = re.compile(
        r"(?:^|/)cars_(?:annos|meta|train_annos|test_annos(?:_withlabels)?)\.mat$"
    )
    texts: ClassVar = files
    takes_members: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def is_own(self, path: str, head: bytes) -> bool:
        return _ANNOTATIONS.search(path) is not None

    def claim(self, place: AnnotatedPlace) -> Claim | None:
        found = place.first(_ANNOTATIONS, "mat")
        return Claim(Sure.MARKED, found) if found else None

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.matlab_sets import scan_cars

        return scan_cars(source, place)

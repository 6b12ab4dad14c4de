"""Stanford Cars, as a kind of annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from dsprep.patterns import pattern
from dsprep.sources.annotated.box_set_kind import BoxSetKind
from dsprep.sources.annotation_kind import AnnotatedPlace

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_ANNOTATIONS = pattern(r"(?:^|/)cars_(?:annos|train_annos|test_annos(?:_withlabels)?)\.mat$")


class CarsKind(BoxSetKind):
    """Stanford Cars: a class, a box and a side of each image, in files of MATLAB."""

    names: ClassVar = ("stanford-cars",)
    words: ClassVar = "Stanford Cars"
    contents: ClassVar = "the class as label, the box, both sides; class names of `cars_meta.mat`"
    not_read: ClassVar = "boxes without a class, as `cars_test_annos.mat` has them"
    example: ClassVar = "dsprep pack stanford_cars shards --to webdataset"
    files: ClassVar = pattern(
        r"(?:^|/)cars_(?:annos|meta|train_annos|test_annos(?:_withlabels)?)\.mat$"
    )
    texts: ClassVar = files
    marker: ClassVar = _ANNOTATIONS
    endings: ClassVar = ("mat",)

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.matlab_sets import scan_cars

        return scan_cars(source, place)

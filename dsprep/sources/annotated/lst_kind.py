"""Lists of MXNet with labels for detection, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source


class LstKind(AnnotationKind):
    """MXNet's ``.lst`` with labels for detection."""

    names: ClassVar = ("lst",)
    words: ClassVar = "MXNet"
    help: ClassVar = "an MXNet .lst"
    contents: ClassVar = "boxes, difficult"
    example: ClassVar = "dsprep pack photos train.rec --annotations boxes.lst"
    extensions: ClassVar = (".lst",)
    takes_several: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.box_tables import together
        from dsprep.sources.annotated.boxes import scan_lst

        paths = [named.path for named in place.named]
        scans = [scan_lst(source, path) for path in paths]
        return together(scans, paths, source, place.files)

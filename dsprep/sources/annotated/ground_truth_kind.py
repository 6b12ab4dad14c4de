"""Ground Truth's output manifest, as a kind of annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.formats.augmented import MANIFESTS
from dsprep.patterns import pattern
from dsprep.sources.annotation_kind import AnnotatedPlace, AnnotationKind

if TYPE_CHECKING:
    from dsprep.places.scan import RunAll
    from dsprep.sources.annotated.annotated import Scan
    from dsprep.sources.source import Source

_DRAWN = pattern(rb'"(?:image_size|internal-color-map)"\s*:')  # boxes, or masks


class GroundTruthKind(AnnotationKind):
    """The output manifest of SageMaker Ground Truth, with boxes or references to masks."""

    names: ClassVar = ("manifest",)
    words: ClassVar = "Ground Truth"
    help: ClassVar = "a manifest of Ground Truth"
    contents: ClassVar = "boxes, masks of semantic segmentation"
    not_read: ClassVar = "confidences"
    example: ClassVar = "dsprep pack photos shards --to recordio --annotations output.manifest"
    extensions: ClassVar = MANIFESTS
    takes_several: ClassVar = True

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        from dsprep.sources.annotated.boxes import TableBoxes

        return {"table-boxes": TableBoxes}

    def is_own(self, path: str, head: bytes) -> bool:
        return (
            path.endswith(".manifest")
            and b'"source-ref"' in head
            and _DRAWN.search(head) is not None
        )

    def scan(self, source: Source, place: AnnotatedPlace, run_all: RunAll) -> Scan:
        from dsprep.sources.annotated.box_tables import together
        from dsprep.sources.annotated.ground_truth import scan_manifest

        paths = [named.path for named in place.named]
        scans = [scan_manifest(source, path, run_all) for path in paths]
        return together(scans, paths, source, place.files)

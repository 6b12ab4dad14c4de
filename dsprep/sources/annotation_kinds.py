"""The kinds of annotations by name. Other packages add kinds by entry points."""

from __future__ import annotations

from functools import cache

from dsprep.sources.annotation_kind import VERSION, AnnotationKind
from dsprep.sources.kinds import KnownKinds, kinds_at, with_others

# A new kind is a module and a line here, in any order: --annotations tells what they take in this.
KINDS = {
    "coco": "annotated.coco_kind:CocoKind",
    "yolo": "annotated.yolo_kind:YoloKind",
    "voc": "annotated.voc_kind:VocKind",
    "csv": "annotated.boxes_kind:BoxTableKind",
    "label-studio": "annotated.label_studio_kind:LabelStudioKind",
    "manifest": "annotated.ground_truth_kind:GroundTruthKind",
    "lst": "annotated.lst_kind:LstKind",
}

GROUP = "dsprep.annotations"
"""The group of entry points by which other packages add kinds."""


@cache
def own_annotation_kinds() -> KnownKinds[AnnotationKind]:
    """Load the kinds of dsprep itself."""
    return KnownKinds(kinds_at(KINDS.values()))


@cache
def all_annotation_kinds() -> KnownKinds[AnnotationKind]:
    """Load the kinds of dsprep, and those of other packages that fit this version."""
    own = own_annotation_kinds()
    return with_others(own, GROUP, VERSION, "annotations", "--annotation-format")

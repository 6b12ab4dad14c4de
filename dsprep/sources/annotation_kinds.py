"""The kinds of annotations by name, and which of them a file is.

Other packages add kinds by entry points.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from dsprep.findings import Finding
from dsprep.sources.annotation_kind import VERSION, AnnotationKind
from dsprep.sources.kinds import KnownKinds, entry_points_of, kinds_at, with_others
from dsprep.sources.unread import unread_kind
from dsprep.tuples import NamedTuple

# A new kind is a module and a line here, in any order: --annotations tells what they take in this.
KINDS = {
    "coco": "annotated.coco_kind:CocoKind",
    "coco-panoptic": "annotated.coco_panoptic_kind:CocoPanopticKind",
    "celeba": "annotated.celeba_kind:CelebaKind",
    "flowers-102": "annotated.flowers_kind:FlowersKind",
    "stanford-cars": "annotated.cars_kind:CarsKind",
    "svhn": "annotated.svhn_kind:SvhnKind",
    "gtsrb": "annotated.gtsrb_kind:GtsrbKind",
    "fgvc-aircraft": "annotated.aircraft_kind:AircraftKind",
    "tags": "annotated.tags_kind:TagTableKind",
    "open-images": "annotated.open_images_kind:OpenImagesKind",
    "yolo": "annotated.yolo_kind:YoloKind",
    "voc": "annotated.voc_kind:VocKind",
    "captions": "annotated.caption_files_kind:CaptionFilesKind",
    "csv": "annotated.boxes_kind:BoxTableKind",
    "label-studio": "annotated.label_studio_kind:LabelStudioKind",
    "manifest": "annotated.ground_truth_kind:GroundTruthKind",
    "lst": "annotated.lst_kind:LstKind",
    "cityscapes": "annotated.cityscapes_kind:CityscapesKind",
    "voc-masks": "annotated.voc_masks_kind:VocMasksKind",
    "camvid": "annotated.camvid_kind:CamVidKind",
    "sceneparse150": "annotated.scene_parse_kind:SceneParseKind",
    "oxford-pet": "annotated.oxford_pet_kind:OxfordPetKind",
    "mvtec": "annotated.mvtec_kind:MVTecKind",
    "mapillary": "annotated.mapillary_kind:MapillaryKind",
    "kitti": "annotated.kitti_kind:KittiKind",
    "cvat": "annotated.cvat_kind:CvatKind",
    "create-ml": "annotated.create_ml_kind:CreateMlKind",
    "via": "annotated.via_kind:ViaKind",
    "wider-face": "annotated.wider_face_kind:WiderFaceKind",
    "cub": "annotated.cub_kind:CubKind",
    "mot": "annotated.mot_kind:MotKind",
    "dota": "annotated.dota_kind:DotaKind",
    "visdrone": "annotated.visdrone_kind:VisDroneKind",
    "bdd100k": "annotated.bdd100k_kind:Bdd100kKind",
    "crowdhuman": "annotated.crowdhuman_kind:CrowdHumanKind",
    "segment-anything": "annotated.segment_anything_kind:SegmentAnythingKind",
    "labelme": "annotated.labelme_kind:LabelmeKind",
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


def notes_on_other_kinds() -> Sequence[Finding]:
    """Return notes about the kinds of other packages that are left out; most users have none."""
    return all_annotation_kinds().notes if entry_points_of(GROUP) else ()


class Recognized(NamedTuple):
    """A kind of annotations that a file begins like."""

    name: str  # what messages call it
    advice: str = ""  # what to do, if nothing reads it


def kind_by_content(path: str, head: bytes) -> Recognized | None:
    """Return the kind of annotations that a file begins like; None if it is like none."""
    if unread := unread_kind(path, head):
        return Recognized(unread.name, unread.advice)
    kinds = (kind() for kind in all_annotation_kinds().kinds)
    own = (kind.words for kind in kinds if kind.is_own(path, head))
    return next(map(Recognized, own), None)

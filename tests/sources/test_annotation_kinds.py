"""Each kind of annotations keeps the contract, and two that claim one place are an error."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

import tests.sources.test_mask_sets  # noqa: F401 - its classes are those of further kinds
from dsprep.cli.main import cli
from dsprep.errors import OptionError, SourceError
from dsprep.sources.annotated.aircraft_kind import AircraftKind
from dsprep.sources.annotated.bdd100k_kind import Bdd100kKind
from dsprep.sources.annotated.boxes_kind import BoxTableKind
from dsprep.sources.annotated.caption_files_kind import CaptionFilesKind
from dsprep.sources.annotated.cars_kind import CarsKind
from dsprep.sources.annotated.celeba_kind import CelebaKind
from dsprep.sources.annotated.coco_kind import CocoKind
from dsprep.sources.annotated.coco_panoptic_kind import CocoPanopticKind
from dsprep.sources.annotated.create_ml_kind import CreateMlKind
from dsprep.sources.annotated.crowdhuman_kind import CrowdHumanKind
from dsprep.sources.annotated.cub_kind import CubKind
from dsprep.sources.annotated.cvat_kind import CvatKind
from dsprep.sources.annotated.dota_kind import DotaKind
from dsprep.sources.annotated.flowers_kind import FlowersKind
from dsprep.sources.annotated.ground_truth_kind import GroundTruthKind
from dsprep.sources.annotated.gtsrb_kind import GtsrbKind
from dsprep.sources.annotated.kitti_kind import KittiKind
from dsprep.sources.annotated.label_studio_kind import LabelStudioKind
from dsprep.sources.annotated.labelme_kind import LabelmeKind
from dsprep.sources.annotated.lst_kind import LstKind
from dsprep.sources.annotated.mot_kind import MotKind
from dsprep.sources.annotated.open_images_kind import OpenImagesKind
from dsprep.sources.annotated.segment_anything_kind import SegmentAnythingKind
from dsprep.sources.annotated.svhn_kind import SvhnKind
from dsprep.sources.annotated.tags_kind import TagTableKind
from dsprep.sources.annotated.via_kind import ViaKind
from dsprep.sources.annotated.visdrone_kind import VisDroneKind
from dsprep.sources.annotated.voc_kind import VocKind
from dsprep.sources.annotated.wider_face_kind import WiderFaceKind
from dsprep.sources.annotated.yolo_kind import YoloKind
from dsprep.sources.annotation_kinds import KINDS, own_annotation_kinds
from dsprep.sources.kind import Sure
from dsprep.sources.source import Source
from tests.attack.test_annotation_files import SIZE, ground_truth, label_studio
from tests.images import jpeg
from tests.sources import (
    test_bdd100k,
    test_caption_files,
    test_celeba,
    test_coco_panoptic,
    test_crowdhuman,
    test_dota,
    test_matlab_sets,
    test_open_images,
    test_segment_anything,
    test_svhn,
    test_visdrone,
)
from tests.sources.annotation_contract import AnnotationTests
from tests.sources.boxes import KITTI, ROW, box, coco, labelme, read, told, voc, voc_object, write


class TestCaptionFiles(AnnotationTests):
    kind = CaptionFilesKind
    files = test_caption_files.SET
    named = "text/Flickr8k.token.txt"
    is_claimed = True


class TestCoco(AnnotationTests):
    kind = CocoKind
    files = {
        "train/a.jpg": None,
        "train/b.jpg": None,
        "annotations/instances_train.json": coco(["a.jpg", "b.jpg"], [box(1, 1)]),
    }
    named = "annotations/instances_train.json"
    is_claimed = True


class TestCocoPanoptic(AnnotationTests):
    kind = CocoPanopticKind
    files = test_coco_panoptic.ONE_SIDE
    named = "annotations/panoptic_train.json"
    is_claimed = True

    def source(self, root: str, **options: Any) -> Source:
        return super().source(root, **options).replace(takes_masks=True)


class TestCeleba(AnnotationTests):
    kind = CelebaKind
    files = test_celeba.WILD
    named = "Anno/list_attr_celeba.txt"
    is_claimed = True


class TestFlowers(AnnotationTests):
    kind = FlowersKind
    files = test_matlab_sets.FLOWERS
    named = "imagelabels.mat"
    is_claimed = True


class TestCars(AnnotationTests):
    kind = CarsKind
    files = test_matlab_sets.CARS
    named = "devkit/cars_train_annos.mat"
    is_claimed = True


class TestSvhn(AnnotationTests):
    kind = SvhnKind
    files = test_svhn.SVHN
    named = "train/digitStruct.mat"
    is_claimed = True


class TestOpenImages(AnnotationTests):
    kind = OpenImagesKind
    files = test_open_images.ONE_SIDE
    named = "annotations/oidv6-train-annotations-bbox.csv"
    is_claimed = True


class TestGtsrb(AnnotationTests):
    kind = GtsrbKind
    files = {
        "g1.png": None,
        "g2.png": None,
        "Train.csv": "Width,Height,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2,ClassId,Path\n"
        "40,20,1,2,3,4,0,g1.png\n40,20,5,6,7,8,1,g2.png\n",
    }
    named = "Train.csv"
    is_claimed = True


class TestAircraft(AnnotationTests):
    kind = AircraftKind
    files = {
        "images/0034309.jpg": None,
        "images/1025794.jpg": None,
        "images_variant_train.txt": "1025794 707-320\n",
        "images_variant_test.txt": "0034309 Fokker 50\n",
        "images_box.txt": "0034309 3 1 30 20\n1025794 1 1 40 20\n",
    }
    named = "images_variant_train.txt"
    is_claimed = True


class TestTags(AnnotationTests):
    kind = TagTableKind
    files = {"r1.jpg": None, "r2.jpg": None, "_classes.csv": "filename, x\nr1.jpg, 1\nr2.jpg, 0\n"}
    named = "_classes.csv"
    is_claimed = True


class TestYolo(AnnotationTests):
    kind = YoloKind
    files = {
        "data.yaml": "train: images\nnames: [cat]\n",
        "images/a.jpg": None,
        "images/b.jpg": None,
        "labels/a.txt": ROW,
    }
    named = "data.yaml"
    is_claimed = True


class TestVoc(AnnotationTests):
    kind = VocKind
    files = {
        "JPEGImages/a.jpg": None,
        "Annotations/a.xml": voc(voc_object("cat", (1, 2, 3, 4))),
        "ImageSets/Main/train.txt": "a\n",
    }
    named = "Annotations"
    is_claimed = True


class TestBoxTable(AnnotationTests):
    kind = BoxTableKind
    files = {
        "t1.jpg": None,
        "t2.jpg": None,
        "_annotations.csv": "filename,width,height,class,xmin,ymin,xmax,ymax\n"
        "t1.jpg,40,20,cat,1,2,3,4\n",
    }
    named = "_annotations.csv"
    is_claimed = True


class TestLabelStudio(AnnotationTests):
    kind = LabelStudioKind
    files = {"a.jpg": jpeg(size=SIZE), "tasks.json": f"[{label_studio('a.jpg')}]"}
    named = "tasks.json"


class TestGroundTruth(AnnotationTests):
    kind = GroundTruthKind
    files = {"a.jpg": jpeg(size=SIZE), "output.manifest": ground_truth("a.jpg") + "\n"}
    named = "output.manifest"


class TestLst(AnnotationTests):
    kind = LstKind
    files = {"a.jpg": None, "boxes.lst": "0\t2\t5\t0\t0.1\t0.2\t0.6\t0.6\ta.jpg\n"}
    named = "boxes.lst"


class TestKitti(AnnotationTests):
    kind = KittiKind
    files = {
        "image_2/0.jpg": None,
        "image_2/1.jpg": None,
        "label_2/0.txt": KITTI,
        "label_2/1.txt": "",
    }
    named = "label_2"
    is_claimed = True


class TestCvat(AnnotationTests):
    kind = CvatKind
    files = {
        "images/a.jpg": None,
        "images/b.jpg": None,
        "annotations.xml": '<annotations><version>1.1</version><image name="a.jpg"><box label="a" '
        'xtl="1" ytl="2" xbr="3" ybr="4"/></image><image name="b.jpg"/></annotations>',
    }
    named = "annotations.xml"
    is_claimed = True


class TestCreateMl(AnnotationTests):
    kind = CreateMlKind
    files = {
        "a.jpg": None,
        "_annotations.createml.json": '[{"image": "a.jpg", "annotations": [{"label": "a", '
        '"coordinates": {"x": 9, "y": 9, "width": 4, "height": 6}}]}]',
    }
    named = "_annotations.createml.json"
    is_claimed = True


class TestVia(AnnotationTests):
    kind = ViaKind
    files = {
        "a.jpg": None,
        "via_region_data.json": '{"a.jpg1": {"filename": "a.jpg", "regions": {"0": '
        '{"shape_attributes": {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}}}}}',
    }
    named = "via_region_data.json"
    is_claimed = True


class TestWiderFace(AnnotationTests):
    kind = WiderFaceKind
    files = {
        "wider_face_split/wider_face_val_bbx_gt.txt": "0--Parade/0_a_1.jpg\n1\n1 2 3 4\n",
        "WIDER_val/images/0--Parade/0_a_1.jpg": None,
    }
    named = "wider_face_split/wider_face_val_bbx_gt.txt"
    is_claimed = True


class TestLabelme(AnnotationTests):
    kind = LabelmeKind
    files = {
        "images/a.jpg": None,
        "images/b.jpg": None,
        "json/a.json": labelme({"label": "cat", "points": [[1, 2], [3, 4], [5, 1]]}),
        "json/b.json": labelme(),
    }
    named = "json"
    is_claimed = True


class TestCub(AnnotationTests):
    kind = CubKind
    files = {
        "images/a/1.jpg": None,
        "images/b/2.jpg": None,
        "texts/images.txt": "1 a/1.jpg\n2 b/2.jpg\n",
        "texts/image_class_labels.txt": "1 1\n2 2\n",
        "texts/bounding_boxes.txt": "1 1 2 3 4\n2 5 6 7 8\n",
    }
    named = "texts"
    is_claimed = True


class TestMot(AnnotationTests):
    kind = MotKind
    files = {
        "a/img1/000041.jpg": None,
        "a/img1/000042.jpg": None,
        "b/img1/000051.jpg": None,
        "a/gt/gt.txt": "41,7,1,2,3,4,1,1,0.5\n",
        "a/seqinfo.ini": "[Sequence]\nimDir=img1\n",
    }
    named = "a/gt"
    is_claimed = True


class TestDota(AnnotationTests):
    kind = DotaKind
    files = test_dota.SET
    named = "labelTxt"
    is_claimed = True


class TestVisDrone(AnnotationTests):
    kind = VisDroneKind
    files = test_visdrone.SET
    named = "annotations"
    is_claimed = True


class TestBdd100k(AnnotationTests):
    kind = Bdd100kKind
    files = test_bdd100k.ONE_SIDE
    named = "labels/bdd100k_labels_images_train.json"
    is_claimed = True


class TestCrowdHuman(AnnotationTests):
    kind = CrowdHumanKind
    files = test_crowdhuman.ONE_SIDE
    named = "annotation_train.odgt"
    is_claimed = True


class TestSegmentAnything(AnnotationTests):
    kind = SegmentAnythingKind
    files = test_segment_anything.SET
    named = "annotations"
    is_claimed = True


def test_each_kind_has_a_test_class() -> None:
    assert {each.kind for each in AnnotationTests.__subclasses__()} == {
        *own_annotation_kinds().kinds
    }
    assert [*KINDS] == [*own_annotation_kinds().names]


def test_each_kind_has_a_row_for_the_docs_with_a_command_that_exists() -> None:
    for kind in own_annotation_kinds().kinds:
        assert kind.contents, kind
        program, name, *arguments = shlex.split(kind.example)
        assert program == "dsprep", kind.example
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, kind.example
        with command.make_context(name, arguments):
            pass


def test_two_kinds_that_are_equally_sure_are_one_error(tmp_path: Path) -> None:
    """The one of each pair that is called first in the message is so by its name."""
    claimed = [each for each in AnnotationTests.__subclasses__() if each.is_claimed]
    equals: dict[Sure, list[type[AnnotationTests]]] = {}
    for each in claimed:
        equals.setdefault(each.kind.surest, []).append(each)
    # Each kind is once the first and once the second: all pairs would be some hundred.
    pairs = [
        pair for alike in equals.values() for pair in zip(alike, alike[1:] + alike[:1], strict=True)
    ]
    for one, two in pairs:
        if one is two:
            continue
        first, second = sorted((one, two), key=lambda each: each.kind.names[0])
        root = write(tmp_path / f"{one.__name__}{two.__name__}", {**one.files, **two.files})
        words = " and of ".join(rf"{each.kind.words} \([^)]+\)" for each in (first, second))
        said = f"^{re.escape(str(root))}: has annotations of {words}: name those to take with "
        with pytest.raises(SourceError, match=said):
            read(root)
        # Images cannot be left out, and names may mean those of the other set.
        others = [name for name in two.files if name not in one.files]
        texts = [name for name in others if not name.endswith((".jpg", ".png"))]
        left = {**one.files, **{name: two.files[name] for name in texts}}
        root = write(tmp_path / f"{one.__name__} alone {two.__name__}", left)
        assert told(read(root, leave_out=texts)[0]) != {}


def test_the_format_of_a_path_is_unclear(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.jpg": None, "x.bin": "x", "both/a.json": "{}", "both/a.xml": "<a/>"})
    for name in ("x.bin", "both"):
        with pytest.raises(OptionError, match="is unclear: give"):
            read(root, annotations=[str(root / name)])

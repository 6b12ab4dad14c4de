"""Data sets of images and masks in parallel directories: what is read of each, and what is not."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dsprep
from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.images.transform import Transform
from dsprep.sample import Sample
from dsprep.sources.annotated.camvid import OF_SEGNET
from dsprep.sources.annotated.camvid_kind import CamVidKind
from dsprep.sources.annotated.cityscapes_kind import NAMES, CityscapesKind
from dsprep.sources.annotated.mapillary_kind import MapillaryKind
from dsprep.sources.annotated.mvtec_kind import MVTecKind
from dsprep.sources.annotated.oxford_pet_kind import OxfordPetKind
from dsprep.sources.annotated.scene_parse_kind import SceneParseKind
from dsprep.sources.annotated.voc_masks_kind import VocMasksKind
from dsprep.sources.passed_over import require_nothing_left
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.sources import mask_sets
from tests.sources.annotation_contract import AnnotationTests, MaskSetTests
from tests.sources.boxes import kinds, notes, sides, write
from tests.sources.mask_sets import Content, png


class TestCityscapes(MaskSetTests, AnnotationTests):
    kind = CityscapesKind
    files = mask_sets.CITYSCAPES


class TestCamVid(MaskSetTests, AnnotationTests):
    kind = CamVidKind
    files = mask_sets.CAMVID


class TestVocMasks(MaskSetTests, AnnotationTests):
    kind = VocMasksKind
    files = mask_sets.VOC_MASKS


class TestMapillary(MaskSetTests, AnnotationTests):
    kind = MapillaryKind
    files = mask_sets.MAPILLARY


class TestSceneParse(MaskSetTests, AnnotationTests):
    kind = SceneParseKind
    files = mask_sets.SCENE_PARSE


class TestOxfordPet(MaskSetTests, AnnotationTests):
    kind = OxfordPetKind
    files = mask_sets.OXFORD_PET


class TestMVTec(MaskSetTests, AnnotationTests):
    kind = MVTecKind
    files = mask_sets.MVTEC


def read(root: Path, **options: Any) -> tuple[Catalog, list[Finding]]:
    source = make_source(str(root), **options).replace(takes_masks=True)
    found = read_source(source)
    require_nothing_left(source, found)
    return found


def masks(catalog: Catalog) -> dict[str, list[int]]:
    """The class numbers of each mask, by the path of its image; none without a mask."""
    found = {}
    for sample in pickle.loads(pickle.dumps(catalog.reader)).read(catalog.rows()):
        assert isinstance(sample, Sample), sample
        data = sample.fields.get("mask")
        numbers = set(Image.open(BytesIO(data)).tobytes()) if data else set()
        found[sample.path] = sorted(numbers)
    return found


def names(catalog: Catalog) -> tuple[str, ...]:
    return catalog.settled.schema.by_name["mask"].names


def labels(catalog: Catalog) -> list[str]:
    return [(catalog.classes or ())[number] for number in catalog.table["cls"]]


def test_cityscapes(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, mask_sets.CITYSCAPES))
    top = "leftImg8bit"
    one, two = (
        f"{top}/{at}_000000_000019_{top}.png" for at in ("train/aachen/aachen", "val/ulm/ulm")
    )
    assert masks(catalog) == {one: [0, 7], two: [0, 33]}
    assert sides(catalog) == {one: "train", two: "val"}
    assert names(catalog) == NAMES
    assert (NAMES[7], NAMES[33], len(NAMES)) == ("road", "bicycle", 34)
    assert Counter(kinds(findings).values()) == {"not-read": 9}
    assert notes(findings).count("of the data set not read: *_") == 5
    # Without finer ones, the coarse masks are read.
    coarse = {path: data for path, data in mask_sets.CITYSCAPES.items() if "gtFine" not in path}
    catalog, _ = read(write(tmp_path / "coarse", coarse))
    assert masks(catalog) == {one: [33], two: [33]}


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("128 0 0 big cat\n0 128 0 dog\n", ("background", "big cat", "dog")),
        ("0 0 0 nothing\n128 0 0 cat\n", ("nothing", "cat")),
        (" cat\n background\n", ("background", "cat")),
    ],
)
def test_cityscapes_as_datumaro_writes_it(
    tmp_path: Path, text: str, known: tuple[str, ...]
) -> None:
    files = {f"leftImg8bit/val/{name}_leftImg8bit.png": None for name in "ab"}
    for ids in ("labelIds", "labelTrainIds"):
        own = files | {f"gtFine/val/{name}_gtFine_{ids}.png": mask_sets.png(0, 1) for name in "ab"}
        catalog, findings = read(write(tmp_path / ids, own | {"label_colors.txt": text}))
        assert names(catalog) == known
        assert "label_colors.txt" not in kinds(findings)
        (tmp_path / ids / "label_colors.txt").unlink()
    catalog, _ = read(tmp_path / "labelTrainIds")
    assert (names(catalog)[0], len(names(catalog))) == ("road", 19)


def test_mapillary(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, mask_sets.MAPILLARY))
    paths = [f"{side}/images/{side}1.jpg" for side in ("training", "validation")]
    assert masks(catalog) == {paths[0]: [0, 1], paths[1]: [0, 1], "testing/images/t.jpg": []}
    own = ("training", "validation", "testing")
    assert sides(catalog) == dict(zip((*paths, "testing/images/t.jpg"), own, strict=True))
    assert names(catalog) == ("Bird", "Road")
    assert Counter(kinds(findings).values()) == {"not-read": 11}
    assert "1 image without a mask" in notes(findings)
    (tmp_path / "config_v2.0.json").write_text('{"labels": [1]}')
    with pytest.raises(SourceError, match="does not name the classes of Mapillary Vistas"):
        read(tmp_path)


def test_camvid(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path / "segnet", mask_sets.CAMVID))
    frames = [path for path in mask_sets.CAMVID if re.match("(train|val)/", path)]
    assert masks(catalog) == dict(zip(frames, ([0, 11], [1], [2]), strict=True))
    assert sides(catalog) == dict(zip(frames, ("train", "train", "val"), strict=True))
    assert names(catalog) == OF_SEGNET
    assert kinds(findings) == {"train.txt": "not-read"}
    for form, expected in (
        ("COLORS", [[0, 1], [1]]),
        ("KAGGLE", [[0], [1]]),
        ("FASTAI", [[0], [1]]),
    ):
        catalog, findings = read(write(tmp_path / form, getattr(mask_sets, f"CAMVID_OF_{form}")))
        assert [*masks(catalog).values()] == expected
        assert names(catalog) == ("Animal", "Void")
        assert set(sides(catalog).values() if form != "COLORS" else ()) in ({"train", "val"}, set())
        assert not kinds(findings)


def test_masks_of_voc_without_xml(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, mask_sets.VOC_MASKS))
    assert masks(catalog) == {"JPEGImages/f0.jpg": [0, 1], "JPEGImages/f1.jpg": [0, 1]}
    assert names(catalog) == ("background", "horse")
    assert [*sides(catalog).values()] == ["train", "val"]
    assert Counter(kinds(findings).values()) == {"not-read": 3}
    (tmp_path / "labelmap.txt").unlink()
    (tmp_path / "class_names.txt").write_text("_background_\ncat\n")
    for at in range(2):
        (tmp_path / f"SegmentationClass/f{at}.png").write_bytes(mask_sets.png(0, 1, mode="P"))
    assert names(read(tmp_path)[0]) == ("_background_", "cat")


def test_sides_of_masks_of_voc(tmp_path: Path) -> None:
    lists = "ImageSets/Segmentation/{}.txt".format

    def files(*names: str) -> Content:
        of_each = ((f"JPEGImages/{name}.jpg", f"SegmentationClass/{name}.png") for name in names)
        return {
            path: data
            for image, mask in of_each
            for path, data in ((image, None), (mask, png(0, 1)))
        }

    names = ("a/0", "a/1", "b/0", "b/1")
    own = {lists("train"): "a/0\na/1.jpg\n", lists("val"): "b/0\nb/1\n", lists("seen"): "a/0\n"}
    catalog, findings = read(write(tmp_path / "alike", {**files(*names), **own}))
    assert [*sides(catalog).values()] == ["train", "train", "val", "val"]
    assert not catalog.settled.schema.by_name["mask"].missing
    write(tmp_path / "alike", {lists("train"): "0\n1\n"})
    with pytest.raises(SourceError, match="'0' may mean 'JPEGImages/a/0.jpg' or"):
        read(tmp_path / "alike")
    # An image of two lists is none for training.
    own = {lists("train"): "0\n1\n", lists("val"): "1\n2\n"}
    catalog, findings = read(write(tmp_path / "twice", {**files(*"012"), **own}))
    assert [*sides(catalog).values()] == ["train", "val", "val"]
    assert "1 image of other sides, which stay there" in notes(findings)


def test_scene_parse_150(tmp_path: Path) -> None:
    catalog, _ = read(write(tmp_path, mask_sets.SCENE_PARSE))
    assert [*masks(catalog).values()] == [[0, 1], [0, 2], [2]]
    assert names(catalog) == ("other", "wall", "building, edifice")
    assert catalog.sides == ("training", "validation")
    assert labels(catalog) == ["airport", "street", "street"]


def test_oxford_pet(tmp_path: Path) -> None:
    files = {**mask_sets.OXFORD_PET, "images/Bengal_9.jpg": None, "images/Bengal_3.mat": "MATLAB"}
    catalog, findings = read(write(tmp_path, {**files, "annotations/trimaps/Bengal_9.png": png(1)}))
    assert [*masks(catalog).values()] == [[1, 3], [1, 3], [3], [2, 3]]
    assert labels(catalog) == ["Abyssinian", "Abyssinian", "Bengal", "american_bulldog"]
    # Breeds have the numbers of the lists.
    assert catalog.classes == ("Abyssinian", "american_bulldog", "Bengal")
    assert [*sides(catalog).values()] == ["trainval", "test", "test", "trainval"]
    assert names(catalog)[1:] == ("pet", "background", "not classified")
    assert kinds(findings) == {
        "annotations/xmls/Abyssinian_1.xml": "not-read",
        "images/Bengal_3.mat": "not-read",
        "images/Bengal_9.jpg": "unlisted",
    }
    for line, said in (
        ("Bengal_3 x 1 1", "no name and id"),
        ("Bengal_3 1 1 1", "has the id 3, and"),
    ):
        write(tmp_path, {"annotations/trainval.txt": f"{line}\n"})
        with pytest.raises(SourceError, match=f"annotations/.*{said}"):
            read(tmp_path)


def test_mvtec(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path / "one", mask_sets.MVTEC))
    assert masks(catalog) == {
        "test/broken/000.png": [0, 1],
        "test/broken/001.png": [1],
        "test/good/000.png": [],
        "train/good/000.png": [],
    }
    assert labels(catalog) == ["broken", "broken", "good", "good"]
    assert [*sides(catalog).values()] == ["test", "test", "test", "train"]
    assert "2 images without a mask: 2 of good" in notes(findings)
    tests = {path: each for path, each in mask_sets.MVTEC.items() if path[:5] != "train"}
    assert labels(read(write(tmp_path / "tests", tests))[0]) == ["broken", "broken", "good"]
    things = {
        f"{of}/{path}": each for of in ("bottle", "cable") for path, each in mask_sets.MVTEC.items()
    }
    catalog, _ = read(write(tmp_path / "two", things))
    assert catalog.classes == ("bottle/broken", "bottle/good", "cable/broken", "cable/good")
    # Defects among the images for training are another data set.
    with pytest.raises(SourceError, match="have the look of a mask of"):
        read(write(tmp_path / "other", {**mask_sets.MVTEC, "train/broken/1.png": None}))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"label_colors.txt": "64 128 Animal\n"}, "is no color of a class"),
        ({"label_colors.txt": "64 128 640 Animal\n"}, "is no color of a class"),
        ({"label_colors.txt": "0 0 0 Void\n0 0 0 Sky\n"}, "is there twice"),
        ({"label_colors.txt": "0 0 0 Void\n"}, "has colors that are those of no class: #408040"),
        ({"LabeledApproved_full/0001TP_006690_L.png": "no image"}, "0001TP_006690"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, files: Content, said: str) -> None:
    root = write(tmp_path, {**mask_sets.CAMVID_OF_COLORS, **files})
    with pytest.raises(SourceError, match=said) as refused:
        read(root)
    assert "--from images packs the images without any" in str(refused.value)


def test_a_wrong_table_of_names_is_told(tmp_path: Path) -> None:
    for table in ("wall\n", "Idx\tName\n2\twall\n", "Idx\tName\nx\twall\n", "Idx\tName\n1\n"):
        root = write(tmp_path, {**mask_sets.SCENE_PARSE, "objectInfo150.txt": table})
        with pytest.raises(SourceError, match="objectInfo150.txt: (has no columns|the numbers)"):
            read(root)


@pytest.mark.parametrize("name", ["CITYSCAPES", "CAMVID", "OXFORD_PET", "MVTEC", "SCENE_PARSE"])
def test_masks_are_left_out_or_moved(tmp_path: Path, name: str) -> None:
    files: Content = getattr(mask_sets, name)
    root = write(tmp_path / "set", files)
    # Without a place for masks, a note names them, and nothing else changes.
    report = dsprep.pack(root, tmp_path / "rec", to="recordio", workers=1)
    assert any("masks not read, such as" in note for note in report.notes), report.notes
    smaller = Transform(resize=10)
    moved = dsprep.pack(root, tmp_path / "small", to="webdataset", transform=smaller, workers=1)
    assert moved.samples == report.samples
    assert not dsprep.verify(tmp_path / "small", against=root, workers=1).problems


@pytest.mark.parametrize(
    ("name", "mask", "image"),
    [
        ("CAMVID", "trainannot/0001TP_006690.png", "train/0001TP_006690.png"),
        ("CAMVID_OF_FASTAI", "labels/0016E5_00_P.png", "images/0016E5_00.png"),
        (
            "SCENE_PARSE",
            "annotations/training/ADE_train_00000000.png",
            "images/training/ADE_train_00000000.jpg",
        ),
        ("OXFORD_PET", "annotations/trimaps/Bengal_3.png", "images/Bengal_3.jpg"),
        ("MVTEC", "ground_truth/broken/000_mask.png", "test/broken/000.png"),
    ],
)
def test_a_set_without_one_of_its_masks_or_images(
    tmp_path: Path, name: str, mask: str, image: str
) -> None:
    files: Content = getattr(mask_sets, name)
    root = write(tmp_path / "mask", {path: files[path] for path in files if path != mask})
    catalog, findings = read(root)
    assert masks(catalog)[image] == []
    assert "without a mask" in notes(findings)
    root = write(tmp_path / "image", {path: files[path] for path in files if path != image})
    _, findings = read(root)
    assert f"1 mask without an image, such as {mask}" in notes(findings)


def test_masks_that_a_user_names_win(tmp_path: Path) -> None:
    root = write(tmp_path / "set", mask_sets.MVTEC)
    write(tmp_path / "mine", {f"{at}.png": png(3) for at in ("test/broken/000", "train/good/000")})
    options: Any = {"masks": f"{tmp_path}/mine", "leave_out": ["ground_truth"]}
    catalog, _ = read(root, **options)
    assert [*masks(catalog).values()] == [[3], [], [], [3]]


def test_masks_of_few_images_are_no_data_set(tmp_path: Path) -> None:
    files = {**mask_sets.CAMVID, "trainannot/1.png": png(1), "trainannot/2.png": png(2)}
    with pytest.raises(SourceError):
        read(write(tmp_path, files))

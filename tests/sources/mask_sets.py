"""Small data sets of images and masks, in the directories that their authors chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO

from PIL import Image

from tests.sources.boxes import SIZE, voc, voc_object

Content = Mapping[str, str | bytes | None]


def png(*values: int, mode: str = "L") -> bytes:
    """Make a mask that has some values in turn."""
    mask = Image.new("L", SIZE)
    mask.putdata([values[at % len(values)] for at in range(SIZE[0] * SIZE[1])])
    return saved(mask.convert(mode))


def colored(*colors: tuple[int, int, int]) -> bytes:
    """Make a mask that has some colors in turn."""
    mask = Image.new("RGB", SIZE)
    mask.putdata([colors[at % len(colors)] for at in range(SIZE[0] * SIZE[1])])
    return saved(mask)


def saved(image: Image.Image) -> bytes:
    out = BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _cityscapes(side: str, city: str, value: int) -> Content:
    name = f"{side}/{city}/{city}_000000_000019"
    return {
        f"leftImg8bit/{name}_leftImg8bit.png": None,
        f"gtFine/{name}_gtFine_labelIds.png": png(value, 0),
        f"gtFine/{name}_gtFine_instanceIds.png": png(9),
        f"gtFine/{name}_gtFine_color.png": colored((1, 2, 3), (4, 5, 6)),
        f"gtFine/{name}_gtFine_polygons.json": '{"imgHeight": 20, "objects": [{"polygon": []}]}',
        f"gtCoarse/{name}_gtCoarse_labelIds.png": png(33),
    }


CITYSCAPES: Content = {
    **_cityscapes("train", "aachen", 7),
    **_cityscapes("val", "ulm", 33),
    "rightImg8bit/val/ulm/ulm_000000_000019_rightImg8bit.png": None,
}

_READABLE = '{"labels": [{"readable": "Bird", "name": "a"}, {"readable": "Road", "name": "b"}]}'

MAPILLARY: Content = {
    **{
        f"{side}/{name}": data
        for side in ("training", "validation")
        for name, data in (
            (f"images/{side}1.jpg", None),
            (f"v1.2/labels/{side}1.png", png(2)),
            (f"v2.0/labels/{side}1.png", png(0, 1)),
            (f"v2.0/instances/{side}1.png", png(3)),
            (f"v2.0/panoptic/{side}1.png", png(4)),
            (f"v2.0/polygons/{side}1.json", '{"objects": [{"label": "b", "polygon": []}]}'),
            ("v2.0/panoptic/panoptic_2020.json", '{"images": [], "annotations": []}'),
        )
    },
    "testing/images/t.jpg": None,
    "config_v1.2.json": _READABLE,
    "config_v2.0.json": _READABLE,
}

CAMVID: Content = {
    "train/0001TP_006690.png": None,
    "train/0001TP_006720.png": None,
    "trainannot/0001TP_006690.png": png(0, 11),
    "trainannot/0001TP_006720.png": png(1),
    "val/0016E5_07959.png": None,
    "valannot/0016E5_07959.png": png(2),
    "train.txt": "/SegNet/CamVid/train/0001TP_006690.png /SegNet/CamVid/trainannot/x.png\n",
}

_ANIMAL, _VOID = (64, 128, 64), (0, 0, 0)

CAMVID_OF_COLORS: Content = {
    "701_StillsRaw_full/0001TP_006690.png": None,
    "701_StillsRaw_full/0001TP_006720.png": None,
    "LabeledApproved_full/0001TP_006690_L.png": colored(_ANIMAL, _VOID),
    "LabeledApproved_full/0001TP_006720_L.png": colored(_VOID),
    "label_colors.txt": "64 128 64\tAnimal\n0 0 0\t\tVoid\n",
}

CAMVID_OF_KAGGLE: Content = {
    **{f"{side}/0016E5_0{at}.png": None for at, side in enumerate(("train", "val"))},
    "train_labels/0016E5_00_L.png": colored(_ANIMAL),
    "val_labels/0016E5_01_L.png": colored(_VOID),
    "class_dict.csv": "name,r,g,b\nAnimal,64,128,64\nVoid, 0, 0, 0\n",
}

CAMVID_OF_FASTAI: Content = {
    **{f"images/0016E5_0{at}.png": None for at in range(2)},
    **{f"labels/0016E5_0{at}_P.png": png(at, mode="P") for at in range(2)},
    "codes.txt": "Animal\nVoid\n",
    "valid.txt": "0016E5_01.png\n",
}

VOC_MASKS: Content = {
    **{f"JPEGImages/f{at}.jpg": None for at in range(2)},
    **{f"SegmentationClass/f{at}.png": colored(_VOID, _ANIMAL) for at in range(2)},
    **{f"SegmentationObject/f{at}.png": colored(_VOID, (1, 2, 3)) for at in range(2)},
    "SegmentationClassVisualization/f0.jpg": None,
    "labelmap.txt": "# label:color_rgb:parts:actions\nbackground:0,0,0::\nhorse:64,128,64::\n",
    "ImageSets/Segmentation/train.txt": "f0\n",
    "ImageSets/Segmentation/val.txt": "f1\n",
}

SCENE_PARSE: Content = {
    **{f"images/training/ADE_train_0000000{at}.jpg": None for at in range(2)},
    **{f"annotations/training/ADE_train_0000000{at}.png": png(0, at + 1) for at in range(2)},
    "images/validation/ADE_val_00000001.jpg": None,
    "annotations/validation/ADE_val_00000001.png": png(2),
    "objectInfo150.txt": "Idx\tRatio\tTrain\tVal\tStuff\tName\n"
    "1\t0.15\t11\t1\t1\twall\n2\t0.12\t11\t1\t1\tbuilding, edifice\n",
    "sceneCategories.txt": "ADE_train_00000000 airport\nADE_train_00000001 street\n"
    "ADE_val_00000001 street\n",
}

_PETS = (("Abyssinian_1", 1), ("Abyssinian_2", 1), ("american_bulldog_10", 2), ("Bengal_3", 3))


def _list(pets: Sequence[tuple[str, int]]) -> str:
    return "".join(f"{name} {breed} 1 1\n" for name, breed in pets)


OXFORD_PET: Content = {
    **{f"images/{name}.jpg": None for name, _ in _PETS},
    **{f"annotations/trimaps/{name}.png": png(breed, 3) for name, breed in _PETS},
    "annotations/xmls/Abyssinian_1.xml": voc(voc_object("cat", (1, 2, 3, 4))),
    "annotations/list.txt": f"#Image CLASS-ID SPECIES BREED ID\n{_list(_PETS)}",
    "annotations/trainval.txt": _list(_PETS[::2]),
    "annotations/test.txt": _list(_PETS[1::2]),
}

MVTEC: Content = {
    "train/good/000.png": None,
    "test/good/000.png": None,
    "test/broken/000.png": None,
    "test/broken/001.png": None,
    "ground_truth/broken/000_mask.png": png(0, 255),
    "ground_truth/broken/001_mask.png": png(255),
}

"""Open Images: boxes and verified labels of each side, and what classes are called."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from dsprep.errors import SourceError
from tests.sources.boxes import kinds, notes, objects, read, sides, told, write
from tests.sources.mask_sets import png

BOXES = (
    "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,"
    "IsDepiction,IsInside\n"
)
LABELS = "ImageID,Source,LabelName,Confidence\n"
MASKS = "MaskPath,ImageID,LabelName,BoxID,BoxXMin,BoxXMax,BoxYMin,BoxYMax,PredictedIoU,Clicks\n"
ONE_SIDE = {
    "images/train/a1.jpg": None,
    "images/train/b2.jpg": None,
    "annotations/oidv6-train-annotations-bbox.csv": BOXES
    + "a1,xclick,/m/0,1,0.25,0.75,0.25,0.75,-1,1,0,0,0\n"
    + "a1,xclick,/m/1,1,0,1,0,1,0,0,1,0,0\n",
    "annotations/class-descriptions-boxable.csv": "/m/0,Zebra\n/m/1,Ant\n",
}
WHOLE = {
    **ONE_SIDE,
    "images/validation/c3.jpg": None,
    "annotations/validation-annotations-bbox.csv": BOXES + "c3,xclick,/m/1,1,0,1,0,1,0,0,0,0,0\n",
    "annotations/oidv6-train-annotations-human-imagelabels.csv": LABELS
    + "a1,verification,/m/0,1\na1,verification,/m/7,0\nb2,verification,/m/7,1\n",
    "annotations/validation-annotations-human-imagelabels.csv": LABELS + "c3,verification,/m/1,1\n",
    "annotations/oidv6-class-descriptions.csv": "LabelName,DisplayName\n/m/0,Zebra\n/m/1,Ant\n"
    "/m/7,Tree\n",
}
A, B, C = "images/train/a1.jpg", "images/train/b2.jpg", "images/validation/c3.jpg"


def test_a_set_of_several_sides(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, WHOLE))
    assert told(catalog) == {
        A: {"label": ("Zebra",), "objects": [("Zebra", 10, 5, 30, 15), ("Ant", 0, 0, 40, 20)]},
        B: {"label": ("Tree",), "objects": []},
        C: {"label": ("Ant",), "objects": [("Ant", 0, 0, 40, 20)]},
    }
    assert [each.flags for each in objects(catalog)[A].items] == [{"truncated"}, {"group_of"}]
    assert sides(catalog) == {A: "train", B: "train", C: "val"}
    assert catalog.classes == ("Ant", "Tree", "Zebra")
    said = notes(findings)
    assert "1 label verified as absent: 0, as those that nobody verified" in said
    assert "columns not kept: 'Source', 'Confidence', 'IsOccluded'" in said
    assert not {*kinds(findings).values()}.difference({"source"})


def test_masks_and_labels_of_machines_are_named_and_not_read(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            **ONE_SIDE,
            "masks/train/a1_m0_11.png": png(0, 1),
            "annotations/train-annotations-object-segmentation.csv": MASKS
            + "a1_m0_11.png,a1,/m/0,11,0,1,0,1,0.5,\nx_m0_22.png,x,/m/0,22,0,1,0,1,0.5,\n",
            "annotations/train-annotations-machine-imagelabels.csv": LABELS
            + "a1,machine,/m/0,.7\n",
        },
    )
    catalog, findings = read(root)
    assert told(catalog).keys() == {A, B}
    assert kinds(findings)["masks/train/a1_m0_11.png"] == "not-read"
    said = notes(findings)
    assert "2 masks of one box each not read, such as masks/train/a1_m0_11.png" in said
    assert "train-annotations-machine-imagelabels.csv: labels that no human verified" in said
    report = dsprep.pack(root, tmp_path / "out", to="tfrecord", workers=1)
    assert (report.samples, report.rejects) == (2, [])


def test_a_part_of_the_images_and_labels_alone(tmp_path: Path) -> None:
    more = WHOLE["annotations/validation-annotations-bbox.csv"]
    files = {
        **WHOLE,
        "annotations/validation-annotations-bbox.csv": f"{more}d4,x,/m/0,1,0,1,0,1,0,",
    }
    files["annotations/validation-annotations-bbox.csv"] += "0,0,0,0\n"
    catalog, findings = read(write(tmp_path / "part", files))
    assert told(catalog).keys() == {A, B, C}
    assert "1 image with boxes that are not there" in notes(findings)
    alone = {name: text for name, text in WHOLE.items() if "bbox" not in name}
    catalog, findings = read(write(tmp_path / "alone", alone))
    assert told(catalog)[A] == {"label": ("Zebra",)}
    assert catalog.tells_all  # images with labels, as those of a folder of classes
    assert sides(catalog) == {A: "train", B: "train", C: "val"}


def test_too_many_classes_for_tags_are_a_list_of_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dsprep.sources.annotated.open_images.MOST_FLAGS", 8)
    catalog, findings = read(write(tmp_path, WHOLE))
    assert told(catalog)[A]["tags"] == ("Zebra",)
    assert "3 classes of 3 images are too many for a 0 or a 1 for each" in notes(findings)


def test_named_tables_and_names(tmp_path: Path) -> None:
    root = write(tmp_path / "set", WHOLE)
    bbox = [str(root / name) for name in WHOLE if "bbox" in name]
    catalog, _ = read(root, annotations=bbox)
    assert told(catalog)[A] == {"objects": [("Zebra", 10, 5, 30, 15), ("Ant", 0, 0, 40, 20)]}
    assert sides(catalog) == {A: "train", B: "train", C: "val"}
    whole, _ = read(root / "images", annotations=[str(root / "annotations")])
    expected = {name.removeprefix("images/"): each for name, each in told(read(root)[0]).items()}
    assert told(whole) == expected
    (tmp_path / "names.csv").write_text("/m/0,Horse\n/m/1,Bee\n")
    named, _ = read(root, annotations=bbox, class_names_file=str(tmp_path / "names.csv"))
    assert named.settled.schema.by_name["objects"].names == ("Bee", "Horse")


def test_the_layout_of_fiftyone(tmp_path: Path) -> None:
    files = {
        "train/data/a1.jpg": None,
        "train/labels/detections.csv": ONE_SIDE["annotations/oidv6-train-annotations-bbox.csv"],
        "train/labels/classifications.csv": LABELS + "a1,verification,/m/0,1\n",
        "train/metadata/classes.csv": "/m/0,Zebra\n/m/1,Ant\n",
        "validation/data/c3.jpg": None,
        "validation/labels/detections.csv": BOXES + "c3,xclick,/m/1,1,0,1,0,1,0,0,0,0,0\n",
        "validation/labels/classifications.csv": LABELS + "c3,verification,/m/1,1\n",
        "validation/metadata/classes.csv": "/m/0,Zebra\n/m/1,Ant\n",
    }
    catalog, _ = read(write(tmp_path, files))
    assert {name: each["label"] for name, each in told(catalog).items()} == {
        "train/data/a1.jpg": ("Zebra",),
        "validation/data/c3.jpg": ("Ant",),
    }
    assert {*sides(catalog).values()} == {"train", "validation"}


def test_a_confidence_of_a_verified_label_is_0_or_1(tmp_path: Path) -> None:
    name = "annotations/validation-annotations-human-imagelabels.csv"
    root = write(tmp_path, {**WHOLE, name: LABELS + "c3,verification,/m/1,0.5\n"})
    with pytest.raises(SourceError, match="imagelabels.csv:2: the confidence of a label is '0.5'"):
        read(root)

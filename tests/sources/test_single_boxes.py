"""Images of one class and one box each: GTSRB and FGVC-Aircraft, as their authors have them."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from dsprep.errors import DsprepError, OptionError
from tests.sources.boxes import image, notes, read, sides, told, write

HEADER = "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n"
TRAIN, TEST = "GTSRB/Final_Training/Images", "GTSRB/Final_Test/Images"
GTSRB = {
    f"{TRAIN}/00000/00000_00000.png": None,
    f"{TRAIN}/00000/GT-00000.csv": f"{HEADER}00000_00000.png;40;20;5;6;24;15;0\n",
    f"{TRAIN}/00002/00000_00000.png": None,
    f"{TRAIN}/00002/GT-00002.csv": f"{HEADER}00000_00000.png;40;20;1;2;3;4;2\n",
    f"{TEST}/00000.png": None,
    f"{TEST}/GT-final_test.csv": f"{HEADER}00000.png;40;20;7;8;9;10;2\n",
}
KAGGLE_HEADER = "Width,Height,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2,ClassId,Path\n"
AIRCRAFT = {
    "data/images/0034309.jpg": None,
    "data/images/1025794.jpg": None,
    "data/images/0000001.jpg": None,
    "data/images_variant_train.txt": "1025794 707-320\n",
    "data/images_variant_val.txt": "0034309 Fokker 50\n",
    "data/images_variant_trainval.txt": "1025794 707-320\n0034309 Fokker 50\n",
    "data/images_variant_test.txt": "0000001 A300B4\n",
    "data/images_family_train.txt": "1025794 Boeing 707\n",
    "data/images_family_val.txt": "0034309 Fokker 50\n",
    "data/images_family_test.txt": "0000001 A300\n",
    "data/images_train.txt": "1025794\n",
    "data/images_box.txt": "0034309 3 1 30 20\n1025794 1 1 40 20\n0000001 5 6 7 8\n",
    "data/variants.txt": "707-320\nA300B4\nFokker 50\n",
}


def test_gtsrb_of_its_authors(tmp_path: Path) -> None:
    without = "GT-final_test.test.csv"  # the same table without classes
    more = {f"{TEST}/{without}": HEADER.replace(";ClassId", "") + "00000.png;40;20;7;8;9;10\n"}
    catalog, findings = read(write(tmp_path, {**GTSRB, **more}))
    assert told(catalog) == {
        f"{TRAIN}/00000/00000_00000.png": {"label": "0", "objects": [("0", 5, 6, 24, 15)]},
        f"{TRAIN}/00002/00000_00000.png": {"label": "2", "objects": [("2", 1, 2, 3, 4)]},
        f"{TEST}/00000.png": {"label": "2", "objects": [("2", 7, 8, 9, 10)]},
    }
    assert sorted(sides(catalog).values()) == ["test", "train", "train"]
    assert catalog.classes == ("0", "1", "2")
    assert "no file tells the names of the classes" in notes(findings)
    named, _ = read(tmp_path, classes=["stop", "yield", "turn"])
    assert told(named)[f"{TEST}/00000.png"]["label"] == "turn"
    with pytest.raises(DsprepError, match="the class 2 is none of 2 classes"):
        read(tmp_path, classes=["stop", "yield"])


def test_gtsrb_without_classes_for_the_test(tmp_path: Path) -> None:
    table = HEADER.replace(";ClassId", "") + "00000.png;40;20;7;8;9;10\n"
    files = {name: text for name, text in GTSRB.items() if "final_test.csv" not in name}
    root = write(tmp_path, {**files, f"{TEST}/GT-final_test.test.csv": table})
    catalog, findings = read(root)
    assert told(catalog)[f"{TEST}/00000.png"] == {"objects": []}
    assert "has no classes, so its images have no label and no box" in notes(findings)


def test_gtsrb_of_kaggle(tmp_path: Path) -> None:
    files = {
        "Train/20/00020_00000_00000.png": None,
        "Test/00000.png": None,
        "Meta/0.png": image(seed=9),
        "Train.csv": f"{KAGGLE_HEADER}40,20,5,5,22,18,20,Train/20/00020_00000_00000.png\n",
        "Test.csv": f"{KAGGLE_HEADER}40,20,6,5,38,19,16,Test/00000.png\n",
        "Meta.csv": "Path,ClassId,ShapeId,ColorId,SignId\nMeta/0.png,0,1,0,1.1\n",
    }
    root = write(tmp_path / "set", files)
    catalog, findings = read(root)
    assert {name: each["label"] for name, each in told(catalog).items()} == {
        "Test/00000.png": "16",
        "Train/20/00020_00000_00000.png": "20",
    }
    assert {*sides(catalog).values()} == {"train", "test"}
    assert [each.path for each in findings if each.kind == "unlisted"] == ["Meta/0.png"]
    for to, drop in (("webdataset", ()), ("recordio", ("objects",))):
        report = dsprep.pack(root, tmp_path / to, to=to, drop=drop, workers=1)
        assert report.samples == 2
        assert not dsprep.verify(tmp_path / to, against=root, workers=1).problems


def test_aircraft(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, AIRCRAFT))
    assert told(catalog) == {
        "data/images/0000001.jpg": {
            "label": "A300B4", "family": "A300", "objects": [("A300B4", 4, 5, 7, 8)]
        },
        "data/images/0034309.jpg": {
            "label": "Fokker 50", "family": "Fokker 50", "objects": [("Fokker 50", 2, 0, 30, 20)]
        },
        "data/images/1025794.jpg": {
            "label": "707-320", "family": "Boeing 707", "objects": [("707-320", 0, 0, 40, 20)]
        },
    }  # fmt: skip
    assert [*sides(catalog).values()] == ["test", "val", "train"]
    assert not [each for each in findings if each.kind == "left-over"]
    families, _ = read(tmp_path, label_columns=["family"], annotations=[str(tmp_path / "data")])
    assert families.classes == ("A300", "Boeing 707", "Fokker 50")
    with pytest.raises(OptionError, match="--label-column x: choose one of variant, family"):
        read(tmp_path, label_columns=["x"], annotations=[str(tmp_path / "data")])


@pytest.mark.parametrize(("there", "rest"), [("train", "val"), ("val", "train"), ("", "trainval")])
def test_aircraft_with_a_list_of_two_sides(tmp_path: Path, there: str, rest: str) -> None:
    files: dict[str, str | bytes | None] = {f"data/images/{at}.jpg": None for at in range(3)}
    files["data/images_variant_trainval.txt"] = "0 707\n1 737\n"
    files["data/images_variant_test.txt"] = "2 737\n"
    files |= {f"data/images_variant_{there}.txt": "0 707\n"} if there else {}
    catalog, _ = read(write(tmp_path, files))
    assert [*sides(catalog).values()] == [there or rest, rest, "test"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("data/images_variant_val.txt", "0034309\n", "val.txt:1: names no class"),
        ("data/images_variant_val.txt", "1025794 x\n", "1025794 is of val and of train"),
        ("data/images_box.txt", "0034309 3 1 30\n", "'3 1 30' is no box: xmin ymin xmax ymax"),
        (f"{TRAIN}/00000/GT-00000.csv", f"{HEADER}00000_00000.png;40;20;5;6;24;15;x\n", "'x'"),
        (f"{TRAIN}/00000/GT-00000.csv", f"{HEADER}00000_00000.png;40;20;5;6;24;15;1.5\n", "1.5"),
        (f"{TRAIN}/00000/GT-00000.csv", f"{HEADER}00000_00000.png;40;20;5;a;24;15;0\n", ":2: 'a'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    files = AIRCRAFT if name in AIRCRAFT else GTSRB
    with pytest.raises(DsprepError) as caught:
        read(write(tmp_path, {**files, name: text}))
    assert message in str(caught.value)

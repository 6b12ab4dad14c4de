"""Tables of tags: Roboflow's `_classes.csv`, CheXpert's, and tables like these."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsprep
from dsprep.errors import DsprepError, OptionError, SourceError
from dsprep.findings import Finding
from tests.sources.boxes import image, notes, read, sides, told, write

ROBOFLOW = {
    "train/a.jpg": None,
    "train/b.jpg": None,
    "train/_classes.csv": "filename, cat, big dog\na.jpg, 1, 0\nb.jpg, 1, 1\n",
}
SIDES = {**ROBOFLOW, "valid/a.jpg": None, "valid/_classes.csv": "filename, cat, big dog\na.jpg,0,0"}
TOP = "CheXpert-v1.0-small"
HEADER = "Path,Sex,Age,Frontal/Lateral,AP/PA,No Finding,Edema,Fracture\n"
ONE, TWO, THREE = (
    f"train/patient00001/study{n}/view1_frontal.jpg" for n in (1, 2, 3)
)  # base names repeat
VALID = "valid/patient00002/study1/view1_frontal.jpg"
CHEXPERT = {
    f"{TOP}/{ONE}": None,
    f"{TOP}/{TWO}": None,
    f"{TOP}/{THREE}": None,
    f"{TOP}/{VALID}": None,
    f"{TOP}/train.csv": HEADER
    + f"{TOP}/{ONE},Female,68,Frontal,AP,1.0,,\n"
    + f"{TOP}/{TWO},Female,87,Frontal,AP,,-1.0,0.0\n"
    + f"{TOP}/{THREE},Male,0,Lateral,,0.0,1.0,-1.0\n",
    f"{TOP}/valid.csv": HEADER + f"{TOP}/{VALID},Male,1,Frontal,AP,0.0,1.0,0.0\n",
}


def test_roboflow_has_a_table_in_each_side(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, SIDES))
    assert told(catalog) == {
        "train/a.jpg": {"label": ("cat",)},
        "train/b.jpg": {"label": ("cat", "big dog")},
        "valid/a.jpg": {"label": ()},
    }
    assert catalog.classes == ("cat", "big dog")  # in the order of the columns
    assert [*sides(catalog).values()] == ["train", "train", "val"]
    assert not notes(findings)
    report = dsprep.pack(tmp_path, tmp_path.parent / "out", to="recordio", workers=1)
    assert (report.samples, report.classes) == (3, ("cat", "big dog"))


def test_what_is_uncertain_is_asked(tmp_path: Path) -> None:
    root = write(tmp_path, CHEXPERT) / TOP
    with pytest.raises(OptionError) as caught:
        read(root)
    assert "train.csv:3: -1 in the column 'Edema' says that the tag is uncertain (2 cells)" in str(
        caught.value
    )
    rows = {
        "0": {ONE: ("No Finding",), TWO: (), THREE: ("Edema",), VALID: ("Edema",)},
        "1": {ONE: ("No Finding",), TWO: ("Edema",), THREE: ("Edema", "Fracture")},
    }
    for uncertain, expected in rows.items():
        catalog, findings = read(root, uncertain=uncertain)
        found = {path: each["label"] for path, each in told(catalog).items()}
        assert {**found, **expected} == found
    assert catalog.classes == ("No Finding", "Edema", "Fracture")
    assert sides(catalog)[VALID] == "val"
    assert "columns not kept: 'Sex', 'Age', 'Frontal/Lateral', 'AP/PA'" in notes(findings)
    assert "3 empty cells of tags are 0" in notes(findings)
    kept, _ = read(root, uncertain="keep")
    assert kept.table["label"].to_list()[1] == [0, -1, 0]
    above, _ = read(tmp_path, uncertain="0")
    assert {name.removeprefix(f"{TOP}/") for name in told(above)} == {*found}
    for uncertain, to in (("keep", "webdataset"), ("1", "recordio")):
        out = tmp_path / to
        report = dsprep.pack(root, out, to=to, workers=1, uncertain=uncertain)
        assert report.samples == 4
        assert not dsprep.verify(out, against=root, workers=1).problems


def test_a_table_of_minus_1_and_1_has_no_uncertain_tags(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.jpg": None, "b.jpg": None,
                            "faces.csv": "path,x,y\na.jpg,-1,1\nb.jpg,1,-1\n"})  # fmt: skip
    assert "faces.csv" in [each.path for each in read(root)[1]]  # read by --labels alone


def test_the_option_has_no_effect_elsewhere(tmp_path: Path) -> None:
    root = write(tmp_path, {"x/a.jpg": None, "y/b.jpg": image(seed=3)})
    with pytest.raises(OptionError, match="--uncertain 0 has no effect"):
        read(root, uncertain="0")


def test_a_side_without_a_tag_and_a_table_named_alone(tmp_path: Path) -> None:
    files = {**SIDES, "valid/_classes.csv": "filename, cat\na.jpg, 1\n"}
    catalog, findings = read(write(tmp_path, files))
    assert told(catalog)["valid/a.jpg"] == {"label": ("cat",)}
    assert "lacks the tags big dog, which are 0" in notes(findings)
    named, _ = read(tmp_path, annotations=[str(tmp_path / "train/_classes.csv")])
    assert told(named).keys() == {"train/a.jpg", "train/b.jpg"}


@pytest.mark.parametrize(
    "table",
    [
        "filename, cat\na.jpg, 2\n",
        "filename, cat\na.jpg, 1\na.jpg, 0\n",
        "filename, cat\nnone.jpg, 1\n",
        "filename, cat\n",
    ],
)
def test_tables_that_are_wrong(tmp_path: Path, table: str) -> None:
    with pytest.raises(DsprepError, match="_classes.csv|none.jpg"):
        read(write(tmp_path, {"train/a.jpg": None, "train/_classes.csv": table}))


def test_roboflow_has_boxes_in_a_table_of_each_side(tmp_path: Path) -> None:
    header = "filename,width,height,class,xmin,ymin,xmax,ymax\n"
    files = {
        "train/a.jpg": None,
        "train/b.jpg": None,
        "train/_annotations.csv": f"{header}a.jpg,40,20,cat,1,2,3,4\n",
        "valid/a.jpg": None,
        "valid/_annotations.csv": f"{header}a.jpg,40,20,dog,5,6,7,8\na.jpg,40,20,cat,0,0,1,1\n",
        "README.roboflow.txt": "Roboflow",
    }
    catalog, findings = read(write(tmp_path, files))
    assert {path: each["objects"] for path, each in told(catalog).items()} == {
        "train/a.jpg": [("cat", 1, 2, 3, 4)],
        "train/b.jpg": [],
        "valid/a.jpg": [("dog", 5, 6, 7, 8), ("cat", 0, 0, 1, 1)],
    }
    assert {*sides(catalog).values()} == {"train", "val"}
    assert not [each for each in findings if each.kind == "left-over"]


def test_a_table_of_images_and_tags_alone(tmp_path: Path) -> None:
    rows = "image,MEL,NV,BCC\nISIC_1,1.0,0.0,0.0\nISIC_2,0.0,0.0,1.0\n"
    files = {"in/ISIC_1.jpg": None, "in/ISIC_2.jpg": None, "truth.csv": rows}
    catalog, _ = read(write(tmp_path, files))
    assert told(catalog) == {
        "in/ISIC_1.jpg": {"label": ("MEL",)},
        "in/ISIC_2.jpg": {"label": ("BCC",)},
    }
    (tmp_path / "truth.csv").write_text("image,is_train,fold0,MEL\nISIC_1,1,0,1\nISIC_2,0,1,0\n")
    with pytest.raises(SourceError, match="give --label-column is_train,fold0,MEL --label-type"):
        dsprep.pack(tmp_path, tmp_path / "out", to="webdataset", workers=1)
    (tmp_path / "truth.csv").write_text("image,target,fold\nISIC_1,1,0\nISIC_2,0,1\n")
    catalog, _ = read(tmp_path)
    assert catalog.annotated is None


def test_a_sample_of_what_to_submit_has_no_tags(tmp_path: Path) -> None:
    """Plant Pathology has it beside `train.csv`, with the columns of that and 0.25 in each."""
    header = "image_id,healthy,rust,scab\n"
    files = {
        "images/Train_0.jpg": None,
        "images/Train_1.jpg": None,
        "images/Test_0.jpg": None,
        "train.csv": f"{header}Train_0,1,0,0\nTrain_1,0,0,1\n",
        "sample_submission.csv": f"{header}Test_0,0.25,0.25,0.25\n",
    }
    root = write(tmp_path, files)
    for leave_out in ((), ("sample_submission.csv",)):
        catalog, findings = read(root, leave_out=leave_out)
        assert told(catalog) == {
            "images/Train_0.jpg": {"label": ("healthy",)},
            "images/Train_1.jpg": {"label": ("scab",)},
        }
        assert "left over" not in notes(findings)
        assert Finding("unlisted", "images/Test_0.jpg") in findings

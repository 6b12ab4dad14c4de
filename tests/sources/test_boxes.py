"""Tables of boxes and of runs of pixels, as competitions have them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dsprep
from dsprep.errors import DsprepError, SourceError
from tests.images import jpeg

SIZE = 100, 80


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    for number in range(3):
        (root / f"{number:03d}.jpg").write_bytes(jpeg(number, SIZE))
    return root


def pack(images: Path, out: Path, table: str, **options: Any) -> dict[str, bytes]:
    """Pack with a table, and return the members of the shard."""
    path = out.with_suffix(".csv")
    path.write_text(table)
    dsprep.pack(images, out, to="webdataset", annotations=[path], shuffle=False, **options)
    with tarfile.open(out / "train-000000.tar") as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]


def objects(members: dict[str, bytes], key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(members[f"{key}.json"])["objects"]
    return found


WHEAT = """image_id,width,height,bbox,source
000,100,80,"[5.0, 6.0, 20.0, 10.0]",usask_1
000,100,80,"[50, 6, 20, 10]",usask_1
001,100,80,"[0, 0, 100, 80.0]",arvalis_1
"""


@pytest.mark.parametrize(
    ("table", "options"),
    [
        (WHEAT, {}),
        ("patientId,x,y,width,height,Target\n000,5,6,20,10,1\n000,50,6,20,10,1\n"
         "001,0,0,100,80,1\n002,,,,,0\n", {}),
        ("image,xmin,ymin,xmax,ymax\n000.jpg,5,6,25,16\n000.jpg,50,6,70,16\n"
         "001.jpg,0,0,100,80\n", {}),
        ("image_id,x_min,y_min,x_max,y_max,class_name\n000,5,6,25,16,object\n"
         "000,50,6,70,16,object\n001,0,0,100,80,object\n002,,,,,nothing\n",
         {"no_object": "nothing"}),
        ("image;x1;y1;x2;y2\n000.jpg;5;6;25;16\n000.jpg;50;6;70;16\n001.jpg;0;0;100;80\n", {}),
        ("ImageID,LabelName,XMin,XMax,YMin,YMax\n000,/m/o,.05,.25,.075,.2\n"
         "000,/m/o,.5,.7,.075,.2\n001,/m/o,0,1,0,1\n", {"class_names_file": "names.csv"}),
        ("image,a,b,c,d\n000.jpg,.15,.1375,.2,.125\n000.jpg,.6,.1375,.2,.125\n"
         "001.jpg,.5,.5,1,1\n",
         {"box": "cxcywh:normalized", "box_columns": ["a", "b", "c", "d"]}),
    ],
    ids=["wheat", "rsna", "min-max", "no-object", "x1", "open-images", "named"],
)  # fmt: skip
def test_the_same_boxes_in_each_spelling(
    images: Path, tmp_path: Path, table: str, options: dict[str, Any]
) -> None:
    if "class_names_file" in options:
        (tmp_path / "names.csv").write_text("/m/o,object\n/m/p,other\n")
        options = options | {"class_names_file": tmp_path / "names.csv"}
    members = pack(images, tmp_path / "out", table, **options)
    boxes = [each["box"] for each in objects(members, "000")]
    assert boxes == [pytest.approx([5, 6, 25, 16]), pytest.approx([50, 6, 70, 16])]
    assert [each["box"] for each in objects(members, "001")] == [pytest.approx([0, 0, 100, 80])]
    assert objects(members, "002") == []  # the table does not have it, or says that it is empty
    assert (tmp_path / "out" / "objects.classes.txt").read_text() == "object\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [("/m/o\n", "is no class and its name"), (f"/m/o,{'a' * 200_000}\n", "is not CSV")],
)
def test_files_of_class_names_that_are_none(
    images: Path, tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / "names.csv").write_text(text)
    with pytest.raises(SourceError, match=f"names.csv: .*{why}"):
        table = "image,class,xmin,ymin,xmax,ymax\n000.jpg,/m/o,1,2,3,4\n"
        pack(images, tmp_path / "out", table, class_names_file=tmp_path / "names.csv")


def test_classes_are_numbered_by_their_ids(images: Path, tmp_path: Path) -> None:
    table = (
        "image,class_name,class_id,xmin,ymin,xmax,ymax\n"
        "000.jpg,zebra,3,1,2,3,4\n000.jpg,ant,7,1,2,3,4\n001.jpg,ant,7,1,2,3,4\n"
    )
    members = pack(images, tmp_path / "out", table)
    assert [each["class"] for each in objects(members, "000")] == [0, 1]
    assert (tmp_path / "out" / "objects.classes.txt").read_text() == "zebra\nant\n"
    (field,) = (
        each
        for each in json.loads((tmp_path / "out" / "manifest.json").read_text())["schema"]["fields"]
        if each["type"] == "objects"
    )
    assert field["ids"] == [3, 7]


def test_runs_become_masks(images: Path, tmp_path: Path) -> None:
    table = "ImageId,EncodedPixels,ClassId\n000.jpg,1 5 81 5,1\n000.jpg,401 80,3\n001.jpg,,1\n"
    members = pack(images, tmp_path / "out", table)
    with Image.open(io.BytesIO(members["000.mask.png"])) as mask:
        assert (mask.size, mask.mode) == (SIZE, "L")
        # down the columns: the first five rows of two columns, then the sixth column
        assert [mask.getpixel(at) for at in ((0, 4), (1, 4), (0, 5), (5, 0), (5, 79), (6, 0))] == [
            *(1, 1, 0, 2, 2, 0)
        ]
    for key in ("001", "002"):
        with Image.open(io.BytesIO(members[f"{key}.mask.png"])) as mask:
            assert not any(mask.tobytes())
    assert (tmp_path / "out" / "mask.classes.txt").read_text() == "background\n1\n3\n"
    both = "Image_Label,EncodedPixels\n000.jpg_Fish,1 5\n001.jpg_Sugar,\n"
    pack(images, tmp_path / "both", both)
    assert (tmp_path / "both" / "mask.classes.txt").read_text() == "background\nFish\nSugar\n"


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("image,xmin,ymin,xmax,ymax\n000.jpg,1,2,x,4\n", r":2: the box 1, 2, x, 4 is not four"),
        ("image,xmin,ymin,xmax,ymax\n000.jpg,1,2,nan,4\n", r":2: .* is not four"),
        ("image,xmin,ymin,xmax,ymax\n000.jpg,1,2,3,4\n000.jpg,9,2,3,4\n001.jpg,9,2,3,4\n",
         r":3: the box 9, 2, 3, 4 has a negative width or height"),
        ("image,class,xmin,ymin,xmax,ymax\n1.jpg,a,,,,\n0.jpg,a,1,2,3,4\n1.jpg,,1,2,3,4\n"
         "1.jpg,,1,2,3,5\n", r":4: the box 1, 2, 3, 4 has no class"),
        ("image,bbox\n000.jpg,\"[1, 2, 3]\"\n", r":2: .* is not four"),
        ("image,q,r,s,t\n000.jpg,1,2,3,4\n", "give --box xywh or --box xyxy"),
        ("a,xmin,ymin,xmax,ymax\n0,1,2,3,4\n", "--path-column"),
        ("image,xmin,ymin,xmax,ymax\n000.jpg,1,2,3,1e300\n", r":2: .* is not four"),
        ("image,xmin,ymin,xmax,ymax\n000.jpg,.1,0,.3,1\n", "xyxy:normalized --box-columns xmin,"),
        ("ImageID,XMin,YMin,XMax,YMax\n000.jpg,0,0,50,50\n", r":2: .* is not in shares"),
        ("image,EncodedPixels\n000.jpg,7 2 3\n", "start and length"),
        ("ImageId_ClassId,EncodedPixels\nabc,1 3\n", "'abc' is no image and class"),
        ("image,EncodedPixels,label\n" + "".join(f"000.jpg,1 3,{at}\n" for at in range(255)),
         "has 255 classes; masks have 254 at most"),
        ("image,EncodedPixels,label\n000.jpg,1 2,a\n000.jpg,7 2,\n", ":3: the mask 7 2 has no cl"),
        ("image,EncodedPixels,label\n000.jpg,1 2,\n", "1 of 1 row with a mask cannot be read"),
        ("image,bbox\n000.jpg,abc\n", ":2: the box abc is not four numbers"),
        ("image,EncodedPixels\n000.jpg,8001 2\n", "beyond the 100x80 pixels"),
    ],
)  # fmt: skip
def test_what_is_no_box_is_refused(images: Path, tmp_path: Path, table: str, why: str) -> None:
    with pytest.raises(DsprepError, match=why):
        pack(images, tmp_path / "out", table, max_errors=0)


def test_images_with_wrong_rows_are_rejects(images: Path, tmp_path: Path) -> None:
    path, classes = tmp_path / "boxes.csv", tmp_path / "classes.txt"
    classes.write_text("a\nb\n")
    good = "001.jpg,a,5,6,25,16\n" * 4
    wrong = ("1,2,nan,4", "1,2,four,4", "9,2,3,4")
    lines = [f"000.jpg,{name},1,2,3,4\n" for name in ("", "zebra")]
    lines += [f"000.jpg,a,{edges}\n" for edges in wrong[:2]] + [f"002.jpg,b,{wrong[2]}\n"]
    path.write_text(
        "image,class,xmin,ymin,xmax,ymax\n" + good + "001.jpg,b,1,1,2,2\n" + "".join(lines)
    )
    options: dict[str, Any] = {"annotations": [path], "classes": classes, "workers": 1}
    report = dsprep.pack(images, tmp_path / "out", to="webdataset", **options)
    assert {(each.path, each.reason) for each in report.rejects} == {
        ("000.jpg", "its annotations: boxes.csv:7: the box 1, 2, 3, 4 has no class"),
        ("002.jpg", "its annotations: boxes.csv:11: the box 9, 2, 3, 4 has a negative width "
         "or height"),
    }  # fmt: skip
    (note,) = (each for each in report.notes if "rejected" in each)
    assert note.startswith("5 rows that cannot be read, whose images are rejected: boxes.csv:7: ")
    assert "boxes.csv:8: the box 1, 2, 3, 4 has the class 'zebra', which is not in --cl" in note
    assert "boxes.csv:9: the box 1, 2, nan, 4 is not four numbers" in note
    (note,) = (each for each in report.notes if "equal" in each)
    assert note.startswith("3 rows equal to an earlier one (image, box and class), kept ")
    assert note.endswith(": lines 3, 4, 5")
    with pytest.raises(DsprepError, match=r"boxes\.csv:(7|11): the box"):
        dsprep.pack(images, tmp_path / "not", to="webdataset", on_error="fail", **options)
    path.write_text("image,xmin,ymin,xmax,ymax\n001.jpg,1,1,2,2\n" + "000.jpg,9,2,3,4\n" * 9)
    with pytest.raises(
        SourceError, match="9 of 10 rows with a box cannot be read(.*\n.*){4}6 more"
    ):
        dsprep.pack(images, tmp_path / "not", to="webdataset", annotations=[path])


def test_an_image_with_a_mask_of_an_unknown_class_is_a_reject(images: Path, tmp_path: Path) -> None:
    path, classes = tmp_path / "runs.csv", tmp_path / "classes.txt"
    classes.write_text("a\nb\n")
    path.write_text("image,EncodedPixels,label\n000.jpg,1 2,a\n001.jpg,1 2,c\n002.jpg,1 2,b\n")
    options: dict[str, Any] = {"annotations": [path], "classes": classes, "workers": 1}
    report = dsprep.pack(images, tmp_path / "out", to="webdataset", **options)
    (reject,) = report.rejects
    why = "runs.csv:3: the mask 1 2 has the class 'c', which is not in --classes"
    assert (reject.path, reject.reason) == ("001.jpg", why)
    assert f"1 row that cannot be read, whose images are rejected: {why}" in report.notes


@pytest.mark.parametrize("cell", ["", "[]", "nan", " [ ] ", "None"])
def test_a_cell_without_a_box_is_an_image_without_objects(
    images: Path, tmp_path: Path, cell: str
) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text(f'image,bbox\n000.jpg,"{cell}"\n001.jpg,"[50, 6, 20, 20]"\n')
    report = dsprep.pack(images, tmp_path / "out", to="webdataset", annotations=[path], workers=1)
    assert not report.rejects
    assert report.objects
    assert (report.objects.objects, report.objects.without) == (1, 2)


def test_a_compressed_table_is_refused(images: Path, tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv.gz"
    path.write_bytes(gzip.compress(b"image,bbox\n"))
    for option in ({"annotations": [path]}, {"labels": path}, {"list_file": path}):
        with pytest.raises(DsprepError, match="boxes.csv.gz: is compressed: decompress it first"):
            dsprep.pack(images, tmp_path / "out", to="webdataset", **option)


def test_boxes_beyond_the_edge_are_counted(images: Path, tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    edge, beyond = "000.jpg,0,0,100.5,80\n", "001.jpg,0,0,150,80\n002.jpg,-9,0,9,9\n"
    path.write_text("image,xmin,ymin,xmax,ymax\n" + edge + beyond)
    report = dsprep.pack(images, tmp_path / "out", to="webdataset", annotations=[path])
    assert [each for each in report.notes if "2 objects with a box beyond the edge" in each]


def test_a_row_for_an_image_that_is_not_there_is_a_reject(images: Path, tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    path.write_text(WHEAT + '999,100,80,"[1, 2, 3, 4]",x\n,100,80,"[1, 2, 3, 4]",x\n')
    report = dsprep.pack(images, tmp_path / "out", to="webdataset", annotations=[path])
    assert [each.path for each in report.rejects] == ["999", "line 6 names no image"]


def lst(images: Path, out: Path, text: str, **options: Any) -> dict[str, bytes]:
    path = out.with_suffix(".lst")
    path.write_text(text)
    dsprep.pack(images, out, to="webdataset", annotations=[path], shuffle=False, **options)
    with tarfile.open(out / "train-000000.tar") as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]


def test_labels_for_detection_in_a_list(images: Path, tmp_path: Path) -> None:
    text = (
        "7\t4\t6\t100\t80\t1\t.05\t.25\t.5\t1\t0\t0\t0\t0\t1\t1\t1\t001.jpg\n"
        "8\t4\t6\t100\t80\t-1\t0\t0\t0\t0\t0\t000.jpg\n9\t2\t6\t002.jpg\n"
    )
    members = lst(images, tmp_path / "out", text)
    assert objects(members, "001") == [
        {"box": [5, 20, 50, 80], "class": 1},
        {"box": [0, 0, 100, 80], "class": 0, "difficult": True},
    ]
    assert objects(members, "000") == objects(members, "002") == []
    assert (tmp_path / "out" / "objects.classes.txt").read_text() == "0\n1\n"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("0\t1\t000.jpg", "has no labels for detection"),
        ("0\t2\t5\t0.5\t0\t0\t1\t1\t000.jpg", ":1: 0.5 0 0 1 1: 0.5 is no class number"),
        ("0\t2\t5\t9e9\t0\t0\t1\t1\t000.jpg", "9e[+]09 is no class number"),
        ("0\t2\t5\t0\t1\t0\t0\t1\t000.jpg", "is no box in shares"),
        ("0\t2\t5\t0\t1\t0\t50\t60\t000.jpg", "is no box in shares"),
        ("0\t2\t5\t0\t0\t0\t1\t1\t../../x.jpg", "is not a path below"),
        ("0\t2\t5\t0\t0\t0\t1\tnan\t000.jpg", "nan"),
    ],
)
def test_lists_that_are_refused(images: Path, tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(DsprepError, match=why):
        lst(images, tmp_path / "out", line + "\n")


@pytest.mark.parametrize("columns", ["patientId,x,y,width,height,Target", "ImageId,EncodedPixels"])
def test_a_table_of_boxes_beside_the_images_is_not_passed_by(
    images: Path, tmp_path: Path, columns: str
) -> None:
    (tmp_path / "set" / "train").mkdir(parents=True)
    for path in images.glob("*.jpg"):
        (tmp_path / "set" / "train" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "set" / "train.csv").write_text(f"{columns}\n")
    with pytest.raises(SourceError, match=r"train\.csv: give --annotations .*--from images"):
        dsprep.pack(tmp_path / "set", tmp_path / "out", to="webdataset")
    report = dsprep.pack(tmp_path / "set", tmp_path / "out", to="webdataset", kind="images")
    assert report.samples == 3


@pytest.mark.parametrize(
    ("table", "lost"),
    [
        (WHEAT, "'source'"),
        ("ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf\n"
         "000,x,/m/o,1,0,1,0,1,0,0,0\n", "'Source', 'Confidence', 'IsOccluded'"),
        ("patientId,x,y,width,height,Target\n000,1,2,3,4,1\n", ""),
        ("ImageId,EncodedPixels,ClassId,IsCrowd\n000.jpg,1 5,1,0\n", "'IsCrowd'"),
        ("image,class_name,class_id,xmin,ymin,xmax,ymax\n000.jpg,a,1,1,2,3,4\n", ""),
    ],
    ids=["wheat", "open-images", "rsna", "runs", "ids"],
)  # fmt: skip
def test_columns_that_are_not_kept_are_named(
    images: Path, tmp_path: Path, table: str, lost: str
) -> None:
    (tmp_path / "t.csv").write_text(table)
    report = dsprep.pack(
        images, tmp_path / "out", to="webdataset", annotations=[tmp_path / "t.csv"], workers=1
    )
    found = [each for each in report.notes if "columns not kept" in each]
    assert found == ([f"columns not kept: {lost}"] if lost else [])


def test_a_dry_run_says_what_it_looked_at_and_found(images: Path, tmp_path: Path) -> None:
    path = tmp_path / "boxes.csv"
    head, good = "image,xmin,ymin,xmax,ymax\n", "000.jpg,1,2,3,4\n"
    options: dict[str, Any] = {"to": "webdataset", "annotations": [path], "dry_run": True}

    def tried(table: str) -> list[str]:
        path.write_text(head + good + table)
        notes = dsprep.pack(images, tmp_path / "out", **options).notes
        return [each for each in notes if each.startswith("3 of 3 samples tried: ")]

    assert tried("") == ["3 of 3 samples tried: nothing wrong with their annotations"]
    beyond, flat = tried("001.jpg,1,2,1,4\n001.jpg,90,2,190,4\n")
    assert "1 object with a box of no width" in flat
    assert "1 object with a box beyond the edge" in beyond
    assert tried("001.jpg,1,2,3,4\n002.jpg,1,2,x,4\n") == [
        "3 of 3 samples tried: 1 sample that would be rejected: 002.jpg: its annotations: "
        "boxes.csv:4: the box 1, 2, x, 4 is not four numbers"
    ]

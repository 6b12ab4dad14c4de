"""Several tables of boxes: of sides, and of images that one of them does not name."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import zipfile
from pathlib import Path

import pytest

from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.sources.boxes import boxes, kinds, notes, read, sides, write
from tests.sources.mask_sets import png

VOTT = '"image","xmin","ymin","xmax","ymax","label"\n'
OPEN = "ImageID,LabelName,XMin,XMax,YMin,YMax\n"


def vott(root: Path) -> Path:
    """Images beside the tables of two sides; one image has no boxes."""
    return write(
        root,
        {
            **dict.fromkeys(("1.jpg", "2.jpg", "3.jpg")),
            "train-export.csv": f'{VOTT}"1.jpg",10,5,30,15,"dog"\n',
            "test-export.csv": f'{VOTT}"2.jpg",10,5,30,15,"cat"\n"2.jpg",1,2,3,4,"dog"\n',
        },
    )


def open_images(root: Path) -> Path:
    """Directories of sides, with images of one name, tables elsewhere."""
    return write(
        root,
        {
            **dict.fromkeys(("images/train/a.jpg", "images/train/b.jpg", "images/test/a.jpg")),
            "images/train/none.jpg": None,
            "annotations/oidv6-train-annotations-bbox.csv": f"{OPEN}a,/m/o,.25,.75,.25,.75\n"
            "b,/m/p,.25,.75,.25,.75\n",
            "annotations/test-annotations-bbox.csv": f"{OPEN}a,/m/p,.25,.75,.25,.75\n",
        },
    )


def options_in(message: str) -> list[str]:
    """Return the paths that a message gives to --annotations."""
    found = re.search(r"give ((?:--annotations \S+ ?)+)", message)
    assert found
    return [word.rstrip(",") for word in shlex.split(found[1]) if word != "--annotations"]


def test_each_table_is_a_side(tmp_path: Path) -> None:
    root = vott(tmp_path / "vott")
    with pytest.raises(SourceError, match="has a table of boxes or masks") as told:
        read(root)
    named = options_in(str(told.value).replace(",", ""))
    assert sorted(map(Path, named)) == [root / "test-export.csv", root / "train-export.csv"]
    catalog, findings = read(root, annotations=named)
    box = (10, 5, 30, 15)
    assert boxes(catalog) == {
        "1.jpg": [("dog", *box)],
        "2.jpg": [("cat", *box), ("dog", 1, 2, 3, 4)],
    }
    assert sides(catalog) == {"1.jpg": "train", "2.jpg": "test"}
    # nothing says which side the last image is, and the tables are used
    assert kinds(findings) == {"3.jpg": "unlisted"}


def test_directories_tell_apart_what_tables_call_alike(tmp_path: Path) -> None:
    root = open_images(tmp_path / "open")
    named = [str(root / "annotations" / name) for name in (
        "oidv6-train-annotations-bbox.csv", "test-annotations-bbox.csv")]  # fmt: skip
    catalog, _ = read(root, annotations=named)
    box = (10, 5, 30, 15)
    assert boxes(catalog) == {
        "images/train/a.jpg": [("/m/o", *box)],
        "images/train/b.jpg": [("/m/p", *box)],
        "images/train/none.jpg": [],
        "images/test/a.jpg": [("/m/p", *box)],
    }
    assert [*sides(catalog).values()].count("train") == 3
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for path in sorted(root.rglob("*.*")):
            archive.write(path, path.relative_to(root))
    inside = [f"annotations/{Path(path).name}" for path in named]
    zipped, _ = read(tmp_path / "a.zip", annotations=inside)
    assert boxes(zipped) == boxes(catalog)
    assert sides(zipped) == sides(catalog)


def test_a_directory_called_like_a_side_wins(tmp_path: Path) -> None:
    images = ("images/train/1.jpg", "images/train_extra/1.jpg", "images/val/1.jpg")
    tables = {f"{side}.csv": f"{VOTT}1.jpg,10,5,30,15,{side}\n" for side in ("train", "val")}
    root = write(tmp_path, {**dict.fromkeys(images), **tables})
    named = [str(root / name) for name in tables]
    found = boxes(read(root / "images", annotations=named)[0])
    assert {path: [box[0] for box in own] for path, own in found.items()} == {
        "train/1.jpg": ["train"],
        "train_extra/1.jpg": [],
        "val/1.jpg": ["val"],
    }
    (root / "images/train").rename(root / "images/train_more")
    with pytest.raises(SourceError, match=r"'1.jpg' may mean '(train|val).*' or '(train|val)"):
        read(root / "images", annotations=named)


def test_train_and_val_in_one_table_beside_test(tmp_path: Path) -> None:
    images = dict.fromkeys(("trainval/1.jpg", "test/1.jpg"))
    tables = {f"{side}.csv": f"{VOTT}1.jpg,10,5,30,15,dog\n" for side in ("trainval", "test")}
    root = write(tmp_path, {**images, **tables})
    catalog, _ = read(root, annotations=[str(root / name) for name in tables])
    assert sides(catalog) == {"trainval/1.jpg": "trainval", "test/1.jpg": "test"}
    (root / "val.csv").write_text(tables["test.csv"])
    named = [str(root / name) for name in ("trainval.csv", "val.csv")]
    with pytest.raises(SourceError, match="'1.jpg' may mean"):  # they share images: no sides
        read(root, annotations=named)


def test_what_else_lies_beside_a_table(tmp_path: Path) -> None:
    """Nothing that nobody gave is an error, and no table is overlooked."""
    images = dict.fromkeys(("images/1.jpg", "images/2.jpg", "images/3.jpg"))
    root = write(tmp_path, {**images, "b/one.csv": f"{VOTT}1.jpg,10,5,30,15,dog\n"})
    (root / "b/x.csv").mkdir()
    (root / "b/gone.csv").symlink_to("nowhere")
    (root / "b/broken.csv").write_bytes(f"{VOTT}2.jpg,1\n".encode() + b"\xff\xfe\n")
    (root / "b/bare.csv").touch()
    for number in range(1100):
        (root / f"b/{number}.txt").touch()
    (root / "b/zz.csv").write_text(f"{VOTT}2.jpg,10,5,30,15,dog\n")
    for source in (root, root / "images"):
        catalog, findings = read(source, annotations=[str(root / "b/one.csv")])
        assert [*map(len, boxes(catalog).values())] == [1, 0]
        assert options_in(notes(findings).replace(",", "")) == [str(root / "b/zz.csv")]


def test_an_image_that_only_another_table_boxes_is_not_without_objects(tmp_path: Path) -> None:
    root = vott(tmp_path)
    catalog, findings = read(root, annotations=[str(root / "train-export.csv")])
    assert {path: len(found) for path, found in boxes(catalog).items()} == {"1.jpg": 1, "3.jpg": 0}
    assert kinds(findings)["2.jpg"] == "unlisted"
    assert options_in(notes(findings).replace(",", "")) == [str(root / "test-export.csv")]
    catalog, _ = read(root, annotations=[str(root / "train-export.csv")], unlisted="keep")
    assert len(catalog) == 3  # as the user says


def test_tables_of_one_side_are_one_set(tmp_path: Path) -> None:
    head = "image,class_name,class_id,xmin,ymin,xmax,ymax\n"
    root = write(
        tmp_path,
        {
            **dict.fromkeys(("1.jpg", "2.jpg")),
            "a.csv": f"{head}1.jpg,zebra,3,10,5,30,15\n",
            "b.csv": f"{head}2.jpg,ant,7,10,5,30,15\n2.jpg,zebra,3,1,2,x,4\n",
        },
    )
    named = [str(root / "a.csv"), str(root / "b.csv")]
    catalog, findings = read(root, annotations=named)
    (field,) = (each for each in catalog.settled.schema.fields if each.type == "objects")
    assert (field.names, field.ids, catalog.sides) == (("zebra", "ant"), (3, 7), ())
    assert "b.csv:3: the box 1, 2, x, 4 is not four numbers" in notes(findings)
    (root / "b.csv").write_text(f"{head}2.jpg,ant,3,10,5,30,15\n")
    with pytest.raises(SourceError, match="the class 3 is 'zebra', 'ant' in the files"):
        read(root, annotations=named)


def test_a_table_without_ids_beside_one_with(tmp_path: Path) -> None:
    head = "image,xmin,ymin,xmax,ymax,class_name"
    tables = {"a.csv": f"{head},class_id\n1.jpg,10,5,30,15,cat,7\n1.jpg,10,5,30,15,ant,9\n"}
    tables["b.csv"] = f"{head}\n2.jpg,10,5,30,15,ant\n"
    root = write(tmp_path, {**dict.fromkeys(("1.jpg", "2.jpg")), **tables})
    named = [str(root / name) for name in tables]
    catalog, _ = read(root, annotations=named)
    assert [own[-1][0] for own in boxes(catalog).values()] == ["ant", "ant"]
    assert catalog.settled.schema.by_name["objects"].ids == (7, 9)
    (root / "b.csv").write_text(f"{head}\n2.jpg,10,5,30,15,bee\n")
    with pytest.raises(
        SourceError, match=r"b.csv: does not number its classes.*a.csv.* has no 'bee'"
    ):
        read(root, annotations=named)


def test_lists_and_manifests_of_sides(tmp_path: Path) -> None:
    lists = {"train.lst": "0\t2\t5\t1\t.25\t.25\t.75\t.75\t1.jpg\n"}
    lists["val.lst"] = "0\t2\t5\t11\t.25\t.25\t.75\t.75\t2.jpg\n"
    manifests = {}
    for side, image, name in (("train", 1, "dog"), ("val", 2, "cat")):
        box = {"class_id": image - 1, "left": 10, "top": 5, "width": 20, "height": 10}
        sizes = [{"width": 40, "height": 20, "depth": 3}]
        line = {
            "source-ref": f"s3://b/{image}.jpg",
            "boxes": {"annotations": [box], "image_size": sizes},
            "boxes-metadata": {
                "class-map": {str(image - 1): name},
                "type": "groundtruth/object-detection",
            },
        }
        manifests[f"{side}.manifest"] = json.dumps(line) + "\n"
    images = dict.fromkeys(("1.jpg", "2.jpg"))
    root = write(tmp_path, {**images, **lists, **manifests})
    for names, classes in ((lists, ("1", "11")), (manifests, ("dog", "cat"))):
        catalog, _ = read(root, annotations=[str(root / name) for name in names])
        found = boxes(catalog)
        assert [own[0][0] for own in found.values()] == list(classes)
        assert {own[0][1:] for own in found.values()} == {(10, 5, 30, 15)}
        assert sides(catalog) == {"1.jpg": "train", "2.jpg": "val"}


def test_tables_of_runs(tmp_path: Path) -> None:
    head = "ImageId,EncodedPixels,ClassId\n"
    files = {"1.jpg": None, "2.jpg": None, "train.csv": f"{head}1.jpg,1 3,1\n"}
    root = write(tmp_path, {**files, "val.csv": f"{head}2.jpg,1 3,2\n"})
    catalog, _ = read(root, annotations=[str(root / "train.csv"), str(root / "val.csv")])
    assert catalog.settled.schema.by_name["mask"].names == ("background", "1", "2")
    assert catalog.sides == ("train", "val")
    assert catalog.reader.masks.runs == (((1, "1 3"),), ((2, "1 3"),))  # type: ignore[attr-defined]
    (root / "val.csv").write_text("image,xmin,ymin,xmax,ymax\n2.jpg,1,2,3,4\n")
    with pytest.raises(SourceError, match="some of the files have boxes, and others masks"):
        read(root, annotations=[str(root / "train.csv"), str(root / "val.csv")])


def test_the_number_of_rows_above_the_columns(tmp_path: Path) -> None:
    root = write(tmp_path, {**dict.fromkeys(("1.jpg", "2.jpg")), "boxes.txt": (
        "2\nimage_id x_1 y_1 width height\n1.jpg  10  5 20 10\n2.jpg   1  2  3  4\n"
    )})  # fmt: skip
    catalog, _ = read(root, annotations=[str(root / "boxes.txt")])
    assert [own for (own,) in boxes(catalog).values()] == [
        ("object", 10, 5, 30, 15),
        ("object", 1, 2, 4, 6),
    ]
    for rows in ("1.jpg,10,5,cow\n2.jpg,1,2,cow\n", "1.jpg 5\n2.jpg 6\n"):
        (root / "bare.csv").write_text(rows)
        with pytest.raises(OptionError, match="no line names its columns: put one above its rows"):
            read(root, annotations=[str(root / "bare.csv")])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "i/1.jpg,1,2,3,4,dog\ni/1.jpg,5,6,7.5,8,cat\ni/2.jpg,,,,,\n",
            {"i/1.jpg": [("dog", 1, 2, 3, 4), ("cat", 5, 6, 7.5, 8)], "i/2.jpg": []},
        ),
        (
            "image_name,BoxesString,domain\n1.jpg,1 2 3 4;5 6 7 8,ETHZ_1\n2.jpg,no_box,ETHZ_1\n",
            {"i/1.jpg": [("object", 1, 2, 3, 4), ("object", 5, 6, 7, 8)], "i/2.jpg": []},
        ),
        (
            "Filename;Annotation tag;Upper left corner X;Upper left corner Y;Lower right corner X;"
            "Lower right corner Y;Occluded,On another road\ni/1.jpg;stop;1;2;3;4;0,0\n",
            {"i/1.jpg": [("stop", 1, 2, 3, 4)], "i/2.jpg": []},
        ),
    ],
    ids=["Keras-RetinaNet", "Global Wheat", "LISA"],
)
def test_the_table_that_is_offered_is_read(
    tmp_path: Path, text: str, expected: dict[str, list[tuple[object, ...]]]
) -> None:
    root = write(tmp_path, {"i/1.jpg": None, "i/2.jpg": None, "annotations.csv": text})
    with pytest.raises(SourceError, match="has a table of boxes or masks") as refused:
        read(root)
    catalog, _ = read(root, annotations=options_in(str(refused.value)))
    assert boxes(catalog) == expected


def test_a_sample_submission_is_no_table_of_masks(tmp_path: Path) -> None:
    runs = "ImageId,EncodedPixels\n"
    files = {"sample_submission_v2.csv": f"{runs}2.jpg,0 1\n", "train.csv": f"{runs}1.jpg,1 5\n"}
    root = write(tmp_path, {"train/1.jpg": None, "test/2.jpg": None, **files})
    with pytest.raises(SourceError, match="has a table of boxes or masks, train.csv") as refused:
        read(root)
    given = options_in(str(refused.value))
    assert [Path(path).name for path in given] == ["train.csv"]
    assert kinds(read(root, annotations=given)[1]) == {"sample_submission_v2.csv": "harmless"}


def test_masks_beside_a_table_are_no_images_without_objects(tmp_path: Path) -> None:
    masks = {f"train/{at}/masks/{at}b{more}.png": png(0, 255) for at in "12" for more in "xy"}
    images = {f"train/{at}/images/{at}.jpg": None for at in "12"}
    root = write(tmp_path, {**masks, **images, "runs.csv": "ImageId,EncodedPixels\n1,1 5\n2,\n"})
    path = str(root / "runs.csv")
    source = make_source(str(root), annotations=[path]).replace(takes_masks=True)
    catalog, findings = read_source(source)
    assert catalog.table["path"].to_list() == [*images]
    assert kinds(findings) == dict.fromkeys(masks, "not-read")
    assert "4 likely masks not read, such as train/1/masks/1bx.png" in notes(findings)
    (root / "runs.csv").write_text("image,xmin,ymin,xmax,ymax\n1.jpg,1,2,3,4\n")
    catalog, findings = read_source(source)
    assert catalog.table["path"].to_list() == [*images]
    assert kinds(findings) == dict.fromkeys(masks, "left-over")


@pytest.mark.parametrize("header", ["", "image,xmin,ymin,xmax,ymax,class\n"])
def test_a_table_beside_the_directory_of_images_is_offered(tmp_path: Path, header: str) -> None:
    root = write(
        tmp_path, {"images/1.jpg": None, "a.csv": f"{header}images/1.jpg,10,5,30,15,cow\n"}
    )
    _, findings = read(root / "images")
    (path,) = re.findall(r"not read: --annotations (\S+) takes boxes", notes(findings))
    catalog, _ = read(root / "images", annotations=[path])
    assert boxes(catalog) == {"1.jpg": [("cow", 10, 5, 30, 15)]}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("i/2.jpg,1,2,3,4,", "the box 1, 2, 3, 4 has no class"),
        ("i/2.jpg,ten,2,3,4,cow", "the box ten, 2, 3, 4 is not four numbers"),
    ],
)
@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_wrong_row_without_a_header_line_is_a_reject(
    tmp_path: Path, wrong: str, said: str, line: int
) -> None:
    rows = ["i/1.jpg,10,5,30,15,cow", "i/3.jpg,,,,,"]
    rows.insert(line - 1, wrong)
    images = {f"i/{number}.jpg": None for number in (1, 2, 3)}
    root = write(tmp_path, {**images, "annotations.csv": "\r\n".join(rows)})
    catalog, findings = read(root, annotations=[str(root / "annotations.csv")])
    assert f"annotations.csv:{line}: {said}" in notes(findings)
    (reject,) = (
        each for each in catalog.reader.read(catalog.rows()) if isinstance(each, BadSample)
    )
    assert said in str(reject)


def test_rows_of_other_numbers_name_no_boxes(tmp_path: Path) -> None:
    """Keypoints and tables of labels are no boxes."""
    for row in ("i/1.jpg,1,2,3,4,5,6,dog\n", "i/1.jpg,1,2,3,dog\n", "1,1,2,3,4,dog\n"):
        root = write(tmp_path, {"i/1.jpg": None, "annotations.csv": row})
        with pytest.raises(OptionError, match="no line names its columns"):
            read(root, annotations=str(root / "annotations.csv"))


WHEAT = "image_name,BoxesString,domain\n{0}.jpg,10 5 30 15,a\n"


@pytest.mark.parametrize(
    "tables",
    [
        {"train.csv": WHEAT.format(1), "test.csv": WHEAT.format(2).replace("\n", "\r\n")},
        {"train.csv": WHEAT.format(1), "test.csv": "\ufeff" + WHEAT.format(2)},
        {
            "train.csv": VOTT + "1.jpg,10,5,30,15,a\n",
            "test.csv": VOTT.replace('"', "") + "2.jpg,10,5,30,15,a\n",
        },
        {"train.csv": "1.jpg,10,5,30,15,cow\n", "test.csv": "2.jpg,1,2,3,4,cow\n"},
    ],
    ids=["line ends", "byte order mark", "quotes", "no header line"],
)
@pytest.mark.parametrize("is_zip", [False, True])
def test_a_table_of_the_same_columns_is_not_overlooked(
    tmp_path: Path, tables: dict[str, str], is_zip: bool
) -> None:
    """Images of a test set never become training images without objects."""
    root = write(tmp_path / "i", {"1.jpg": None, "2.jpg": None, **tables})
    named = ["train.csv"] if is_zip else [str(root / "train.csv")]
    if is_zip:
        shutil.make_archive(str(root), "zip", root)
    catalog, findings = read(Path(f"{root}.zip") if is_zip else root, annotations=named)
    assert [*boxes(catalog)] == ["1.jpg"]
    assert [Path(path).name for path in options_in(notes(findings))] == ["test.csv"]

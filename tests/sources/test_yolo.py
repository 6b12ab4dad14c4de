"""Sets of YOLO: which image has which text, classes, sides, and what is refused."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.errors import SourceError
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.servers.bucket import Bucket
from tests.sources.boxes import ROW, boxes, kinds, notes, objects, read, sides, write

CAT = [("cat", 10.0, 5.0, 30.0, 15.0)]
DOG = [("dog", 10.0, 5.0, 30.0, 15.0)]
NAMES = "names: [cat, dog]\n"


def ultralytics(tmp_path: Path, yaml: str) -> Path:
    """A set as ultralytics has it: images/SIDE and labels/SIDE."""
    return write(
        tmp_path / "set",
        {
            "data.yaml": yaml,
            "images/train/a.jpg": None,
            "images/train/b.jpg": None,
            "images/train/c.jpg": None,
            "images/val/a.jpg": None,
            "labels/train/a.txt": ROW,
            "labels/train/b.txt": "",
            "labels/val/a.txt": ROW.replace("0 ", "1 ", 1),
        },
    )


@pytest.mark.parametrize(
    "yaml",
    [
        "train: images/train\nval: images/val\n" + NAMES,
        "path: ../datasets/set # elsewhere\ntrain: images/train\nval: images/val\n" + NAMES,
        "path: /kaggle/in/top\ntrain: set/images/train\nval: /x/set/images/val\n" + NAMES,
        "train: ../images/train\nval: [../images/val]\nnc: 2\nnames:\n  0: cat\n  1: dog\n",
        "path: .\ntrain:\n- images/train\nval:\n- images/val\ntest:  # no\nnames:\n- cat\n- dog\n",
        "train: train.txt\nval: images/val\n" + NAMES,
    ],
)
def test_sides_of_data_yaml(tmp_path: Path, yaml: str) -> None:
    root = ultralytics(tmp_path, yaml)
    if "train.txt" in yaml:
        lines = "./images/train/a.jpg\nimages/train/b.jpg\n/elsewhere/set/images/train/c.jpg\n"
        (root / "train.txt").write_text(lines)
    catalog, findings = read(root)
    own = [f"images/train/{name}.jpg" for name in "abc"]
    assert boxes(catalog) == {own[0]: CAT, own[1]: [], own[2]: [], "images/val/a.jpg": DOG}
    assert sides(catalog) == dict.fromkeys(own, "train") | {"images/val/a.jpg": "val"}
    assert not [found for found in findings if found.path.startswith("labels")]


def test_a_configuration_is_called_like_its_data_set(tmp_path: Path) -> None:
    yaml = "path: ../datasets/pose8\ntrain: images\nval:\nkpt_shape: [1, 3]\nnames:\n  0: person\n"
    content = {"images/a.jpg": None, "labels/a.txt": "0 0.5 0.5 0.2 0.2 0.5 0.5 2\n"}
    more = {"pose8.yaml": yaml, "hyp.yaml": "lr0: 0.01\n"}
    catalog, _ = read(write(tmp_path / "pose8", content | more))
    assert [name for name, *_ in boxes(catalog)["images/a.jpg"]] == ["person"]
    two = write(tmp_path / "two", content | more | {"b.yaml": yaml})
    with pytest.raises(SourceError, match="line 1: has 8 columns"):
        read_source(make_source(str(two)))


def test_classes_of_one_name_are_refused(tmp_path: Path) -> None:
    files = {"images/a.jpg": None, "labels/a.txt": ROW, "labels/classes.txt": "cat\ncat\n"}
    with pytest.raises(SourceError, match="several classes have one name: 'cat': give each its"):
        read(write(tmp_path, files))


def test_roboflow(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "data.yaml": "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\n"
            "nc: 2\nnames: ['cat', 'dog']\n\nroboflow:\n  workspace: x\n  version: 1\n",
            "README.roboflow.txt": "about",
            "train/images/a_jpg.rf.1.jpg": None,
            "train/labels/a_jpg.rf.1.txt": ROW,
            "valid/images/b_jpg.rf.2.jpg": None,
            "valid/labels/b_jpg.rf.2.txt": ROW,
        },
    )
    catalog, findings = read(root)
    found = {"train/images/a_jpg.rf.1.jpg": CAT, "valid/images/b_jpg.rf.2.jpg": CAT}
    assert boxes(catalog) == found
    assert catalog.sides == ("train", "val")
    assert "there is no ../test/images" in notes(findings)
    catalog, _ = read(root / "train")
    assert boxes(catalog) == {"images/a_jpg.rf.1.jpg": CAT}


def test_a_list_that_lies_elsewhere_is_not_read(
    tmp_path: Path, localstack: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data.yaml may come from anybody: it names lists beside it or below SOURCE, no others."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    (tmp_path / "secret.txt").write_text("images/train/a.jpg\n")
    (tmp_path / "set").mkdir()
    for name in (f"{tmp_path}/secret.txt", "../secret.txt", "images/../../secret.txt"):
        root = ultralytics(tmp_path, f"train: {name}\nval: val.txt\n{NAMES}")
        (root / "val.txt").write_text("./images/val/a.jpg\n")
        for file in filter(Path.is_file, root.rglob("*")):
            localstack.put(f"set/{file.relative_to(root)}", file.read_bytes())
        for place in (str(root), f"{localstack.url}/set"):
            catalog, findings = read_source(make_source(place))
            assert sides(catalog) == {"images/val/a.jpg": "val"}, (place, name)
            assert f"train: there is no {name}" in notes(findings)
    (tmp_path / "set" / "data.yaml").write_text(f"train: {root}/val.txt\n{NAMES}")
    catalog, _ = read(root / "images", annotations=[str(root / "data.yaml")])
    assert sides(catalog) == {"val/a.jpg": "train"}


def test_data_yaml_above_the_images_on_s3(
    localstack: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    root = write(tmp_path, {"data.yaml": NAMES, "train/a.jpg": None, "train/a.txt": ROW})
    for file in filter(Path.is_file, root.rglob("*")):
        localstack.put(f"set/{file.relative_to(root)}", file.read_bytes())
    for place in (f"{root}/train", f"{localstack.url}/set/train"):
        assert boxes(read_source(make_source(place))[0]) == {"a.jpg": CAT}


def test_darknet(tmp_path: Path) -> None:
    files = {"a.jpg": None, "a.txt": ROW, "b.jpg": None, "obj.names": "cat\ndog\n"}
    catalog, _ = read(write(tmp_path, files))
    assert boxes(catalog) == {"a.jpg": CAT, "b.jpg": []}


def test_no_file_has_names(tmp_path: Path) -> None:
    root = write(tmp_path / "set", {"images/a.jpg": None, "labels/a.txt": ROW})
    catalog, findings = read(root)
    assert boxes(catalog) == {"images/a.jpg": [("0", 10, 5, 30, 15)]}
    assert "--classes" in notes(findings)
    write(tmp_path, {"names.txt": "cat\ndog\n"})
    catalog, _ = read(root, classes=str(tmp_path / "names.txt"))
    assert boxes(catalog) == {"images/a.jpg": CAT}


def test_named_from_the_images(tmp_path: Path) -> None:
    root = ultralytics(tmp_path, "train: images/train\nval: images/val\n" + NAMES)
    for path in ("data.yaml", "labels"):
        catalog, _ = read(root / "images", annotations=[str(root / path)], annotation_format="yolo")
        found = boxes(catalog)
        assert [found["train/a.jpg"][0][1:], found["val/a.jpg"][0][1:]] == [CAT[0][1:]] * 2


def test_polygons_and_poses(tmp_path: Path) -> None:
    polygon = "1 0.25 0.25 0.75 0.25 0.5 0.75\n"
    yaml = "train: images\n" + NAMES
    root = write(tmp_path / "a", {"data.yaml": yaml, "images/a.jpg": None, "labels/a.txt": polygon})
    (found,) = objects(read(root)[0])["images/a.jpg"].items
    assert found.polygons == ((0.25, 0.25, 0.75, 0.25, 0.5, 0.75),)
    assert found.box == (0.25, 0.25, 0.75, 0.75)
    pose = ROW.strip() + " 0.5 0.5 2 0 0 0\n"
    yaml += "kpt_shape: [2, 3]\n"
    root = write(tmp_path / "b", {"data.yaml": yaml, "images/a.jpg": None, "labels/a.txt": pose})
    (found,) = objects(read(root)[0])["images/a.jpg"].items
    assert found.keypoints == (0.5, 0.5, 2, 0, 0, 0)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ("2 0.5 0.5 0.5 0.5\n", "line 1: the class 2 is none of the classes 0 to 1"),
        ("0.5 0.5 0.5 0.5 0.5\n", "0.5 is none of the classes"),
        ("0 0.5 0.5 1.2 0.5\n", "1.2 is not from 0 to 1"),
        ("0 0.5 -0.2 0.2 0.5\n", "-0.2 is not from 0 to 1"),
        ("0 nan 0.5 0.5 0.5\n", "nan is not from 0 to 1"),
        ("0 0.5 0.5 0.5 0.5 0.9\n", "line 1: has 6 columns: leave out the conf"),
        ("0 0.5 0.5\n", "has 3 columns"),
        (ROW + "0 0.2 0.2 0.4 0.2 0.4 0.4\n", "boxes and of polygons"),
        ("a b c d e\n", "line 1: 'a b c d e'"),
    ],
)
def test_refused(tmp_path: Path, rows: str, why: str) -> None:
    files: dict[str, str | bytes | None] = {"data.yaml": "train: images\n" + NAMES}
    for number in range(5):
        files |= {f"images/{number}.jpg": None, f"labels/{number}.txt": rows}
    with pytest.raises(SourceError) as refused:
        read(write(tmp_path, files))
    said = str(refused.value)
    assert why in said
    assert "5 files" in said
    assert said.count("labels/") == 3
    assert "2 more" in said


@pytest.mark.parametrize("task", ["segment", "detect", "obb", ""])
def test_rotated_boxes_are_polygons(tmp_path: Path, task: str) -> None:
    corners = (0.5, 0.1, 0.9, 0.5, 0.5, 0.9, 0.1, 0.5)
    files: dict[str, str | bytes | None] = {"images/a.jpg": None, "images/b.jpg": None}
    files["data.yaml"] = f"train: images\n{NAMES}" + (f"task: {task}\n" if task else "")
    files |= {"labels/a.txt": f"0 {' '.join(map(str, corners))}\n", "labels/b.txt": ""}
    root = write(tmp_path / "set", files)
    catalog, findings = read(root)
    (found,) = objects(catalog)["images/a.jpg"].items
    assert (found.box, found.polygons) == ((0.1, 0.1, 0.9, 0.9), (corners,))
    said = "each object has four corners, as rotated boxes (OBB) have: kept as polygons"
    assert (said in notes(findings)) == (task in ("obb", ""))


def test_texts_with_a_byte_order_mark(tmp_path: Path) -> None:
    text = ROW.encode("utf-8-sig")
    files: dict[str, str | bytes | None] = {"images/a.jpg": None, "labels/a.txt": text}
    root = write(tmp_path, files | {"data.yaml": "train: images\n" + NAMES})
    assert boxes(read(root)[0]) == {"images/a.jpg": CAT}
    (root / "labels/a.txt").write_bytes(ROW.encode("utf-16"))
    with pytest.raises(SourceError, match="labels/a.txt: is not UTF-8"):
        read(root)


def test_equal_rows_are_one(tmp_path: Path) -> None:
    files = {"data.yaml": "train: images\n" + NAMES, "images/a.jpg": None, "labels/a.txt": ROW * 3}
    catalog, findings = read(write(tmp_path, files))
    assert boxes(catalog) == {"images/a.jpg": CAT}
    assert "2 rows equal" in notes(findings)


def test_one_text_for_two_images(tmp_path: Path) -> None:
    files = {"images/a.jpg": None, "images/a.png": None, "labels/a.txt": ROW}
    with pytest.raises(SourceError, match=r"labels/a\.txt: images/a\.jpg, images/a\.png"):
        read(write(tmp_path, files))


def test_a_text_without_an_image_is_lost(tmp_path: Path) -> None:
    files = {"images/a.jpg": None, "labels/a.txt": ROW, "labels/b.txt": ROW}
    _, findings = read(write(tmp_path, files))
    assert kinds(findings) == {"images/b": "missing"}


def test_a_list_of_classes_beside_the_texts_is_no_text(tmp_path: Path) -> None:
    root = ultralytics(tmp_path, "train: images/train\n" + NAMES)
    write(root, {"labels/classes.txt": "cat\ndog\n"})
    _, findings = read(root)
    assert not [found for found in findings if found.kind == "missing"]


def test_images_without_a_text_can_be_left_out(tmp_path: Path) -> None:
    files = {"images/a.jpg": None, "images/b.jpg": None, "labels/a.txt": ROW}
    catalog, findings = read(write(tmp_path, files), unlisted="drop")
    assert list(boxes(catalog)) == ["images/a.jpg"]
    assert kinds(findings) == {"images/b.jpg": "unlisted"}


@pytest.mark.parametrize("names", ["", "names:\n", "names: []\n"])
def test_classes_of_which_only_the_number_is_told(tmp_path: Path, names: str) -> None:
    config = f"train: images/train\nnc: 2\n{names}"
    files = {"images/train/1.jpg": None, "labels/train/1.txt": ROW, "data.yaml": config}
    catalog, findings = read(write(tmp_path, files))
    assert boxes(catalog) == {"images/train/1.jpg": [("class_0", 10, 5, 30, 15)]}
    assert "data.yaml tells nc and no names, so classes are called class_0" in notes(findings)
    (tmp_path / "two.txt").write_text("cat\ndog\n")
    catalog, findings = read(tmp_path, classes=str(tmp_path / "two.txt"))
    assert boxes(catalog) == {"images/train/1.jpg": [("cat", 10, 5, 30, 15)]}
    (tmp_path / "one.txt").write_text("cat\n")
    with pytest.raises(SourceError, match=r"data\.yaml: names 2 classes, and .*one\.txt 1"):
        read(tmp_path, classes=str(tmp_path / "one.txt"))


def test_content_decides_and_not_the_first_name(tmp_path: Path) -> None:
    """An empty text is a background image; texts that are no rows are none of YOLO's."""
    images: dict[str, str | bytes | None] = {f"images/{at}.jpg": None for at in range(9)}
    texts: dict[str, str | bytes | None] = {
        f"labels/{at}.txt": ROW if at == 5 else "" for at in range(9)
    }
    files = {**images, **texts, "classes.txt": "cat\n"}
    found = {path: CAT if "5" in path else [] for path in images}
    assert boxes(read(write(tmp_path / "empty", files))[0]) == found
    for text in ("a cat on a mat\n", "0 1 0 0 1 1\n"):  # captions, attributes
        root = write(tmp_path / text.split()[-1], {**images, **dict.fromkeys(texts, text)})
        assert read(root)[0].annotated is None
        assert len(read(root, leave_out=["labels"])[0]) == 9
    mixed = {**images, **texts, "labels/0.txt": "0 1 2\n", "data.yaml": NAMES}
    root = write(tmp_path / "mixed", mixed)
    with pytest.raises(SourceError, match="has 3 columns"):
        read(root)
    assert read(root, leave_out=["labels", "data.yaml"])[0].annotated is None
    background = {**images, **dict.fromkeys(texts, ""), "classes.txt": "cat\n"}
    assert not any(boxes(read(write(tmp_path / "background", background))[0]).values())


DARKNET: dict[str, str | bytes | None] = {
    "obj.data": "classes = 2\ntrain = data/train.txt\nvalid = data/valid.txt\n"
    "names = data/obj.names\nbackup = backup/\n",
    "obj.names": "cat\ndog\n",
    "train.txt": "data/obj_train_data/a.jpg\n",
    "valid.txt": "data/obj_valid_data/a.jpg\n",
    "obj_train_data/a.jpg": None,
    "obj_train_data/a.txt": ROW,
    "obj_valid_data/a.jpg": None,
    "obj_valid_data/a.txt": ROW.replace("0 ", "1 ", 1),
}


def test_the_export_of_cvat(tmp_path: Path) -> None:
    """A data set of YOLO 1.1, in a directory and in a zip; its lists tell the sides."""
    root = write(tmp_path / "set", DARKNET)
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for name in DARKNET:
            archive.write(root / name, name)
    for place in (root, tmp_path / "set.zip"):
        catalog, findings = read(place)
        assert boxes(catalog) == {"obj_train_data/a.jpg": CAT, "obj_valid_data/a.jpg": DOG}
        assert list(sides(catalog).values()) == ["train", "val"]
        assert not kinds(findings)
    (root / "obj.data").unlink()
    assert list(sides(read(root)[0]).values()) == ["train", "val"]


def test_lists_without_a_configuration_tell_sides(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {f"images/{at}.jpg": None for at in range(3)}
    files |= {f"labels/{at}.txt": ROW for at in range(3)}
    lists = {"train.txt": "./images/0.jpg\nimages/2.jpg\n", "val.txt": "images/1.jpg\n"}
    catalog, findings = read(write(tmp_path / "set", files | lists))
    assert [*sides(catalog).values()] == ["train", "val", "train"]
    assert not kinds(findings)
    for others in ({"train.txt": lists["train.txt"]}, {**lists, "test.txt": "a test\n"}):
        assert read(write(tmp_path / str(len(others)), files | others))[0].sides == ()


def test_directories_of_other_names(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {
        "Images/a.jpg": None,
        "Annotations/a.txt": ROW,
        "obj.names": "cat\n",
        "README.txt": "",
    }
    catalog, findings = read(write(tmp_path / "one", files))
    assert boxes(catalog) == {"Images/a.jpg": CAT}
    assert kinds(findings) == {"README.txt": "harmless"}
    yaml = "train: ../train/images\nval: ../valid/images\n" + NAMES
    files = {"set/data.yaml": yaml}
    for side in ("train", "val"):
        files |= {f"set/{side}/images/a.jpg": None, f"set/{side}/labels/a.txt": ROW}
    catalog, _ = read(write(tmp_path / "two", files))
    assert [*boxes(catalog).values()] == [CAT, CAT]
    assert [*sides(catalog).values()] == ["train", "val"]
    write(tmp_path / "two", {"other/data.yaml": yaml})
    with pytest.raises(SourceError, match="has other/data.yaml and set/data.yaml, each with a"):
        read(tmp_path / "two")


def test_texts_of_one_name_are_told_apart_by_their_directories(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {f"pics/{name}.jpg": None for name in ("a/1", "b/1")}
    files |= {
        "ann/a/1.txt": ROW,
        "ann/b/1.txt": ROW.replace("0 ", "1 ", 1),
        "obj.names": "cat\ndog",
    }
    catalog, _ = read(write(tmp_path, files))
    assert boxes(catalog) == {"pics/a/1.jpg": CAT, "pics/b/1.jpg": DOG}
    write(tmp_path, {"pics/2.jpg": None, "one/2.txt": ROW, "two/2.txt": ROW})
    with pytest.raises(SourceError, match=r"text of 'pics/2.jpg' may be 'one/2.txt' or 'two/2.t"):
        read(tmp_path)


def test_texts_of_some_images_in_directories_of_other_names_are_refused(tmp_path: Path) -> None:
    files = {"images/a.jpg": None, "images/c.jpg": None, "labels/a.txt": ROW, "more/b.jpg": None}
    write(tmp_path, {**files, "notes/b.txt": "a bee\n", "notes/c.txt": ROW})
    assert boxes(read(tmp_path, leave_out=["notes"])[0])["more/b.jpg"] == []
    assert len(read(tmp_path)[0]) == 3
    write(tmp_path, {"boxes/b.txt": ROW})
    with pytest.raises(SourceError, match=r"more/b.jpg has no text .* boxes/b.txt may be its"):
        read(tmp_path)
    assert len(read(tmp_path, leave_out=["boxes"])[0]) == 3


def test_an_image_whose_text_is_left_out_is_left_out(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {f"images/{at}.jpg": None for at in range(4)}
    files |= {f"labels/{at}.txt": ROW for at in range(2)}
    root = write(tmp_path / "set", {**files, "labels/2.txt": "hello world\n", "data.yaml": NAMES})
    with pytest.raises(SourceError, match=r"go on without, --leave-out labels/2\.txt"):
        read(root)
    for place in (root, Path(shutil.make_archive(str(tmp_path / "set"), "zip", str(root)))):
        catalog, findings = read(place, leave_out=["labels/2.txt"])
        assert boxes(catalog) == {"images/0.jpg": CAT, "images/1.jpg": CAT, "images/3.jpg": []}
        assert kinds(findings) == {"images/2.jpg": "left-out", "labels/2.txt": "left-out"}


def test_images_that_two_lists_name_or_that_are_not_there(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {f"images/{at}.jpg": None for at in range(3)}
    files |= {f"labels/{at}.txt": ROW for at in range(4)}
    lists = {
        "train.txt": "images/0.jpg\nimages/1.jpg\nimages/2.jpg\nimages/3.jpg\nout/4.jpg\n",
        "val.txt": "images/2.jpg\nimages/1.jpg\n./images/77.jpg\n",
        "test.txt": "images/2.jpg\nimages/77.jpg\n",
    }
    root = write(tmp_path, files | lists)
    catalog, findings = read(root, leave_out=["out"])
    assert [*sides(catalog).values()] == ["train", "val", "test"]
    said = notes(findings)
    assert "val.txt: val has images of test, which stay there, such as images/2.jpg" in said
    assert "train.txt: train has images of val, which stay there, such as images/1.jpg" in said
    assert kinds(findings) == {"images/3": "missing", "images/77.jpg": "missing"}
    write(root, {"data.yaml": f"train: train.txt\nval: val.txt\n{NAMES}"})
    assert kinds(read(root, leave_out=["out"])[1])["images/77.jpg"] == "missing"


def test_names_of_classes_in_the_archive(tmp_path: Path) -> None:
    root = write(
        tmp_path / "set", {"images/a.jpg": None, "labels/a.txt": ROW, "names.list": "dog\n"}
    )
    path = shutil.make_archive(str(tmp_path / "set"), "zip", root)
    for at, name in enumerate(("names.list", f"{path}/names.list")):
        options: Any = {"to": "webdataset", "classes": name, "workers": 1}
        dsprep.pack(path, tmp_path / f"out{at}", **options)
        assert (tmp_path / f"out{at}/objects.classes.txt").read_text() == "dog\n"
    with pytest.raises(SourceError, match="nothing: does not exist, neither on the disk nor in"):
        read(Path(path), classes="nothing")

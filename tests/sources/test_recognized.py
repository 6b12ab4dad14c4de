"""Folders with annotations never become classes of their directories without a word."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import dsprep
from dsprep.annotations.geometry import measured_on
from dsprep.annotations.objects import SHARES, to_json
from dsprep.errors import OptionError, SourceError
from dsprep.images.transform import Transform
from tests.sources.boxes import (
    ROW,
    box,
    boxes,
    coco,
    image,
    kinds,
    labelme,
    notes,
    objects,
    read,
    voc,
    voc_object,
    write,
)
from tests.sources.test_leftover import HEADS_OF_KINDS

SHARES_OF_MANY = "".join(f"0 .1 .2 .{at} .7 .9 .3\n" for at in range(10, 50))
Content = dict[str, str | bytes | None]

YOLO: Content = {
    "data.yaml": "train: images/train\nval: images/val\nnames: [cat]\n",
    "images/train/a.jpg": None,
    "images/val/b.jpg": None,
    "labels/train/a.txt": ROW,
}
COCO: Content = {
    "train2017/a.jpg": None,
    "val2017/b.jpg": None,
    "annotations/instances_train2017.json": coco(["a.jpg"], [box(1, 1)]),
    "annotations/instances_val2017.json": coco(["b.jpg"]),
}
BOXES, RUNS = "image,x,y,width,height\na.jpg,1,2,3,4\n", "ImageId,EncodedPixels\na.jpg,1 3\n"
CREATE_ML = json.dumps(
    [
        {
            "image": "a.jpg",
            "annotations": [
                {"label": "cat", "coordinates": {"x": 5, "y": 5, "width": 4, "height": 4}}
            ],
        }
    ]
)
VOC: Content = {
    "JPEGImages/1.jpg": None,
    "Annotations/1.xml": voc(voc_object("cat", (1, 2, 3, 4))),
    "SegmentationClass/1.png": image(),
}


@pytest.mark.parametrize(
    ("files", "below", "named"),
    [
        (YOLO, "images", "data.yaml"),
        (YOLO, "images/train", "data.yaml"),
        (COCO, "train2017", "annotations/instances_train2017.json"),
        (COCO, "val2017", "annotations/instances_val2017.json"),
        (VOC, "JPEGImages", "Annotations"),
        (VOC, "SegmentationClass", "Annotations"),
    ],
)
def test_images_below_their_annotations(
    tmp_path: Path, files: Content, below: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path, files)
    with pytest.raises(SourceError) as refused:
        read(root / below)
    assert f"--annotations {root / named} " in str(refused.value)
    assert "--from images" in str(refused.value)
    assert len(read(root / below, kind="images")[0])
    if below != "SegmentationClass":
        assert len(read(root / below, annotations=[str(root / named)])[0])
    monkeypatch.chdir(root / below)
    with pytest.raises(SourceError, match="--annotations"):
        read(Path("."))


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (YOLO | COCO, "annotations of COCO .* and of YOLO"),
        (
            {"data.yaml": "train: x\nnames: [cat]\n", "images/a/a.jpg": None},
            "not one of the images",
        ),
        ({"data.yaml": "names: [cat\n", "images/a/a.jpg": None}, "data.yaml: line 2: is no YAML"),
        ({"labels/a/b.txt": ROW, "images/a/a.jpg": None}, "not one of"),
        ({"Annotations/b.xml": voc(), "JPEGImages/a.jpg": None}, "not one of"),
        ({"instances_a.json": coco(["b.jpg"]), "images/a.jpg": None}, "not one of"),
    ],
)
def test_what_does_not_fit_together(tmp_path: Path, files: Content, why: str) -> None:
    root = write(tmp_path, files)
    with pytest.raises(SourceError, match=why):
        read(root)
    assert len(read(root, kind="images")[0])


ROBOFLOW: Content = {
    "README.roboflow.txt": "1 2 3 4 5",
    "data.yaml": "train: ../train/images\nval: ../valid/images\nnames: [cat]\n",
    "train/images/a.jpg": None,
    "train/labels/a.txt": ROW,
}
DARKNET: Content = {"obj.names": "cat\n", "obj/a.jpg": None, "obj/a.txt": ROW, "train.txt": "obj/a"}
BESIDE: Content = {f"train/1.{end}": VOC[f"{of}/1.{end}"] for of, end in
                   (("JPEGImages", "jpg"), ("Annotations", "xml"))}  # fmt: skip


def archived(tmp_path: Path, files: Content, kind: str, top: str = "") -> Path:
    """Put files into a zip or a tar, with what a Mac adds."""
    root = write(tmp_path / "files", files | {"__MACOSX/labels/._a.txt": "\0\5\x16"})
    path = tmp_path / f"set.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(files | {"__MACOSX/labels/._a.txt": ""}):
                archive.write(root / name, top + name)
    else:
        with tarfile.open(path, f"w:{kind[4:]}") as tar:
            for name in sorted(files, reverse=True):
                tar.add(root / name, top + name)
    return path


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
@pytest.mark.parametrize("files", [YOLO, COCO, VOC, ROBOFLOW, DARKNET, BESIDE])
def test_an_archive(tmp_path: Path, files: Content, kind: str) -> None:
    if files in (BESIDE, DARKNET) and kind != "zip":
        return  # a shard of WebDataset, whose samples have a field xml or txt
    root = write(tmp_path / "set", files)
    expected, told = read(root)
    for top in ("", "set/"):
        found, findings = read(archived(tmp_path, files, kind, top))
        assert list(boxes(found).values()) == list(boxes(expected).values())
        assert found.settled.schema == expected.settled.schema
        assert found.sides == expected.sides
        assert notes(findings).replace(f"set.{kind}/{top}", "set/") == notes(told)
        assert len(kinds(findings)) - ("__MACOSX/" in kinds(findings)) == len(kinds(told))
    assert len(read(tmp_path / f"set.{kind}", kind="images")[0])


def test_an_archive_is_packed_as_its_directory(tmp_path: Path) -> None:
    for files, options in (
        (COCO, {}),
        (YOLO, {"transform": Transform(crop=(8, 8))}),
        (VOC, {"seed": 3}),
    ):
        path, root = archived(tmp_path, files, "zip"), tmp_path / "files"
        for source, workers in ((path, 1), (root, 2)):
            out = tmp_path / str(workers)
            given: dict[str, Any] = {"to": "webdataset", "overwrite": True, **options}
            dsprep.pack(str(source), str(out), workers=workers, **given)
        made = {each.name: each.read_bytes() for each in (tmp_path / "1").glob("*.tar")}
        assert made == {each.name: each.read_bytes() for each in (tmp_path / "2").glob("*.tar")}
        shutil.rmtree(root)
        shutil.rmtree(tmp_path / "1")
        shutil.rmtree(tmp_path / "2")


def test_annotations_that_are_named_in_an_archive(tmp_path: Path) -> None:
    files: Content = {"train/a.jpg": None, "train.csv": "image,x,y,width,height\na,10,5,20,10\n"}
    path = archived(tmp_path, files, "zip")
    with pytest.raises(SourceError, match=r"set.zip: has a table of .*: give --annotations train"):
        read(path)
    catalog, _ = read(path, annotations=["train.csv"])
    assert boxes(catalog) == {"train/a.jpg": [("object", 10, 5, 30, 15)]}
    path = archived(tmp_path, COCO, "zip", "set/")
    for top in ("", f"{path}/set/"):
        catalog, _ = read(path, annotations=[f"{top}annotations/instances_train2017.json"])
        assert list(boxes(catalog).values()) == [[("cat", 10, 5, 30, 15)]]
    with pytest.raises(SourceError, match="neither on the disk nor in .*set.zip"):
        read(path, annotations=["instances.json"])
    with pytest.raises(SourceError, match="unpack"):
        read(archived(tmp_path, YOLO, "zip"), annotations=["data.yaml"])
    tasks: Content = {"a.jpg": None, "project.json": '[{"id": 1, "annotations": []}]'}
    with pytest.raises(SourceError, match=r"those of Label Studio .*: unpack .*set\.zip$"):
        read(archived(tmp_path, tasks, "zip"), annotations=["project.json"])


def test_a_huge_data_yaml_is_refused(tmp_path: Path) -> None:
    path = archived(tmp_path, YOLO | {"data.yaml": "names: [cat] #" + "a" * (2 << 20)}, "zip")
    for place in (path, tmp_path / "files"):
        with pytest.raises(SourceError, match=r"data.yaml: .*has 2.*; at most 1"):
            read(place)


def test_damaged_annotations_in_an_archive(tmp_path: Path) -> None:
    path = archived(tmp_path, YOLO, "zip")
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("labels/train/a.txt")
    data = bytearray(path.read_bytes())
    data[member.header_offset + 30 + len(member.filename)] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"set.zip: labels/train/a.txt: "):
        read(path)
    data = bytearray(archived(tmp_path, YOLO, "zip").read_bytes())
    at = data.index(b"PK\1\2", data.index(b"PK\1\2labels"[:4]))
    while data[at + 46 : at + 64] != b"labels/train/a.txt":
        at = data.index(b"PK\1\2", at + 1)
    data[at + 8] |= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"labels/train/a.txt: cannot be read: encrypted"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("annotations.xml", "", "CVAT, and is empty"),
        ("annotations.xml", "<annotations", "CVAT, and does not begin like one"),
        ("train/_annotations.createml.json", " \n", "Create ML, and is empty"),
        ("_annotations.createml.json", '[{"image": "a', "Create ML, and does not begin like one"),
        ("via_region_data.json", "\0" * 9, "VIA, and does not begin like one"),
        ("captions.txt", "", "captions, and is empty"),
        ("captions.txt", "\0\1", "captions, and does not begin like one"),
    ],
)
def test_files_of_a_tool_that_are_damaged_are_refused(
    tmp_path: Path, name: str, content: str, why: str
) -> None:
    root = write(tmp_path / "set", {"train/a.jpg": None, "train/b.jpg": None, name: content})
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for path in root.rglob("*.*"):
            archive.write(path, f"set/{path.relative_to(root)}")
    said = f"{re.escape(name)} is called like a file of {why}: correct it, or .* --leave-out {name}"
    for place in (root, tmp_path / "set.zip"):
        with pytest.raises(SourceError, match=said):
            read(place)
        assert len(read(place, leave_out=[name])[0]) == 2


def test_one_damaged_file_beside_whole_ones(tmp_path: Path) -> None:
    """The way out leaves out this file alone."""
    cat = {"label": "cat", "points": [[10, 5], [30, 15]], "shape_type": "rectangle"}
    files: Content = {f"train/{each}.jpg": None for each in "abc"}
    files |= {"train/a.json": labelme(cat), "train/b[1].json": "", "train/c.json": labelme(cat)}
    files["train/b[1].jpg"] = files.pop("train/b.jpg")
    root = write(tmp_path, files)
    with pytest.raises(SourceError, match="to go on without, --leave-out 'train/b") as refused:
        read(root)
    (pattern,) = re.findall(r"--leave-out '([^']*)'", str(refused.value))
    assert sorted(boxes(read(root, leave_out=[pattern])[0])) == ["train/a.jpg", "train/c.jpg"]
    boxes_of_sides: Content = {
        "train/a.jpg": None,
        "valid/b.jpg": None,
        "train/_annotations.createml.json": CREATE_ML,
        "valid/_annotations.createml.json": "",
    }
    with pytest.raises(SourceError, match="valid/_annotations.createml.json is called like a"):
        read(write(tmp_path / "sides", boxes_of_sides))


def test_classes_stay_classes(tmp_path: Path) -> None:
    others: Content = {
        "README.txt": "1 2 3 4 5\n",
        "labels.txt": "cat\ndog\n",
        "dataset.json": "{}",
        "config.yaml": "a: 1\n",
        "cat/a.txt": "a photo of 3 dogs",
    }
    around: Content = {"annotations/instances_x.json": "{}", "data.yaml": "names: []\n"}
    files = {f"set/{name}": content for name, content in others.items()} | around
    root = write(tmp_path, files | {"set/cat/a.jpg": None, "set/dog/b.jpg": None})
    catalog, _ = read(root / "set")
    assert catalog.classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("paths", "options", "why"),
    [
        (["nowhere.json"], {}, "does not exist"),
        (["blank.json"], {}, "blank.json: is empty"),
        (["images"], {}, "its format is unclear: give --annotation-format "),
        (["data.yaml", "annotations"], {}, "are of COCO and YOLO"),
        (["labels", "labels"], {}, "give one path"),
        (["labels"], {"voc_origin": 1}, "annotations of YOLO"),
    ],
)
def test_named_wrongly(tmp_path: Path, paths: list[str], options: Any, why: str) -> None:
    root = write(tmp_path, YOLO | COCO | {"blank.json": " \n"})
    with pytest.raises((SourceError, OptionError), match=why):
        read(root / "images", annotations=[str(root / path) for path in paths], **options)


def test_a_directory_of_files_of_coco(tmp_path: Path) -> None:
    root = write(tmp_path, COCO)
    catalog, _ = read(root, annotations=[str(root / "annotations")])
    assert catalog.sides == ("train2017", "val2017")
    assert list(boxes(catalog)) == ["train2017/a.jpg", "val2017/b.jpg"]


@pytest.mark.parametrize(
    "files",
    [
        {"images/a.jpg": None, "labels/a.txt": "0 0.1 0.7 0.3 0.7 0.9 0.3 1 1\n0 1 1 .3 1 .3 .9\n"},
        {"images/a.jpg": None, "labels/a.txt": SHARES_OF_MANY},
        {"a.jpg": None, "a.xml": voc(voc_object("c", (1, 1, 4, 4)) * 40)},
        {
            "a.jpg": None,
            "instances_a.json": coco(
                ["a.jpg"], [box(at, 1, segmentation=[[1, 2, 3] * 20]) for at in range(9)]
            ).replace(" ", ""),
        },
        {
            "a.jpg": None,
            "instances_a.json": coco(
                ["a.jpg"], [box(1, 1, segmentation={"size": [20, 40], "counts": "7=7" + "0" * 77})]
            ),
        },
    ],
)
def test_what_objects_take_is_known_before(tmp_path: Path, files: Content) -> None:
    catalog, _ = read(write(tmp_path, files))
    assert catalog.annotated is not None and catalog.annotated.sizes is not None
    (value,) = objects(catalog).values()
    third = measured_on(value, (1000 / 3, 1000 / 3)) if value.extent == SHARES else value
    text = json.dumps(to_json(third), separators=(",", ":"))
    ((count, most),) = catalog.annotated.sizes.select("objects", "texts").iter_rows()
    assert count == len(value.items)
    assert len(text) <= most + count * 128


def test_one_file_of_coco_without_a_side(tmp_path: Path) -> None:
    files: Content = {"images/a.jpg": None, "annotations/captions.json": "[]"}
    files["annotations/instances.json"] = coco(["a.jpg"], [box(1, 1)])
    catalog, _ = read(write(tmp_path, files))
    assert boxes(catalog) == {"images/a.jpg": [("cat", 10, 5, 30, 15)]}
    assert catalog.sides == ()


def test_files_of_coco_itself(tmp_path: Path) -> None:
    persons = coco(["b.jpg"], [box(999, 1)])
    files = COCO | {"annotations/person_keypoints_val2017.json": persons}
    with pytest.raises(SourceError) as refused:
        read(write(tmp_path, files))
    one = "--annotations {0}instances_train2017.json --annotations {0}instances_val2017.json, or "
    said = one + "--annotations {0}person_keypoints_val2017.json"
    given = said.format(f"{tmp_path}/annotations/")
    assert f"give those to take: {given}" in str(refused.value)


@pytest.mark.parametrize("name", ["ICDAR", "VoTT"])
def test_what_a_user_names_is_refused_by_its_own_name(tmp_path: Path, name: str) -> None:
    path, text = HEADS_OF_KINDS[name]
    root = write(tmp_path, {"000.jpg": None, path: text})
    for given in {path, os.path.dirname(path) or path}:
        with pytest.raises(SourceError, match=f"has annotations of {name}, which dsprep does not"):
            read(root, annotations=[str(root / given)])


def test_label_studios_export_as_coco(tmp_path: Path) -> None:
    """Its ids count from 0, and a turned image has the width and height of the stored one."""
    text = coco(["images/5d1f8b0c-a.jpg"], [{**box(0, 1), "bbox": [1, 2, 3, 4]}])
    root = write(tmp_path, {"i/a.jpg": image(orientation=6), "result.json": text})
    with pytest.raises(SourceError, match="--boxes-frame stored, or displayed"):
        dsprep.pack(
            root / "i", tmp_path / "out", to="webdataset", annotations=[root / "result.json"]
        )
    catalog, _ = read(root / "i", annotations=[str(root / "result.json")])
    assert [each.id for each in objects(catalog)["a.jpg"].items] == [0]


@pytest.mark.parametrize(
    ("files", "options", "why"),
    [
        (COCO, {"box": "xywh", "box_columns": ("a",)}, "--box xywh .* annotations of COCO"),
        (COCO, {"no_object": "x"}, "--no-object x .* annotations of COCO"),
        (COCO, {"class_names_file": "x"}, "--class-names x .* annotations of COCO"),
        (COCO, {"label_columns": ("x",)}, "--label-column x .* annotations of COCO"),
        (COCO, {"voc_origin": 0}, "--voc-origin 0 .* annotations of COCO"),
        (COCO, {"box_columns": ("a",)}, "--box-columns a .* give --box xywh"),
        (VOC, {"path_column": "x"}, "--path-column x .* annotations of Pascal VOC"),
        ({"a.jpg": None, "a.csv": BOXES}, {"no_object": "x"}, "--no-object .* no column of cl"),
        ({"a.jpg": None, "a.csv": BOXES}, {"classes": "x"}, "--classes .* no column of classes"),
        ({"a.jpg": None, "a.csv": RUNS}, {"masks": "x"}, "--masks x .* the table has the masks"),
    ],
)
def test_options_for_other_annotations(
    tmp_path: Path, files: Content, options: dict[str, Any], why: str
) -> None:
    root = write(tmp_path, files)
    names = (name for name in files if name.endswith((".json", ".csv", "xml")))
    named = root / next(names)
    named = named.parent if named.suffix == ".xml" else named
    with pytest.raises(OptionError, match=why):
        read(root, annotations=[str(named)], **options)


def test_a_dry_run_says_which_annotations_a_folder_has(tmp_path: Path) -> None:
    for files, why in (
        (YOLO, "YOLO, because of data.yaml"),
        (COCO, "COCO, because of annotations/"),
    ):
        root = tmp_path / why[:4]
        write(root, files)
        report = dsprep.pack(root, tmp_path / "out", to="webdataset", dry_run=True)
        assert report.source.startswith(f"images with annotations of {why}")

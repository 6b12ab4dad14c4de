"""Folders with annotations keep their sides, and lists that were made of them their annotations."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import dsprep
from tests.images import jpeg
from tests.sources.boxes import ROW, box, coco, voc, voc_object, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as COCO has it, with two sides."""
    root = tmp_path / "coco"
    (root / "annotations").mkdir(parents=True)
    for side, count in (("train2017", 5), ("val2017", 3)):
        (root / side).mkdir()
        names = [f"{side}-{number}.jpg" for number in range(count)]
        for number, name in enumerate(names):
            (root / side / name).write_bytes(jpeg(number, (40, 30)))
        images = [
            {"id": id, "file_name": name, "width": 40, "height": 30}
            for id, name in enumerate(names)
        ]
        boxes = [
            {"id": 10 + id, "image_id": id, "category_id": 3, "bbox": [1, 2, 10, 12]}
            | {"area": 120, "iscrowd": 0, "segmentation": [[1, 2, 11, 2, 11, 14, 1, 14]]}
            for id in range(count)
        ]
        values = {"images": images, "annotations": boxes, "categories": [{"id": 3, "name": "cat"}]}
        (root / "annotations" / f"instances_{side}.json").write_text(json.dumps(values))
    return root


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("form", ["coco", "voc", "yolo"])
def test_a_folder_that_was_written_has_sides(
    folder: Path, tmp_path: Path, form: str, listed: bool
) -> None:
    dsprep.convert(folder, tmp_path / "written", to=form)
    if not listed:  # as any other tool would leave it
        (tmp_path / "written.files.jsonl").unlink()
    report = dsprep.pack(tmp_path / "written", tmp_path / "out", to="webdataset")
    assert sorted(report.sides.values()) == [3, 5]
    assert {each.name.split("-")[0] for each in report.shards} == set(report.sides)


def test_a_list_of_boxes_chooses_from_the_annotations(folder: Path, tmp_path: Path) -> None:
    dsprep.split(folder, tmp_path / "lists", ratios={"train": 0.5, "val": 0.5})
    out = tmp_path / "out"
    dsprep.pack(folder, out, to="webdataset", list_file=tmp_path / "lists" / "train.lst")
    shards = sorted(out.glob("*.tar"))
    members: dict[str, bytes] = {}
    for shard in shards:
        with tarfile.open(shard) as tar:
            members |= {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    found = [json.loads(data)["objects"] for name, data in members.items() if name[-5:] == ".json"]
    assert len(found) == 4
    for (item,) in found:
        assert item["polygons"] == [[1, 2, 11, 2, 11, 14, 1, 14]]
        assert item["box"] == [1, 2, 11, 14]
    assert not any("label" in name for name in members)
    assert (out / "objects.classes.txt").read_text() == "cat\n"


_XML = voc(voc_object("cat", (1, 2, 3, 4)))
_NAMED = "path,label\n" + "".join(f"{side}/{side}.jpg,x\n" for side in ("train", "val"))
LAYOUTS: dict[str, dict[str, str | None]] = {
    "VOC of Roboflow": {"val/val.jpg": None, "val/val.xml": _XML}
    | {"train/train.jpg": None, "train/train.xml": _XML},
    "YOLO": {f"images/{side}/{side}.jpg": None for side in ("train", "val")}
    | {f"labels/{side}/{side}.txt": ROW for side in ("train", "val")},
    "YOLO of Roboflow": {f"{side}/images/{side}.jpg": None for side in ("train", "val")}
    | {f"{side}/labels/{side}.txt": ROW for side in ("train", "val")},
    "YOLO with names": {"data.yaml": "names: [cat]\n"}
    | {f"images/{side}/{side}.jpg": None for side in ("train", "val")}
    | {f"labels/{side}/{side}.txt": ROW for side in ("train", "val")},
    "COCO in one file": {
        "instances.json": coco(["train/train.jpg", "val/val.jpg"], [box(1, 1)]),
        "train/train.jpg": None,
        "val/val.jpg": None,
    },
    "classes": {"train/cat/train.jpg": None, "val/cat/val.jpg": None},
    "images": {"images/train/train.jpg": None, "images/val/val.jpg": None},
    "one side": {"val/cat/val.jpg": None},
    "parts": {f"{side}/{side}.{end}": "1" if end == "txt" else None
              for side in ("train", "val") for end in ("jpg", "txt")},
    "labels": {"l.csv": _NAMED, "train/train.jpg": None, "val/val.jpg": None},
}  # fmt: skip


@pytest.mark.parametrize("form", LAYOUTS)
def test_an_image_for_validation_is_never_in_a_shard_for_training(
    form: str, tmp_path: Path
) -> None:
    root = write(tmp_path / "data", LAYOUTS[form])
    options: dict[str, object] = {"parts": form == "parts"}
    if form == "labels":
        options["labels"] = root / "l.csv"
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1, **options)  # type: ignore[arg-type]
    assert {shard.name for shard in report.shards} >= {"val-000000.tar"}
    for shard in (tmp_path / "out").glob("*.tar"):
        with tarfile.open(shard) as tar:
            for name in tar.getnames():
                assert Path(name).name.startswith(shard.name.split("-")[0])


@pytest.mark.parametrize(
    ("source", "options", "name"),
    [
        ("val", {}, "val-000000.tar"),
        ("val", {"name": "mine"}, "mine-000000.tar"),
        ("val", {"name": "train"}, "train-000000.tar"),
        ("train", {}, "train-000000.tar"),
        ("cars_test", {}, "test-000000.tar"),
        ("photos", {"list_file": "val.lst"}, "val-000000.tar"),
        ("photos", {}, "train-000000.tar"),
    ],
)
def test_the_name_of_the_source_is_that_of_its_shards(
    tmp_path: Path, source: str, options: dict[str, str], name: str
) -> None:
    root = write(tmp_path / source, {"cat/1.jpg": None})
    if "list_file" in options:
        (tmp_path / "val.lst").write_text("0\t0\tcat/1.jpg\n")
        options = {"list_file": str(tmp_path / "val.lst")}
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1, **options)
    assert [shard.name for shard in report.shards] == [name]
    again = dsprep.shard(tmp_path / "out", tmp_path / "again", samples_per_shard=1, workers=1)
    assert len(again.shards) == 1


def test_append_knows_the_classes_of_an_older_data_set(tmp_path: Path) -> None:
    root = write(tmp_path / "data", {"images/ant/1.jpg": None, "images/bee/2.jpg": None})
    dsprep.pack(root, tmp_path / "out", to="webdataset", kind="images", workers=1)
    assert (tmp_path / "out" / "classes.txt").read_text() == "images/ant\nimages/bee\n"
    for name in ("images/bee/3.jpg", "bee/4.jpg"):
        more = write(
            tmp_path / name.replace("/", "-"), {name: None, name.replace("bee", "ant"): None}
        )
        dsprep.append(more, tmp_path / "out", workers=1)
    assert dsprep.verify(tmp_path / "out").samples == 6
    assert (tmp_path / "out" / "classes.txt").read_text() == "images/ant\nimages/bee\n"


@pytest.mark.parametrize("names", ["bbox_{}.json", "{}_annotations.json", "{}/all.json"])
def test_named_files_of_coco_are_sides(tmp_path: Path, names: str) -> None:
    sides = ("train", "val")
    files = {f"images/{side}.jpg": None for side in sides}
    jsons = {names.format(side): coco([f"{side}.jpg"], [box(1, 1)]) for side in sides}
    root = write(tmp_path / "data", files | jsons)
    report = dsprep.pack(
        root / "images",
        tmp_path / "out",
        to="webdataset",
        annotations=[str(root / name) for name in jsons],
        workers=1,
    )
    assert report.sides == {"train": 1, "val": 1}

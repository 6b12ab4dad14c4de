"""Folders with annotations keep their sides, and lists that were made of them their annotations."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

import dsprep
from tests.images import jpeg


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

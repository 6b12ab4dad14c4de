"""What `convert --to coco` writes, judged by pycocotools, and the way there and back."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dsprep
from dsprep.annotations.masks import mask_of
from dsprep.annotations.objects import rle
from dsprep.sources.source import make_source
from tests.missing import framework

SIZE = (64, 48)
CATEGORIES = [{"id": 3, "name": "cat"}, {"id": 44, "name": 'dog: "big"'}]


def annotation(id: object, image: int, number: int, **values: Any) -> dict[str, Any]:
    x, y = 2.5 + number, 3.25
    corners = [x, y, x + 20, y, x + 20, y + 12.5, x, y + 12.5]
    found = {"id": id, "image_id": image, "category_id": (3, 44)[number % 2]}
    found |= {"bbox": [x, y, 20, 12.5], "area": 250.0, "iscrowd": 0, "segmentation": [corners]}
    return found | values


def coco(root: Path, annotations: list[dict[str, Any]], images: int = 3) -> tuple[Path, Path]:
    """Write images and their annotations; images are numbered from 1."""
    (root / "images").mkdir()
    listed = []
    for id in range(1, images + 1):
        Image.new("RGB", SIZE, (id * 60, 9, 90)).save(root / "images" / f"{id}.png")
        listed.append({"id": id, "file_name": f"{id}.png", "width": SIZE[0], "height": SIZE[1]})
    parts = {"images": listed, "annotations": annotations, "categories": CATEGORIES}
    (root / "a.json").write_text(json.dumps(parts))
    return root / "images", root / "a.json"


def there_and_back(root: Path, annotations: list[dict[str, Any]]) -> Path:
    """Go from COCO to WebDataset to COCO; return the JSON."""
    images, listed = coco(root, annotations)
    dsprep.pack(images, root / "shards", to="webdataset", annotations=[listed], workers=1)
    dsprep.convert(root / "shards", root / "out", to="coco", workers=1)
    return root / "out" / "annotations" / "instances.json"


def by_id(path: Path) -> dict[Any, dict[str, Any]]:
    """Return annotations by their ids, each with the name of its image."""
    values = json.loads(path.read_text())
    names = {each["id"]: each["file_name"] for each in values["images"]}
    found = values["annotations"]
    assert len({each["id"] for each in found}) == len(found)
    return {each["id"]: each | {"image_id": names[each["image_id"]]} for each in found}


def runs() -> list[int]:
    """Runs of a blob, down the columns."""
    mask = np.zeros((SIZE[1], SIZE[0]), np.uint8)
    mask[5:20, 7:30] = 1
    mask[9:12, 10:14] = 0
    flat, found = mask.flatten(order="F"), [0]
    for value in flat:
        if value != (len(found) - 1) % 2:
            found.append(0)
        found[-1] += 1
    return found


CROWD = {"iscrowd": 1, "segmentation": {"size": [SIZE[1], SIZE[0]], "counts": runs()}}


def test_annotations_come_back_equal(tmp_path: Path) -> None:
    mine = [
        annotation(70, 1, 0),
        annotation(9, 1, 1, area=123.25),
        annotation(1000000007, 3, 2, **CROWD),
        annotation(5, 3, 3, keypoints=[5.5, 6, 2, 0, 0, 0], num_keypoints=1),
        annotation(6, 3, 4, segmentation=[], score=0.5),
    ]
    back = by_id(there_and_back(tmp_path, mine))
    assert back == by_id(tmp_path / "a.json")
    again = json.loads((tmp_path / "out" / "annotations" / "instances.json").read_text())
    assert again["categories"] == CATEGORIES


@pytest.mark.parametrize(
    "ids", [[0, 1, 2], [4, 4, 5], [7, None, 8], [-3, 1, 2]], ids=["zero", "twice", "none", "below"]
)
def test_annotations_are_numbered_from_1_if_ids_are_no_good(
    tmp_path: Path, ids: list[int | None]
) -> None:
    mine = [annotation(id, 1, number) for number, id in enumerate(ids)]
    for each in mine:
        if each["id"] is None:
            del each["id"]
    assert sorted(by_id(there_and_back(tmp_path, mine))) == [1, 2, 3]


@pytest.mark.parametrize("to", ["webdataset", "parquet", "tfrecord"])
@pytest.mark.parametrize(
    ("ids", "kept"),
    [([139, 0, 2**60], [139, 0, 2**60]), (["a", 2, 3], [1, 2, 3]), ([-4, 2, 3], [1, 2, 3])],
    ids=["numbers", "text", "below"],
)
def test_ids_of_images_come_back(tmp_path: Path, to: str, ids: list[Any], kept: list[int]) -> None:
    images, listed = coco(tmp_path, [])
    told = json.loads(listed.read_text())
    for each, id in zip(told["images"], ids, strict=True):
        each["id"] = id
    told["annotations"] = [annotation(7, ids[0], 0)]
    listed.write_text(json.dumps(told))
    dsprep.pack(
        *(images, tmp_path / "shards"), to=to, annotations=[listed], shuffle=False, workers=1
    )
    source = make_source(str(images), annotations=[str(listed)])
    report = dsprep.verify(tmp_path / "shards", against=source, workers=1)
    assert not report.problems
    dsprep.convert(tmp_path / "shards", tmp_path / "out", to="coco", workers=1)
    back = json.loads((tmp_path / "out" / "annotations" / "instances.json").read_text())
    assert [each["id"] for each in back["images"]] == kept
    assert [each["file_name"] for each in back["images"]] == ["1.png", "2.png", "3.png"]
    (own,) = back["annotations"]
    assert (own["image_id"], own["category_id"]) == (kept[0], 3)


def test_images_are_numbered_from_1_if_some_have_no_id_or_ids_are_equal(tmp_path: Path) -> None:
    images, listed = coco(tmp_path, [], images=2)
    Image.new("RGB", SIZE).save(images / "3.png")
    options: dict[str, Any] = {"to": "webdataset", "annotations": [listed], "workers": 1}
    report = dsprep.pack(images, tmp_path / "shards", unlisted="keep", **options)
    assert "ids of images not kept, as those that are not listed have none" in report.notes
    told = json.loads(listed.read_text())
    (tmp_path / "b.json").write_text(
        json.dumps(told | {"images": [{"id": 2, "file_name": "3.png"}]})
    )
    options["annotations"] = [listed, tmp_path / "b.json"]
    dsprep.pack(images, tmp_path / "two", **options)
    for name in ("shards", "two"):
        dsprep.convert(tmp_path / name, tmp_path / f"{name}-coco", to="coco", workers=1)
        found = tmp_path / f"{name}-coco" / "annotations" / "instances.json"
        assert [each["id"] for each in json.loads(found.read_text())["images"]] == [1, 2, 3]


@pytest.mark.parametrize("crowd", [0, 1])
@pytest.mark.parametrize("to", ["webdataset", "parquet", "tfrecord", "coco"])
def test_an_area_that_is_not_told_is_that_of_the_shape(tmp_path: Path, to: str, crowd: int) -> None:
    masks = framework("pycocotools.mask")
    mine = [
        annotation(1, 1, 0, **CROWD | {"iscrowd": crowd}),
        annotation(2, 1, 1, segmentation=[[1, 1, 9, 1, 9, 9]]),
        annotation(3, 1, 2, segmentation=[]),
    ]
    for each in mine:
        del each["area"]
    images, listed = coco(tmp_path, mine, images=1)
    shape = masks.frPyObjects(CROWD["segmentation"], SIZE[1], SIZE[0])
    source = make_source(str(images), annotations=[str(listed)])
    options: dict[str, Any] = {"to": to, "annotations": [listed], "workers": 1}
    dsprep.convert(images, tmp_path / "out", **options)
    assert not dsprep.verify(tmp_path / "out", against=source, workers=1).problems
    dsprep.convert(tmp_path / "out", tmp_path / "coco", to="coco", workers=1)
    told = json.loads((tmp_path / "coco" / "annotations" / "instances.json").read_text())
    areas = [each["area"] for each in told["annotations"]]
    assert areas == pytest.approx([int(masks.area(shape)), 32, 250])


def test_images_and_annotations_that_are_renumbered_are_counted(tmp_path: Path) -> None:
    mine = [annotation(4, 1, 0), annotation(5, 2, 1)]
    images, listed = coco(tmp_path, mine)
    Image.new("RGB", SIZE).save(images / "4.png")
    told = json.loads(listed.read_text())
    told["images"] = [{"id": 2, "file_name": "4.png"}]
    told["annotations"] = [annotation(5, 2, 1)]
    (tmp_path / "b.json").write_text(json.dumps(told))
    annotations = [listed, tmp_path / "b.json"]
    dsprep.pack(
        images, tmp_path / "shards", to="webdataset", annotations=annotations, unlisted="drop"
    )
    report = dsprep.convert(tmp_path / "shards", tmp_path / "out", to="coco", workers=1)
    assert "4 images renumbered from 1, as several have the same id: 2" in report.notes
    assert "3 annotations renumbered from 1, as several have the same id: 5" in report.notes


def test_pycocotools_loads_and_evaluates_annotations_against_themselves(tmp_path: Path) -> None:
    coco_module = framework("pycocotools.coco")
    cocoeval = framework("pycocotools.cocoeval")
    mine = [annotation(10 + n, 1 + n % 3, n) for n in range(8)] + [annotation(5, 2, 9, **CROWD)]
    truth = coco_module.COCO(str(there_and_back(tmp_path, mine)))
    assert len(truth.getImgIds()) == 3
    assert sorted(truth.getCatIds()) == [3, 44]
    detections = [each | {"score": 1.0} for each in truth.anns.values() if not each["iscrowd"]]
    assert len(detections) == 8
    found = truth.loadRes(json.loads(json.dumps(detections)))
    for kind in ("bbox", "segm"):
        judge = cocoeval.COCOeval(truth, found, kind)
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
        assert judge.stats[0] == pytest.approx(1.0)
        assert judge.stats[8] == pytest.approx(1.0)


@pytest.mark.parametrize("compressed", [False, True])
def test_pycocotools_reads_the_same_masks(tmp_path: Path, compressed: bool) -> None:
    coco_module, masks = framework("pycocotools.coco"), framework("pycocotools.mask")
    shape: dict[str, Any] = {"size": [SIZE[1], SIZE[0]], "counts": runs()}
    plain = masks.frPyObjects(shape, SIZE[1], SIZE[0])
    if compressed:
        shape = plain | {"counts": plain["counts"].decode()}
    own = np.asarray(mask_of(rle(shape)))
    assert (own == masks.decode(plain)).all()
    path = there_and_back(tmp_path, [annotation(3, 1, 0, segmentation=shape), annotation(4, 1, 1)])
    written, source = coco_module.COCO(str(path)), coco_module.COCO(str(tmp_path / "a.json"))
    for id in (3, 4):
        assert (written.annToMask(written.anns[id]) == source.annToMask(source.anns[id])).all()
    assert (written.annToMask(written.anns[3]) == own).all()


def test_group_of_is_a_crowd_and_comes_back(tmp_path: Path) -> None:
    coco(tmp_path, [], 2)
    header = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\n"
    (tmp_path / "a.csv").write_text(header + "1,x,0,0.5,0,0.5,1\n1,x,0.5,1,0,1,0\n2,x,0,1,0,1,1\n")
    boxes = {"annotations": [tmp_path / "a.csv"], "workers": 1}
    report = dsprep.convert(tmp_path / "images", tmp_path / "out", to="coco", **boxes)
    assert any(note.startswith("2 objects marked group-of written with") for note in report.notes)
    told = tmp_path / "out" / "annotations" / "instances.json"
    judge = framework("pycocotools.coco").COCO(told)
    crowds = judge.loadAnns(judge.getAnnIds(iscrowd=True))
    assert [each["bbox"] for each in crowds] == [[0, 0, 32, 24], [0, 0, 64, 48]]
    assert len(judge.getAnnIds(iscrowd=False)) == 1
    dsprep.convert(tmp_path / "out", tmp_path / "again", to="coco", workers=1)
    again = tmp_path / "again" / "annotations" / "instances.json"
    before, after = (json.loads(path.read_text())["annotations"] for path in (told, again))
    assert before == after
    dsprep.pack(tmp_path / "out", tmp_path / "shards.tar", workers=1)
    with tarfile.open(tmp_path / "shards.tar") as shard:
        members = [shard.extractfile(each) for each in shard if each.name.endswith("json")]
        samples = [json.load(each) for each in members if each is not None]
    flags = [{*each} & {"crowd", "group_of"} for one in samples for each in one["objects"]]
    assert sorted(map(len, flags)) == [0, 1, 1]
    assert set().union(*flags) == {"group_of"}

"""COCO's panoptic segmentation: masks of classes, and segments as objects."""

from __future__ import annotations

import json
import re
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dsprep
from dsprep.annotations.masks import IGNORED
from dsprep.catalog import Catalog
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.images.transform import Transform
from dsprep.sample import Sample
from dsprep.sources.annotated.coco_captions import LOST
from dsprep.sources.annotated.coco_segments import CocoPanoptic
from dsprep.sources.passed_over import require_nothing_left
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.missing import framework
from tests.servers.bucket import Bucket
from tests.sources.boxes import SIZE, box, coco, kinds, notes, objects, sides, write
from tests.sources.mask_sets import saved

SKY, CAT = 200, 17
CATEGORIES = [
    {"id": SKY, "name": "sky", "supercategory": "sky", "isthing": 0, "color": [1, 2, 3]},
    {"id": CAT, "name": "cat", "supercategory": "animal", "isthing": 1, "color": [4, 5, 6]},
]
FAR = 5 + 6 * 256 + 7 * 65536  # an id of three channels
BARS = {0: (0, 0, 8, 20), 300: (8, 0, 24, 20), FAR: (24, 0, 40, 10), 301: (24, 10, 40, 20)}


def png(bars: Mapping[int, Sequence[int]] = BARS, size: tuple[int, int] = SIZE) -> bytes:
    """Make a PNG of segments, by their ids: edges of each."""
    picture = Image.new("RGB", size)
    for id, edges in bars.items():
        picture.paste((id & 255, id >> 8 & 255, id >> 16), tuple(edges))  # type: ignore[arg-type]
    return saved(picture)


def segment(id: int, category: int, **values: Any) -> dict[str, Any]:
    x0, y0, x1, y1 = BARS.get(id, (0, 0, 1, 1))
    found = {"id": id, "category_id": category, "bbox": [x0, y0, x1 - x0, y1 - y0]}
    return found | {"area": (x1 - x0) * (y1 - y0), "iscrowd": 0} | values


SEGMENTS = [segment(300, SKY), segment(FAR, CAT), segment(301, CAT, iscrowd=1)]


def panoptic(*names: str, segments: Sequence[Any] = SEGMENTS, **values: Any) -> str:
    """A JSON as COCO's: first the segments of an annotation, then its image."""
    images = [
        {"id": id, "file_name": name, "width": SIZE[0], "height": SIZE[1]}
        for id, name in enumerate(names, 1)
    ]
    annotations = [
        {"segments_info": segments, "file_name": f"{Path(name).stem}.png", "image_id": id}
        for id, name in enumerate(names, 1)
    ]
    parts = {"info": {}, "images": images, "annotations": annotations}
    return json.dumps(parts | {"categories": CATEGORIES} | values)


SET: Mapping[str, str | bytes | None] = {
    "train2017/a.jpg": None,
    "val2017/b.jpg": None,
    "annotations/panoptic_train2017.json": panoptic("a.jpg"),
    "annotations/panoptic_val2017.json": panoptic("b.jpg"),
    "annotations/panoptic_train2017/a.png": png(),
    "annotations/panoptic_val2017/b.png": png({**BARS, 300: (0, 0, 24, 20)}),
}

ONE_SIDE: Mapping[str, str | bytes | None] = {
    "train/a.jpg": None,
    "train/b.jpg": None,
    "annotations/panoptic_train.json": panoptic("a.jpg", "b.jpg"),
    "annotations/panoptic_train/a.png": png(),
    "annotations/panoptic_train/b.png": png({300: (0, 0, 9, 9)}),
}


def read(root: Path | str, **options: Any) -> tuple[Catalog, list[Finding]]:
    source = make_source(str(root), **options).replace(takes_masks=True)
    found = read_source(source)
    require_nothing_left(source, found)
    return found


def samples(catalog: Catalog) -> dict[str, Sample]:
    found = list(catalog.reader.read(catalog.rows()))
    return {each.path: each for each in found if isinstance(each, Sample)}


def mask(sample: Sample) -> Any:
    return np.array(Image.open(BytesIO(sample.fields["mask"])))


def classes(data: bytes, segments: Sequence[Mapping[str, Any]], ids: Sequence[int]) -> Any:
    """The class number of each pixel, as panopticapi's `rgb2id` has ids (panopticapi/utils.py)."""
    color = np.array(Image.open(BytesIO(data)), dtype=np.uint32)
    id = color[:, :, 0] + 256 * color[:, :, 1] + 256 * 256 * color[:, :, 2]
    found = np.full(id.shape, IGNORED)
    for each in segments:
        found[id == each["id"]] = ids.index(each["category_id"])
    return found


def test_masks_and_objects_have_the_same_class_numbers(tmp_path: Path) -> None:
    catalog, findings = read(write(tmp_path, SET))
    schema = catalog.settled.schema.by_name
    assert schema["mask"].names == schema["objects"].names == ("cat", "sky")
    assert schema["objects"].ids == (CAT, SKY)
    assert sides(catalog) == {"train2017/a.jpg": "train2017", "val2017/b.jpg": "val2017"}
    found = samples(catalog)
    for name, path in (("train", "train2017/a.jpg"), ("val", "val2017/b.jpg")):
        stem = Path(path).stem
        data = SET[f"annotations/panoptic_{name}2017/{stem}.png"]
        assert isinstance(data, bytes)
        expected = classes(data, SEGMENTS, (CAT, SKY))
        assert set(expected.flat) in ({0, 1, IGNORED}, {0, 1})
        assert (mask(found[path]) == expected).all()
        told = [
            (each.id, each.number, each.box, each.area, each.flags)
            for each in objects(catalog)[path].items
        ]
        assert told == [
            (300, 1, BARS[300], 320, frozenset()),
            (FAR, 0, BARS[FAR], 160, frozenset()),
            (301, 0, BARS[301], 160, frozenset({"crowd"})),
        ]
    assert not kinds(findings)
    assert "not kept: 'color', 'isthing', 'supercategory' of categories" in notes(findings)


@pytest.mark.parametrize(
    ("files", "root", "options"),
    [
        (
            {"train2017/a.jpg": None, "panoptic_train2017/a.png": png()}
            | {"panoptic_train2017.json": panoptic("a.jpg")},
            ".",
            {},
        ),
        (  # as Mapillary Vistas has them
            {"images/a.jpg": None, "v2.0/panoptic/a.png": png()}
            | {"v2.0/panoptic/panoptic_2020.json": panoptic("a.jpg")},
            ".",
            {},
        ),
        (  # moved away from the JSON, and with images that are PNG
            {"images/a.png": None, "masks/panoptic_x/a.png": png()}
            | {"annotations/panoptic_x.json": panoptic("a.png")},
            ".",
            {},
        ),
        (SET, "train2017", {"annotations": "annotations/panoptic_train2017.json"}),
        (
            {**SET, "annotations/instances_train2017.json": coco(["a.jpg"], [box(1, 1)])},
            ".",
            {"annotations": "annotations/panoptic_train2017.json"},
        ),
        ({"a.jpg": None, "segments/a.png": png(), "segments.json": panoptic("a.jpg")}, ".", {}),
    ],
    ids=["beside", "one directory", "elsewhere", "outside", "beside instances", "any name"],
)
def test_pngs_are_found(
    tmp_path: Path, files: Mapping[str, Any], root: str, options: dict[str, Any]
) -> None:
    write(tmp_path, files)
    if "annotations" in options:
        options = {**options, "annotations": [str(tmp_path / options["annotations"])]}
    catalog, _ = read(tmp_path / root, **options)
    (sample,) = samples(catalog).values()
    assert (mask(sample) == classes(png(), SEGMENTS, (CAT, SKY))).all()
    assert len(objects(catalog)[sample.path].items) == 3


def test_pngs_outside_of_the_source_are_read_on_s3(
    tmp_path: Path, localstack: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.endpoint)
    root = write(tmp_path, SET)
    for name in SET:
        localstack.put(f"set/{name}", (root / name).read_bytes())
    named = f"{localstack.url}/set/annotations/panoptic_val2017.json"
    catalog, _ = read(f"{localstack.url}/set/val2017", annotations=[named])
    (sample,) = samples(catalog).values()
    own = samples(read(root)[0])["val2017/b.jpg"]
    assert (sample.fields["mask"], sample.path) == (own.fields["mask"], "b.jpg")


def test_instances_win_and_panoptic_files_are_known(tmp_path: Path) -> None:
    instances = coco(["a.jpg"], [box(1, 1)])
    photo = "annotations/panoptic_train2017/photo.jpg"
    more = {"annotations/instances_train2017.json": instances, photo: None}
    catalog, findings = read(write(tmp_path, {**SET, **more}))
    assert "mask" not in catalog.settled.schema.by_name
    found = kinds(findings)
    assert found["annotations/panoptic_train2017.json"] == "not-read"
    assert found["annotations/panoptic_train2017/a.png"] == "not-read"
    assert found[photo] != "not-read"


def test_masks_are_those_of_the_numbers_of_images() -> None:
    """Images that are left out have none, and one that two files list has it once."""
    panoptic = CocoPanoptic()
    panoptic.pngs = {(0, 1): "b.png", (0, 2): "lost.png", (0, 3): "a.png"}
    masks = panoptic.masks({(0, 1): 1, (0, 2): LOST, (0, 3): 0, (1, 9): 0}, ("cat",), "")
    assert masks is not None
    assert masks.paths == ("a.png", "b.png")


def test_the_directory_of_a_side_asks_for_its_file(tmp_path: Path) -> None:
    root = write(tmp_path, SET)
    with pytest.raises(SourceError, match="panoptic_val2017.json may be its annotations"):
        read(root / "val2017")


def test_shards_are_read_by_pycocotools_and_verified(tmp_path: Path) -> None:
    root = write(tmp_path / "set", SET)
    out = tmp_path / "out"
    report = dsprep.pack(root, out, to="webdataset", workers=1)
    assert (report.samples, len(report.rejects)) == (2, 0)
    assert not dsprep.verify(out, against=root, workers=1).problems
    # Without a place for masks, objects stay.
    report = dsprep.pack(root, tmp_path / "rec", to="recordio", workers=1)
    assert any("2 masks not read: the output" in note for note in report.notes), report.notes
    assert not dsprep.verify(tmp_path / "rec", against=root, workers=1).problems
    dsprep.convert(out, tmp_path / "coco", to="coco", workers=1)
    told = tmp_path / "coco/annotations/instances_val2017.json"
    judge = framework("pycocotools.coco").COCO(told)
    assert [
        (each["category_id"], each["bbox"], each["area"], each["iscrowd"])
        for each in judge.loadAnns(judge.getAnnIds())
    ] == [(each["category_id"], each["bbox"], each["area"], each["iscrowd"]) for each in SEGMENTS]


def test_segments_without_pixels_stay_objects_and_are_counted(tmp_path: Path) -> None:
    root = write(tmp_path / "set", ONE_SIDE)
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1)
    said = "2 segments without pixels, kept in objects all the same"
    assert said in report.notes, report.notes
    assert not report.rejects
    assert [len(each.items) for each in objects(read(root)[0]).values()] == [3, 3]


def test_masks_and_boxes_move_together(tmp_path: Path) -> None:
    root = write(tmp_path / "set", SET)
    smaller = Transform(resize=10, crop=(10, 10))
    out = tmp_path / "out"
    dsprep.pack(root, out, to="webdataset", transform=smaller, workers=1)
    assert not dsprep.verify(out, against=root, workers=1).problems
    with tarfile.open(next(out.glob("val2017-*.tar"))) as shard:
        moved, told = (
            BytesIO(shard.extractfile(f"val2017/b.{end}").read())  # type: ignore[union-attr]
            for end in ("mask.png", "json")
        )
    # Half the size, and of the middle: 5 to 15 of 20 pixels, where the sky ends at 12.
    assert (np.array(Image.open(moved))[0] == [1] * 7 + [0] * 3).all()
    sky, cat, _ = json.load(told)["objects"]
    assert (sky["box"][2], cat["box"][0]) == (7, 7)


BAD = "annotations/panoptic_val2017"
LIST = '"segments_info": ['
WITHOUT = {"segments_info": [], "file_name": "a.png", "image_id": 2}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({f"{BAD}/b.png": png(size=(8, 8))}, "has 8x8 pixels, and its image 40x20"),
        ({f"{BAD}/b.png": saved(Image.new("L", SIZE, 7))}, r"is gray \(L\), and colors tell"),
        ({f"{BAD}/b.png": saved(Image.new("I;16", SIZE, 300))}, r"is gray \(I;16\)"),
        ({f"{BAD}/b.png": png({**BARS, 302: (0, 0, 1, 1)})}, "that segments_info lacks: 302"),
        ({f"{BAD}/b.png": b"no image"}, "its mask: not an image"),
        ({f"{BAD}/b.png": png()[:60]}, "cannot decode its mask"),
        ({f"{BAD}/b.png": None}, "that segments_info lacks: "),
        ({f"{BAD}.json": panoptic("b.jpg", segments=[{}])}, "lacks 'category_id'"),
        ({f"{BAD}.json": panoptic("b.jpg", segments=[segment(1, 5)])}, "category_id .*: 5"),
        (
            {f"{BAD}.json": panoptic("b.jpg", segments=[segment(300, SKY) | {"id": "x"}])},
            "a segment of its annotations has no id",
        ),
        (
            {f"{BAD}.json": panoptic("b.jpg", segments=[segment(300, SKY), segment(300, CAT)])},
            "two segments of its annotations have the id 300",
        ),
        (
            {f"{BAD}.json": panoptic("b.jpg", segments=[segment(300, SKY) | {"bbox": []}])},
            "has no bbox",
        ),
        ({f"{BAD}.json": panoptic("b.jpg", segments=[5])}, "segments_info of 1 is no list of"),
        ({f"{BAD}.json": panoptic("b.jpg", segments={})}, "segments_info of 1 is no list"),  # type: ignore[arg-type]
        (
            {f"{BAD}.json": panoptic("b.jpg", annotations=[WITHOUT, box(1, 1)])},
            "lacks 'segments_info'",
        ),
        (
            {f"{BAD}.json": panoptic("b.jpg", annotations=[WITHOUT])},
            "1 annotation with image_id that the list of images lacks",
        ),
        (
            {f"{BAD}.json": panoptic("b.jpg", annotations=[{**WITHOUT, "image_id": 1}] * 2)},
            "several are of the image 1",
        ),
        (
            {f"{BAD}.json": panoptic("b.jpg").replace(LIST, f"{LIST}], {LIST}")},
            "has segments_info more than once",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(tmp_path: Path, files: Mapping[str, Any], why: str) -> None:
    """Of the JSON, before anything is written; of a PNG, as a reject."""
    root = write(tmp_path / "set", {**SET, **files})
    try:
        report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1)
    except SourceError as error:
        assert f"{BAD}.json" in str(error)
        said = str(error)
    else:
        assert (report.samples, len(report.rejects)) == (1, 1)
        said = (tmp_path / "out/rejects.jsonl").read_text("utf-8")
        assert json.loads(said)["path"] == "val2017/b.jpg"
    assert re.search(why, said), said


def test_pngs_that_are_not_there(tmp_path: Path) -> None:
    """A name that leads out of the directory is none of a file; if all are missing, it is told."""
    write(tmp_path, {"secret.png": png()})
    for name in ("nothing.png", f"{tmp_path}/secret.png", "../../../secret.png"):
        text = panoptic("b.jpg").replace('"b.png"', json.dumps(name))
        root = write(tmp_path / "set", {**SET, "annotations/panoptic_val2017.json": text})
        with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
            for each in SET:
                archive.write(root / each, each)
        for place in (root, tmp_path / "set.zip"):
            catalog, _ = read(place)
            bad = [
                each for each in catalog.reader.read(catalog.rows()) if not isinstance(each, Sample)
            ]
            assert [*map(str, bad)] and all(isinstance(each, BadSample) for each in bad)
            assert "its mask is not there: " in str(bad[0])
    for path in root.rglob("*.png"):
        path.unlink()
    with pytest.raises(SourceError, match="not one of the 2 PNGs .* is there, such as .* unpack"):
        read(root)


def test_more_classes_than_a_mask_has_numbers_for(tmp_path: Path) -> None:
    categories = [{"id": id, "name": f"c{id}"} for id in range(256)]
    text = panoptic("a.jpg", segments=[segment(300, 255)], categories=categories)
    root = write(tmp_path, {"a.jpg": None, "panoptic.json": text, "panoptic/a.png": png()})
    with pytest.raises(SourceError, match="has 256 categories, and masks at most 255: .*--classes"):
        read(root)

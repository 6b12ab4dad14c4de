"""Sets of COCO: where images lie, ids, sides, and files that are damaged."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import dsprep
from dsprep.annotations.objects import BoxesAlone
from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.findings import Reject, lost
from dsprep.places.names import usual_side
from dsprep.places.prefetch import OpenFiles
from dsprep.sources.annotated import coco as module
from dsprep.sources.annotated import coco_items, coco_places, json_file
from dsprep.sources.annotated.coco_kind import files_with_sides
from dsprep.sources.source import Source
from tests.sources.boxes import box, boxes, coco, kinds, notes, objects, read, sides, told, write
from tests.sources.mask_sets import png

CAT, DOG = ("cat", 10, 5, 30, 15), ("dog", 10, 5, 30, 15)


def test_its_own_layout(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "train2017/1.jpg": None,
            "train2017/2.jpg": None,
            "val2017/1.jpg": None,
            "val2017/3.jpg": None,
            "annotations/instances_train2017.json": coco(["1.jpg", "2.jpg"], [box(1, 1)]),
            "annotations/instances_val2017.json": coco(["1.jpg"], [box(1, 1, 7)]),
        },
    )
    catalog, findings = read(root)
    found = {"train2017/1.jpg": [CAT], "train2017/2.jpg": [], "val2017/1.jpg": [DOG]}
    assert boxes(catalog) == found
    assert sides(catalog) == {path: path.partition("/")[0] for path in found}
    assert kinds(findings) == {"val2017/3.jpg": "unlisted"}
    field = catalog.settled.schema.by_name["objects"]
    assert (field.names, field.ids) == (("cat", "dog"), (3, 7))


def test_an_image_that_is_not_there_is_named_with_its_directory_and_file(tmp_path: Path) -> None:
    files = {
        "train2017/1.jpg": None,
        "val2017/3.jpg": None,
        "annotations/instances_train2017.json": coco(["1.jpg", "2.jpg"], [box(1, 1)]),
        "annotations/instances_val2017.json": coco(["3.jpg", "2.jpg"], [box(1, 1)]),
    }
    _, findings = read(write(tmp_path, files))
    assert [(each.path, each.detail) for each in findings if each.kind == "missing"] == [
        ("train2017/2.jpg", "named in instances_train2017.json"),
        ("val2017/2.jpg", "named in instances_val2017.json"),
    ]


def test_what_is_not_kept_is_told(tmp_path: Path) -> None:
    parts = json.loads(coco(["1.jpg", "2.jpg"], [box(1, 1) | {"score": 0.5}]))
    parts["images"][1]["license"] = 1
    parts["categories"][0] |= {"supercategory": "animal", "keypoints": ["nose"], "\ud800": 1}
    parts |= {"info": {"year": 2017}, "licenses": [{"id": 1, "name": "CC"}], "empty": {}}
    root = write(tmp_path, {"1.jpg": None, "2.jpg": None, "a.json": json.dumps(parts)})
    _, findings = read(root, annotations=[str(root / "a.json")])
    told = [each.detail for each in findings if each.kind == "note"]
    assert [each.partition("not kept: ")[2] for each in told] == [
        "'info', 'licenses'",
        "'license' of images",
        "'keypoints', 'supercategory', '\\ud800' of categories",
    ]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"iscrowd": "0"}, "iscrowd is '0', not 0 or 1"),
        ({"iscrowd": 2}, "iscrowd is 2, not 0 or 1"),
        ({"area": "200"}, "'200' is not a number"),
        ({"area": True}, "True is not a number"),
        ({"segmentation": "x"}, "segmentation is 'x': neither polygons nor runs"),
    ],
)
def test_an_odd_value_makes_its_image_a_reject(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    root = write(tmp_path, {"1.jpg": None, "a.json": coco(["1.jpg"], [box(4, 1) | change])})
    catalog, _ = read(root, annotations=[str(root / "a.json")])
    (found,) = catalog.reader.read(catalog.rows())
    assert isinstance(found, BadSample)
    assert "annotation 4: " in str(found)
    assert why in str(found)


def test_ids_that_are_not_kept_are_told(tmp_path: Path) -> None:
    parts = json.loads(coco(["1.jpg", "2.jpg"], [box(1, 1), box(2, "x")]))  # type: ignore[arg-type]
    parts["images"][1]["id"], parts["annotations"][0]["id"] = "x", "a7"
    root = write(tmp_path, {"1.jpg": None, "2.jpg": None, "a.json": json.dumps(parts)})
    catalog, findings = read(root, annotations=[str(root / "a.json")])
    assert catalog.schema
    assert "image_id" not in catalog.schema.by_name
    told = notes(findings)
    assert "ids of images not kept, as some are not whole numbers from 0: 'x'" in told
    assert "1 id of annotations not kept, not being whole numbers of 64 bits" in told


def test_a_category_of_the_same_name_that_nothing_uses_is_left_out(tmp_path: Path) -> None:
    # As in Roboflow's exports, whose first category is the data set.
    parts = json.loads(coco(["1.jpg"], [box(1, 1, 1)]))
    parts["categories"] = [{"id": id, "name": "cat"} for id in (0, 1)]
    root = write(tmp_path, {"1.jpg": None, "a.json": json.dumps(parts)})
    catalog, _ = read(root, annotations=[str(root / "a.json")])
    objects = catalog.schema and catalog.schema.objects
    assert objects
    assert (objects.names, objects.ids) == (("cat",), (1,))


def test_categories_of_one_name_are_refused_unless_classes_are_given(tmp_path: Path) -> None:
    parts = json.loads(coco(["1.jpg"], [box(1, 1), box(2, 1, 7)]))
    parts["categories"] = [{"id": id, "name": "cat"} for id in (3, 7)]
    (tmp_path / "classes.txt").write_text("cat\n")
    root = write(tmp_path, {"1.jpg": None, "a.json": json.dumps(parts)})
    named = [str(root / "a.json")]
    with pytest.raises(SourceError, match="several categories have one name: 'cat': .*--classes"):
        read(root, annotations=named)
    catalog, _ = read(root, annotations=named, classes=str(tmp_path / "classes.txt"))
    assert boxes(catalog) == {"1.jpg": [CAT, CAT]}


def test_roboflow(tmp_path: Path) -> None:
    files: dict[str, Any] = {}
    for side in ("train", "valid"):
        files[f"{side}/a.jpg"] = None
        files[f"{side}/_annotations.coco.json"] = coco(["a.jpg"], [box(1, 1)])
    catalog, findings = read(write(tmp_path, files))
    assert boxes(catalog) == {"train/a.jpg": [CAT], "valid/a.jpg": [CAT]}
    assert catalog.sides == ("train", "valid")
    assert kinds(findings) == {}


def test_named_with_several_files(tmp_path: Path) -> None:
    files = {"img/1.jpg": None, "img/2.jpg": None, "img/3.jpg": None}
    files |= {"train.json": coco(["1.jpg"], [box(1, 1)]), "val.json": coco(["2.jpg"])}
    root = write(tmp_path, files)
    named = [str(root / name) for name in ("train.json", "val.json")]
    catalog, findings = read(root / "img", annotations=named)
    assert sides(catalog) == {"1.jpg": "train", "2.jpg": "val"}
    assert kinds(findings) == {"3.jpg": "unlisted"}
    both = [root / name for name in ("instances_trainval.json", "instances_test.json")]
    for path, old in zip(both, named, strict=True):
        path.write_bytes(Path(old).read_bytes())
    catalog, _ = read(root / "img", annotations=[*map(str, both)])
    assert sides(catalog) == {"1.jpg": "trainval", "2.jpg": "test"}
    catalog, _ = read(root / "img", annotations=named[:1], unlisted="keep")
    assert boxes(catalog) == {"1.jpg": [CAT], "2.jpg": [], "3.jpg": []}
    with pytest.raises(OptionError, match="--unlisted keep"):
        read(root / "img", annotations=named, unlisted="keep")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("x/1.jpg", "x/1.jpg"),
        ("./x/1.jpg", "x/1.jpg"),
        ("x\\1.jpg", "x/1.jpg"),
        ("/home/me/x/1.jpg", "x/1.jpg"),
        ("y/1.jpg", "deep/y/1.jpg"),
        ("2.jpg", "x/2.jpg"),
        ("2", "x/2.jpg"),
        ("http://images.org/x/1.jpg", "x/1.jpg"),
        ("https://host/bucket/a%20b.jpg?key=1", "x/a b.jpg"),
        ("0a1b2c3d-2.jpg", "x/2.jpg"),
        ("/data/local-files/?d=set/x/1.jpg", "x/1.jpg"),
        ("1.jpg", None),
        ("elsewhere/1.jpg", None),
    ],
)
def test_joining(tmp_path: Path, name: str, path: str | None) -> None:
    names = ("x/1.jpg", "deep/y/1.jpg", "x/2.jpg", "x/a b.jpg")
    root = write(tmp_path / "set", dict.fromkeys(names))
    file = write(tmp_path, {"a.json": coco([name], [box(1, 1)])}) / "a.json"
    if path is None:
        with pytest.raises(SourceError, match="may mean 'deep/y/1.jpg' or 'x/1.jpg': give"):
            read(root, annotations=[str(file)])
    else:
        assert boxes(read(root, annotations=[str(file)])[0]) == {path: [CAT]}


def test_an_image_that_is_not_there(tmp_path: Path) -> None:
    files = {"a.jpg": None, "instances_x.json": coco(["a.jpg", "b.jpg"], [box(1, 1), box(2, 2)])}
    catalog, findings = read(write(tmp_path, files))
    assert boxes(catalog) == {"a.jpg": [CAT]}
    assert kinds(findings) == {"b.jpg": "missing"}


def test_a_path_wins_over_a_name(tmp_path: Path) -> None:
    files = {"train/1.jpg": None, "instances.json": coco(["train/1.jpg", "val/1.jpg"], [box(1, 1)])}
    root = write(tmp_path, files)
    catalog, findings = read(root, annotations=[str(root / "instances.json")])
    assert boxes(catalog) == {"train/1.jpg": [CAT]}
    assert kinds(findings) == {"val/1.jpg": "missing"}


def test_ids_of_any_kind(tmp_path: Path) -> None:
    images = [{"id": "x", "file_name": "a.jpg"}, {"id": 5, "file_name": "b.jpg"}]
    categories = [{"id": "c", "name": "cat"}, {"id": 2, "name": "dog"}]
    annotations = [
        box(1, 5, 2),
        box(2, 5) | {"image_id": "x", "category_id": "c", "attributes": {"image_id": 5}},
    ]
    text = json.dumps({"annotations": annotations, "categories": categories, "images": images})
    root = write(tmp_path, {"a.jpg": None, "b.jpg": None, "instances_a.json": text})
    catalog, _ = read(root)
    assert boxes(catalog) == {"a.jpg": [CAT], "b.jpg": [DOG]}
    assert catalog.settled.schema.by_name["objects"].ids == ()


@pytest.mark.parametrize("many", [1, 1 << 20])
def test_places_are_right_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(coco_places, "_MANY", many)
    monkeypatch.setattr(coco_places, "_AT_ONCE", 100)
    rle = {"counts": "Pi0", "size": [20, 40]}
    more: list[dict[str, Any]] = [
        {"bbox": [at, 1, 2, 3.5], "note": 'a "}\\" {', "text": "ä€"} for at in range(20)
    ]
    more[3] |= {"segmentation": rle, "iscrowd": 1}
    more[4] |= {"nested": {"deep": [{"id": 1}]}}
    more[5] |= {"bbox": [5.0, 1e0, 2, 3.5]}
    more[7] |= {"note": "}, {"}  # as between two annotations
    parts = [box(at + 1, at % 3 + 1, **each) for at, each in enumerate(more)]
    texts = [
        coco(["a.jpg", "b.jpg", "ä.jpg"], parts),
        json.dumps(json.loads(coco(["a.jpg", "b.jpg", "ä.jpg"], parts)), indent=2),
        json.dumps(json.loads(coco(["a.jpg", "b.jpg", "ä.jpg"], parts)), ensure_ascii=False),
    ]
    root = write(tmp_path / "i", {"a.jpg": None, "b.jpg": None, "ä.jpg": None})
    for number, text in enumerate(texts):
        file = write(tmp_path, {f"{number}.json": text}) / f"{number}.json"
        for block in (7, 64, 1000, 1 << 24):
            monkeypatch.setattr(json_file, "_BLOCK", block)
            monkeypatch.setattr(json_file, "_SOME", block)
            monkeypatch.setattr(coco_places, "_NEAR", block)
            monkeypatch.setattr(coco_items, "_SOME", block)
            found = objects(read(root, annotations=[str(file)])[0])
            for place, path in enumerate(("a.jpg", "b.jpg", "ä.jpg")):
                items = found[path].items
                assert [each.id for each in items] == [*range(place + 1, 21, 3)]
                assert [each.box[0] for each in items] == [*range(place, 20, 3)]
                assert all(each.more["text"] == "ä€" for each in items)


IDS = {"id": 4, "image_id": 5, "category_id": 6}


@pytest.mark.parametrize(
    ("values", "other"),
    [
        ({}, {}),
        ({"bbox": [1, 2.5, 3e2, 4]}, {"bbox": [[]]}),
        ({"note": 'a "} {"', "ok": True}, {"note": "", "ok": None}),
        ({"segmentation": {"size": [1, 2], "counts": "a"}},) * 2,
    ],
)
def test_annotations_that_are_written_alike(values: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = IDS | values, {**dict.fromkeys(IDS, -77), **other}
    for indent in (None, 1):
        text, alike = json.dumps(first, indent=indent), json.dumps(second, indent=indent)
        items = [text, alike, text, "{}", alike, text]
        whole = ", ".join(items)
        found = coco_items.WrittenAlike(3)
        found.learn(whole, 0, len(text), first)
        taken = ", ".join(items[:3])
        assert found.take(whole, 0, 1000) == len(taken)
        at = len(taken) + len(", {}, ")
        assert found.take(whole, at - len("{}, "), 1000) == at - len("{}, ")
        assert found.take(whole, at, 1000) == at + len(alike)  # what ends the last one is not seen
        bare = int(not values.keys() & {"bbox", "segmentation"})
        assert pl.concat(found.tables).rows() == [
            (3, 5, 6, 4, 1000, len(text), bare),
            (3, -77, -77, -77, 1000 + len(f"{text}, "), len(alike), bare),
            (3, 5, 6, 4, 1000 + len(taken) - len(text), len(text), bare),
            (3, -77, -77, -77, 1000 + at, len(alike), bare),
        ]


def test_annotations_of_two_forms_whose_keys_have_other_orders() -> None:
    items = [IDS | {"bbox": []}, {"bbox": [1], "category_id": 1, "image_id": 2, "id": 3}]
    texts = [json.dumps(each) for each in items]
    whole = ", ".join([*texts, *texts, "{}"])
    found = coco_items.WrittenAlike(0)
    for text, item in zip(texts, items, strict=True):
        at = whole.index(text)
        found.learn(whole, at, at + len(text), item)
    assert found.take(whole, 0, 0) == len(whole) - len(", {}")
    ids = pl.concat(found.tables).select("image", "category", "id")
    assert ids.rows() == [(5, 6, 4), (2, 1, 3)] * 2


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 4, "image_id": 5, "category_id": 6, "id": 4}',
        '{"id": 4, "image_id": 5, "category_id": 6, "more": {"id": 4}}',
        '{"id": "4", "image_id": 5, "category_id": 6, "more": {"id": 3}}',
        '{"id": 4.5, "image_id": 5, "category_id": 6}',
        '{"id": 4, "image_id": 5, "category_id": "6"}',
        '{"id": 4, "image_id": 5}',
        "[4, 5, 6]",
        json.dumps({**IDS, "more": [{}] * 100_000}),
    ],
)
def test_annotations_whose_ids_are_not_plain_are_parsed(text: str) -> None:
    assert coco_items._form(text, json.loads(text)) is None


@pytest.mark.parametrize("some", [1, 60, 150, 1 << 14])
def test_images_with_braces_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, some: int
) -> None:
    monkeypatch.setattr(json_file, "_SOME", some)
    names = ["a].jpg", "b}.jpg", "c{.jpg", "d.jpg"]
    values = json.loads(coco(names, [box(at, at) for at in range(1, 5)]))
    values["images"][0]["meta"] = [{"a": {}}, {"b": "]}, {"}]
    values["images"][3] |= {"tags": [], "of": {"id": 9}}
    root = write(tmp_path / "i", dict.fromkeys(names))
    file = write(tmp_path, {"x.json": json.dumps(values)}) / "x.json"
    found = objects(read(root, annotations=[str(file)])[0])
    assert {name: [each.id for each in found[name].items] for name in names} == {
        name: [at] for at, name in enumerate(names, 1)
    }


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"annotations": [box(1, 9), box(2, 8)]}, "2 annotations with image_id .* 8, 9"),
        ({"annotations": [box(1, 1, 9)]}, "1 annotation with category_id .*: 9"),
        (
            {"annotations": [box(6, 1), {"id": 7, "image_id": 1}]},
            r"an item of annotations \(id 7\) lacks 'category_id': correct it",
        ),
        (
            {"images": [{"id": 1, "file_name": "a.jpg"}, {"file_name": "b.jpg"}]},
            r"an item of images \({'file_name': 'b.jpg'}\) lacks 'id'",
        ),
        ({"images": [{"id": 1, "file_name": "a.jpg"}] * 2}, "several images have the id 1"),
        ({"images": [{"id": 1, "file_name": "a.jpg", "width": -5}]}, "its size is -5 x 0"),
        (
            {"images": [{"id": 1, "file_name": "a.jpg", "width": "x"}]},
            "images .id 1. cannot be read",
        ),
        ({"categories": {"1": []}}, "categories is no list: correct it"),
        ({"images": 5}, "images is no list"),
        ({"categories": [{"id": 1, "name": "a\nb"}]}, "does not fit on a line of objects.classes"),
        ({"categories": [{"id": 1, "name": "a\0b"}]}, "does not fit on a line of objects.classes"),
        ({"categories": [{"id": 1, "name": " "}]}, "does not fit on a line of objects.classes"),
        ({"categories": [{"id": 1, "name": None}]}, "cannot be read: its name is null: correct it"),
        ({"annotations": ["x"]}, "an item of annotations cannot be read: 'x' is not an object"),
        ({"images": [{"id": 1}]}, r"an item of images \(id 1\) lacks 'file_name'"),
        ({"annotations": [{"image_id": 1, "segments_info": []}]}, "is panoptic"),
        ({"annotations": [{"image_id": 1, "id": 1, "caption": 5}]}, "its caption 5 is no text"),
        ({"categories": [{"id": 3, "name": "a"}, {"id": 3, "name": "b"}]}, "the category 3 is"),
        ({"categories": [{"id": None, "name": "a"}]}, "its id None is neither a number nor a text"),
        ({"categories": [{"id": 3, "name": "\ud800"}]}, r"the name '\\ud800' has half"),
        ({"images": [{"id": 1, "file_name": "a\udc00.jpg"}]}, "has half a character"),
    ],
)
def test_refused(tmp_path: Path, values: dict[str, Any], why: str) -> None:
    files = {"a.jpg": None, "instances_a.json": coco(["a.jpg"], **values)}
    with pytest.raises(SourceError, match=why):
        read(write(tmp_path, files))


@pytest.mark.parametrize("values", [{"annotations": []}, {"annotations": None}, {}])
def test_a_file_without_annotations_is_told(tmp_path: Path, values: dict[str, Any]) -> None:
    """Those of test images have images and categories alone."""
    parts = {"images": [{"id": 1, "file_name": "b.jpg"}], "categories": []} | values
    files = {
        "train/a.jpg": None,
        "test/b.jpg": None,
        "annotations/instances_train.json": coco(["a.jpg"], [box(1, 1)]),
        "annotations/instances_test.json": json.dumps(parts),
    }
    catalog, findings = read(write(tmp_path, files))
    assert boxes(catalog) == {"train/a.jpg": [CAT], "test/b.jpg": []}
    said = "instances_test.json: has no annotations, so that its images are packed without any"
    assert said in notes(findings)
    assert "instances_train.json: has no" not in notes(findings)


def test_a_hidden_image_that_is_named(tmp_path: Path) -> None:
    names = [".a.jpg", "b.jpg", ".c/d.jpg"]
    files = dict.fromkeys(names) | {"instances_a.json": coco(names, [box(1, 1)])}
    _, findings = read(write(tmp_path, files))
    why = "is a hidden file, which dsprep leaves out (named in instances_a.json)"
    assert [*lost(findings)] == [Reject(".a.jpg", why), Reject(".c/d.jpg", why)]
    assert ".a.jpg" not in {each.path for each in findings if each.kind == "hidden"}


def test_lvis(tmp_path: Path) -> None:
    """Images are named by the addresses of COCO's, and a file has images of several directories."""
    url = "http://images.cocodataset.org/{}/00000000000{}.jpg"
    images = [
        {"id": id, "coco_url": url.format(directory, id), "width": 40, "height": 20,
         "neg_category_ids": [7], "not_exhaustive_category_ids": [], "license": 1}
        for id, directory in ((1, "train2017"), (2, "val2017"))
    ]  # fmt: skip
    category = {
        "id": 3,
        "name": "air_conditioner",
        "frequency": "c",
        "synset": "a.n.01",
        "def": "x",
    }
    text = coco([], [box(1, 2)], images=images, categories=[category])
    files = {
        f"{name}2017/00000000000{id}.jpg": None
        for id, name in ((1, "train"), (2, "val"), (3, "val"))
    }
    catalog, findings = read(write(tmp_path, files | {"annotations/lvis_v1_val.json": text}))
    assert boxes(catalog) == {
        "train2017/000000000001.jpg": [],
        "val2017/000000000002.jpg": [("air_conditioner", 10, 5, 30, 15)],
    }
    assert set(sides(catalog).values()) == {"val"}
    said = notes(findings)
    assert (
        "not kept: 'coco_url', 'license', 'neg_category_ids', 'not_exhaustive_category_ids'" in said
    )
    assert "not kept: 'def', 'frequency', 'synset' of categories" in said
    assert "is LVIS's: each image is annotated for some classes only" in said


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_ends_early(tmp_path: Path, keep: float) -> None:
    text = coco(["a.jpg"], [box(at, 1) for at in range(1, 50)])
    files = {"a.jpg": None, "instances_a.json": text[: int(len(text) * keep)]}
    with pytest.raises(SourceError, match=r"ends early: byte [\d,]+"):
        read(write(tmp_path, files))


@pytest.mark.parametrize("section", ["images", "annotations", "categories"])
@pytest.mark.parametrize(
    ("whole", "damaged"),
    [("}, {", "} {"), ("}, {", "},, {"), ("[{", "[, {"), ("}]", "}, ]"), ("}]", "}")],
)
def test_a_list_that_is_damaged(tmp_path: Path, section: str, whole: str, damaged: str) -> None:
    text = coco(["a.jpg", "b.jpg"], [box(at, 1) for at in range(1, 50)])
    at = text.index(whole, text.index(f'"{section}"'))
    text = text[:at] + damaged + text[at + len(whole) :]
    files = {"a.jpg": None, "b.jpg": None, "instances_a.json": text}
    with pytest.raises(SourceError, match=r"ends early: byte [\d,]+|is not an object"):
        read(write(tmp_path, files))


def test_a_comma_behind_the_last_list(tmp_path: Path) -> None:
    files = {"a.jpg": None, "instances_a.json": coco(["a.jpg"])[:-1] + ",}"}
    with pytest.raises(SourceError, match=r"ends early: byte [\d,]+"):
        read(write(tmp_path, files))


def test_a_file_that_is_nested_deeply(tmp_path: Path) -> None:
    files = {"a.jpg": None, "instances_a.json": '{"a":' + "[" * 200_000}
    with pytest.raises(SourceError, match="ends early: byte 6"):
        read(write(tmp_path, files))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (coco(["a.jpg"]).encode("utf-16"), "is UTF-16 or UTF-32: save the file as UTF-8"),
        (coco(["a.jpg"]).encode("utf-16-le"), "is UTF-16 or UTF-32"),
        (coco(["a.jpg"]).encode() * 2, r"another one begins at byte 1\d\d"),
        (b'{"id": 1, "file_name": "a.jpg"}\n{"id": 2}\n', "another one begins at byte 32"),
        (coco(["a.jpg"]).encode() + b"}", "ends early"),
    ],
)
def test_a_file_that_is_no_single_document(tmp_path: Path, data: bytes, why: str) -> None:
    root = write(tmp_path, {"a.jpg": None, "instances_a.json": data})
    with pytest.raises(SourceError, match=why):
        read(root)
    with pytest.raises(SourceError, match=why):
        read(root, annotations=[str(root / "instances_a.json")])


def test_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    text = coco(["a.jpg"], [box(1, 1)]).encode("utf-8-sig")
    catalog, _ = read(write(tmp_path, {"a.jpg": None, "instances_a.json": text}))
    assert boxes(catalog) == {"a.jpg": [CAT]}


def test_entries_for_one_image(tmp_path: Path) -> None:
    names = ["a.jpg", "a.jpg", "x/b.jpg", "y/b.jpg"]
    files = {"a.jpg": None, "b.jpg": None, "instances_a.json": coco(names)}
    with pytest.raises(SourceError) as refused:
        read(write(tmp_path, files))
    said = "2 images named by several entries: merge these, or correct the names:\n"
    assert f"{said}  a.jpg\n  b.jpg: 'x/b.jpg' and 'y/b.jpg'" in str(refused.value)
    two = write(tmp_path / "two", {"a.jpg": None, "x.json": coco(names[:1], [box(1, 1)])})
    write(two, {"all.json": coco(names[:1], [box(1, 1)])})
    with pytest.raises(SourceError, match="the names, or name the file to take with --annotations"):
        read(two)
    assert boxes(read(two, annotations=[two / "x.json"])[0]) == {"a.jpg": [CAT]}


def test_boxes_without_a_width_are_counted(tmp_path: Path) -> None:
    found = coco(["a.jpg"], [box(1, 1), box(2, 1, bbox=[5, 5, 0, 3]), box(3, 1, bbox=[5, 5, 3, 0])])
    root = write(tmp_path / "set", {"a.jpg": None, "instances_a.json": found})
    report = dsprep.pack(str(root), str(tmp_path / "out"), format="webdataset", workers=1)
    assert [note for note in report.notes if note.startswith("2 objects with a box of no width")]


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    text = json.dumps(json.loads(coco(["ä.jpg"])), ensure_ascii=False).encode("latin-1")
    with pytest.raises(SourceError, match="is not UTF-8"):
        read(write(tmp_path, {"a.jpg": None, "instances_a.json": text}))


def test_ids_that_annotations_share(tmp_path: Path) -> None:
    text = coco(["a.jpg"], [box(1, 1), box(1, 1, 7), box(2, 1)])
    catalog, findings = read(write(tmp_path, {"a.jpg": None, "instances_a.json": text}))
    assert boxes(catalog) == {"a.jpg": [CAT, DOG, CAT]}
    assert "1 id of several annotations: 1; all of these are kept" in notes(findings)


@pytest.mark.parametrize(
    "values", [{"bbox": [1, 1, float("nan"), 2]}, {"segmentation": [[1, 1, 2, 2]]}]
)
def test_damaged_objects_reject_their_image(tmp_path: Path, values: dict[str, Any]) -> None:
    text = coco(["a.jpg", "b.jpg"], [box(1, 1, **values), box(2, 2)])
    root = write(tmp_path, {"a.jpg": None, "b.jpg": None, "instances_a.json": text})
    catalog, _ = read(root)
    bad, good = catalog.reader.read(catalog.rows())
    assert isinstance(bad, BadSample)
    assert "its annotations" in str(bad)
    assert not isinstance(good, BadSample)


def test_texts_are_slices_of_their_files(tmp_path: Path) -> None:
    generator, paths, spans = random.Random(1), list[str](), list[tuple[int, int, bytes]]()
    gaps, sizes = (
        (0, 5, coco_places._NEAR, coco_places._NEAR + 1),
        (1, 100, 20_000, coco_places._AT_MOST // 2),
    )
    for number in range(3):
        data = b""
        for gap in gaps * 4:
            text = generator.randbytes(generator.choice(sizes))
            data += bytes(gap)
            spans.append((number << coco_places.OFFSET_BITS | len(data), len(text), text))
            data += text
        paths.append(str(tmp_path / f"{number}.json"))
        Path(paths[-1]).write_bytes(data)
    generator.shuffle(spans)
    numbers = array("q", [number for span in spans for number in span[:2]])
    with OpenFiles(tuple(paths)) as files:
        texts = coco_places._texts_of(files, numbers).to_list()
    assert texts == [text.decode("latin-1") for *_, text in spans]


def test_what_lies_on_the_border_of_two_blocks_is_digested() -> None:
    text = b'[{"segmentation": {"counts" : "Pi0"}, "iscrowd": 1}]'
    for border in range(len(text) + 1):
        digest = module._Digest()
        for block in (text[:border], text[border:]):
            digest.update(block)
        assert (digest.growth, digest.flags) == (6, True)


def test_one_annotation_of_many_that_is_not_utf_8_rejects_its_image(tmp_path: Path) -> None:
    items = [box(at, at % 3 + 1) for at in range(coco_places._MANY)]
    items[4]["by"] = "X"
    text = coco(["a.jpg", "b.jpg", "c.jpg"], items).encode().replace(b'"X"', b'"\xe9"')
    root = write(tmp_path, {"a.jpg": None, "b.jpg": None, "c.jpg": None, "instances_a.json": text})
    catalog, _ = read(root)
    first, bad, last = catalog.reader.read(catalog.rows())
    assert isinstance(bad, BadSample)
    assert str(bad).startswith("its annotations: 'utf-8' codec can't decode byte 0xe9")
    for each in (first, last):
        assert not isinstance(each, bytes | BadSample)
        assert isinstance(each.fields["objects"].items, BoxesAlone)


@pytest.mark.parametrize("is_ascii", [True, False])
def test_ids_and_captions_of_any_letters(tmp_path: Path, is_ascii: bool) -> None:
    value = {
        "images": [{"id": "ä", "file_name": "a.jpg"}],
        "annotations": [
            {"id": 1, "image_id": "ä", "category_id": "é", "bbox": [10, 5, 20, 10]},
            {"id": 2, "image_id": "ä", "caption": "Grüße 猫"},
        ],
        "categories": [{"id": "é", "name": "cat"}],
    }
    text = json.dumps(value, ensure_ascii=is_ascii)
    catalog, _ = read(write(tmp_path, {"a.jpg": None, "instances_a.json": text}))
    assert boxes(catalog) == {"a.jpg": [CAT]}
    (sample,) = catalog.reader.read(catalog.rows())
    assert not isinstance(sample, bytes | BadSample)
    assert sample.fields["caption"] == ("Grüße 猫",)


def test_captions_that_are_not_utf_8(tmp_path: Path) -> None:
    text = CAPTIONS.encode().replace(b'"x"', b'"\xe9"')
    with pytest.raises(SourceError, match="is not UTF-8: save the file as UTF-8"):
        read(write(tmp_path, dict.fromkeys(ALL) | {"captions_a.json": text}))


@pytest.mark.parametrize("bbox", [{}, {"bbox": None}, {"bbox": []}])
def test_objects_without_a_box_have_that_of_their_shape(
    tmp_path: Path, bbox: dict[str, Any]
) -> None:
    runs = {"size": [20, 40], "counts": [2 * 20 + 3, 5, 15, 6, 800 - 69]}
    empty = {"size": [20, 40], "counts": [800]}
    shapes = [{"segmentation": [[1, 2, 9, 2, 9, 8]]}, {"segmentation": runs}]
    shapes += [{"segmentation": empty}, {"segmentation": []}, {}]
    made = [box(at, at) | shape for at, shape in enumerate(shapes, 1)]
    for each in made:
        del each["bbox"]
        each |= bbox
    names = [f"{at}.jpg" for at, _ in enumerate(shapes, 1)]
    root = write(tmp_path, {**dict.fromkeys(names), "instances_a.json": coco(names, made)})
    catalog, _ = read(root)
    first, second, *others = catalog.reader.read(catalog.rows())
    assert not isinstance(first, bytes | BadSample)
    assert not isinstance(second, bytes | BadSample)
    assert first.fields["objects"].items[0].box == (1, 2, 9, 8)
    assert second.fields["objects"].items[0].box == (2, 3, 4, 9)
    why = "has no bbox, and no segmentation that tells it"
    told = [f"its annotations: annotation {id}: {why}" for id in (3, 4, 5)]
    assert [str(each) for each in others] == told


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.jpg": None, "instances_a.json": coco(["a.jpg"], [box(1, 1)])})
    catalog, _ = read(root)
    write(root, {"instances_a.json": coco(["a.jpg"], [box(1, 1)]) + " "})
    with pytest.raises(SourceError, match="has changed"):
        list(catalog.reader.read(catalog.rows()))


IN_SIDES = {"train/a.jpg": None, "train/b.jpg": None, "val/c.jpg": None}
ALL = ["a.jpg", "b.jpg", "c.jpg"]
CAPTIONS = coco(ALL, [{"image_id": 1, "id": 1, "caption": "x"}])


@pytest.mark.parametrize(
    "files",
    [
        # One file of any name, anywhere: sides are those of directories.
        {"result.json": coco(ALL, [box(1, 1), box(2, 3)])},
        {"a/b/boxes.JSON": coco(ALL, [box(1, 1)])},
        # Several: sides by their names, by their directories, or by those of their images.
        {
            "annotations/train.json": coco(ALL[:2], [box(1, 1)]),
            "annotations/valid_coco.json": coco(ALL[2:], [box(1, 1)]),
        },
        {
            "train/labels.json": coco(ALL[:2], [box(1, 1)]),
            "val/labels.json": coco(ALL[2:], [box(1, 1)]),
        },
        {f"annotations/part{at}.json": coco([name], [box(1, 1)]) for at, name in enumerate(ALL)}
        | {"annotations/part5.json": "[]", "annotations/part6.json": "{}"},
    ],
)
def test_content_decides(tmp_path: Path, files: dict[str, Any]) -> None:
    root = write(tmp_path / "set", {**IN_SIDES, **files})
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for name in {**IN_SIDES, **files}:
            archive.write(root / name, f"set/{name}")
    for place in (root, tmp_path / "set.zip"):
        catalog, findings = read(place)
        of = {path.rpartition("/")[2]: usual_side(side) for path, side in sides(catalog).items()}
        assert of == {"a.jpg": "train", "b.jpg": "train", "c.jpg": "val"}
        assert any(boxes(catalog).values())
        assert not set(kinds(findings).values()).difference(["left-over"])


def test_annotations_of_other_kinds_beside(tmp_path: Path) -> None:
    """Captions and the like are known; a JSON that only looks like it is none of COCO's."""
    files = IN_SIDES | {"annotations/boxes.json": coco(ALL, [box(1, 1)])}
    beside = {"x.json": CAPTIONS} | {
        f"annotations/{name}.json": CAPTIONS
        for name in ("captions_train", "panoptic_val", "stuff_val", "image_info_test-dev")
    }
    beside |= {f"annotations/panoptic_val/{name}.png": png(1) for name in "abc"}
    others = {"categories.json": '{"categories": [{"id": 1, "name": "cat"}]}'}
    catalog, findings = read(write(tmp_path, {**files, **beside, **others}))
    assert "3 PNGs of panoptic segmentation not read, such as" in notes(findings)
    assert len(catalog) == 3
    assert kinds(findings) == dict.fromkeys(beside, "not-read") | dict.fromkeys(others, "left-over")
    for name in ("val", "image_info_val"):
        root = write(
            tmp_path / f"only {name}", {"images/c.jpg": None, f"{name}.json": coco(["c.jpg"])}
        )
        catalog, _ = read(root)
        assert catalog.sides == (name.removeprefix("image_info_"),)
        assert read(root, leave_out=[f"{name}.json"])[0].annotated is None


def test_a_file_that_names_few_images_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, {**IN_SIDES, "some.json": coco(["a.jpg"], [box(1, 1)])})
    said = "some.json: names 1 of 3 images: give --annotations .*some.json .* --leave-out some.json"
    with pytest.raises(SourceError, match=said):
        read(root)
    assert len(read(root, annotations=[str(root / "some.json")])[0]) == 1
    assert len(read(root, leave_out=["some.json"])[0]) == 3


def test_annotations_without_boxes_are_classes_of_images(tmp_path: Path) -> None:
    """So has iNaturalist them: a category of each image, and a file of each side."""

    def side(*pairs: tuple[str, int]) -> str:
        images = [
            {"id": at, "file_name": name, "width": 40, "height": 20, "license": 0,
             "rights_holder": "x"} for at, (name, _) in enumerate(pairs)
        ]  # fmt: skip
        annotations = [{"id": at, "image_id": at, "category_id": own}
                       for at, (_, own) in enumerate(pairs)]  # fmt: skip
        categories = [{"id": 0, "name": "Zea mays", "supercategory": "Plants"},
                      {"id": 1, "name": "Apis", "supercategory": "Insects"}]  # fmt: skip
        parts = {"info": {}, "images": images, "annotations": annotations}
        return json.dumps(parts | {"licenses": [], "categories": categories})

    tops = [
        f"train_val2019/{top}" for top in ("Plants/0/a.jpg", "Insects/1/b.jpg", "Plants/0/c.jpg")
    ]
    files = {
        **dict.fromkeys(tops),
        "train2019.json": side((tops[0], 0), (tops[1], 1)),
        "val2019.json": side((tops[2], 0)),
    }
    root = write(tmp_path / "set", files)
    catalog, findings = read(root)
    assert {path: each["label"] for path, each in told(catalog).items()} == {
        tops[1]: "Apis",
        tops[0]: "Zea mays",
        tops[2]: "Zea mays",
    }
    assert catalog.classes == ("Zea mays", "Apis")  # in the order of the ids
    assert sides(catalog) == {tops[0]: "train2019", tops[1]: "train2019", tops[2]: "val2019"}
    assert "their categories are classes of images" in notes(findings)
    report = dsprep.pack(root, tmp_path / "out", to="recordio", workers=1)
    assert (report.samples, report.rejects) == (3, [])
    several = json.loads(side((tops[0], 0), (tops[1], 1)))
    several["annotations"].append({"id": 9, "image_id": 0, "category_id": 1})
    root = write(tmp_path / "tags", {**dict.fromkeys(tops), "train.json": json.dumps(several)})
    assert told(read(root)[0])[tops[0]] == {"label": ("Zea mays", "Apis")}


def test_labels_of_images_beside_boxes(tmp_path: Path) -> None:
    """Annotations of a category alone, in the file of the boxes or in one of their own."""
    images = ["a.jpg", "b.jpg", "c.jpg"]
    labels = [{"id": 10 + at, "image_id": at, "category_id": 7} for at in (1, 2)]
    files = (
        {"boxes.json": coco(images, [box(1, 1), *labels])},
        {"boxes.json": coco(images, [box(1, 1)]), "labels.json": coco([*images, "d.jpg"], labels)},
    )
    for number, content in enumerate(files):
        root = write(tmp_path / str(number), {**dict.fromkeys(images), **content})
        catalog, findings = read(root)
        found = {path: (each.get("label"), each["objects"]) for path, each in told(catalog).items()}
        own = [("cat", 10, 5, 30, 15)]
        assert found == {"a.jpg": ("dog", own), "b.jpg": ("dog", []), "c.jpg": (None, [])}
        assert "2 annotations without a box or a polygon, so that their categories" in notes(
            findings
        )
        assert ("1 image that no file of boxes lists" in notes(findings)) == bool(number)
    several = [*labels, {"id": 20, "image_id": 1, "category_id": 3}]
    root = write(tmp_path / "tags", {"a.jpg": None, "boxes.json": coco(["a.jpg"], several[:1])})
    (root / "boxes.json").write_text(coco(["a.jpg"], [box(1, 1), several[0], several[2]]))
    assert told(read(root)[0])["a.jpg"]["label"] == ("cat", "dog")
    # one box that is lost does not make labels
    many = [f"{at}.jpg" for at in range(12)]
    boxes = [box(at, at) for at in range(2, 13)]
    root = write(
        tmp_path / "many", {**dict.fromkeys(many), "x.json": coco(many, [labels[0], *boxes])}
    )
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1)
    assert [each.path for each in report.rejects] == ["0.jpg"]


def test_keypoints_of_persons_join_the_instances(tmp_path: Path) -> None:
    """COCO has the objects of its instances again in its person_keypoints, with the same ids."""
    images = ["a.jpg", "b.jpg"]
    points = {"keypoints": [1, 2, 2], "num_keypoints": 1}
    instances = [box(1, 1), box(2, 1, 7), box(3, 2)]
    persons = [box(1, 1, **points), box(3, 2, **points), box(8, 2, **points)]
    files = {
        **dict.fromkeys(f"val2017/{name}" for name in images),
        "train2017/c.jpg": None,
        "annotations/instances_train2017.json": coco(["c.jpg"], [box(5, 1)]),
        "annotations/instances_val2017.json": coco(images, instances),
        "annotations/person_keypoints_train2017.json": coco(["c.jpg"]),
        "annotations/person_keypoints_val2017.json": coco(images, persons),
    }
    root = write(tmp_path / "coco", files)
    shutil.make_archive(str(root), "zip", root)
    for place in (root, root.with_suffix(".zip")):
        catalog, findings = read(place)
        found = {
            path: [(each.id, each.number, bool(each.keypoints)) for each in own.items]
            for path, own in objects(catalog).items()
        }
        assert found == {
            "val2017/a.jpg": [(1, 0, True), (2, 1, False)],
            "val2017/b.jpg": [(3, 0, True), (8, 0, True)],
            "train2017/c.jpg": [(5, 0, False)],
        }
        assert sides(catalog)["val2017/a.jpg"] == "val2017"
        said = "2 of 4 objects have keypoints of another file, which has 1 further object"
        assert said in notes(findings)
    report = dsprep.pack(root, tmp_path / "out", to="webdataset", workers=1)
    assert (report.samples, report.rejects, report.sides) == (3, [], {"train2017": 1, "val2017": 2})


def test_keypoints_are_added_to_what_instances_tell(tmp_path: Path) -> None:
    points = {"keypoints": [1, 2, 2], "num_keypoints": 1}
    drawn = {"segmentation": [[1, 2, 11, 2, 11, 13]], "area": 55}
    instances, persons = "instances_train2017.json", "person_keypoints_train2017.json"
    images = ["a.jpg"]
    root = write(tmp_path, {f"train2017/{images[0]}": None})
    one, other = (root / "annotations" / name for name in (instances, persons))
    one.parent.mkdir()
    one.write_text(coco(images, [box(1, 1, **drawn)]))
    other.write_text(coco(images, [box(1, 1, **points)]))
    (found,) = objects(read(root)[0])["train2017/a.jpg"].items
    assert (len(found.polygons), found.area, found.keypoints) == (1, 55, (1, 2, 2))
    other.write_text(coco(images, [box(1, 1, **points, bbox=[30, 20, 4, 4])]))
    catalog, _ = read(root)
    (bad,) = catalog.reader.read(catalog.rows())
    assert "the id 1 has another box in each file" in str(bad)
    other.write_text(coco(images, [box(1, 1, 7, **points)]))
    with pytest.raises(SourceError, match="the same ids different categories, 1: give those"):
        read(root)
    other.write_text(coco(["b.jpg"], [box(1, 1, **points)]))
    write(root, {"val2017/b.jpg": None})
    other.rename(other.with_name("person_keypoints_val2017.json"))
    with pytest.raises(SourceError, match=r"val2017\.json: has keypoints of images that no file"):
        read(root)


def test_a_json_in_a_directory_called_similarly_lies_elsewhere(tmp_path: Path) -> None:
    root = write(tmp_path / "im", {"1.jpg": None})
    beside = write(tmp_path / "images", {"all.json": coco(["1.jpg"], [box(1, 1)])}) / "all.json"
    source = Source(str(root))
    files = SimpleNamespace(table=pl.DataFrame({"path": ["1.jpg"]}), texts=None)
    (found,) = files_with_sides(source, files, [str(beside)])  # type: ignore[arg-type]
    assert found.below == ""

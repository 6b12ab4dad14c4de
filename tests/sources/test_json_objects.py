"""Objects in the ``.json`` of WebDataset's samples, with what else it tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dsprep
from tests.images import jpeg
from tests.verifying.test_others import tar

OBJECT = {"bbox": [5, 6, 20, 10], "category": 1}


def shards(root: Path, told: list[Any]) -> Path:
    """Write a shard of other tools, without a manifest; text stays as it is."""
    (root / "in").mkdir()
    members = {}
    for at, values in enumerate(told):
        members[f"{at:03d}.jpg"] = jpeg(at, (80, 60))
        text = values if isinstance(values, str) else json.dumps(values)
        members[f"{at:03d}.json"] = text.encode()
    tar(root / "in" / "a-000000.tar", members)
    return root / "in"


def to_coco(source: Path, **options: Any) -> tuple[Any, dict[str, Any]]:
    out = source.parent / "out"
    report = dsprep.convert(source, out, to="coco", workers=1, **options)
    return report, json.loads((out / "annotations" / "instances.json").read_text())


@pytest.mark.parametrize("others", [{}, {"caption": "a cat"}], ids=["alone", "with others"])
@pytest.mark.parametrize("to", ["webdataset", "tfrecord", "parquet"])
def test_the_id_of_an_image_beside_its_objects_goes_through(
    tmp_path: Path, to: str, others: dict[str, Any]
) -> None:
    told = [{"image_id": 50 + at, "objects": [OBJECT] * at, **others} for at in range(3)]
    source, middle = shards(tmp_path, told), tmp_path / "middle"
    dsprep.convert(source, middle, to=to, workers=1)
    assert not dsprep.verify(middle, against=dsprep.make_source(str(source)), workers=1).problems
    _, found = to_coco(middle)
    assert [each["id"] for each in found["images"]] == [50, 51, 52]
    assert [each["image_id"] for each in found["annotations"]] == [51, 52, 52]


def test_ids_in_the_objects_themselves_do_not_replace_those_of_coco(tmp_path: Path) -> None:
    own = {"image_id": 7, "category_id": 90, "score": 0.5}
    report, found = to_coco(shards(tmp_path, [{"objects": [OBJECT | own]}] * 2))
    ids = [(each["id"], each["image_id"], each["category_id"]) for each in found["annotations"]]
    assert ids == [(1, 1, 2), (2, 2, 2)]
    assert [each["score"] for each in found["annotations"]] == [0.5, 0.5]
    said = "2 annotations without other attributes called category_id and image_id"
    assert f"{said}, as these are COCO's own" in report.notes


def test_classes_without_names_are_their_numbers(tmp_path: Path) -> None:
    report, found = to_coco(shards(tmp_path, [{"objects": [OBJECT]}, {"objects": []}]))
    assert found["categories"] == [{"id": 1, "name": "0"}, {"id": 2, "name": "1"}]
    assert [note for note in report.notes if "give --classes FILE" in note]
    dsprep.convert(tmp_path / "in", tmp_path / "yolo", to="yolo", workers=1)
    assert (tmp_path / "yolo" / "data.yaml").read_text().endswith('names:\n  0: "0"\n  1: "1"\n')


def test_a_class_number_beyond_all_is_a_reject(tmp_path: Path) -> None:
    told = [{"objects": [OBJECT | {"category": number}]} for number in (0, 1 << 30)]
    report, _ = to_coco(shards(tmp_path, told))
    (reject,) = report.rejects
    assert reject.reason.startswith("has the class 1073741824; give --classes FILE")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"objects": [{"bbo', "the field 'json' is not an object of JSON"),
        ("[1, 2]", "the field 'json' is not an object of JSON"),
        ('{"object": []}', "has 'object' in 'json', which the samples looked at lack"),
    ],
    ids=["cut", "list", "key"],
)
def test_json_that_no_field_would_hold_is_a_reject(tmp_path: Path, text: str, reason: str) -> None:
    source = shards(tmp_path, [{"objects": [OBJECT]}] * 150 + [text])
    report, _ = to_coco(source)
    (reject,) = report.rejects
    assert reject.reason.startswith(reason)


def test_a_look_at_all_finds_other_keys(tmp_path: Path) -> None:
    source = shards(tmp_path, [{"objects": [OBJECT]}] * 150 + [{"caption": "none"}])
    report, _ = to_coco(source, look="all")
    assert (report.samples, report.rejects) == (151, [])
    assert "left out, because coco has no place for it: json" in report.notes


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"drop": ["json"]}, ["image", "objects", "image_id"]),
        ({"only": ["image", "objects"]}, ["image", "objects"]),
        ({"drop": ["objects", "image_id"]}, ["image", "json"]),
    ],
    ids=["json", "only", "objects"],
)
def test_what_is_left_out_of_json_makes_no_rejects(
    tmp_path: Path, options: dict[str, Any], fields: list[str]
) -> None:
    told = [{"image_id": at, "objects": [OBJECT], "caption": "a"} for at in range(2)]
    source = shards(tmp_path, told)
    report = dsprep.convert(source, tmp_path / "out", to="tfrecord", workers=1, **options)
    assert not report.rejects
    assert report.schema
    names = [each["name"] for each in report.schema["fields"]]
    assert [name for name in names if name not in ("width", "height")] == fields

"""Annotations that were made to do harm: each is refused, in little time and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from dsprep.annotations import hugging_face, tensorflow, voc, yolo
from dsprep.annotations.geometry import measured_on
from dsprep.annotations.objects import Object, Objects, rle, to_objects
from dsprep.errors import BadSample
from dsprep.formats.arrow import names_of
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.tfrecord_objects import objects_in
from dsprep.sources.annotated.masks import TableMasks
from dsprep.splits.dealing import how_well
from dsprep.splits.ratios import make_ratios

SIDES = ("bbox/xmin", "bbox/ymin", "bbox/xmax", "bbox/ymax")
# A hundred million million million texts, for whom visits each.
LAUGHS = "".join(
    ["a0: &a0 x\n", *(f"a{n + 1}: &a{n + 1} [{f'*a{n}, ' * 10}]\n" for n in range(20))]
)
LISTS: dict[str, tuple[Any, ...]] = dict.fromkeys(SIDES, (0.5,))
BOX = {"box": [0, 0, 1, 1], "class": 0}


@pytest.mark.parametrize(
    ("parse", "value", "why"),
    [
        (voc.parse, b'<?xml version="1.0" encoding="nonsense"?><annotation/>', "unknown encoding"),
        (yolo.parse_data_yaml, "nc: 900000000000", "not a number of classes"),
        (yolo.parse_data_yaml, 'names: [a, "b]', "line 1: is no YAML: .*quoted scalar"),
        (yolo.parse_data_yaml, "names: [" + " " * 10**6 + '"', "is no YAML: .*quoted scalar"),
        (yolo.parse_data_yaml, "names: [" + " " * 10**6, "is no YAML: .*flow node"),
        (yolo.parse_data_yaml, "a" + " " * 10**6 + "\nnames: [b]", "line 2: is no YAML"),
        (yolo.parse_data_yaml, "a: " + "[" * 10**6, "line 1: more than 32 lists and maps"),
        (yolo.parse_data_yaml, "a: " + "{a: " * 10**5, "line 1: more than 32 lists and maps"),
        (yolo.parse_data_yaml, "- " * 10**5, "line 1: more than 32 lists and maps"),
        (yolo.parse_data_yaml, "a: &a [*a]\nnames: *a", "names has lists or maps in it"),
        (yolo.parse_data_yaml, f"{LAUGHS}names: *a20", "names has lists or maps in it"),
        (yolo.parse_data_yaml, f"{LAUGHS}nc: *a20", "nc has lists or maps in it"),
        (yolo.parse_data_yaml, "%TAG ! tag:\n" * 10**5 + "--- {}", "a %TAG directive"),
        (yolo.parse_data_yaml, "names:\n" + "- a\n" * 10**5, "names has 'a' twice"),
        (yolo.parse_data_yaml, "<<: {names: [a]}", "line 1: merges"),
        (yolo.parse_data_yaml, "a: \x07", "is no YAML: control characters"),
        (yolo.parse, b"2000000000 0.5 0.5 0.1 0.1", "is none of the classes"),
        (rle, {"size": [-2, -2], "counts": [4]}, "has a size of"),
        (rle, {"size": [10**6, 10**6], "counts": [10**12]}, "has a size of"),
        (to_objects, [BOX | {"id": 10**30}], "an id that is none"),
        (to_objects, [BOX | {"class": True}], "no class number"),
        (hugging_face.parse, {"bbox": None, "category": [1]}, "no list bbox"),
        (tensorflow.parse, LISTS | {"class/label": (1.5,)}, "1.5 is no class number"),
        (tensorflow.parse, LISTS | {"area": (float("nan"),)}, "nan is not a number"),
    ],
)  # fmt: skip
def test_refused(parse: Callable[[Any], Any], value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(value)


@pytest.mark.parametrize("pure", [False, True])
def test_tags_and_aliases_of_yaml_are_harmless(
    pure: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if pure:  # as on a machine for which PyYAML was built without libyaml
        monkeypatch.delattr(yaml, "CBaseLoader")
    made = tmp_path / "made"
    tags = f"a: !!python/object/apply:os.mkdir [{made}]\nb: !!timestamp [c]\n"
    told = yolo.parse_data_yaml(f"{tags}{LAUGHS}names: &names [!!int x, &y z]\ntest: *y\n")
    assert (told.names, told.sides) == (("x", "z"), {"test": ["z"]})
    assert not made.exists()


def test_apostrophes_are_no_quotes() -> None:
    names = yolo.parse_data_yaml("names:\n- (a)'s # it's\n- 5\" x 7\"\n- 'it''s # one'\n").names
    assert names == ("(a)'s", '5" x 7"', "it's # one")


@pytest.mark.parametrize("feature", [{"feature": [5]}, {"feature": []}, {"feature": {"names": 1}}])
def test_features_that_are_none(feature: dict[str, Any]) -> None:
    assert names_of(feature) == ()


def test_runs_of_another_size_than_boxes_are_not_resized() -> None:
    runs = rle({"size": [4000, 4000], "counts": [0, 16_000_000]})
    value = Objects((Object((0, 0, 1, 1), 0, rle=runs),), (2, 2))
    assert measured_on(value, (20_000, 20_000)).items[0].rle is runs
    ours = value._replace(extent=(4000, 4000))
    assert measured_on(ours, (2, 2)).items[0].rle == (2, 2, (0, 4))


def test_no_mask_for_an_image_that_says_it_is_huge() -> None:
    size = (60_000).to_bytes(4, "big") * 2
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + b"\x08\0\0\0\0" + bytes(40)
    with pytest.raises(BadSample, match="60,000 x 60,000"):
        TableMasks((((1, "1 5"),),), ("a", "b")).mask(0, png)


def test_the_class_that_is_furthest_from_its_share_is_the_same_each_time() -> None:
    tags = pl.Series("tags", [[0], [1], [2]], dtype=pl.List(pl.Int64))
    ratios = make_ratios({"a": "0.5", "b": "0.5"})
    said = {how_well(tags, pl.Series("side", [0, 0, 0]), ratios, ("x", "y")) for _ in range(9)}
    assert said == {"the largest difference of a class from its share is 0.5 samples (x on a)"}


@pytest.mark.parametrize("mask", [(1,), (b"no image",)])
def test_masks_of_objects_that_are_no_images(mask: tuple[Any, ...]) -> None:
    lists = LISTS | {"mask": mask}
    with pytest.raises(BadSample):
        objects_in({f"image/object/{name}": value for name, value in lists.items()})


def test_objects_without_a_source_id() -> None:
    fields = {f"image/object/{name}": value for name, value in LISTS.items()}
    assert TFRecord().combined(fields).keys() == {"image/object/*"}

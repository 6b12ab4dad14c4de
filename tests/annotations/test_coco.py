"""COCO's annotations of boxes alone are read many at once, as they are read one by one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.annotations.coco import parse, parse_boxes
from dsprep.annotations.objects import Object, Objects, to_json
from dsprep.images.transform import Encoded
from dsprep.moving import make_mover
from dsprep.sample import Sample
from dsprep.schema import Field, Schema

CLASSES = {1: 0, 3: 1, 10**17: 2, "4": 3, 2**80: 4}
PLAIN = '{"id": 7, "image_id": 1, "category_id": 3, "bbox": [0.5, 2, 17.42, 0.0], "area": 99.8}'

# Numbers as files spell them: right ones, and such as JSON, Python or polars take in another way.
ODD = (
    "-1 -0 -0.5 01 1. .5 +1 1e3 1E-7 0.00001 0.000099 00.1 1e400 NaN Infinity null true 2147483648"
)
ODD += ' 999999999999 12345678901234567890 "3" [1] 1_000 0x1 \u0663'
digits = st.text("0123456789", min_size=1, max_size=20)
numbers = (
    st.integers(0, 10**9).map(str)
    | st.floats(0, 2e9).map(repr)
    | st.decimals(0, 5000, places=2).map(str)
    | st.builds("{}.{}".format, st.integers(0, 999), digits)
    | st.sampled_from(ODD.split())
)
ids = st.sampled_from(["1", "3", "7", str(10**17), str(2**80)]) | numbers
boxes = st.lists(numbers, min_size=4, max_size=4) | st.lists(numbers, max_size=5)
pairs = st.one_of(
    st.tuples(st.sampled_from(["id", "image_id", "category_id"]), ids),
    st.tuples(st.just("category_id"), st.sampled_from(["1", "3"])),
    st.tuples(st.just("bbox"), boxes.map(lambda sides: f"[{', '.join(sides)}]")),
    st.tuples(st.sampled_from(["area", "iscrowd", "score"]), numbers),
    st.tuples(st.just("iscrowd"), st.sampled_from(["0", "1", "false", "true"])),
    st.tuples(st.just("segmentation"), st.sampled_from(["[]", "[ ]", "{}", "[[1,2,3,4,5,6]]"])),
)
joints = st.sampled_from([", ", ",", " ,\n\t", ",,", " ", "\u00a0,"])
ends = st.sampled_from(["}"] * 9 + ["", "} ", "}}", ",}", "}\n", "} {"])


@st.composite
def annotations(draw: st.DrawFn) -> str:
    """Texts of annotations, most of which are whole, with keys in any order, and repeated."""
    first = [("category_id", "3"), ("bbox", f"[{', '.join(draw(st.tuples(*[numbers] * 4)))}]")]
    said = draw(st.permutations(first * draw(st.integers(0, 1)) + draw(st.lists(pairs))))
    joint = draw(joints)
    return "{" + joint.join(f'"{key}": {value}' for key, value in said) + draw(ends)


@given(st.lists(annotations(), max_size=20))
def test_boxes_are_what_they_are_one_by_one(texts: list[str]) -> None:
    data = [text.encode() for text in texts]
    read = parse_boxes(pl.Series(texts, dtype=pl.String), [1] * len(texts), CLASSES)
    for text, boxes in zip(data, read, strict=True):
        if boxes is not None:
            objects = Objects(parse([text], CLASSES))
            assert repr(objects.items) == repr((*boxes,))
            assert to_json(Objects(boxes)) == to_json(objects)


def moved(items: Sequence[Object], size: tuple[int, int]) -> tuple[str, Counter[str] | None]:
    """Objects as they are written with an image that stays as it is, and what was counted."""
    move = make_mover(Schema((Field("objects", "objects"),)), None, 10**7)
    assert move is not None
    sample = Sample("a", {"objects": Objects(items, (float(size[0]), float(size[1])))})
    move(sample, b"", Encoded("png", b"", *size), None)
    return to_json(sample.fields["objects"]), sample.effects


box = st.lists(st.sampled_from(["0", "0.5", "4", "31.99", "41", "41.5"]), min_size=4, max_size=4)


@given(st.lists(box, min_size=1), st.sampled_from([(40, 30), (80, 90)]))
def test_boxes_are_counted_as_objects_are(sides: list[list[str]], size: tuple[int, int]) -> None:
    said = [f'{{"category_id": 1, "bbox": [{", ".join(each)}]}}' for each in sides]
    (boxes,) = parse_boxes(pl.Series(said), [len(said)], CLASSES)
    assert boxes is not None
    assert moved(boxes, size) == moved(parse([each.encode() for each in said], CLASSES), size)


@pytest.mark.parametrize(
    ("change", "is_box"),
    [
        ({}, True),
        ({"iscrowd": 0, "segmentation": []}, True),
        ({"area": None}, False),
        ({"iscrowd": 1}, False),
        ({"segmentation": [[1, 2, 3, 4, 5, 6]]}, False),
        ({"note": "a"}, False),
        ({"category_id": 5}, False),
        ({"bbox": [1, 2, 3]}, False),
        ({"bbox": [-1, 2, 3, 4]}, False),
    ],
)
def test_most_annotations_are_boxes_alone(change: dict[str, Any], is_box: bool) -> None:
    values = json.loads(PLAIN) | change
    for text in (json.dumps(values), json.dumps(values, indent=1), json.dumps(values)[::-1]):
        (found,) = parse_boxes(pl.Series([text]), [1], CLASSES)
        assert (found is not None) == (is_box and text[0] == "{")

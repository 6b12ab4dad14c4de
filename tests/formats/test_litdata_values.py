"""Values of litdata: bytes of the real serializers, and hostile ones."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.formats.litdata_values import TreeColumn, columns_of, decoding_of

LONG = (
    struct.pack("<II", 9, 300_000) + b"\xff" * 1_200_000
)  # dimensions whose product takes minutes
LEAF = {"type": None, "context": None, "children_spec": []}


def tree(kind: str, context: Any, *children: Any) -> dict[str, Any]:
    return {"type": kind, "context": context, "children_spec": [*children]}


def spec(root: Any) -> str:
    return json.dumps([1, root])


def test_names_are_the_keys_that_lead_to_a_leaf() -> None:
    inner = tree("collections.OrderedDict", '["b", 3]', LEAF, LEAF)
    boxes = tree("builtins.list", "null", LEAF, LEAF)
    mixed = tree("builtins.tuple", "null", LEAF, LEAF)
    told = {"default_factory_module": "os", "default_factory_name": "system"}
    more = tree("collections.defaultdict", told | {"dict_context": ["d"]}, LEAF)
    root = tree("builtins.dict", '["a", "box", "mixed", "more"]', inner, boxes, mixed, more)
    kinds = ["int", "str", "float", "float", "int", "jpeg", "bytes"]
    assert columns_of(spec(root), kinds) == [
        TreeColumn("a/b", "int", None),
        TreeColumn("a/3", "str", None),
        TreeColumn("box", "float", 2),
        TreeColumn("mixed/0", "int", None),
        TreeColumn("mixed/1", "jpeg", None),
        TreeColumn("more/d", "bytes", None),
    ]


def test_roots_that_are_no_dict() -> None:
    pair = tree("builtins.tuple", "null", LEAF, LEAF)
    assert columns_of(spec(pair), ["int", "int"]) == [
        TreeColumn("0", "int", None),
        TreeColumn("1", "int", None),
    ]
    for value in (spec(LEAF), None):
        assert columns_of(value, ["jpeg"]) == [TreeColumn("0", "jpeg", None)]


@pytest.mark.parametrize(
    "root",
    [
        tree("builtins.dict", '["a", "a"]', LEAF, LEAF),
        tree("builtins.dict", '["a"]', LEAF, LEAF),
        tree("builtins.dict", '["a", "\\ud800"]', LEAF, LEAF),
        tree("builtins.dict", "3", LEAF, LEAF),
        tree("os.system", '["a", "b"]', LEAF, LEAF),
        tree("builtins.tuple", "null", LEAF),
        tree("builtins.tuple", "null", LEAF, LEAF, LEAF),
        {"type": "builtins.list"},
        3,
    ],
)
def test_trees_that_are_none(root: Any) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        columns_of(spec(root), ["int", "int"])


@pytest.mark.parametrize("order", [">", "<"])
def test_tensors_of_new_and_old_versions(order: str) -> None:
    data = struct.pack(f"{order}IIII", 17, 2, 2, 1) + np.array([5, -6]).tobytes()
    assert decoding_of("tensor").decode(data) == (5, -6)
    number = struct.pack(f"{order}II", 0, 0) + np.float32(0.5).tobytes()
    assert decoding_of("tensor").decode(number) == 0.5


def test_arrays() -> None:
    data = struct.pack("<IIII", 9, 2, 1, 2) + np.array([0.5, 2], np.float32).tobytes()
    assert decoding_of("numpy").decode(data) == (0.5, 2)
    for wrong in (data[:-1], data[:9], data + b"x", struct.pack("<II", 14, 0), LONG):
        with pytest.raises((ValueError, struct.error)):
            decoding_of("numpy").decode(wrong)
    assert decoding_of("no_header_numpy:13").decode(b"\1\0") == (1, 0)
    assert decoding_of("no_header_tensor:1").type == "list<float32>"


@pytest.mark.parametrize("name", ["", "x", "no_header_numpy", "no_header_numpy:11", "pickle"])
def test_serializers_that_are_not_read(name: str) -> None:
    with pytest.raises(ValueError, match=r"does not read|is pickled"):
        decoding_of(name)


def test_json_of_older_versions_is_text() -> None:
    assert decoding_of("json").decode(b'{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0b\x0b",
        b"\x01\xff\xff\xff\xff",
        b"\x02\xff\xff\xff\xff",
        struct.pack("<BII", 6, 1 << 31, 0),
        struct.pack("<BI", 5, 1) + struct.pack("<I1s", 1, b"a"),
        b"\x15",
        struct.pack("<BI5s", 5, 1, struct.pack("<I1s", 1, b"a")) * 5000 + b"\x0b",
    ],
)
def test_json_that_is_none(data: bytes) -> None:
    with pytest.raises((ValueError, struct.error, RecursionError)):
        decoding_of("json").decode(data)


@given(
    data=st.binary(max_size=40),
    name=st.sampled_from(
        ["tensor", "numpy", "json", "pil", "jpeg_array", "bool", "str", "no_header_numpy:3"]
    ),
)
def test_any_bytes_are_a_value_or_an_error(data: bytes, name: str) -> None:
    with suppress(ValueError, struct.error, RecursionError):
        decoding_of(name).decode(data)

"""tf.train.Example: bytes compared with those of TensorFlow's protobuf, both ways."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.formats.protobuf import (
    Feature,
    decode_example,
    encode_feature,
    example_head,
    head_of_bytes,
    varint,
    varint_sizes,
)
from dsprep.sample import Blobs, Floats, Ints

properties = settings(max_examples=100, deadline=None)

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


KINDS = {"bytes_list": Blobs, "float_list": Floats, "int64_list": Ints}


def theirs(message: Any) -> dict[str, tuple[type, bytes]]:
    """The features that TensorFlow reads: kinds and values, floats as their bits."""
    found = {}
    for name, feature in message.features.feature.items():
        kind = feature.WhichOneof("kind")
        found[name] = bits(KINDS[kind](getattr(feature, kind).value) if kind else Blobs())
    return found


def ours(features: dict[str, Feature]) -> dict[str, tuple[type, bytes]]:
    return {name: bits(feature) for name, feature in features.items()}


def bits(feature: Feature) -> tuple[type, bytes]:
    if isinstance(feature, Floats):
        return Floats, struct.pack(f"<{len(feature)}f", *feature)
    return type(feature), repr(tuple(feature)).encode()


class TestVarints:
    @properties
    @given(st.integers(0, 2**64 - 1) | st.integers(0, 70).map(lambda power: 2 ** (power % 64)))
    def test_length_and_value(self, number: int) -> None:
        encoded = varint(number)
        assert len(encoded) == varint_sizes(number)
        value = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(encoded))
        assert value == number
        assert [byte >= 0x80 for byte in encoded] == [True] * (len(encoded) - 1) + [False]


# None begins with another: such names are sorted one way by protobuf in C++, and another in Python.
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=4)
floats = st.floats(width=32, allow_nan=False)
int64 = st.integers(-(2**63), 2**63 - 1)
features = st.dictionaries(
    names,
    st.lists(st.binary(max_size=300), max_size=3).map(Blobs)
    | st.lists(floats, max_size=4).map(Floats)
    | st.lists(int64, max_size=4).map(Ints),
    max_size=5,
)


def encode_example(features: dict[str, Feature]) -> bytes:
    body = b"".join(encode_feature(name, features[name]) for name in sorted(features))
    return example_head(len(body)) + body


class TestEncoding:
    @properties
    @given(features)
    def test_is_protobuf_s_deterministic_one(
        self, tensorflow: ModuleType, drawn: dict[str, Feature]
    ) -> None:
        message = tensorflow.train.Example()
        message.features.SetInParent()
        for name, feature in drawn.items():
            (kind,) = (kind for kind, type_ in KINDS.items() if type_ is type(feature))
            values = getattr(message.features.feature[name], kind)
            values.SetInParent()
            values.value.extend(feature)
        assert encode_example(drawn) == message.SerializeToString(deterministic=True)

    @properties
    @given(features)
    def test_decoded_is_what_was_encoded(self, drawn: dict[str, Feature]) -> None:
        assert ours(decode_example(encode_example(drawn))) == ours(drawn)

    @pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_152])
    def test_the_head_of_bytes_stands_before_them(self, size: int) -> None:
        value = bytes(size)
        entry = head_of_bytes("image", size) + value
        assert b"\x0a" + varint(len(entry)) + entry == encode_example({"image": Blobs([value])})


def field(number: int, wire: int, body: bytes) -> bytes:
    length = varint(len(body)) if wire == BYTES else b""
    return varint(number << 3 | wire) + length + body


def fields(
    numbers: st.SearchStrategy[int] | int, wire: int, body: st.SearchStrategy[bytes]
) -> st.SearchStrategy[bytes]:
    numbers = st.just(numbers) if isinstance(numbers, int) else numbers
    return st.builds(field, numbers, st.just(wire), body)


def message(*known: st.SearchStrategy[bytes], first_unknown: int) -> st.SearchStrategy[bytes]:
    """Fields in any number and order, some that the message does not know among them."""
    numbers = st.integers(first_unknown, 99)
    unknown = (
        fields(numbers, VARINT, varints),
        fields(numbers, FIXED64, eight_bytes),
        fields(numbers, FIXED32, st.binary(min_size=4, max_size=4)),
        fields(numbers, BYTES, st.binary(max_size=5)),
        # Its number is known, but with another type.
        fields(st.integers(1, first_unknown), FIXED64, eight_bytes),
    )
    return st.lists(st.one_of(*known, *known, *unknown), max_size=4).map(b"".join)


varints = st.integers(0, 2**64 - 1).map(varint)
float_bytes = floats.map(lambda number: struct.pack("<f", number))
eight_bytes = st.binary(min_size=8, max_size=8)

bytes_lists = message(fields(1, BYTES, st.binary(max_size=9)), first_unknown=2)
float_lists = message(
    fields(1, BYTES, st.lists(float_bytes, max_size=3).map(b"".join)),
    fields(1, FIXED32, float_bytes),
    first_unknown=2,
)
int64_lists = message(
    fields(1, BYTES, st.lists(varints, max_size=3).map(b"".join)),
    fields(1, VARINT, varints),
    first_unknown=2,
)
one_feature = message(
    fields(1, BYTES, bytes_lists),
    fields(2, BYTES, float_lists),
    fields(3, BYTES, int64_lists),
    first_unknown=4,
)
# Nothing unknown here: protobuf in Python drops an entry that holds such, and in C++ does not.
entries = st.lists(
    fields(1, BYTES, st.sampled_from([b"a", b"b", "ü".encode()])) | fields(2, BYTES, one_feature),
    max_size=4,
).map(b"".join)
feature_maps = message(fields(1, BYTES, entries), first_unknown=2)
examples = message(fields(1, BYTES, feature_maps), first_unknown=2)


class TestDecoding:
    @properties
    @given(examples)
    def test_any_encoding_as_tensorflow_does(self, tensorflow: ModuleType, data: bytes) -> None:
        message = tensorflow.train.Example.FromString(data)
        assert ours(decode_example(data)) == theirs(message)

    @properties
    @given(examples, st.data())
    def test_what_tensorflow_refuses_is_refused(
        self, tensorflow: ModuleType, whole: bytes, draw: st.DataObject
    ) -> None:
        at = draw.draw(st.integers(0, len(whole)))
        data = whole[:at] + draw.draw(st.binary(max_size=3)) + whole[at + 1 :]
        try:
            tensorflow.train.Example.FromString(data)
        except DecodeError:
            with pytest.raises(ValueError, match=r"."):
                decode_example(data)

    @properties
    @given(st.binary(max_size=40))
    def test_any_bytes(self, data: bytes) -> None:
        try:
            decode_example(data)
        except ValueError as error:
            assert str(error)

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            ("", {}),
            ("0a00", {}),
            ("0a05 0a03 0a0161", {"a": Blobs()}),
            ("0a07 0a05 0a0161 1200", {"a": Blobs()}),
            ("0a09 0a07 0a0161 1202 1200", {"a": Floats()}),
            ("0a09 0a07 0a0161 1202 1a00", {"a": Ints()}),
            ("0a09 0a07 1202 1a00 0a0161", {"a": Ints()}),
            ("0a0b 0a09 0a0161 1204 1a02 0805", {"a": Ints([5])}),
            ("0a0c 0a0a 0a0161 1205 1a03 0a0105", {"a": Ints([5])}),
            ("0a0d 0a0b 0a0161 1206 1a04 0805 0806", {"a": Ints([5, 6])}),
            ("0a11 0a0f 0a0161 120a 1a02 0805 1a04 0806 0807", {"a": Ints([5, 6, 7])}),
            ("0a13 0a11 0a0161 120c 1206 0a04 0000803f 1a02 0805", {"a": Ints([5])}),
            ("0a15 0a13 0a0161 120e 1a0c 0a0a ffffffffffffffffff01", {"a": Ints([-1])}),
        ],
    )
    def test_what_is_rare(self, data: str, expected: dict[str, Feature]) -> None:
        found = decode_example(bytes.fromhex(data))
        assert found == expected
        assert [type(each) for each in found.values()] == [type(each) for each in expected.values()]

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            ("0a", "a varint that does not end"),
            ("0a05", "longer than the message"),
            ("0affffffffffffffffff01", "longer than the message"),
            ("0a" + "ff" * 11, "a varint that does not end"),
            ("0200", "has no number"),
            ("0000", "has no number"),
            ("8080808010 00", "has no number"),
            ("0b0c", "wire type 3"),
            ("0a0b 0a09 0a0161 1204 1202 0a03", "longer than the message"),
            ("0a0f 0a0d 0a0161 1208 1206 0a04 0000", "longer than the message"),
            ("0a0e 0a0c 0a0161 1207 1205 0a03 000000", "multiple of 4"),
            ("0a05 0a03 0a01ff", "utf-8"),
        ],
    )
    def test_what_is_wrong(self, data: str, problem: str, tensorflow: ModuleType) -> None:
        with pytest.raises(ValueError, match=problem):
            decode_example(bytes.fromhex(data))

"""``tf.train.Example`` as bytes: the canonical encoding, and a strict reader of any encoding.

The message is ``Example{1: Features{1: map<string, Feature>}}`` with ``Feature`` one of
``1: BytesList``, ``2: FloatList``, ``3: Int64List`` (tensorflow/core/example/example.proto,
feature.proto). The canonical bytes are those of protobuf's deterministic serialization: entries
sorted by name, lists packed. They are laid out here rather than by protobuf because that takes
several times as long as reading the image does.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeAlias

from dsprep.formats.wire import BYTES, FIXED32, VARINT, read_varint, read_varints, varint
from dsprep.formats.wire import fields as fields_of
from dsprep.sample import Blobs, Floats, Ints

BytesList: TypeAlias = Blobs
FloatList: TypeAlias = Floats
Int64List: TypeAlias = Ints
Feature: TypeAlias = BytesList | FloatList | Int64List


def example_head(size: int) -> bytes:
    """What stands before the features of an Example: the head of the message that holds them."""
    return b"\x0a" + varint(size)


def encode_entry(name: str, feature: Feature) -> bytes:
    """Encode a feature with its name, as an entry of the map that the features are."""
    value = _encode_feature(feature)
    body = _key(name) + b"\x12" + varint(len(value)) + value
    return b"\x0a" + varint(len(body)) + body


@lru_cache(maxsize=4096)
def head_of_bytes(name: str, size: int) -> bytes:
    """All of the entry of a single bytes value but the value itself, with which it ends."""
    key = _key(name)
    item = varint(size)
    size += len(item) + 1
    items = varint(size)
    size += len(items) + 1
    feature = varint(size)
    size += len(feature) + 1 + len(key)
    return b"".join((b"\x0a", varint(size), key, b"\x12", feature, b"\x0a", items, b"\x0a", item))


@lru_cache(maxsize=256)
def _key(name: str) -> bytes:
    encoded = name.encode()
    return b"\x0a" + varint(len(encoded)) + encoded


def _encode_feature(feature: Feature) -> bytes:
    if isinstance(feature, BytesList):
        body = b"".join(b"\x0a" + varint(len(each)) + each for each in feature)
        return b"\x0a" + varint(len(body)) + body
    if isinstance(feature, FloatList):
        packed, tag = struct.pack(f"<{len(feature)}f", *feature), b"\x12"
    else:
        # A negative number is the ten-byte varint of its two's complement.
        packed, tag = b"".join(varint(each & (1 << 64) - 1) for each in feature), b"\x1a"
    body = b"\x0a" + varint(len(packed)) + packed if packed else b""
    return tag + varint(len(body)) + body


def decode_example(data: bytes) -> dict[str, Feature]:
    """Decode an Example in any encoding that protobuf's own parser takes."""
    with suppress(IndexError, ValueError):
        plain = _plain_features(data)
        if plain is not None:
            return plain
    features: dict[str, Feature] = {}
    for number, wire, value in fields_of(data):
        if number != 1 or wire != BYTES:
            continue
        for inner, inner_wire, entry in fields_of(_as_bytes(value)):
            if inner == 1 and inner_wire == BYTES:
                name, feature = _decode_entry(_as_bytes(entry))
                features[name] = feature
    return features


_SHORT = 64
"""Bytes of an entry that many samples may share: a class, a format."""


def _plain_features(data: bytes) -> dict[str, Feature] | None:
    """The features of an Example that is nothing but those; None if it is more, or none."""
    features: dict[str, Feature] = {}
    size, at = read_varint(data, 1)
    end = len(data)
    if data[0] != 0x0A or at + size != end:
        return None
    while at < end:
        if data[at] != 0x0A:
            return None
        size, start = data[at + 1], at + 2
        if size >= 0x80:
            size, start = read_varint(data, at + 1)
        at = start + size
        short = size < _SHORT
        name, feature = _known_entry(data[start:at]) if short else _plain_entry(data, start, at)
        features[name] = feature
    return features if at == end else None


@lru_cache(maxsize=4096)
def _known_entry(entry: bytes) -> tuple[str, Feature]:
    return _plain_entry(entry, 0, len(entry))


def _plain_entry(data: bytes, start: int, stop: int) -> tuple[str, Feature]:
    """An entry as all writers lay it out that holds one string of bytes; else any entry."""
    at = start + 2 + data[start + 1]
    if data[start] != 0x0A or data[start + 1] >= 0x80 or at > stop:
        return _decode_entry(data[start:stop])
    name = data[start + 2 : at]
    for tag in (0x12, 0x0A, 0x0A):  # the feature, its list, the only item: all reach to the end
        if at >= stop or data[at] != tag:
            return _decode_entry(data[start:stop])
        size, at = data[at + 1], at + 2
        if size >= 0x80:
            size, at = read_varint(data, at - 1)
        if at + size != stop:
            return _decode_entry(data[start:stop])
    return name.decode(), BytesList((data[at:stop],))


def _decode_entry(data: bytes) -> tuple[str, Feature]:
    name = ""
    kind: type[Feature] = BytesList
    values: list[Any] = []
    for number, wire, value in fields_of(data):
        if wire != BYTES:
            continue
        if number == 1:
            name = _as_bytes(value).decode()
        elif number == 2:
            kind = _add_values(_as_bytes(value), kind, values)
    return name, kind(values)


def _add_values(data: bytes, kind: type[Feature], values: list[Any]) -> type[Feature]:
    """Add the values of a feature to those of its kind that came before it; returns its kind."""
    for number, wire, value in fields_of(data):
        if wire != BYTES or number not in (1, 2, 3):
            continue
        # A list given in two parts is one list; one of another kind replaces it.
        before, kind = kind, (BytesList, FloatList, Int64List)[number - 1]
        if kind is not before:
            values.clear()
        values += _values(kind, _as_bytes(value))
    return kind


def _values(kind: type[Feature], data: bytes) -> Iterator[bytes | float | int]:
    for number, wire, value in fields_of(data):
        if number != 1:
            continue
        if kind is BytesList and wire == BYTES:
            yield _as_bytes(value)
        elif kind is FloatList and wire == FIXED32:
            yield struct.unpack("<f", _as_bytes(value))[0]
        elif kind is FloatList and wire == BYTES:
            packed = _as_bytes(value)
            if len(packed) % 4:
                raise ValueError("a list of floats whose length is not a multiple of 4")
            yield from struct.unpack(f"<{len(packed) // 4}f", packed)
        elif kind is Int64List and wire == VARINT and isinstance(value, int):
            yield _signed(value)
        elif kind is Int64List and wire == BYTES:
            yield from map(_signed, read_varints(_as_bytes(value)))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _as_bytes(value: bytes | int) -> bytes:
    assert isinstance(value, bytes)
    return value

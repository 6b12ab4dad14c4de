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

from dsprep.formats.wire import (
    BYTES,
    FIXED32,
    VARINT,
    framed,
    read_varint,
    read_varints,
    strings,
    varint,
    varints,
)
from dsprep.formats.wire import fields as fields_of
from dsprep.sample import Blobs, Floats, Ints

Feature: TypeAlias = Blobs | Floats | Ints

_SHORT = 64
"""Bytes of an entry that many samples may share: a class, a format."""


def example_head(size: int) -> bytes:
    """Encode what precedes the features of an Example."""
    return b"\x0a" + varint(size)


def encode_entry(name: str, feature: Feature) -> bytes:
    """Encode a feature with its name, as an entry of the map of features."""
    return framed(b"\x0a", _key(name) + framed(b"\x12", _encode_feature(feature)))


@lru_cache(maxsize=4096)
def head_of_bytes(name: str, size: int) -> bytes:
    """Encode the entry of a single bytes value up to the value itself, with which it ends."""
    head = b""
    for tag in (b"\x0a", b"\x0a", b"\x12"):
        head = tag + varint(size + len(head)) + head
    head = _key(name) + head
    return b"\x0a" + varint(size + len(head)) + head


@lru_cache(maxsize=256)
def _key(name: str) -> bytes:
    return framed(b"\x0a", name.encode())


def _encode_feature(feature: Feature) -> bytes:
    if isinstance(feature, Blobs):
        return framed(b"\x0a", b"".join([framed(b"\x0a", each) for each in feature]))
    if isinstance(feature, Floats):
        packed, tag = struct.pack(f"<{len(feature)}f", *feature), b"\x12"
    else:
        packed, tag = varints(feature), b"\x1a"
    return framed(tag, framed(b"\x0a", packed) if packed else b"")


def decode_example(data: bytes) -> dict[str, Feature]:
    """Decode an Example in any encoding that protobuf's own parser takes."""
    with suppress(IndexError, ValueError):
        plain = _plain_features(data)
        if plain is not None:
            return plain
    return dict(
        _decode_entry(entry)
        for number, features in strings(data)
        if number == 1
        for inner, entry in strings(features)
        if inner == 1
    )


def _plain_features(data: bytes) -> dict[str, Feature] | None:
    """Decode an Example that is nothing but its features; None if it is more, or has none."""
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
    """Decode an entry of one byte string as all writers lay it out; else any entry."""
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
    return name.decode(), Blobs((data[at:stop],))


def _decode_entry(data: bytes) -> tuple[str, Feature]:
    name = ""
    kind: type[Feature] = Blobs
    values: list[Any] = []
    for number, value in strings(data):
        if number == 1:
            name = value.decode()
        for inner, items in strings(value) if number == 2 else ():
            if inner not in (1, 2, 3):
                continue
            # A list given in two parts is one list; one of another kind replaces it.
            before, kind = kind, (Blobs, Floats, Ints)[inner - 1]
            if kind is not before:
                values.clear()
            values += _values(kind, items)
    return name, kind(values)


def _values(kind: type[Feature], data: bytes) -> Iterator[bytes | float | int]:
    for number, wire, value in fields_of(data):
        if number != 1:
            continue
        if isinstance(value, int):
            if kind is Ints and wire == VARINT:
                yield _signed(value)
        elif kind is Blobs and wire == BYTES:
            yield value
        elif kind is Floats and wire in (BYTES, FIXED32):
            if len(value) % 4:
                raise ValueError("a list of floats whose length is not a multiple of 4")
            yield from struct.unpack(f"<{len(value) // 4}f", value)
        elif kind is Ints and wire == BYTES:
            yield from map(_signed, read_varints(value))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value

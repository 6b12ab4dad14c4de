"""Protobuf's wire format, messages that are maps of lists, and ``tf.train.Example``, which is one.

https://protobuf.dev/programming-guides/encoding/. Messages are written as protobuf's deterministic
serialization has them: entries sorted by key, lists packed. They are laid out here rather than by
protobuf because that takes several times as long as reading the image does. The bytes that are read
are not trusted: nothing is read past their end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.sample import Blobs, Floats, Ints

if TYPE_CHECKING:
    import polars as pl

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # the wire types; groups, 3 and 4, are out of use
_FIXED = {"f": FIXED32, "d": FIXED64}
_BITS = {"i": 32, "q": 64, "Q": 0}

Wired: TypeAlias = tuple[int, int, bytes | int]  # the number of a field, its wire type, its value


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SHORT_VARINTS = [_varint(number) for number in range(1 << 12)]


def varint(number: int) -> bytes:
    """Encode an unsigned integer: seven bits a byte, the lowest first."""
    return _SHORT_VARINTS[number] if number < 1 << 12 else _varint(number)


def framed(tag: bytes, data: bytes) -> bytes:
    """Encode a field that holds bytes, text, a message or a packed list."""
    return tag + varint(len(data)) + data


def packed(numbers: Sequence[Any], code: str) -> bytes:
    """Encode a packed list of numbers; a negative integer is its two's complement of 64 bits."""
    if code in _FIXED:
        return struct.pack(f"<{len(numbers)}{code}", *numbers)
    return b"".join([varint(number & (1 << 64) - 1) for number in numbers])


def fields(data: bytes) -> Iterator[Wired]:
    """Decode the fields of a message."""
    at, end = 0, len(data)
    while at < end:
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ValueError("a field that has no number")
        if wire == VARINT:
            value, at = read_varint(data, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, at = read_varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}, which no field has")
        if size > end - at:
            raise ValueError("a field that is longer than the message")
        yield number, wire, data[at : at + size]
        at += size


def strings(data: Iterable[Wired]) -> Iterator[tuple[int, bytes]]:
    """Choose the fields of a message that hold bytes, text, messages or packed lists."""
    for number, wire, value in data:
        if wire == BYTES and isinstance(value, bytes):
            yield number, value


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode an unsigned 64-bit number."""
    value = shift = 0
    try:
        while (byte := data[position]) >= 0x80 and shift < 63:
            value |= (byte & 0x7F) << shift
            shift += 7
            position += 1
    except IndexError:
        byte = 0x80
    if byte >= 0x80:
        raise ValueError("a varint that does not end")
    return (value | byte << shift) & (1 << 64) - 1, position + 1


def numbers_of(message: Iterable[Wired], field: int, code: str) -> list[Any]:
    """Decode a list of numbers, packed or not, whose type is a code of :mod:`struct`."""
    found: list[Any] = []
    for number, wire, value in message:
        if number != field:
            continue
        if isinstance(value, int):
            found += [value] * (code in _BITS)
        elif wire == _FIXED.get(code) or (wire == BYTES and code in _FIXED):
            width = struct.calcsize(code)
            if len(value) % width:
                raise ValueError(f"a list of floats whose length is not a multiple of {width}")
            found += struct.unpack(f"<{len(value) // width}{code}", value)
        elif wire == BYTES:
            at = 0
            while at < len(value):
                item, at = read_varint(value, at)
                found.append(item)
    if bits := _BITS.get(code):  # protobuf ignores the upper bits of a number that is too large
        half = 1 << bits - 1
        found = [(each + half & (1 << bits) - 1) - half for each in found]
    return found


# Maps: of texts to messages that are one of several, each in a field of its own


def encode_entry(key: str, message: bytes, tag: bytes = b"\x0a") -> bytes:
    """Encode an entry of a map."""
    return framed(tag, _key(key) + framed(b"\x12", message))


@lru_cache(maxsize=4096)
def head_of_bytes(key: str, size: int, tag: bytes = b"\x0a") -> bytes:
    """Encode an entry that is a list of one byte string, up to that string, with which it ends."""
    head = b""
    for outer in (b"\x0a", tag, b"\x12"):
        head = outer + varint(size + len(head)) + head
    head = _key(key) + head
    return b"\x0a" + varint(size + len(head)) + head


@lru_cache(maxsize=256)
def _key(key: str) -> bytes:
    return framed(b"\x0a", key.encode())


Decoders: TypeAlias = Mapping[int, Callable[[list[Wired]], Any]]
"""Makes values of messages, by the number of the field that they are in; 0 if there is none."""


def decode_entry(data: bytes, decoders: Decoders) -> tuple[str, Any]:
    """Decode an entry of a map."""
    key, kind, found = "", 0, list[Wired]()
    for number, value in strings(fields(data)):
        if number == 1:
            key = value.decode()
        for inner, part in strings(fields(value)) if number == 2 else ():
            if inner not in decoders:
                continue
            # A message given in two parts is one message; one of another kind replaces it.
            if inner != kind:
                decoders[kind](found)  # decoding refuses a damaged value
                kind, found = inner, []
            found += fields(part)
    return key, decoders[kind](found)


def plain_entry(
    data: bytes,
    start: int,
    stop: int,
    decoders: Decoders,
    tags: tuple[int, int, int] = (0x12, 0x0A, 0x0A),
) -> tuple[str, Any]:
    """Decode an entry of one byte string as all writers lay it out; else any entry."""
    at = start + 2 + data[start + 1]
    if data[start] != 0x0A or data[start + 1] >= 0x80:
        return decode_entry(data[start:stop], decoders)
    name = data[start + 2 : at]
    for tag in tags:  # the value, its list and the only item all reach to the end of the data
        if at + 1 >= stop or data[at] != tag:
            return decode_entry(data[start:stop], decoders)
        size, at = data[at + 1], at + 2
        if size >= 0x80:
            size, at = read_varint(data, at - 1)
        if at + size != stop:
            return decode_entry(data[start:stop], decoders)
    return name.decode(), Blobs((data[at:stop],))


# tf.train.Example{1: Features{1: map<string, Feature>}}; Feature is one of {1: BytesList,
# 2: FloatList, 3: Int64List}; a list is {1: values} (tensorflow/core/example/feature.proto).

Feature: TypeAlias = Blobs | Floats | Ints


def _blobs(message: list[Wired]) -> Blobs:
    return Blobs(value for number, value in strings(message) if number == 1)


_FEATURES: Decoders = {
    0: _blobs,
    1: _blobs,
    2: lambda message: Floats(numbers_of(message, 1, "f")),
    3: lambda message: Ints(numbers_of(message, 1, "q")),
}


def example_head(size: int) -> bytes:
    """Encode what precedes the features of an Example."""
    return b"\x0a" + varint(size)


def encode_feature(name: str, feature: Feature) -> bytes:
    """Encode a feature with its name, as an entry of the map of features."""
    if isinstance(feature, Blobs):
        message = framed(b"\x0a", b"".join([framed(b"\x0a", each) for each in feature]))
    else:
        tag, code = (b"\x12", "f") if isinstance(feature, Floats) else (b"\x1a", "q")
        message = framed(tag, framed(b"\x0a", packed(feature, code)) if feature else b"")
    return encode_entry(name, message)


def decode_example(data: bytes) -> dict[str, Any]:
    """Decode an Example in any encoding that protobuf's own parser takes."""
    try:
        plain = _plain_features(data)
    except (IndexError, ValueError):
        plain = None
    if plain is not None:
        return plain
    return dict(
        decode_entry(entry, _FEATURES)
        for number, features in strings(fields(data))
        if number == 1
        for inner, entry in strings(fields(features))
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
        if size < 64:  # short values such as a class or a format repeat in many samples: keep them
            name, feature = _known_entry(data[start:at])
        else:
            name, feature = plain_entry(data, start, at, _FEATURES)
        features[name] = feature
    return features if at == end else None


@lru_cache(maxsize=4096)
def _known_entry(entry: bytes) -> tuple[str, Feature]:
    return plain_entry(entry, 0, len(entry), _FEATURES)


# Sizes, for planning: of whole columns, or one that all rows share.

Sizes: TypeAlias = "pl.Series | int"


def varint_sizes(number: Sizes) -> Sizes:
    """The bytes of numbers as varints; a negative one takes ten."""
    if isinstance(number, int):
        return max(1, (number.bit_length() + 6) // 7)
    largest = int(number.cast(float).max() or 0)  # type: ignore[arg-type]
    total = number * 0 + 1 + (number < 0).cast(int) * 9
    for bits in range(7, min(largest.bit_length(), 62) + 1, 7):
        total += (number >= (1 << bits)).cast(int)
    return total


def framed_sizes(size: Sizes, times: int = 1) -> Sizes:
    """The bytes of a content in ``times`` frames, each a tag of one byte and a length before it."""
    for _ in range(times):
        size = size + 1 + varint_sizes(size)
    return size


def entry_sizes(key: str, size: Sizes) -> Sizes:
    """The bytes of an entry of a map, whose value is a list in a message in the entry's."""
    return framed_sizes(framed_sizes(size, 2) + framed_sizes(len(key.encode())))

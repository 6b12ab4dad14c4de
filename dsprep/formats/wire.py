"""Protobuf's wire format: what all its messages are made of.

https://protobuf.dev/programming-guides/encoding/. The bytes that are read are not trusted: nothing
is read past their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import polars as pl

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The wire types: groups, which are 3 and 4, are long out of use."""


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


def varints(numbers: Iterable[int]) -> bytes:
    """Encode a packed list of integers; a negative one is its two's complement of 64 bits."""
    return b"".join([varint(number & (1 << 64) - 1) for number in numbers])


def framed(tag: bytes, data: bytes) -> bytes:
    """A field that holds bytes, text, a message or a packed list."""
    return tag + varint(len(data)) + data


def fields(data: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """Read the fields of a message."""
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


def strings(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Read the fields of a message that hold bytes, text, messages or packed lists."""
    for number, wire, value in fields(data):
        if wire == BYTES and isinstance(value, bytes):
            yield number, value


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned 64-bit number."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a varint that does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7


def read_varints(data: bytes) -> Iterator[int]:
    """Read a packed list of varints."""
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        yield value


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


def framed_sizes(size: Sizes) -> Sizes:
    """The bytes of a tag of one byte, a length, and what it measures."""
    return size + 1 + varint_sizes(size)


def text_sizes(column: pl.Series) -> pl.Series:
    """The bytes of texts."""
    return column.str.len_bytes().cast(int).fill_null(0)

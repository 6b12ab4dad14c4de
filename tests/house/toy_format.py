"""A format that `test_recipes.py` adds as CONTRIBUTING.md tells: length, checksum, entries."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Self
from zlib import crc32

from dsprep.errors import BadSample
from dsprep.formats.base import Entry, Format, claim
from dsprep.sample import Ints, Sample, Value, key_expr
from dsprep.schema import IMAGE, LABEL, Meaning, Schema

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_HEAD = struct.Struct("<II")  # bytes of the entries, and their checksum
_ENTRY = struct.Struct("<cII")  # the type of the value; bytes of its name and of itself


class Toy(Format):
    """Samples of entries; the first one has no name and holds the key."""

    name: ClassVar[str] = "toy"
    suffix: ClassVar[str] = ".toy"
    meanings: ClassVar[dict[str, Meaning]] = {
        "image": Meaning("image", "image", IMAGE),
        "label": Meaning("label", None, LABEL),
    }

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        used: dict[str, str] = {}
        for each in schema.fields:
            claim(used, each.name, each, "entry")
        return self.laid_out(
            schema, [replace(each, places=((each.name,),)) for each in schema.fields]
        ), []

    def encode(self, sample: Sample) -> list[bytes]:
        named = {"": sample.key} | sample.fields
        data = b"".join(_entry(name.encode(), value) for name, value in named.items())
        return [_HEAD.pack(len(data), crc32(data)), data]

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        key = rows.select(key_expr().str.len_bytes().cast(int)).to_series()
        total = _HEAD.size + 2 * _ENTRY.size + key + len("image") + rows["image"]
        if "cls" in rows.columns or "label" in rows.columns:
            count = rows["label"].list.len().cast(int) if "label" in rows.columns else 1
            total += _ENTRY.size + len("label") + 8 * count
        return total

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        while not stream.at_end():
            offset = stream.offset
            size, checksum = _HEAD.unpack(stream.read(_HEAD.size, "a head"))
            data = stream.read(size, "the entries")
            if crc32(data) != checksum:
                raise stream.damaged("the checksum is wrong", offset)
            try:
                fields = _decode(data)
            except (struct.error, ValueError) as error:
                raise stream.damaged(f"the entries are damaged: {error}", offset) from None
            yield Entry(offset, stream.offset - offset, Sample(fields.pop("", ""), fields))


def _entry(name: bytes, value: Value) -> bytes:
    if isinstance(value, bytes | str):
        kind, data = b"b", value if isinstance(value, bytes) else value.encode()
        kind = b"b" if isinstance(value, bytes) else b"s"
    else:
        numbers = value if isinstance(value, tuple) else (value,)
        whole = all(isinstance(each, int) for each in numbers)
        kind, code = (b"i", "q") if whole else (b"f", "d")
        try:
            data = struct.pack(f"<{len(numbers)}{code}", *numbers)
        except struct.error as error:
            raise BadSample(f"{value!r:.60} is no number of 64 bits: {error}") from None
    return _ENTRY.pack(kind, len(name), len(data)) + name + data


def _decode(data: bytes) -> dict[str, Value]:
    fields: dict[str, Value] = {}
    at = 0
    while at < len(data):
        kind, name_size, size = _ENTRY.unpack_from(data, at)
        start = at + _ENTRY.size + name_size
        name, value = data[at + _ENTRY.size : start].decode(), data[start : start + size]
        at = start + size
        if at > len(data):
            raise ValueError("an entry is cut off")
        if kind in b"if":
            numbers = struct.unpack(f"<{size // 8}{'q' if kind == b'i' else 'd'}", value)
            fields[name] = Ints(numbers) if kind == b"i" else numbers
        else:
            fields[name] = value if kind == b"b" else value.decode()
    return fields

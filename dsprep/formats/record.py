"""SageMaker's ``Record`` message as bytes: the canonical encoding, and a reader of any encoding.

From ``sagemaker/amazon/record.proto`` of the SageMaker Python SDK, 2.257.7::

    Record  {1: map<string, Value> features, 2: map<string, Value> label,
             3: string uid, 4: string metadata, 5: string configuration}
    Value   one of {2: Float32Tensor, 3: Float64Tensor, 7: Int32Tensor, 9: Bytes}
    Tensor  {1: values, packed; 2: uint64 keys, packed; 3: uint64 shape, packed}
    Bytes   {1: repeated bytes value, 2: string content_type}

A tensor that has keys is sparse: they are where its values stand. The canonical bytes are those of
protobuf's deterministic serialization: entries sorted by key, lists packed.

==============================  ================================================================
entry                           raw value
==============================  ================================================================
Float32Tensor, Int32Tensor      `Floats`, `Ints`
Float64Tensor                   a tuple of floats, or a float if it is one
Bytes                           `Blobs`; `TypedBlobs` if they have a content type
a tensor with keys or a shape   ``{"type": "float32", "values": …, "keys": …, "shape": …}``
an entry that holds nothing     None
==============================  ================================================================
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dsprep.formats.wire import BYTES, FIXED32, FIXED64, framed, read_varints, varint
from dsprep.formats.wire import fields as fields_of
from dsprep.sample import Blobs, Floats, Ints, Value

_INT32 = range(-(1 << 31), 1 << 31)
_TENSORS = {2: "float32", 3: "float64", 7: "int32"}
_NUMBERS = {kind: number for number, kind in _TENSORS.items()}
_PACKED = {"float32": ("f", FIXED32), "float64": ("d", FIXED64)}
_BYTES = 9


class TypedBlobs(Blobs):
    """Byte strings that say what they are."""

    content_type = ""


@dataclass
class Record:
    """One training example of SageMaker's built-in algorithms."""

    features: dict[str, Value] = field(default_factory=dict)
    label: dict[str, Value] = field(default_factory=dict)
    uid: str = ""
    metadata: str = ""
    configuration: str = ""


def encode_value(value: Value) -> bytes:
    """Return the canonical bytes of a Value message."""
    if value is None:
        return b""
    if isinstance(value, Blobs):
        body = b"".join(framed(b"\x0a", each) for each in value)
        if content_type := getattr(value, "content_type", ""):
            body += framed(b"\x12", content_type.encode())
        return framed(_tag(_BYTES), body)
    if isinstance(value, dict):
        kind, values = value["type"], value["values"]
        lists = (_packed(kind, values), _varints(value["keys"]), _varints(value["shape"]))
    else:
        kind = "int32" if isinstance(value, Ints) else "float64"
        kind = "float32" if isinstance(value, Floats) else kind
        lists = (_packed(kind, value if isinstance(value, tuple) else (value,)), b"", b"")
    tags = (b"\x0a", b"\x12", b"\x1a")
    body = b"".join(framed(tag, each) for tag, each in zip(tags, lists, strict=True) if each)
    return framed(_tag(_NUMBERS[kind]), body)


def _tag(number: int) -> bytes:
    return bytes((number << 3 | BYTES,))


def _packed(kind: str, values: tuple[Any, ...]) -> bytes:
    if kind in _PACKED:
        return struct.pack(f"<{len(values)}{_PACKED[kind][0]}", *values)
    for value in values:
        if value not in _INT32:
            raise OverflowError(value)
    return _varints(values)


def _varints(values: tuple[int, ...] | list[int]) -> bytes:
    # A negative number is the ten-byte varint of its two's complement.
    return b"".join(varint(each & (1 << 64) - 1) for each in values)


def encode_entries(number: int, entries: Mapping[str, Value]) -> bytes:
    """Return the bytes of a map: ``number`` is 1 for the features, 2 for the labels."""
    return b"".join(_entry(number, key, entries[key]) for key in sorted(entries))


def _entry(number: int, key: str, value: Value) -> bytes:
    body = framed(b"\x0a", key.encode()) + framed(b"\x12", encode_value(value))
    return framed(_tag(number), body)


def head_of_bytes(key: str, size: int) -> bytes:
    """Return the bytes that precede a single byte string in its feature entry."""
    head = b""
    for tag in (b"\x0a", b"\x4a", b"\x12"):
        head = tag + varint(size + len(head)) + head
    head = framed(b"\x0a", key.encode()) + head
    return b"\x0a" + varint(size + len(head)) + head


def encode_texts(record: Record) -> bytes:
    """Return the bytes of uid, metadata and configuration, which come last."""
    texts = zip(
        (b"\x1a", b"\x22", b"\x2a"),
        (record.uid, record.metadata, record.configuration),
        strict=True,
    )
    return b"".join(framed(tag, text.encode()) for tag, text in texts if text)


def decode_record(data: bytes) -> Record:
    """Decode a Record in any encoding that protobuf's own parser takes."""
    record = Record()
    for number, wire, value in fields_of(data):
        if wire != BYTES or not isinstance(value, bytes):
            continue
        if number in (1, 2):
            key, held = _decode_entry(value)
            (record.features if number == 1 else record.label)[key] = held
        elif number == 3:
            record.uid = value.decode()
        elif number == 4:
            record.metadata = value.decode()
        elif number == 5:
            record.configuration = value.decode()
    return record


def _decode_entry(data: bytes) -> tuple[str, Value]:
    key = ""
    held: list[bytes] = []
    for number, wire, value in fields_of(data):
        if wire == BYTES and isinstance(value, bytes):
            if number == 1:
                key = value.decode()
            elif number == 2:
                held.append(value)
    # A message that is given in two parts is their concatenation.
    return key, decode_value(b"".join(held))


def decode_value(data: bytes) -> Value:
    """Decode a Value in any encoding."""
    kind, parts = 0, list[bytes]()
    for number, wire, value in fields_of(data):
        if wire == BYTES and isinstance(value, bytes) and number in (*_TENSORS, _BYTES):
            if number != kind:  # of several kinds, the last one counts
                kind, parts = number, []
            parts.append(value)
    if kind == 0:
        return None
    message = b"".join(parts)
    return _decode_bytes(message) if kind == _BYTES else _decode_tensor(_TENSORS[kind], message)


def _decode_bytes(data: bytes) -> Blobs:
    values, content_type = [], ""
    for number, wire, value in fields_of(data):
        if wire == BYTES and isinstance(value, bytes):
            if number == 1:
                values.append(value)
            elif number == 2:
                content_type = value.decode()
    if not content_type:
        return Blobs(values)
    typed = TypedBlobs(values)
    typed.content_type = content_type
    return typed


def _decode_tensor(kind: str, data: bytes) -> Value:
    values: list[Any] = []
    lists: dict[int, list[int]] = {2: [], 3: []}
    for number, wire, value in fields_of(data):
        if number == 1 and kind == "int32":
            values += map(_signed32, _listed(wire, value))
        elif number == 1 and isinstance(value, bytes):
            code, single = _PACKED[kind]
            width = struct.calcsize(code)
            if wire == BYTES and len(value) % width:
                raise ValueError(f"a list of floats whose length is not a multiple of {width}")
            if wire in (BYTES, single):
                values += struct.unpack(f"<{len(value) // width}{code}", value)
        elif number in lists:
            lists[number] += _listed(wire, value)
    if lists[2] or lists[3]:
        return {"type": kind, "values": values, "keys": lists[2], "shape": lists[3]}
    if kind == "float64":
        return values[0] if len(values) == 1 else tuple(values)
    return Ints(values) if kind == "int32" else Floats(values)


def _listed(wire: int, value: bytes | int) -> Iterator[int]:
    """Return the numbers of a list of varints, packed or not."""
    if isinstance(value, int):
        yield value
    elif wire == BYTES:
        yield from read_varints(value)


def _signed32(value: int) -> int:
    """Return a varint as an int32: of more bits, the upper ones do not count."""
    value &= (1 << 32) - 1
    return value - (1 << 32) if value >> 31 else value

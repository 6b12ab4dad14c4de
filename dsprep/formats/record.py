"""SageMaker's ``Record`` message as bytes: the canonical encoding, and a reader of any encoding.

From ``sagemaker/amazon/record.proto`` of the SageMaker Python SDK, 2.257.7::

    Record  {1: map<string, Value> features, 2: map<string, Value> label,
             3: string uid, 4: string metadata, 5: string configuration}
    Value   one of {2: Float32Tensor, 3: Float64Tensor, 7: Int32Tensor, 9: Bytes}
    Tensor  {1: values, packed; 2: uint64 keys, packed; 3: uint64 shape, packed}
    Bytes   {1: repeated bytes value, 2: string content_type}

A tensor that has keys is sparse: they are where its values stand. The canonical bytes are those of
protobuf's deterministic serialization: entries sorted by key, lists packed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from dsprep.formats.wire import BYTES, FIXED32, FIXED64, framed, read_varints, varint
from dsprep.formats.wire import fields as fields_of

_INT32 = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True)
class Tensor:
    """Numbers.

    Attributes:
        packed: The values: little-endian floats, or varints.
        keys: Where they stand, if that is not one after another.
        shape: How long each dimension is, if that is told.
    """

    number: ClassVar[int]
    packed: bytes
    keys: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()

    def numbers(self) -> tuple[float, ...] | tuple[int, ...]:
        """The values."""
        raise NotImplementedError


class Float32Tensor(Tensor):
    """32-bit floats."""

    number: ClassVar[int] = 2

    def numbers(self) -> tuple[float, ...]:
        """The values."""
        return struct.unpack(f"<{len(self.packed) // 4}f", self.packed)


class Float64Tensor(Tensor):
    """64-bit floats."""

    number: ClassVar[int] = 3

    def numbers(self) -> tuple[float, ...]:
        """The values."""
        return struct.unpack(f"<{len(self.packed) // 8}d", self.packed)


class Int32Tensor(Tensor):
    """Signed 32-bit integers."""

    number: ClassVar[int] = 7

    def numbers(self) -> tuple[int, ...]:
        """The values."""
        return tuple(_signed32(value) for value in read_varints(self.packed))


@dataclass(frozen=True)
class Bytes:
    """Byte strings.

    Attributes:
        values: They; nearly always one.
        content_type: What they are, as a MIME type.
    """

    number: ClassVar[int] = 9
    values: tuple[bytes, ...]
    content_type: str = ""


Value: TypeAlias = Float32Tensor | Float64Tensor | Int32Tensor | Bytes | None
"""The value of an entry; None for one that holds nothing."""

_TENSORS: dict[int, type[Float32Tensor] | type[Float64Tensor] | type[Int32Tensor]] = {
    kind.number: kind for kind in (Float32Tensor, Float64Tensor, Int32Tensor)
}
_WIDTHS = {Float32Tensor: (FIXED32, 4), Float64Tensor: (FIXED64, 8)}


@dataclass
class Record:
    """One training example of SageMaker's built-in algorithms."""

    features: dict[str, Value] = field(default_factory=dict)
    label: dict[str, Value] = field(default_factory=dict)
    uid: str = ""
    metadata: str = ""
    configuration: str = ""


def floats(values: tuple[float, ...]) -> Float32Tensor:
    """A dense tensor of 32-bit floats.

    Raises:
        OverflowError: If one is beyond them.
    """
    return Float32Tensor(struct.pack(f"<{len(values)}f", *values))


def integers(values: tuple[int, ...]) -> Int32Tensor:
    """A dense tensor of integers.

    Raises:
        OverflowError: If one has more than 32 bits.
    """
    for value in values:
        if value not in _INT32:
            raise OverflowError(value)
    return Int32Tensor(_varints(values))


def _varints(values: tuple[int, ...]) -> bytes:
    # A negative number is the ten-byte varint of its two's complement.
    return b"".join(varint(each & (1 << 64) - 1) for each in values)


def encode_value(value: Value) -> bytes:
    """The canonical bytes of a Value message."""
    if value is None:
        return b""
    if isinstance(value, Bytes):
        body = b"".join(framed(b"\x0a", each) for each in value.values)
        if value.content_type:
            body += framed(b"\x12", value.content_type.encode())
    else:
        lists = (value.packed, _varints(value.keys), _varints(value.shape))
        tags = (b"\x0a", b"\x12", b"\x1a")
        body = b"".join(framed(tag, each) for tag, each in zip(tags, lists, strict=True) if each)
    return framed(bytes((value.number << 3 | BYTES,)), body)


def encode_entries(number: int, entries: Mapping[str, Value]) -> bytes:
    """The bytes of a map: ``number`` is 1 for the features, 2 for the labels."""
    return b"".join(_entry(number, key, entries[key]) for key in sorted(entries))


def _entry(number: int, key: str, value: Value) -> bytes:
    body = framed(b"\x0a", key.encode()) + framed(b"\x12", encode_value(value))
    return framed(bytes((number << 3 | BYTES,)), body)


def head_of_bytes(key: str, size: int) -> bytes:
    """All of the entry of a single byte string among the features but the string, its end.

    Args:
        key: The entry's key.
        size: The bytes of the string.
    """
    head = b""
    for tag in (b"\x0a", b"\x4a", b"\x12"):
        head = tag + varint(size + len(head)) + head
    head = framed(b"\x0a", key.encode()) + head
    return b"\x0a" + varint(size + len(head)) + head


def encode_texts(record: Record) -> bytes:
    """The bytes of uid, metadata and configuration, which come last."""
    texts = zip(
        (b"\x1a", b"\x22", b"\x2a"),
        (record.uid, record.metadata, record.configuration),
        strict=True,
    )
    return b"".join(framed(tag, text.encode()) for tag, text in texts if text)


def decode_record(data: bytes) -> Record:
    """Decode a Record in any encoding that protobuf's own parser takes.

    Raises:
        ValueError: If the bytes are not a Record; the message says what is wrong.
    """
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
    """Decode a Value in any encoding.

    Raises:
        ValueError: If the bytes are not a Value; the message says what is wrong.
    """
    kind, parts = 0, list[bytes]()
    for number, wire, value in fields_of(data):
        if wire == BYTES and isinstance(value, bytes) and (number in _TENSORS or number == 9):
            if number != kind:  # of several kinds, the last one counts
                kind, parts = number, []
            parts.append(value)
    if kind == 0:
        return None
    message = b"".join(parts)
    return _decode_bytes(message) if kind == 9 else _decode_tensor(_TENSORS[kind], message)


def _decode_bytes(data: bytes) -> Bytes:
    values, content_type = [], ""
    for number, wire, value in fields_of(data):
        if wire == BYTES and isinstance(value, bytes):
            if number == 1:
                values.append(value)
            elif number == 2:
                content_type = value.decode()
    return Bytes(tuple(values), content_type)


def _decode_tensor(
    kind: type[Float32Tensor] | type[Float64Tensor] | type[Int32Tensor], data: bytes
) -> Float32Tensor | Float64Tensor | Int32Tensor:
    packed: list[bytes] = []
    lists: dict[int, list[int]] = {2: [], 3: []}
    for number, wire, value in fields_of(data):
        if number == 1 and kind is Int32Tensor:
            values = tuple(_signed32(each) for each in _listed(wire, value))
            packed.append(_varints(values))
        elif number == 1 and isinstance(value, bytes):
            single, width = _WIDTHS[kind]
            if wire == BYTES and len(value) % width:
                raise ValueError(f"a list of floats whose length is not a multiple of {width}")
            if wire in (BYTES, single):
                packed.append(value)
        elif number in lists:
            lists[number] += _listed(wire, value)
    return kind(b"".join(packed), tuple(lists[2]), tuple(lists[3]))


def _listed(wire: int, value: bytes | int) -> Iterator[int]:
    """The numbers of a list of varints, packed or not."""
    if isinstance(value, int):
        yield value
    elif wire == BYTES:
        yield from read_varints(value)


def _signed32(value: int) -> int:
    """A varint as an int32: of more bits, the upper ones do not count."""
    value &= (1 << 32) - 1
    return value - (1 << 32) if value >> 31 else value

"""RecordIO-protobuf: what the built-in algorithms of Amazon SageMaker read.

A shard is RecordIO frames, never split, around ``Record`` messages (:mod:`dsprep.formats.record`).
SageMaker's documentation knows two entries, ``features["values"]`` and ``label["values"]``. What a
sample holds stands in a record like this:

==============================  ================================================================
field                           in the record
==============================  ================================================================
the image                       ``features["image"]``, Bytes
the label, numbers              ``label["values"]``, Float32Tensor
float32, a list of them         ``features[NAME]``, Float32Tensor
float64, a list of them         ``features[NAME]``, Float64Tensor
class, bool, int, their lists   ``features[NAME]``, Int32Tensor; beyond 32 bits Float64Tensor
text, bytes, json, their lists  ``features[NAME]``, Bytes
the key                         ``uid``
==============================  ================================================================

Read are also labels of another key than ``values``, as ``label.KEY``, and the texts ``metadata``
and ``configuration``. A feature that has such a name is ``features.NAME``. A tensor with keys or a
shape is JSON.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

from dsprep.errors import BadSample, OptionError
from dsprep.formats.base import Entry, Format, Span
from dsprep.formats.floats import as_floats
from dsprep.formats.record import (
    Record,
    decode_record,
    encode_entries,
    encode_texts,
    head_of_bytes,
)
from dsprep.formats.recordio import MAGIC, MAX_RECORD, is_numbers
from dsprep.sample import Blobs, Floats, Ints, Sample, Value, image_kind_of, key_expr
from dsprep.schema import IMAGE, LABEL, LABEL_FLOATS, Field, Meaning, Schema, item_of

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_FRAME = struct.Struct("<4sI")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")

_IMAGE, _LABEL, _UID, _VALUES = "image", "label", "uid", "values"
_TEXTS = ("metadata", "configuration")
_LABELS, _FEATURES = "label.", "features."

_MEANINGS = {
    _IMAGE: Meaning("image", "image", IMAGE),
    _LABEL: Meaning("label", LABEL_FLOATS, LABEL),
    _UID: Meaning(""),
}


@dataclass(frozen=True)
class RecordIOProtobuf(Format):
    """Records that are SageMaker's ``Record`` messages."""

    name: ClassVar[str] = "recordio-protobuf"
    suffix: ClassVar[str] = ".pb"
    label_bits: ClassVar[int] = 32
    max_class: ClassVar[int] = 1 << 24
    """Labels are 32-bit floats, as in RecordIO."""

    def meaning(self, place: str) -> Meaning:
        """Return what an entry means."""
        return _MEANINGS.get(place) or Meaning(place.removeprefix(_FEATURES))

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        """Return this format with the entries that the fields become."""
        used: dict[str, str] = {}
        fields: list[Field] = []
        notes = []
        for each in schema.fields:
            raw = _raw_name(each.name)
            place = each.places[0] if each.places and schema.format == self.name else ()
            if len(place) == 1 and not each.given:
                raw = place[0]
            elif each.name == schema.image and not each.given:
                raw = _IMAGE
            elif each.name == schema.label and not each.given and is_numbers(each.type):
                raw = _LABEL
            if raw in used:
                raise OptionError(
                    f"the field {each.name!r} would be the entry {raw!r}, which is the field "
                    f"{used[raw]!r}: give --drop {each.name}, or --rename {each.name}=NEW"
                )
            used[raw] = each.name
            fields.append(replace(each, places=((raw,),)))
            if raw == _LABEL and "float64" in each.type:
                notes.append(f"{each.name}: 64-bit floats are rounded to the 32 bits of a label")
        arranged = Schema(tuple(fields), schema.image, schema.label, self.name)
        return replace(self, schema=arranged), notes

    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out as the record of a Record."""
        is_raw = self.schema is None
        entries = sample.fields if is_raw else self._entries(sample)
        record = Record(uid=_own_uid(sample) if is_raw else sample.key)
        for raw, value in entries.items():
            _put(record, raw, value)
        image, middle = record.features.get(_IMAGE), b""
        try:
            if type(image) is Blobs and len(image) == 1:
                data: bytes = image[0]
                before = {key: value for key, value in record.features.items() if key < _IMAGE}
                after = {key: value for key, value in record.features.items() if key > _IMAGE}
                head = encode_entries(1, before) + head_of_bytes(_IMAGE, len(data))
                middle = encode_entries(1, after)
            else:
                data, head = b"", encode_entries(1, record.features)
            tail = middle + encode_entries(2, record.label) + encode_texts(record)
        except (OverflowError, struct.error) as error:
            raise BadSample(f"holds the number {error}, which is beyond a record's") from None
        size = len(head) + len(data) + len(tail)
        if size > MAX_RECORD:
            raise BadSample(f"{size} bytes, but a RecordIO record holds {MAX_RECORD}")
        return [_FRAME.pack(MAGIC, size) + head, data, tail + _PADDING[size % 4]]

    @cached_property
    def _columns(self) -> list[tuple[str, str, str]]:
        """The name, the type, and the entry of each field."""
        assert self.schema is not None
        return [(each.name, each.type, each.places[0][0]) for each in self.schema.fields]

    def _entries(self, sample: Sample) -> dict[str, Value]:
        """Return the raw values of a sample of the schema."""
        fields = sample.fields
        return {
            raw: _raw_value(name, kind, raw, fields[name])
            for name, kind, raw in self._columns
            if name in fields
        }

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """Frame, image, label and uid, padded to 4."""
        from dsprep.formats.weights import framed

        value = framed(framed(framed(rows["image"])))
        total = framed(value + framed(len(_IMAGE)))
        if "cls" in rows.columns or "label" in rows.columns:
            count = rows["label"].list.len().cast(int) if "label" in rows.columns else 1
            value = framed(framed(framed(count * 4)))
            total += framed(value + framed(len(_VALUES)))
        total += framed(rows.select(key_expr().str.len_bytes().cast(int)).to_series())
        assert not isinstance(total, int)
        return (total + 3) // 4 * 4 + _FRAME.size

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """Read the records; one that is not a Record is damage, too."""
        position = stream.first
        while not stream.at_end():
            offset = stream.offset
            length = _read_frame(stream)
            data = stream.read(length + -length % 4, "a record")[:length]
            try:
                sample = _sample_of(decode_record(data), position)
            except ValueError as error:
                raise stream.damaged(f"the record is not a Record: {error}", offset) from None
            yield Entry(offset, stream.offset - offset, sample)
            position += 1

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        """Find the records by their frames; a key is not among the first bytes of one."""
        position = stream.first
        while not stream.at_end():
            offset = stream.offset
            length = _read_frame(stream)
            stream.skip(length + -length % 4, "a record")
            yield Span(offset, stream.offset - offset, "", position)
            position += 1


def _read_frame(stream: ShardStream) -> int:
    offset = stream.offset
    magic, length = _FRAME.unpack(stream.read(_FRAME.size, "the head of a record"))
    if magic != MAGIC:
        raise stream.damaged(
            "a record should begin here, but its magic number is not there", offset
        )
    if length > MAX_RECORD:
        raise stream.damaged("a part of a record, where records are never split", offset)
    return int(length)


def _raw_name(name: str) -> str:
    """Return the raw name of the feature of a name."""
    is_other = name in (_LABEL, _UID, *_TEXTS) or name.startswith((_LABELS, _FEATURES))
    return _FEATURES + name if is_other else name


def _put(record: Record, raw: str, value: Value) -> None:
    """Put a raw value where its name says."""
    if isinstance(value, bytes | str):  # a new image, or a text
        value = Blobs((value.encode() if isinstance(value, str) else value,))
    if raw in _TEXTS:
        setattr(record, raw, b"".join(value).decode())
    elif raw == _LABEL:
        is_new = isinstance(value, int)
        record.label[_VALUES] = Floats(as_floats((value,), "the label")) if is_new else value
    elif raw.startswith(_LABELS):
        record.label[raw.removeprefix(_LABELS)] = value
    elif raw != _UID:
        record.features[raw.removeprefix(_FEATURES)] = value


def _own_uid(sample: Sample) -> str:
    """Return the uid that a record had, if it still tells the key; else the key."""
    own: str | None = sample.fields.get(_UID)
    return sample.key if own is None or (own and _key_of(own) != sample.key) else own


def _raw_value(name: str, kind: str, raw: str, value: Value) -> Value:
    """Return what stands in a record for a value of a type."""
    item = item_of(kind)
    values = value if item is not None else (value,)
    item = item or kind
    if raw == _LABEL:
        return Floats(as_floats(values, "the label"))
    if item == "float32":
        return Floats(values)
    if item == "float64":
        return tuple(values)
    if item in ("class", "bool", "int"):
        if all(-(1 << 31) <= each < 1 << 31 for each in values):
            return Ints(map(int, values))
        if all(abs(each) <= 1 << 53 for each in values):
            return tuple(map(float, values))
        raise BadSample(f"the field {name!r} is {value!r:.60}: a record holds numbers up to 2^53")
    return Blobs(each.encode() if isinstance(each, str) else each for each in values)


def _sample_of(record: Record, position: int) -> Sample:
    """Return the raw sample of a record."""
    fields: dict[str, Value] = {_raw_name(key): held for key, held in record.features.items()}
    for key, held in record.label.items():
        fields[_LABEL if key == _VALUES else _LABELS + key] = held
    for name in _TEXTS:
        if text := getattr(record, name):
            fields[name] = text
    uid = record.uid
    if not uid or _key_of(uid) != uid:
        fields[_UID] = uid
    return Sample(_key_of(uid), fields, position, uid if image_kind_of(uid) else "")


def _key_of(uid: str) -> str:
    """Return the key that a uid tells: after the last slash, it has a name without dots."""
    directory, slash, name = uid.rpartition("/")
    if image_kind_of(name):
        name = name.rpartition(".")[0] or name
    return directory + slash + name.replace(".", "_") if name else ""

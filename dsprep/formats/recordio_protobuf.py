"""RecordIO-protobuf: what the built-in algorithms of Amazon SageMaker read.

A shard is RecordIO frames, never split, around ``Record`` messages (:mod:`dsprep.formats.record`).
SageMaker's documentation knows two entries, ``features["values"]`` and ``label["values"]``. What a
sample holds stands in a record like this:

==============================  ================================================================
field                           in the record
==============================  ================================================================
the image                       ``features["image"]``, Bytes; with a content type only where the
                                bytes do not tell what the field's name says
cls                             ``label["values"]``, a Float32Tensor of one
label                           ``label["values"]``, a Float32Tensor
class, filename, width,         ``metadata``: JSON with sorted keys
height, id
another: Floats                 ``features[NAME]``, Float32Tensor, dense and without a shape
another: Ints                   ``features[NAME]``, Int32Tensor, likewise
another: bytes or Blobs         ``features[NAME]``, Bytes
the key                         ``uid``
==============================  ================================================================

Records that others made may hold more, which is read without loss:

- A label of any kind of number is read; it is written as 32-bit floats, which the algorithms take.
- A value that no field is like (64-bit floats, sparse tensors, shapes, content types) becomes the
  field ``NAME.tensor``, its bytes being the ``Value`` message; a label of this kind, or with a NaN
  of unusual bits, ``label.tensor``, and one of another key than ``values`` ``label.KEY.tensor``.
- Metadata that is other text, ``configuration``, and a uid that is not fit for a key are the fields
  ``metadata.text``, ``configuration.text`` and ``uid.text``.

All of these are written back as what they were. A record without a uid has its position for a key.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dsprep.errors import BadSample
from dsprep.formats.base import Entry, Format, Span
from dsprep.formats.floats import require_exact
from dsprep.formats.record import (
    Bytes,
    Float32Tensor,
    Int32Tensor,
    Record,
    decode_record,
    decode_value,
    encode_entries,
    encode_texts,
    encode_value,
    floats,
    head_of_bytes,
    integers,
)
from dsprep.formats.record import Value as Held
from dsprep.formats.recordio import MAGIC, MAX_RECORD
from dsprep.formats.typed_json import is_usual
from dsprep.images.header import sniff
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Blobs, Floats, Ints, Sample, Value

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_FRAME = struct.Struct("<4sI")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")

_IMAGE = "image"
_VALUES = "values"
_RAW = ".tensor"

_MIME = {kind: f"image/{kind}" for kind in IMAGE_KINDS} | {
    "jpg": "image/jpeg",
    "tif": "image/tiff",
    "ppm": "image/x-portable-anymap",
    UNKNOWN_IMAGE: "application/octet-stream",
}
_KINDS = {mime: kind for kind, mime in _MIME.items()}

_METADATA: dict[str, type] = {"class": str, "filename": str, "height": int, "id": int, "width": int}
_TEXTS = {"metadata.text": "metadata", "configuration.text": "configuration", "uid.text": "uid"}
_LABELS: dict[str, type] = {"cls": int, "label": tuple}


@dataclass(frozen=True)
class RecordIOProtobuf(Format):
    """Records that are SageMaker's ``Record`` messages."""

    name: ClassVar[str] = "recordio-protobuf"
    suffix: ClassVar[str] = ".pb"
    max_class: ClassVar[int] = 1 << 24
    """Labels are 32-bit floats, as in RecordIO."""

    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out as the record of a Record."""
        image = None if _IMAGE in sample.fields else sample.image()
        record, doubtful = _record_of(sample, image[0] if image else None)
        features, middle, data = record.features, b"", b""
        if image is None:
            head = encode_entries(1, features)
        elif _IMAGE in features:
            raise BadSample(f"the fields {image[0]} and {_IMAGE}{_RAW} would be one feature")
        else:
            kind, data = image
            if kind != _sniffed(data):
                features[_IMAGE] = Bytes((data,), _MIME[kind])
                data, head = b"", encode_entries(1, features)
            else:
                before = {key: value for key, value in features.items() if key < _IMAGE}
                after = {key: value for key, value in features.items() if key > _IMAGE}
                head = encode_entries(1, before) + head_of_bytes(_IMAGE, len(data))
                middle = encode_entries(1, after)
        tail = middle + encode_entries(2, record.label) + encode_texts(record)
        size = len(head) + len(data) + len(tail)
        if size > MAX_RECORD:
            raise BadSample(f"{size} bytes, but a RecordIO record holds {MAX_RECORD}")
        if doubtful:
            _require_same(sample, decode_record(head + data + tail))
        return [_FRAME.pack(MAGIC, size) + head, data, tail + _PADDING[size % 4]]

    def unheld(self, fields: Mapping[str, type]) -> list[str]:
        """A field of bytes called ``image``, which would be read as the image."""
        return [name for name, kind in fields.items() if name == _IMAGE and kind is bytes]

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """Frame, image, label and uid, padded to 4."""
        from dsprep.catalog import key_expr
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


def _sniffed(data: bytes) -> str:
    return sniff(data) or UNKNOWN_IMAGE


def _record_of(sample: Sample, image: str | None) -> tuple[Record, bool]:
    """The record of a sample, all but its image.

    Args:
        sample: The sample.
        image: The field that is the image.

    Returns:
        The record, and whether some field's name leaves it open if the field will come back.

    Raises:
        BadSample: If it cannot be held.
    """
    record = Record(uid=sample.key)
    metadata: dict[str, Value] = {}
    texts: dict[str, str] = {}
    doubtful = False
    for name, value in sample.fields.items():
        if name == image:
            continue
        if type(value) is _LABELS.get(name):
            _put(record.label, _VALUES, _label(value), name)
        elif type(value) is _METADATA.get(name):
            metadata[name] = value
        elif name in _TEXTS and isinstance(value, bytes):
            texts[_TEXTS[name]] = _text(name, value)
        else:
            of_labels, key, held = _place(name, value, sample.fields)
            _put(record.label if of_labels else record.features, key, held, name)
            doubtful = doubtful or _is_reserved(name) or key == _IMAGE
    if metadata and "metadata" in texts:
        raise BadSample(f"a record has one metadata: metadata.text, or {', '.join(metadata)}")
    record.metadata = _json(metadata)
    for attribute, text in texts.items():
        setattr(record, attribute, text)
    return record, doubtful or bool(texts)


def _put(entries: dict[str, Held], key: str, held: Held, name: str) -> None:
    if key in entries:
        raise BadSample(f"the field {name} and another one would be one entry of the record, {key}")
    entries[key] = held


def _label(value: Value) -> Float32Tensor:
    if isinstance(value, int):
        if abs(value) > RecordIOProtobuf.max_class:
            raise BadSample(f"the label {value} cannot be held exactly by 32-bit floats")
        return floats((float(value),))
    assert isinstance(value, tuple)
    if not value:
        raise BadSample("a label without numbers")
    numbers = tuple(float(each) for each in value)
    try:
        require_exact(numbers)
        return floats(numbers)
    except OverflowError:
        raise BadSample(f"a label of {value!r} is beyond 32-bit floats") from None


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadSample(f"the field {name} is not UTF-8 text") from None


def _json(metadata: Mapping[str, Value]) -> str:
    if not metadata:
        return ""
    return json.dumps(metadata, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _is_reserved(name: str) -> bool:
    """Whether a field of this name is more than a feature of this name."""
    return not name or name in _TEXTS or name in _METADATA or name in _LABELS or name[-7:] == _RAW


def _place(name: str, value: Value, fields: Mapping[str, Value]) -> tuple[bool, str, Held]:
    """Where a field stands in a record: whether among the labels, its key, and its value.

    Raises:
        BadSample: If no value of a record is like it.
    """
    if name.endswith(_RAW) and isinstance(value, bytes):
        of_labels, key = _entry_called(name)
        with suppress(ValueError):
            held = decode_value(value)
            plain = not of_labels and key not in fields and _plain(key, held) is not None
            if not plain and encode_value(held) == value:
                return of_labels, key, held
    try:
        return False, name, _held(value)
    except OverflowError:
        raise BadSample(f"the field {name} holds numbers of more than 32 bits") from None
    except TypeError:
        raise BadSample(f"a record cannot hold {value!r} as the field {name}") from None


def _held(value: Value) -> Held:
    if isinstance(value, bytes):
        return Bytes((value,))
    if isinstance(value, Blobs):
        return Bytes(tuple(value))
    if isinstance(value, Floats):
        return floats(value)
    if isinstance(value, Ints):
        return integers(value)
    raise TypeError


def _plain(key: str, held: Held) -> Value | None:
    """What a feature is as a field of its own name; None if no such field would become it."""
    value: Value | None = None
    if isinstance(held, Bytes) and not held.content_type:
        value = held.values[0] if len(held.values) == 1 else Blobs(held.values)
    elif isinstance(held, Float32Tensor):
        value = Floats(held.numbers())
    elif isinstance(held, Int32Tensor):
        value = Ints(held.numbers())
    if value is None or not key or key in _TEXTS:
        return None
    if (key in _METADATA or key in _LABELS) and not isinstance(value, bytes):
        return None
    return value if _place(key, value, {}) == (False, key, held) else None


def _raw_name(of_labels: bool, key: str) -> str:
    """The field that a value has become which no other field is like."""
    if of_labels:
        return "label" + _RAW if key == _VALUES else f"label.{key}{_RAW}"
    name = key + _RAW
    return name if _entry_called(name) == (False, key) else f"features.{name}"


def _entry_called(name: str) -> tuple[bool, str]:
    """The entry that such a field came from: whether it is one of the labels, and its key."""
    key = name.removesuffix(_RAW)
    if key == "label":
        return True, _VALUES
    if key.startswith("label."):
        return True, key.removeprefix("label.")
    return False, key.removeprefix("features.")


def _sample_of(record: Record, position: int) -> Sample:
    """The sample that a record holds: the image, the label, the features by name, the rest."""
    rest = _texts_of(record)
    fields: dict[str, Value] = {}
    features = dict(record.features)
    if (image := _image_of(features.get(_IMAGE))) is not None:
        del features[_IMAGE]
        fields[image[0]] = image[1]
    for key in sorted(record.label):
        name, value = _label_of(key, record.label[key])
        fields[name] = value
    for key in sorted(features):
        found = None if key in fields or key in rest else _plain(key, features[key])
        if found is None:
            fields[_raw_name(False, key)] = encode_value(features[key])
        else:
            fields[key] = found
    key, told = _key_of(record.uid), bool(record.uid)
    return Sample(key if told else str(position), fields | rest, position)


def _image_of(held: Held) -> tuple[str, bytes] | None:
    if not isinstance(held, Bytes) or len(held.values) != 1:
        return None
    data = held.values[0]
    kind = _KINDS.get(held.content_type) if held.content_type else _sniffed(data)
    return None if kind is None else (kind, data)


def _label_of(key: str, held: Held) -> tuple[str, Value]:
    """The field that an entry of the labels is."""
    if key != _VALUES or held is None or isinstance(held, Bytes) or held.keys or held.shape:
        return _raw_name(True, key), encode_value(held)
    numbers = held.numbers()
    if not numbers or not is_usual(numbers):
        return _raw_name(True, key), encode_value(held)
    first = float(numbers[0])
    if len(numbers) == 1 and first.is_integer() and str(first) != "-0.0" and abs(first) < 1 << 53:
        return "cls", int(first)
    return "label", tuple(float(each) for each in numbers)


def _texts_of(record: Record) -> dict[str, Value]:
    """The fields that stand in uid, metadata and configuration."""
    found: dict[str, Value] = {}
    if record.uid and _key_of(record.uid) != record.uid:
        found["uid.text"] = record.uid.encode()
    if record.configuration:
        found["configuration.text"] = record.configuration.encode()
    if record.metadata:
        metadata = _parsed(record.metadata)
        found |= {"metadata.text": record.metadata.encode()} if metadata is None else metadata
    return found


def _parsed(text: str) -> dict[str, Value] | None:
    """The fields in metadata, if they would be written as this very text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not found:
        return None
    if any(type(value) is not _METADATA.get(name) for name, value in found.items()):
        return None
    return found if _json(found) == text else None


def _key_of(uid: str) -> str:
    """A key: after the last slash, it may hold no dot."""
    directory, slash, name = uid.rpartition("/")
    return directory + slash + name.replace(".", "_")


def _require_same(sample: Sample, record: Record) -> None:
    """Refuse a sample with fields whose names have a meaning that is not theirs.

    Raises:
        BadSample: If it would not be read as it is.
    """
    back = _sample_of(record, sample.id)
    if back.key != sample.key:
        raise BadSample("the field uid.text is of another key: drop it")
    before, after = _comparable(sample.fields), _comparable(back.fields)
    for name, value in before.items():
        if after.get(name) != value:
            raise BadSample(f"the field {name} would be read as something else: rename it")


def _comparable(fields: Mapping[str, Value]) -> dict[str, str]:
    """Fields as text, so that NaN is NaN; but not labels, which may be rounded."""
    return {
        name: repr(value) for name, value in fields.items() if type(value) is not _LABELS.get(name)
    }

"""RecordIO-protobuf: what the built-in algorithms of Amazon SageMaker read.

A shard is RecordIO frames, never split, around ``Record`` messages, which are those of
``sagemaker/amazon/record.proto`` of the SageMaker Python SDK, 2.257.7::

    Record  {1: map<string, Value> features, 2: map<string, Value> label,
             3: string uid, 4: string metadata, 5: string configuration}
    Value   one of {2: Float32Tensor, 3: Float64Tensor, 7: Int32Tensor, 9: Bytes}
    Tensor  {1: values, packed; 2: uint64 keys, packed; 3: uint64 shape, packed}
    Bytes   {1: repeated bytes value, 2: string content_type}

A tensor that has keys is sparse: they are where its values stand. It is JSON here, as one that has
a shape: ``{"type": "float32", "values": …, "keys": …, "shape": …}``. Other entries are `Floats`,
`Ints`, `Blobs`, `TypedBlobs` if they have a content type, or, of 64-bit floats, a float or a tuple.
An entry that holds nothing is None.

SageMaker's documentation knows two entries, ``features["values"]`` and ``label["values"]``. Here
the key is ``uid``, the image ``features["image"]``, a label of numbers ``label["values"]``, any
other field ``features[NAME]``: integers beyond 32 bits as Float64Tensor, text and JSON as Bytes.
Without an image, the numbers are together ``features["values"]``, of 32-bit floats: a column each,
or one list, or the fields ``keys``, ``values`` and ``shape``, which are a sparse tensor.

Read are also labels of another key than ``values``, as ``label.KEY``, and the texts ``metadata``
and ``configuration``. A feature that has such a name is ``features.NAME``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Self

from dsprep.errors import BadSample, OptionError
from dsprep.formats import protobuf
from dsprep.formats.base import (
    SIZES,
    Entry,
    Format,
    Limits,
    Span,
    claim,
    pixel_sizes,
    refuse_objects,
    rounding_notes,
    without_gaps,
)
from dsprep.formats.recordio import FRAME, LARGEST_CLASS, MAGIC, MAX_RECORD, PADDING, read_frame
from dsprep.formats.values import as_floats, key_in
from dsprep.sample import Blobs, Floats, Ints, Sample, Value, image_kind_of, key_size_expr
from dsprep.schema import IMAGE, LABEL, LABEL_FLOATS, Field, Meaning, Place, Schema, Type
from dsprep.units import format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_IMAGE, _LABEL, _UID, _VALUES = "image", "label", "uid", "values"
_NEVER_SPLIT = "a part of a record, where records are never split"
_TEXTS = ("metadata", "configuration")
_LABELS, _FEATURES = "label.", "features."


class RecordIOProtobuf(Format):
    """Records that are SageMaker's ``Record`` messages."""

    name: ClassVar[str] = "recordio-protobuf"
    suffix: ClassVar[str] = ".pb"
    least: ClassVar[int] = 8  # magic number and length
    meanings: ClassVar[Mapping[str, Meaning]] = {
        _IMAGE: Meaning("image", "image", IMAGE),
        _LABEL: Meaning("label", LABEL_FLOATS, LABEL),
        _UID: Meaning(""),
    }
    limits: ClassVar[Limits] = Limits(classes=LARGEST_CLASS, label_bits=32)
    holds_pixels: ClassVar[bool] = True
    holds_texts: ClassVar[bool] = False
    holds_masks: ClassVar[bool] = False

    def meaning(self, place: str) -> Meaning:
        return self.meanings.get(place) or Meaning(place.removeprefix(_FEATURES))

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        refuse_objects(schema, self.name)
        is_own = schema.format == self.name
        tensor = _tensor(schema, is_own)
        used: dict[str, str] = {_VALUES: ""} if tensor else {}
        fields: list[Field] = []
        for each in (*schema.fields, *pixel_sizes(schema)):
            if each.name in tensor:
                place = tensor[each.name]
                kind = "list<float32>" if len(place) == 1 else each.type
                fields.append(replace(each, type=kind, places=(place,)))
                continue
            raw = _raw_of(each, schema, is_own)
            claim(used, raw, each, "entry")
            fields.append(replace(each, places=((raw,),)))
        labels = (each for each in fields if each.places == ((_LABEL,),))
        notes = [*rounding_notes(labels, "a label"), *_notes(schema, tensor, is_own)]
        return self.laid_out(schema, fields), notes

    def encode(self, sample: Sample) -> list[bytes]:
        entries, uid = sample.fields, sample.key
        if self.schema is None:
            # the uid that the record had, if it still tells the key
            own: str | None = entries.get(_UID)
            uid = uid if own is None or (own and key_in(own) != uid) else own
        else:
            entries = {
                raw: _raw_value(name, kind, raw, sample.fields[name])
                for name, kind, raw in self._columns
                if name in entries
            }
            if self._parts:
                entries[_VALUES] = _joined(sample.fields, self._parts)
        try:
            before, data, after = _encode_record(entries, uid)
        except (OverflowError, struct.error) as error:
            raise BadSample(f"holds the number {error}, which is beyond a record's") from None
        size = len(before) + len(data) + len(after)
        if size > MAX_RECORD:
            raise BadSample(f"{size} bytes, but a RecordIO record holds {MAX_RECORD}")
        return [FRAME.pack(MAGIC, size) + before, data, after + PADDING[size % 4]]

    @cached_property
    def _columns(self) -> list[tuple[str, Type, str]]:
        """The name, the type, and the entry of each field."""
        columns = (each for each in self.written.fields if len(each.places[0]) == 1)
        return [(each.name, each.kind, each.places[0][0]) for each in columns]

    @cached_property
    def _parts(self) -> dict[str, str]:
        """The fields that are one tensor together, by what they are of it."""
        places = ((each.places[0], each.name) for each in self.written.fields)
        return {place[1]: name for place, name in places if len(place) > 1}

    @property
    def is_fixed(self) -> bool:
        return "0" in self._parts and self._has_only_label

    @property
    def bounds_sparse(self) -> bool:
        return "keys" in self._parts and self._has_only_label

    @property
    def _has_only_label(self) -> bool:
        """Whether there is nothing besides the features but a label of one number."""
        others = [each for each in self.written.fields if each.name not in self._parts.values()]
        return all(
            each.name == self.written.label
            and each.kind.of in (int, float)
            and not (each.kind.is_list or each.missing)
            for each in others
        )

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        key = rows.select(key_size_expr()).to_series()
        total = protobuf.framed_sizes(key)
        counts: list[protobuf.Sizes]
        if self._parts:  # of 32 bits each, and so is the label
            counts = [1] if self.written.label else []
            features: protobuf.Sizes = protobuf.framed_sizes(len(self._parts) * 4)
            if "largest_key" in rows.columns:
                longest = protobuf.varint_sizes(int(rows["largest_key"].to_list()[0]) + 1)
                features = protobuf.framed_sizes(rows["stored"] * 4)
                features += protobuf.framed_sizes(rows["stored"] * longest)
                features += protobuf.framed_sizes(longest)
            total += protobuf.entry_sizes(_VALUES, features)
        else:
            total += protobuf.entry_sizes(_IMAGE, protobuf.framed_sizes(rows["image"]))
            counts = [1] if "cls" in rows.columns else []
            if "label" in rows.columns:
                counts = [rows["label"].list.len().cast(int)]
        for count in counts:
            total += protobuf.entry_sizes(_VALUES, protobuf.framed_sizes(count * 4))
        for each in self.written.fields:
            if each.name in SIZES and each.kind.is_integer and not self._parts:
                total += protobuf.entry_sizes(each.places[0][0], protobuf.framed_sizes(8))
        assert not isinstance(total, int)
        return (total + 3) // 4 * 4 + FRAME.size

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        for position, offset in stream.records():
            _, length = read_frame(stream, (0,), _NEVER_SPLIT)
            data = stream.read(length + -length % 4, "a record")[:length]
            try:
                features, labels, (uid, *texts) = decode_record(data)
            except ValueError as error:
                raise stream.damaged(f"the record is not a Record: {error}", offset) from None
            found = {_raw_name(key): value for key, value in features.items()}
            for key, value in labels.items():
                found[_LABEL if key == _VALUES else _LABELS + key] = value
            found |= {name: text for name, text in zip(_TEXTS, texts, strict=True) if text}
            if not uid or key_in(uid) != uid:
                found[_UID] = uid
            sample = Sample(key_in(uid), found, position, uid if image_kind_of(uid) else "")
            yield Entry(offset, stream.offset - offset, sample)

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        # by frames alone: a key is not among the first bytes of a record
        for position, offset in stream.records():
            _, length = read_frame(stream, (0,), _NEVER_SPLIT)
            stream.skip(length + -length % 4, "a record")
            yield Span(offset, stream.offset - offset, "", position)


# Raw names and values


def _raw_name(name: str) -> str:
    is_other = name in (_LABEL, _UID, *_TEXTS) or name.startswith((_LABELS, _FEATURES))
    return _FEATURES + name if is_other else name


def _raw_value(name: str, kind: Type, raw: str, value: Value) -> Value:
    """Return what stands in a record for a value of a type."""
    values = value if kind.is_list else (value,)
    if raw == _LABEL:
        return Floats(as_floats(values, "the label"))
    if raw == _VALUES and kind.name == "list<float32>":
        return Floats(_features(name, values))
    if kind.of is float:
        return Floats(values) if kind.bits == 32 else tuple(values)
    if kind.is_number:
        if all(int(each) in _INT32 for each in values):
            return Ints(map(int, values))
        if all(abs(each) <= 1 << 53 for each in values):
            return tuple(map(float, values))
        raise BadSample(
            f"the field {name!r} is {value!r:.60}: a record holds whole numbers from -2^53 to 2^53"
        )
    return Blobs(each.encode() if isinstance(each, str) else each for each in values)


# The features of samples without an image


def _raw_of(each: Field, schema: Schema, is_own: bool) -> str:
    """Return the entry of a field that is no feature: its own, or that of its role or name."""
    if each.given:
        return _raw_name(each.name)
    if is_own and each.places and len(each.places[0]) == 1:
        return each.places[0][0]
    if each.name == schema.image:
        return _IMAGE
    is_label = each.name == schema.label and each.kind.is_number
    return _LABEL if is_label else _raw_name(each.name)


def _notes(schema: Schema, tensor: Mapping[str, Place], is_own: bool) -> Iterator[str]:
    """Yield what SageMaker's algorithms do not read, or read otherwise."""
    if any(each.kind.code == "d" for each in schema.fields if each.name in tensor):
        yield f"{_VALUES}: 64-bit floats are rounded to the 32 bits that SageMaker reads"
    others = [each.name for each in schema.others if tensor and each.name not in tensor]
    if others:
        yield (
            f"SageMaker's algorithms read only the label and {_VALUES}: {format_some(others)} "
            f"can be left out with --drop {','.join(others)}"
        )
    has_features = schema.image is not None or any(e.kind.is_number for e in schema.others)
    if not (has_features or is_own):
        yield "SageMaker's algorithms find no features: only the label may have numbers"


def _tensor(schema: Schema, is_own: bool) -> dict[str, Place]:
    """Return the places of the fields that are the features together; none if there are no such."""
    known = {each.name: each for each in schema.others if each.kind.is_number}
    if schema.image is not None or (is_own and any(len(e.places[0]) == 1 for e in known.values())):
        return {}  # records that were written otherwise stay so
    lists = {name for name, each in known.items() if each.kind.is_list}
    if lists == {"keys", _VALUES} and known.keys() <= {*lists, "shape"}:
        return {name: (_VALUES, name) for name in known}
    if lists:
        return dict.fromkeys(lists, (_VALUES,)) if len(known) == 1 else {}
    if lacking := [each.name for each in known.values() if each.missing and not is_own]:
        raise OptionError(
            f"samples may lack {format_some(lacking)}, and the features of RecordIO-protobuf have "
            f"no missing numbers: {without_gaps(lacking)}"
        )
    return {name: (_VALUES, str(at)) for at, name in enumerate(known)}


def _features(name: str, values: Sequence[float]) -> tuple[float, ...]:
    """Return the values of a field as the features hold them."""
    try:
        return as_floats(values, f"the field {name!r}")
    except BadSample as error:
        raise BadSample(f"{error}: --drop {name} leaves it out") from None


def _joined(fields: Mapping[str, Value], parts: Mapping[str, str]) -> Value:
    """Return the tensor of several fields."""
    if "keys" not in parts:
        try:
            numbers = [fields[name] for name in parts.values()]
        except KeyError as error:
            raise BadSample(f"lacks {error}, which is one of the features") from None
        try:
            return Floats(as_floats(numbers, ""))
        except BadSample:  # name the field
            for name, value in zip(parts.values(), numbers, strict=True):
                _features(name, (value,))
            raise
    # Formats that have no empty lists have none in a row of zeros.
    keys, values = (fields.get(parts[part], ()) for part in ("keys", _VALUES))
    values = as_floats(values, "a value")
    shape = (fields[parts["shape"]],) if "shape" in parts else ()
    if len(keys) != len(values):
        raise BadSample(f"has {len(keys)} keys for {len(values)} values")
    if keys and not 0 <= min(keys) <= max(keys) < (shape or (1 << 63,))[0]:
        raise BadSample(f"has a key outside of its {shape[0] if shape else 0} columns")
    return {"type": "float32", "values": values, "keys": keys, "shape": shape}


# Writing a Record


class TypedBlobs(Blobs):
    """Byte strings with their content type."""

    content_type: str = ""


# the field of each kind of tensor in a Value, and the code of its numbers
_TENSORS = {"float32": (2, "f"), "float64": (3, "d"), "int32": (7, "i")}
_BYTES, _BYTES_TAG = 9, b"\x4a"
_INT32 = range(-(1 << 31), 1 << 31)
_TENSOR = (b"\x0a", b"\x12", b"\x1a")  # values, keys, shape


def _encode_record(entries: Mapping[str, Value], uid: str) -> tuple[bytes, bytes, bytes]:
    """Return a record in three parts: what precedes the image, the image, and what follows."""
    features: dict[str, Value] = {}
    labels: dict[str, Value] = {}
    texts = {_UID: uid}
    for raw, value in entries.items():
        if isinstance(value, bytes | str):  # a new image, or a text
            value = Blobs((value.encode() if isinstance(value, str) else value,))
        if raw in _TEXTS:
            texts[raw] = b"".join(value).decode()
        elif raw == _LABEL:
            is_new = isinstance(value, int)
            labels[_VALUES] = Floats(as_floats((value,), "the label")) if is_new else value
        elif raw.startswith(_LABELS):
            labels[raw.removeprefix(_LABELS)] = value
        elif raw != _UID:
            features[raw.removeprefix(_FEATURES)] = value
    before, image, after = b"", b"", b""
    for key in sorted(features):
        value = features[key]
        if key == _IMAGE and type(value) is Blobs and len(value) == 1:
            image = value[0]
            before = before + after + protobuf.head_of_bytes(key, len(image), _BYTES_TAG)
            after = b""
        else:
            after += protobuf.encode_entry(key, encode_value(value))
    after += b"".join(
        [protobuf.encode_entry(key, encode_value(labels[key]), b"\x12") for key in sorted(labels)]
    )
    for tag, name in zip((b"\x1a", b"\x22", b"\x2a"), (_UID, *_TEXTS), strict=True):
        if text := texts.get(name):
            after += protobuf.framed(tag, text.encode())
    return before, image, after


def encode_value(value: Value) -> bytes:
    """Return the canonical bytes of a Value message."""
    if value is None:
        return b""
    if isinstance(value, Blobs):
        body = b"".join([protobuf.framed(b"\x0a", each) for each in value])
        if content_type := getattr(value, "content_type", ""):
            body += protobuf.framed(b"\x12", content_type.encode())
        return protobuf.framed(_BYTES_TAG, body)
    if type(value) is Floats and value:  # rows of tables: a third of the time
        body = protobuf.framed(b"\x0a", protobuf.packed(value, "f"))
        return protobuf.framed(b"\x12", body)
    kind = "int32" if isinstance(value, Ints) else "float64"
    kind = "float32" if isinstance(value, Floats) else kind
    lists = [value if isinstance(value, tuple) else (value,), (), ()]
    if isinstance(value, dict):
        kind, lists = value["type"], [value["values"], value["keys"], value["shape"]]
    number, code = _TENSORS[kind]
    if code == "i" and (beyond := [each for each in lists[0] if each not in _INT32]):
        raise OverflowError(beyond[0])
    tensor = b""
    for tag, each, letter in zip(_TENSOR, lists, (code, "Q", "Q"), strict=True):
        if each:
            tensor += protobuf.framed(tag, protobuf.packed(each, letter))
    return protobuf.framed(bytes((number << 3 | protobuf.BYTES,)), tensor)


# Reading a Record in any encoding that protobuf's own parser takes


def decode_record(data: bytes) -> tuple[dict[str, Value], dict[str, Value], list[str]]:
    """Return the features and the labels of a record, and uid, metadata and configuration."""
    maps: tuple[dict[str, Value], dict[str, Value]] = ({}, {})
    texts = ["", "", ""]
    for number, value in protobuf.strings(protobuf.fields(data)):
        if number in (1, 2):
            if len(value) < 64:  # many samples may share it: a class
                key, entry = _known_entry(value)
            else:
                key, entry = protobuf.plain_entry(value, 0, len(value), _VALUE, (0x12, 0x4A, 0x0A))
            maps[number - 1][key] = entry
        elif number <= 5:
            texts[number - 3] = value.decode()
    return *maps, texts


@lru_cache(maxsize=4096)
def _known_entry(entry: bytes) -> tuple[str, Value]:
    return protobuf.decode_entry(entry, _VALUE)


def _decode_bytes(message: list[protobuf.Wired]) -> Blobs:
    parts = list(protobuf.strings(message))
    blobs = TypedBlobs(value for number, value in parts if number == 1)
    for number, value in parts:
        if number == 2:
            blobs.content_type = value.decode()
    return blobs if blobs.content_type else Blobs(blobs)


def _decode_tensor(message: list[protobuf.Wired], kind: str) -> Value:
    values = protobuf.numbers_of(message, 1, _TENSORS[kind][1])
    keys, shape = (protobuf.numbers_of(message, field, "Q") for field in (2, 3))
    if keys or shape:
        return {"type": kind, "values": values, "keys": keys, "shape": shape}
    if kind == "float64":
        return values[0] if len(values) == 1 else tuple(values)
    return Ints(values) if kind == "int32" else Floats(values)


_VALUE: protobuf.Decoders = {
    0: lambda message: None,
    _BYTES: _decode_bytes,
    **{number: partial(_decode_tensor, kind=kind) for kind, (number, _) in _TENSORS.items()},
}

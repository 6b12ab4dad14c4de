"""TensorFlow's TFRecord: ``.tfrecord``, plain or gzip.

The framing is that of tensorflow/core/lib/io/record_writer.cc: ``u64 length, u32 masked crc32c of
the length, data, u32 masked crc32c of the data``, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

from google_crc32c import extend
from google_crc32c import value as value_of

from dsprep.errors import BadSample, OptionError
from dsprep.formats.base import Entry, Format, Span
from dsprep.formats.example import (
    BytesList,
    Feature,
    FloatList,
    Int64List,
    decode_example,
    encode_entry,
    example_head,
    head_of_bytes,
)
from dsprep.formats.features import (
    CLASS_NUMBER,
    CLASS_TEXT,
    FORMAT,
    MEANINGS,
    PATHS,
    PLACES,
    PRESETS,
    Preset,
    boxes_of,
    feature_of,
    own_feature_of,
)
from dsprep.formats.floats import INT64, as_floats
from dsprep.images.header import sniff
from dsprep.sample import FORMAT_NAMES, UNKNOWN_IMAGE, Sample, Value, image_kind_of, key_of
from dsprep.schema import Field, Meaning, Schema, Table, item_of

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")

_Maker: TypeAlias = Callable[[Sample], bytes]
"""Makes the entry of a feature; nothing if a sample does not have it."""


@dataclass(frozen=True)
class TFRecord(Format):
    """Records that are ``tf.train.Example`` messages."""

    name: ClassVar[str] = "tfrecord"
    shard_index: ClassVar[str] = "dali"
    suffix: ClassVar[str] = ".tfrecord"
    known_by: ClassVar[str] = "path"
    float_bits: ClassVar[int] = 32
    label_bits: ClassVar[int] = 32
    sealed: ClassVar[bool] = True
    # the names of the features: one of :data:`dsprep.formats.features.PRESETS`
    preset: str = "dsprep"
    gzip: bool = False  # whether the shard is compressed

    def __post_init__(self) -> None:
        """Refuse a preset that there is not."""
        if self.preset not in PRESETS:
            raise OptionError(
                f"--features {self.preset}: unknown; choose one of {', '.join(PRESETS)}"
            )

    @property
    def names(self) -> Preset:
        """What features are called."""
        return PRESETS[self.preset]

    def shard_name(self, name: str, number: int, count: int) -> str:
        """``train-00000-of-00128.tfrecord``."""
        return f"{name}-{number:05d}-of-{count:05d}{self.file_suffix}"

    @property
    def file_suffix(self) -> str:
        """``.tfrecord``, or ``.tfrecord.gz``."""
        return self.suffix + ".gz" * self.gzip

    @property
    def compressed(self) -> bool:
        """Whether the whole shard is wrapped in gzip."""
        return self.gzip

    def place_of(self, raw: str) -> str:
        """Return the place that a feature stands for."""
        return PLACES.get(raw, raw)

    def meaning(self, place: str) -> Meaning:
        """Return what a feature means; a name that is no convention is that of a field."""
        return MEANINGS.get(place) or Meaning(place)

    def fact_of(self, raw: str) -> str:
        """Return the fact of an image that a feature tells."""
        return "format" if raw == FORMAT else super().fact_of(raw)

    def like(self, other: Table) -> Self:
        """Return this format for raw samples of another TFRecord, whose classes count alike."""
        return replace(self, preset=other.preset) if isinstance(other, TFRecord) else self

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        """Return this format with the features that the fields become."""
        is_own, names = schema.format == self.name, self.names
        boxes = _label_of_boxes(schema, names)
        kept = {each.name for each in schema.fields if is_own and _keeps_its_place(each)}
        texts = () if schema.label in kept else _texts_of(schema, names)
        used = dict.fromkeys((names.path, *texts), "")
        fields: list[Field] = []
        for each in schema.fields:
            if each == boxes:
                fields.append(replace(each, places=(), missing=True))
                continue
            if each.name in kept:
                feature, places = own_feature_of(each), each.places
            else:
                feature = feature_of(each, schema, names)
                is_alone = each.name == schema.label and not texts
                places = ((self.place_of(feature) if is_alone else feature,),)
            if feature in used:
                other = f"the field {used[feature]!r}" if used[feature] else "another feature"
                raise OptionError(
                    f"the field {each.name!r} would be the feature {feature!r}, which is {other}: "
                    f"give --drop {each.name}, or --rename {each.name}=NEW"
                )
            used[feature] = each.name
            fields.append(replace(each, places=places))
        if not is_own:
            fields += (each for each in _added(schema, names) if each.places[0][0] not in used)
            fields += _told_again(schema, texts)
        arranged = Schema(tuple(fields), schema.image, schema.label, self.name)
        return replace(self, schema=arranged), _notes(schema, boxes)

    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out as the record of an Example, its features sorted by name."""
        if self.schema is None:
            return _encode_raw(sample, self.names.first_class)
        feature, name, before, after = self._makers
        head = b"".join([make(sample) for make in before])
        tail = b"".join([make(sample) for make in after])
        image: bytes | None = sample.fields.get(name)
        if image is None:
            image = b""
        else:
            head += head_of_bytes(feature, len(image))
        head = example_head(len(head) + len(image) + len(tail)) + head
        crc = extend(extend(value_of(head), image), tail)
        size = len(head) + len(image) + len(tail)
        return [_record_head(size) + head, image, tail + _masked(crc)]

    @cached_property
    def _makers(self) -> tuple[str, str, list[_Maker], list[_Maker]]:
        """The feature and the field of the image, and what makes the entries on either side."""
        schema, names = self.schema, self.names
        assert schema is not None
        image, label = schema.image_field, schema.label_field
        makers: dict[str, _Maker] = {
            names.path: partial(_path_entry, names.path, schema.image or "")
        }
        for each in schema.fields:
            if not each.places:
                makers[names.box_names[0]] = partial(_box_entries, names, each.name)
                continue
            feature = own_feature_of(each)
            if each.name == "format" and each.type == "text" and schema.image:
                makers[feature] = partial(_format_entry, schema.image, each.name, feature)
            elif each.name == "source_id" and feature == names.source_id:
                makers[feature] = partial(_source_id_entry, feature)
            elif each != image:
                first = names.first_class if feature == CLASS_NUMBER else 0
                is_label = each == label and feature == names.numbers
                makers.setdefault(feature, _maker(feature, each, first, is_label))
        if label is not None and label.places == ((CLASS_NUMBER,),):
            for name in names.names or (CLASS_TEXT,):
                own = schema.by_name.get(name)
                if own is None or own.type == "text":
                    makers[name] = partial(_name_entry, label.name, label.names, name)
        if image is not None and "format" in names.written:
            makers.setdefault(FORMAT, partial(_format_entry, image.name, "", FORMAT))
        place = own_feature_of(image) if image else ""
        before = [makers[name] for name in sorted(makers) if name < place]
        after = [makers[name] for name in sorted(makers) if name >= place]
        return place, schema.image or "", before, after

    def capacity(self, target: int) -> int:
        """All of it; but gzip can make what it cannot compress a little larger."""
        # zlib's deflateBound for stored blocks, and gzip's head and tail.
        return target - target // 4096 - target // 16384 - 64 if self.gzip else target

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """The record's frame around the Example; width and height are taken at their largest."""
        from dsprep.formats.weights import example_weights

        assert self.schema is not None
        return example_weights(rows, self.schema, self.names) + (_LENGTH.size + 2 * _CRC.size)

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """Read the records, checking both checksums of each."""
        position = stream.first
        while not stream.at_end():
            offset = stream.offset
            data = stream.read(_read_length(stream), "a record")
            if stream.read(_CRC.size, "the checksum of a record") != _masked(value_of(data)):
                raise stream.damaged("the checksum of a record's data is wrong", offset)
            try:
                sample = self.raw(decode_example(data), position)
            except ValueError as error:
                raise stream.damaged(
                    f"the record is not a tf.train.Example: {error}", offset
                ) from None
            yield Entry(offset, stream.offset - offset, sample)
            position += 1

    def raw(self, features: dict[str, Feature], position: int) -> Sample:
        """Return the raw sample of a record, its classes counted from 0."""
        fields: dict[str, Value] = features
        if (first := self.names.first_class) and (classes := _classes(fields)):
            fields[CLASS_NUMBER] = Int64List(number - first for number in classes)
        _, path = _path_of(fields)
        name = _text_of(fields, CLASS_TEXT)
        name = name if CLASS_NUMBER in fields else None
        key = key_of(path) if path and path[-1] != "/" else ""
        # A name without an extension tells the key, but is none of a file.
        path = path if image_kind_of(path) else ""
        return Sample(key, fields, position, path, class_name=name)

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        """Find the records by their lengths, checking the checksums of those."""
        position = stream.first
        while not stream.at_end():
            offset = stream.offset
            stream.skip(_read_length(stream) + _CRC.size, "a record")
            yield Span(offset, stream.offset - offset, "", position)
            position += 1

    def is_intact(self, encoded: bytes) -> bool:
        """Whether the checksum of a record's data is right."""
        data = encoded[_LENGTH.size + _CRC.size : -_CRC.size]
        return encoded[-_CRC.size :] == _masked(value_of(data))


def _read_length(stream: ShardStream) -> int:
    offset = stream.offset
    head = stream.read(_LENGTH.size, "the length of a record")
    if stream.read(_CRC.size, "the checksum of a length") != _masked(value_of(head)):
        raise stream.damaged("the checksum of a record's length is wrong", offset)
    return int(_LENGTH.unpack(head)[0])


def _classes(fields: Mapping[str, Value]) -> Int64List | None:
    """Return the class numbers of a raw sample; None if it has none."""
    found = fields.get(CLASS_NUMBER)
    return found if isinstance(found, Int64List) else None


def _text_of(fields: Mapping[str, Value], name: str) -> str | None:
    """Return the text that a feature of a raw sample holds; None if it is none."""
    found = fields.get(name)
    if isinstance(found, BytesList) and len(found) == 1:
        try:
            return found[0].decode()
        except UnicodeDecodeError:
            pass
    return None


def _path_of(fields: Mapping[str, Value]) -> tuple[str, str]:
    """Return the feature that tells the name of the image's file, and the name; or nothing."""
    for name in PATHS:
        if name in fields:
            return name, _text_of(fields, name) or ""
    return "", ""


# What a schema becomes


def _keeps_its_place(column: Field) -> bool:
    """Return whether a field of a TFRecord stays the feature that it is."""
    return bool(column.places) and not column.given and len(column.places[0]) == 1


def _label_of_boxes(schema: Schema, names: Preset) -> Field | None:
    """Return the label that becomes boxes; None if the preset has none, or fields are they."""
    label = schema.label_field
    if schema.format == TFRecord.name or {*names.box_names} <= schema.by_name.keys():
        return None
    if label is not None and item_of(label.type) in ("int", "float32", "float64"):
        return label
    has = f"is of the type {label.type}" if label else "is not there"
    raise OptionError(
        f"--features detection needs a detection label, a list of numbers; the label {has}"
    )


def _texts_of(schema: Schema, names: Preset) -> tuple[str, ...]:
    """Return the features that tell the names of classes: all records have them, or none."""
    label = schema.label_field
    is_class = label is not None and feature_of(label, schema, names) == CLASS_NUMBER
    if label is None or not (is_class and label.names):
        return ()
    return tuple(name for name in names.names if name not in schema.by_name)


def _told_again(schema: Schema, texts: tuple[str, ...]) -> Iterator[Field]:
    """Make the fields that the names of classes are to readers: inception's second feature."""
    label = schema.label_field
    for name in texts:
        if label is not None and name not in MEANINGS:
            yield Field(name, "text", label.missing, (), ((name,),))


def _added(schema: Schema, names: Preset) -> Iterator[Field]:
    """Make the fields that the preset has features for, whether or not a source tells them."""
    missing = schema.image_field is None or schema.image_field.missing
    for name in names.written if schema.image else ():
        if name not in schema.by_name and name != "format":  # which the image tells
            yield Field(name, "int", missing, (), ((names.facts[name],),))
    if names.source_id and "source_id" not in schema.by_name:
        yield Field("source_id", "text", places=((names.source_id,),))
    if names.boxes and schema.label and names.box_names[0] not in schema.by_name:
        for name in names.box_names:
            kind = "list<int>" if name == names.classes else "list<float32>"
            yield Field(name, kind, places=((name,),))


def _notes(schema: Schema, boxes: Field | None) -> list[str]:
    notes = [
        f"{each.name}: 64-bit floats are rounded to the 32 bits that a TFRecord has"
        for each in schema.fields
        if "float64" in each.type and each != boxes
    ]
    if boxes is not None:
        notes.append(f"{boxes.name}: written as boxes: the class and the corners of each object")
    return notes


# How a sample is laid out


def _maker(feature: str, column: Field, first: int, is_label: bool) -> _Maker:
    """Return what makes the entry of a field."""
    name, item = column.name, item_of(column.type)
    if column.type in ("class", "bool", "int"):
        return partial(_number_entry, feature, name, first)
    if column.type in ("image", "json", "bytes"):
        return partial(_bytes_entry, feature, name)
    if column.type == "text":
        return partial(_text_entry, feature, name)
    if "float" in column.type or is_label:
        # Labels come from lists and tables, too, and may be what no schema has checked.
        return partial(_float_entry, feature, name, "float32" in column.type and not is_label)
    return partial(_list_entry, feature, name, item or "", first)


def _number_entry(feature: str, name: str, first: int, sample: Sample) -> bytes:
    value = sample.fields.get(name)
    return b"" if value is None else _one_number(feature, value + first)


def _bytes_entry(feature: str, name: str, sample: Sample) -> bytes:
    value: bytes | None = sample.fields.get(name)
    return b"" if value is None else head_of_bytes(feature, len(value)) + value


def _text_entry(feature: str, name: str, sample: Sample) -> bytes:
    value = sample.fields.get(name)
    if value is None:
        return b""
    data: bytes = value.encode()
    return head_of_bytes(feature, len(data)) + data


def _float_entry(feature: str, name: str, is_exact: bool, sample: Sample) -> bytes:
    value = sample.fields.get(name)
    if value is None:
        return b""
    values = value if type(value) is tuple else (value,)
    values = values if is_exact else as_floats(values, f"the field {name!r}")
    return encode_entry(feature, FloatList(values))


def _list_entry(feature: str, name: str, item: str, first: int, sample: Sample) -> bytes:
    values = sample.fields.get(name)
    if values is None:
        return b""
    if item == "int":
        return encode_entry(feature, Int64List(_in_range(each + first) for each in values))
    if item == "text":
        values = (each.encode() for each in values)
    return encode_entry(feature, BytesList(values))


def _format_entry(image: str, name: str, feature: str, sample: Sample) -> bytes:
    """Make the entry of the kind of the image, which a field of a name may tell."""
    told = sample.fields.get(name)
    if told is None:
        data = sample.fields.get(image)
        if data is None:
            return b""
        told = FORMAT_NAMES.get(sniff(data) or "", "")
    return _shared_text(feature, told)


def _name_entry(label: str, names: tuple[str, ...], feature: str, sample: Sample) -> bytes:
    """Make the entry of the name of a class: empty if the number has none."""
    if (told := sample.fields.get(feature)) is not None:
        return _shared_text(feature, told)
    number = sample.fields.get(label)
    if number is None:
        return b""
    name = names[number] if 0 <= number < len(names) else sample.class_name
    return b"" if name is None and not names else _shared_text(feature, name or "")


def _source_id_entry(feature: str, sample: Sample) -> bytes:
    data = str(sample.fields.get("source_id", sample.id)).encode()
    return head_of_bytes(feature, len(data)) + data


def _path_entry(feature: str, image: str, sample: Sample) -> bytes:
    """Make the entry of the name of the image's file, which tells the key."""
    data = _path_for(sample, sample.fields.get(image)).encode()
    return head_of_bytes(feature, len(data)) + data if data else b""


def _path_for(sample: Sample, image: bytes | None) -> str:
    path, key = sample.path, sample.key
    if path and key_of(path) == key or not key:
        return path
    return key if image is None else f"{key}.{sniff(image) or UNKNOWN_IMAGE}"


def _box_entries(names: Preset, name: str, sample: Sample) -> bytes:
    """Make the entries of boxes, none of which may be without the others."""
    label = sample.fields.get(name)
    if label is None:
        return b""
    entries = boxes_of(label, names)
    return b"".join(encode_entry(feature, entries[feature]) for feature in sorted(entries))


def _in_range(number: int) -> int:
    if number not in INT64:
        raise BadSample(f"{number} is no 64-bit integer")
    return number


# Not for floats: 0.0 and -0.0 are the same to a cache, and their bytes differ.
@lru_cache(maxsize=4096)
def _one_number(feature: str, number: int) -> bytes:
    return encode_entry(feature, Int64List((_in_range(int(number)),)))


@lru_cache(maxsize=4096)
def _shared_text(feature: str, text: str) -> bytes:
    return encode_entry(feature, BytesList((text.encode(),)))


def _encode_raw(sample: Sample, first: int) -> list[bytes]:
    """Lay out the features that a record had, the name of the file telling the key."""
    fields = sample.fields
    if first and (classes := _classes(fields)):
        fields = fields | {CLASS_NUMBER: Int64List(_in_range(each + first) for each in classes)}
    feature, path = _path_of(fields)
    if path and key_of(path) != sample.key:
        image = _bytes_of(fields.get(sample.image or ""))
        fields = fields | {feature: _path_for(replace(sample, path=""), image).encode()}
    parts: list[bytes] = []
    for name in sorted(fields):
        value = fields[name]
        if (data := _bytes_of(value)) is not None:
            parts += (head_of_bytes(name, len(data)), data)
        elif type(value) is Int64List and len(value) == 1:
            parts.append(_one_number(name, value[0]))
        else:
            parts.append(encode_entry(name, value))
    size = sum(map(len, parts))
    head = example_head(size)
    crc = value_of(head)
    for part in parts:
        crc = extend(crc, part)
    return [_record_head(len(head) + size) + head, *parts, _masked(crc)]


def _bytes_of(value: Value) -> bytes | None:
    """Return the bytes of a raw value that is bytes and nothing else."""
    if isinstance(value, BytesList) and len(value) == 1:
        return value[0]
    return value if isinstance(value, bytes) else None


@lru_cache(maxsize=4096)
def _record_head(size: int) -> bytes:
    length = _LENGTH.pack(size)
    return length + _masked(value_of(length))


def _masked(crc: int) -> bytes:
    """A crc as the format stores it: rotated and shifted, so that a crc of crcs stays sound."""
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF)

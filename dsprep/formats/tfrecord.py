"""TensorFlow's TFRecord: ``.tfrecord``, plain or gzip.

The framing is that of tensorflow/core/lib/io/record_writer.cc: ``u64 length, u32 masked crc32c of
the length, data, u32 masked crc32c of the data``, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from google_crc32c import extend
from google_crc32c import value as crc32c_of

from dsprep.annotations import tensorflow
from dsprep.annotations.objects import FLAGS, Objects
from dsprep.errors import BadSample, OptionError
from dsprep.formats.base import (
    LONGEST_FACT,
    SIZES,
    Entry,
    Format,
    Limits,
    Span,
    claim,
    pixel_sizes,
    rounding_notes,
)
from dsprep.formats.protobuf import (
    decode_example,
    encode_feature,
    entry_sizes,
    example_head,
    framed_sizes,
    head_of_bytes,
    varint_sizes,
)
from dsprep.formats.tfrecord_objects import (
    count_without_shape,
    label_map,
    object_makers,
    objects_in,
    require_paintable,
    source_id,
)
from dsprep.formats.values import as_floats
from dsprep.images.header import sniff
from dsprep.sample import (
    FORMAT_NAMES,
    UNKNOWN_IMAGE,
    Blobs,
    Floats,
    Ints,
    Sample,
    Value,
    image_kind_of,
    key_of,
)
from dsprep.schema import FACTS, IMAGE, IMAGE_ID, LABEL, LABEL_TEXT, Field, Meaning, Schema, Table
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.protobuf import Sizes
    from dsprep.formats.stream import ShardStream

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")

_Maker: TypeAlias = tuple[str | None, Callable[[Any], bytes]]
"""The field of a feature, and what makes its entry of a value; None, and of a whole sample."""

# What features mean

# the features that tell the name of the image's file; the first of a record counts
PATHS = ("image/filename", "file_name", "filename")
CLASS_NUMBER, CLASS_TEXT = "image/class/label", "image/class/text"
CLASS_SYNSET = "image/class/synset"
FORMAT = "image/format"
# the decoder of the Object Detection API needs this feature in every record
SOURCE_ID = "image/source_id"
SEGMENTATION = "image/segmentation/class/encoded"  # a mask, as DeepLab has it
SEGMENTATION_FORMAT = "image/segmentation/class/format"

# Places that stand for several features, which have different names in one record.
ANY_CLASS, ANY_PATH = "image/class/*", "*/filename"
ANY_OBJECT = f"{tensorflow.PREFIX}*"
_PLACES = {CLASS_NUMBER: ANY_CLASS, CLASS_TEXT: ANY_CLASS} | dict.fromkeys(PATHS, ANY_PATH)
_LABEL = Meaning("label", LABEL_TEXT, LABEL)
_FACTS = {name: f"image/{name}" for name in FACTS} | {"sha256": "image/key/sha256"}

_MEANINGS: Mapping[str, Meaning] = {
    "image/encoded": Meaning("image", "image", IMAGE),
    ANY_CLASS: _LABEL,
    CLASS_NUMBER: _LABEL,
    CLASS_TEXT: Meaning(""),  # the name of the class, where the number is there, too
    "image/label": _LABEL,
    SOURCE_ID: Meaning("source_id"),
    SEGMENTATION: Meaning("mask", "mask"),
    SEGMENTATION_FORMAT: Meaning(""),
    ANY_PATH: Meaning(""),
    PATHS[0]: Meaning(""),
    **{feature: Meaning(name) for name, feature in _FACTS.items()},
    FORMAT: Meaning(""),  # the kind of the image, which its bytes tell
}
"""What features mean; any other is a field of its own name, and its values tell the type."""


class FeatureNames(NamedTuple):
    """The names of the features that fields are written as."""

    image: str = "image/encoded"
    label: str = CLASS_NUMBER  # feature of a label that is a class
    numbers: str = "image/label"  # feature of a label that is other numbers
    text: str = CLASS_TEXT  # feature of a label that is text
    class_names: tuple[str, ...] = ()  # features of the name of a class
    path: str = PATHS[0]  # feature of the name of the image's file
    facts: Mapping[str, str] = _FACTS
    # the facts that each record has, even if the source does not tell them
    written: tuple[str, ...] = ("format",)
    first_class: int = 0  # the number of the first class


_SIZED = ("format", "height", "width")
_OBJECT_HEADS = 1024  # bytes that the names of the features of objects take at most

# The names are those of the programs that made them customary: dataset_utils.image_to_tfexample of
# TF-Slim, Inception's build_image_data.py, and ImageFolder of TensorFlow Datasets.
PRESETS: Mapping[str, FeatureNames] = {  # what `--features` takes
    "dsprep": FeatureNames(class_names=(CLASS_TEXT,)),
    "slim": FeatureNames(written=_SIZED),
    "inception": FeatureNames(
        class_names=(CLASS_TEXT, CLASS_SYNSET), written=_SIZED, first_class=1
    ),
    "tfds": FeatureNames(
        "image", "label", "labels", "label", path="file_name", facts={}, written=()
    ),
}


class TFRecord(Format):
    """Records that are ``tf.train.Example`` messages."""

    name: ClassVar[str] = "tfrecord"
    suffix: ClassVar[str] = ".tfrecord"
    least: ClassVar[int] = 16  # a length and two checksums
    # older tutorials of TensorFlow; Kaggle; the Object Detection API
    other_suffixes: ClassVar[tuple[str, ...]] = (".tfrecords", ".tfrec", ".record")
    numbering: ClassVar[str] = "{:05d}-of-{:05d}"
    meanings: ClassVar[Mapping[str, Meaning]] = _MEANINGS
    shard_indexes: ClassVar[tuple[str, ...]] = ("dali",)
    known_by: ClassVar[str] = "path"
    class_names_in: ClassVar[str] = "sample"
    limits: ClassVar[Limits] = Limits(float_bits=32, label_bits=32)
    holds_pixels: ClassVar[bool] = True
    preset: str = "dsprep"  # the names of the features: one of `PRESETS`
    gzip: bool = False  # whether the shard is compressed
    # whether objects have masks, made of their polygons or runs
    object_masks: bool = field(default=False, kw_only=True, metadata={"recorded": True})

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise OptionError(
                f"--features {self.preset}: unknown; choose one of {', '.join(PRESETS)}"
            )

    @property
    def names(self) -> FeatureNames:
        return PRESETS[self.preset]

    @property
    def file_suffix(self) -> str:
        return self.suffix + ".gz" * self.gzip

    def place_of(self, raw: str) -> str:
        return _PLACES.get(raw, raw)

    def combined(self, fields: dict[str, Value]) -> dict[str, Value]:
        objects = objects_in(fields)
        if objects is None:
            return fields
        kept = {k: v for k, v in fields.items() if not k.startswith(tensorflow.PREFIX)}
        numbers = map(str, fields.get(IMAGE_ID) or ())
        if _text_of(fields, SOURCE_ID) in ("", source_id(_path_of(fields)[1]), *numbers):
            kept.pop(SOURCE_ID, None)  # the source id repeats the path or the image id
        return kept | {ANY_OBJECT: objects}

    def kept_parts(self) -> frozenset[str]:
        masks = ("polygons", "rle") if self.object_masks else ()
        return frozenset((*FLAGS, "area", *masks))

    @property
    def weighs(self) -> bool:
        # the size of a mask of an object is unknown before it is encoded
        return not self.object_masks

    def class_maps(self) -> dict[str, bytes]:
        objects = self.written.objects
        return {"label_map.pbtxt": label_map(objects)} if objects and objects.names else {}

    def fact_of(self, raw: str) -> str:
        return "format" if raw == FORMAT else super().fact_of(raw)

    def like(self, other: Table) -> Self:
        # classes of raw samples count from the same number
        return replace(self, preset=other.preset) if isinstance(other, TFRecord) else self

    def arranged(self, schema: Schema) -> tuple[Self, list[str]]:
        is_own, names, label = schema.format == self.name, self.names, schema.label_field
        kept = {
            each.name
            for each in schema.fields
            if is_own and each.places and not each.given and len(each.places[0]) == 1
        }
        texts: list[str] = []  # the features that name classes: all records have them, or none
        if label is not None and label.names and label.name not in kept:
            is_number = _feature_of(label, schema, names) == CLASS_NUMBER
            texts = [name for name in names.class_names if is_number and name not in schema.by_name]
        used = dict.fromkeys((names.path, *texts), "")
        fields: list[Field] = []
        for each in schema.fields:
            places = each.places
            feature = _own_feature(each) if each.name in kept else _feature_of(each, schema, names)
            if each.name not in kept:
                is_alone = each.name == schema.label and not texts
                places = ((self.place_of(feature) if is_alone else feature,),)
            claim(used, feature, each, "feature")
            fields.append(replace(each, places=places))
        if not is_own:
            missing = schema.image_field is None or schema.image_field.missing
            facts = _SIZED if schema.objects else names.written
            told = {*schema.by_name, *(each.tells for each in schema.fields)}
            added = [
                Field(name, "int", missing, (), ((_FACTS[name],),))
                for name in (facts if schema.image else ())
                if name not in told and name != "format"  # the image itself shows its format
            ]
            added += [
                Field(name, "text", bool(label and label.missing), (), ((name,),))
                for name in texts
                if name not in _MEANINGS  # inception's second, which readers take for no name
            ]
            fields += (each for each in added if used.get(each.places[0][0], "") == "")
        there = {each.name for each in fields}
        for each in pixel_sizes(schema):
            if each.name not in there:
                feature = names.facts.get(each.name, each.name)
                claim(used, feature, each, "feature")
                fields.append(replace(each, places=((feature,),)))
        return self.laid_out(schema, fields), rounding_notes(schema.fields, "a TFRecord")

    @property
    def has_class_ids(self) -> bool:
        return True

    def encode(self, sample: Sample) -> list[bytes]:
        if self.schema is None:
            return _encode_raw(sample, self.names.first_class)
        if self.object_masks and (column := self.written.objects):
            require_paintable(sample, column)
            count_without_shape(sample, column)
        feature, name, before, after = self._makers
        head, tail = _entries(before, sample), _entries(after, sample)
        image: bytes | None = sample.fields.get(name)
        if image is None:
            image = b""
        else:
            head += head_of_bytes(feature, len(image))
        head = example_head(len(head) + len(image) + len(tail)) + head
        crc = extend(extend(crc32c_of(head), image), tail)
        size = len(head) + len(image) + len(tail)
        return [_record_head(size) + head, image, tail + _masked(crc)]

    @cached_property
    def _makers(self) -> tuple[str, str, list[_Maker], list[_Maker]]:
        """The feature and the field of the image, and what makes the entries on either side."""
        schema, names = self.written, self.names
        image, label = schema.image_field, schema.label_field
        own = image.name if image is not None and not image.kind.is_raw else ""
        makers: dict[str, _Maker] = {names.path: (None, partial(_path_entry, names.path, own))}
        for each in schema.fields:
            feature = _own_feature(each)
            if each.kind.of is Objects:
                makers |= object_makers(each, self.object_masks)
                makers[SOURCE_ID] = None, partial(_source_entry, own)
            elif feature == SEGMENTATION:
                makers[feature] = each.name, _maker(feature, each, 0, False)
                makers[SEGMENTATION_FORMAT] = each.name, _png_entry
            elif each.tells == "format" and each.type == "text" and own:
                makers[feature] = None, partial(_format_entry, feature, own, each.name)
            elif each != image:
                first = names.first_class if feature == CLASS_NUMBER else 0
                is_label = each == label and feature == names.numbers
                maker = _maker(feature, each, first, is_label)
                makers.setdefault(feature, (each.name, maker))
        if label is not None and label.places == ((CLASS_NUMBER,),):
            for name in names.class_names or (CLASS_TEXT,):
                told = schema.by_name.get(name)
                if told is None or told.type == "text":
                    makers[name] = None, partial(_class_entry, name, label)
        renamed = any(each.given and each.tells == "format" for each in schema.fields)
        if own and "format" in names.written and not renamed:
            makers.setdefault(FORMAT, (None, partial(_format_entry, FORMAT, own, "")))
        place = _own_feature(image) if image else ""
        before = [makers[name] for name in sorted(makers) if name < place]
        after = [makers[name] for name in sorted(makers) if name >= place]
        return place, schema.image or "", before, after

    def capacity(self, target: int) -> int:
        # gzip can make what it cannot compress a little larger: zlib's deflateBound for stored
        # blocks, and gzip's head and tail.
        return target - target // 4096 - target // 16384 - 64 if self.gzip else target

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        schema, names = self.written, self.names
        label = schema.label_field
        total = rows["image"] * 0
        # The largest size of what the catalog does not tell, such as the width of an unread image.
        for column in schema.fields:
            feature = _own_feature(column)
            body: Sizes
            if column.name == schema.image:
                body = rows["image"]
            elif column.tells in SIZES:
                body = 5  # a varint: PNG has 31 bits for either
            elif column.fact:
                body = LONGEST_FACT
            elif column.name != schema.label:
                continue
            elif column.kind.is_integer and "cls" in rows.columns:
                first = names.first_class if feature == CLASS_NUMBER else 0
                body = varint_sizes(rows["cls"].fill_null(0) + first)
            elif column.type == "text" and "class" in rows.columns:
                body = _text_sizes(rows["class"])
            elif "label" in rows.columns:
                body = rows["label"].list.len().cast(int).fill_null(0) * 4
            else:
                continue
            total += entry_sizes(feature, framed_sizes(body))
        total += entry_sizes(names.path, framed_sizes(_text_sizes(rows["path"])))
        if "format" in names.written and schema.image:
            # The extension may be wrong, so take the longest name: tiff and webp are as long.
            total += entry_sizes(FORMAT, framed_sizes(len("jpeg")))
        if label is not None and label.places == ((CLASS_NUMBER,),):
            longest = max((len(name.encode()) for name in label.names), default=0)
            body = framed_sizes(_text_sizes(rows["class"]) if "class" in rows.columns else longest)
            for feature in names.class_names:
                total += entry_sizes(feature, body)
        if schema.objects is not None and "objects" in rows.columns:
            longest = max((len(name.encode()) for name in schema.objects.names), default=0)
            total += rows["objects"] * (longest + 64) + _OBJECT_HEADS
            total += entry_sizes(SOURCE_ID, framed_sizes(_text_sizes(rows["path"]).clip(20)))
        if "masks" in rows.columns:
            total += rows["masks"] * 2 + 1024 + _OBJECT_HEADS
        example = framed_sizes(total)
        assert not isinstance(example, int)
        return example + (_LENGTH.size + 2 * _CRC.size)

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        for position, offset in stream.records():
            data = stream.read(_read_length(stream), "a record")
            if stream.read(_CRC.size, "the checksum of a record") != _masked(crc32c_of(data)):
                raise stream.damaged("the checksum of a record's data is wrong", offset)
            try:
                sample = self.raw(decode_example(data), position)
            except ValueError as error:
                problem = f"the record is not a tf.train.Example: {error}"
                raise stream.damaged(problem, offset) from None
            yield Entry(offset, stream.offset - offset, sample)

    def raw(self, fields: dict[str, Value], position: int) -> Sample:
        """Return the raw sample of a record, its classes counted from 0."""
        classes = fields.get(CLASS_NUMBER)
        if (first := self.names.first_class) and isinstance(classes, Ints):
            fields[CLASS_NUMBER] = Ints(number - first for number in classes)
        _, path = _path_of(fields)
        name = _text_of(fields, CLASS_TEXT) if CLASS_NUMBER in fields else None
        key = key_of(path) if path and path[-1] != "/" else ""
        # A name without an extension is a key, but not a file name.
        path = path if image_kind_of(path) else ""
        return Sample(key, fields, position, path, class_name=name)

    def spans(self, stream: ShardStream) -> Iterator[Span]:
        for position, offset in stream.records():
            stream.skip(_read_length(stream) + _CRC.size, "a record")
            yield Span(offset, stream.offset - offset, "", position)

    def is_intact(self, encoded: bytes) -> bool:
        data = encoded[_LENGTH.size + _CRC.size : -_CRC.size]
        return encoded[-_CRC.size :] == _masked(crc32c_of(data))


def _read_length(stream: ShardStream) -> int:
    offset = stream.offset
    head = stream.read(_LENGTH.size + _CRC.size, "the length of a record and its checksum")
    (size,) = _LENGTH.unpack_from(head)
    if head != _record_head(size):
        raise stream.damaged("the checksum of a record's length is wrong", offset)
    return int(size)


@lru_cache(maxsize=4096)
def _record_head(size: int) -> bytes:
    length = _LENGTH.pack(size)
    return length + _masked(crc32c_of(length))


def _masked(crc: int) -> bytes:
    """Return a crc as the format stores it: rotated and shifted, so that a crc of crcs is sound."""
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF)


# Raw samples


def _bytes_of(value: Value) -> bytes | None:
    """Return the bytes of a raw value that is bytes and nothing else."""
    if isinstance(value, Blobs) and len(value) == 1:
        return value[0]
    return value if isinstance(value, bytes) else None


def _text_of(fields: Mapping[str, Value], name: str) -> str | None:
    """Return the text of a feature of a raw sample; None if it has none."""
    try:
        data = _bytes_of(fields.get(name))
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _path_of(fields: Mapping[str, Value]) -> tuple[str, str]:
    """Return the feature with the file name of the image, and the name; empty if unknown."""
    for name in PATHS:
        if name in fields:
            return name, _text_of(fields, name) or ""
    return "", ""


def _encode_raw(sample: Sample, first: int) -> list[bytes]:
    """Lay out the features that a record had; the file name follows the key."""
    fields = sample.fields
    if first and isinstance(classes := fields.get(CLASS_NUMBER), Ints):
        fields = fields | {CLASS_NUMBER: Ints(_in_range(number + first) for number in classes)}
    feature, path = _path_of(fields)
    if path and key_of(path) != sample.key:
        image = _bytes_of(fields.get(sample.image or ""))
        fields = fields | {feature: _path_for(replace(sample, path=""), image).encode()}
    parts: list[bytes] = []
    for name in sorted(fields):
        value = fields[name]
        if (data := _bytes_of(value)) is not None:
            parts += (head_of_bytes(name, len(data)), data)
        elif type(value) is Ints and len(value) == 1:
            parts.append(_number_entry(name, value[0]))
        else:
            parts.append(encode_feature(name, value))
    size = sum(map(len, parts))
    head = example_head(size)
    crc = crc32c_of(head)
    for part in parts:
        crc = extend(crc, part)
    return [_record_head(len(head) + size) + head, *parts, _masked(crc)]


# What fields become


def _feature_of(column: Field, schema: Schema, names: FeatureNames) -> str:
    """Return the feature that a field of samples from another format becomes."""
    if column.given:
        return column.name
    if column.kind.of is Objects:
        return ANY_OBJECT
    if column.name == "source_id" and schema.objects:
        return SOURCE_ID
    if column.type == "mask" and column.name == "mask":
        return SEGMENTATION
    if column.name == schema.image:
        return names.image
    if column.name == schema.label:
        if column.kind.is_integer:
            return names.label
        if column.type == "text":
            return names.text
        return names.numbers if column.kind.is_number else column.name
    return names.facts.get(column.name, column.name)


def _own_feature(column: Field) -> str:
    """Return the feature that holds a field of this format."""
    feature = column.places[0][0]
    if feature == ANY_CLASS:
        return CLASS_TEXT if column.type in ("text", "bytes") else CLASS_NUMBER
    return feature


# How a sample is laid out


def _entries(makers: list[_Maker], sample: Sample) -> bytes:
    # Joined at the end: to add to bytes copies them, once for each of many fields. A generator
    # takes longer than a list.
    fields = sample.fields
    entries = [
        make(value)
        for name, make in makers
        if (value := sample if name is None else fields.get(name)) is not None
    ]
    return b"".join(entries)


def _png_entry(mask: bytes) -> bytes:
    return _shared_text(SEGMENTATION_FORMAT, FORMAT_NAMES.get(sniff(mask) or "", ""))


def _source_entry(image: str, sample: Sample) -> bytes:
    told = sample.fields.get("source_id", sample.fields.get(IMAGE_ID))
    path = _path_for(sample, sample.fields.get(image))
    return _text_entry(SOURCE_ID, source_id(path) if told is None else str(told))


def _maker(feature: str, column: Field, first: int, is_label: bool) -> Callable[[Any], bytes]:
    """Return what makes the entry of a value of a field."""
    kind = column.kind
    if kind.is_integer:
        return lambda value: _number_entry(feature, value + first)
    if kind.is_bytes:
        return lambda value: head_of_bytes(feature, len(value)) + value
    if kind.name == "text":
        return lambda value: _text_entry(feature, value)
    if kind.of is float or is_label:
        # Labels come from lists and tables, too, and may be what no schema has checked.
        is_exact = kind.code == "f" and not is_label

        def make_floats(value: Value) -> bytes:
            values = value if type(value) is tuple else (value,)
            values = values if is_exact else as_floats(values, f"the field {column.name!r}")
            return encode_feature(feature, Floats(values))

        return make_floats
    if kind.is_number:
        return lambda values: encode_feature(feature, Ints(_in_range(v + first) for v in values))
    if kind.of is str:
        return lambda values: encode_feature(feature, Blobs(text.encode() for text in values))
    return lambda values: encode_feature(feature, Blobs(values))


def _text_entry(feature: str, text: str) -> bytes:
    data = text.encode()
    return head_of_bytes(feature, len(data)) + data


def _format_entry(feature: str, image: str, field: str, sample: Sample) -> bytes:
    """Make the entry of the kind of the image, which a field may tell."""
    told = sample.fields.get(field)
    if told is None:
        data = sample.fields.get(image)
        if data is None:
            return b""
        told = FORMAT_NAMES.get(sniff(data) or "", "")
    return _shared_text(feature, told)


def _class_entry(feature: str, label: Field, sample: Sample) -> bytes:
    """Make the entry of the name of a class: empty if the number has none."""
    if (told := sample.fields.get(feature)) is not None:
        return _shared_text(feature, told)
    number = sample.fields.get(label.name)
    if number is None:
        return b""
    name = label.class_name(number)
    name = sample.class_name if name is None else name
    return b"" if name is None and not label.names else _shared_text(feature, name or "")


def _path_entry(feature: str, image: str, sample: Sample) -> bytes:
    path = _path_for(sample, sample.fields.get(image))
    return _text_entry(feature, path) if path else b""


def _path_for(sample: Sample, image: bytes | None) -> str:
    """Return the file name of the image, from which readers derive the key."""
    path, key = sample.path, sample.key
    if path and key_of(path) == key or not key:
        return path
    return key if image is None else f"{key}.{sniff(image) or UNKNOWN_IMAGE}"


def _in_range(number: int) -> int:
    if not -(1 << 63) <= number < 1 << 63:
        raise BadSample(f"{number} is not a whole number from -2^63 to 2^63-1")
    return number


# Not for floats: 0.0 and -0.0 are the same to a cache, and their bytes differ.
@lru_cache(maxsize=4096)
def _number_entry(feature: str, number: int) -> bytes:
    return encode_feature(feature, Ints((_in_range(int(number)),)))


@lru_cache(maxsize=4096)
def _shared_text(feature: str, text: str) -> bytes:
    return _text_entry(feature, text)


def _text_sizes(column: pl.Series) -> pl.Series:
    return column.str.len_bytes().cast(int).fill_null(0)

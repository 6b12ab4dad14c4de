"""TensorFlow's TFRecord: ``.tfrecord``, plain or gzip.

The framing is that of tensorflow/core/lib/io/record_writer.cc: ``u64 length, u32 masked crc32c of
the length, data, u32 masked crc32c of the data``, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from google_crc32c import extend
from google_crc32c import value as value_of

from dsprep.formats.base import Entry, Format, Span
from dsprep.formats.example import (
    BytesList,
    Feature,
    Int64List,
    decode_example,
    encode_entry,
    example_head,
    head_of_bytes,
)
from dsprep.formats.features import PRESETS, TYPES, Preset, feature_of, fields_for
from dsprep.formats.from_features import sample_of, usual_sample
from dsprep.formats.to_features import features_of, usual_fields
from dsprep.sample import Sample, Value, is_label

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")

_OWN = frozenset({"filename", "source_id"})
"""Texts that no two samples share."""


@dataclass(frozen=True)
class TFRecord(Format):
    """Records that are ``tf.train.Example`` messages.

    Attributes:
        preset: The names of the features.
        gzip: Whether the shard is compressed.
        whole: Whether samples are written so that they come back as they are, with their keys, and
            are read so.
    """

    name: ClassVar[str] = "tfrecord"
    suffix: ClassVar[str] = ".tfrecord"
    known_by: ClassVar[str] = "path"
    sealed: ClassVar[bool] = True
    preset: Preset = field(default=PRESETS["dsprep"])
    gzip: bool = False
    whole: bool = False

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The format that has the options which ``dataclasses.asdict`` made of one."""
        preset = options["preset"]
        names = {str(field): str(name) for field, name in preset["names"].items()}
        made = Preset(names, int(preset["first_class"]))
        return cls(made, bool(options["gzip"]), bool(options["whole"]))

    def exact(self) -> Self:
        """The same layout, with which samples come back as they were, keys included."""
        return replace(self, whole=True)

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

    @property
    def tells_labels(self) -> bool:
        """Whether the preset names the label; those for detection have it in boxes."""
        return "label" in self.preset.names

    @cached_property
    def wants(self) -> frozenset[str]:
        """Those of class, filename, width and height that the preset names."""
        names = set(self.preset.names)
        return frozenset(names & {"class", "filename", "width", "height"}) | (
            frozenset({"class"}) if "synset" in names else frozenset()
        )

    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out as the record of an Example, its features sorted by name."""
        usual = self._encode_usual(sample)
        return usual or _lay_out(features_of(sample, self.preset, self.whole))

    def _encode_usual(self, sample: Sample) -> list[bytes] | None:
        """Lay out a sample that is an image and what the preset names; None if it is not.

        What many samples share, such as a label, is encoded once; what each has for itself, the
        image and texts, is laid out around its bytes.
        """
        fields = (
            usual_fields(sample, self.preset) if self.whole else fields_for(sample, self.preset)
        )
        if fields is None:
            return None
        first_class = self.preset.first_class
        before: list[bytes] = []
        after: list[bytes] = []
        image = b""
        entries = before
        for name, field_name in self._order:
            value = fields.get(field_name)
            if value is None:
                continue
            if isinstance(value, bytes):
                if field_name != "image":
                    return None
                image = value
                before.append(head_of_bytes(name, len(image)))
                entries = after
            elif field_name in _OWN and isinstance(value, str):
                text = value.encode()
                entries += (head_of_bytes(name, len(text)), text)
            elif isinstance(value, tuple):
                if not is_label(value):
                    return None
                entries.append(_entry(name, field_name, value, first_class))
            else:
                entry = _shared_entry(name, field_name, value, first_class)
                if entry is None:
                    return None
                entries.append(entry)
        head, tail = b"".join(before), b"".join(after)
        head = example_head(len(head) + len(image) + len(tail)) + head
        crc = extend(extend(value_of(head), image), tail)
        record_head = _record_head(len(head) + len(image) + len(tail))
        return [record_head + head, image, tail + _masked(crc)]

    @cached_property
    def _order(self) -> list[tuple[str, str]]:
        return self.preset.in_order()

    def capacity(self, target: int) -> int:
        """All of it; but gzip can make what it cannot compress a little larger."""
        # zlib's deflateBound for stored blocks, and gzip's head and tail.
        return target - target // 4096 - target // 16384 - 64 if self.gzip else target

    def weights(self, rows: pl.DataFrame) -> pl.Series:
        """The record's frame around the Example; width and height are taken at their largest."""
        from dsprep.formats.weights import example_weights

        return example_weights(rows, self.preset) + (_LENGTH.size + 2 * _CRC.size)

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        """Read the records, checking both checksums of each."""
        position = stream.first
        while not stream.at_end():
            offset = stream.offset
            data = stream.read(_read_length(stream), "a record")
            if stream.read(_CRC.size, "the checksum of a record") != _masked(value_of(data)):
                raise stream.damaged("the checksum of a record's data is wrong", offset)
            try:
                sample = self._sample(decode_example(data), position)
            except (ValueError, UnicodeDecodeError) as error:
                raise stream.damaged(
                    f"the record is not a tf.train.Example: {error}", offset
                ) from None
            yield Entry(offset, stream.offset - offset, sample)
            position += 1

    def _sample(self, features: Mapping[str, Feature], position: int) -> Sample:
        usual = usual_sample(features, position, self.preset) if self.whole else None
        return usual or sample_of(features, position, self.preset, self.whole)

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


def _lay_out(features: Mapping[str, Feature]) -> list[bytes]:
    """The record of an Example with these features."""
    parts: list[bytes] = []
    for name in sorted(features):
        feature = features[name]
        if isinstance(feature, BytesList) and len(feature) == 1:
            parts += (head_of_bytes(name, len(feature[0])), feature[0])
        elif isinstance(feature, Int64List) and len(feature) == 1:
            parts.append(_one_number(name, feature))
        else:
            parts.append(encode_entry(name, feature))
    size = sum(map(len, parts))
    head = example_head(size)
    crc = value_of(head)
    for part in parts:
        crc = extend(crc, part)
    return [_record_head(len(head) + size) + head, *parts, _masked(crc)]


@lru_cache(maxsize=4096)
def _one_number(name: str, feature: Int64List) -> bytes:
    return encode_entry(name, feature)


@lru_cache(maxsize=4096)
def _record_head(size: int) -> bytes:
    length = _LENGTH.pack(size)
    return length + _masked(value_of(length))


# Not for floats: 0.0 and -0.0 are the same to a cache, and their bytes differ.
@lru_cache(maxsize=4096)
def _shared_entry(name: str, field_name: str, value: int | str, first_class: int) -> bytes | None:
    if TYPES.get(field_name, type(value)) is not type(value):
        return None
    return _entry(name, field_name, value, first_class)


def _entry(name: str, field_name: str, value: Value, first_class: int) -> bytes:
    return encode_entry(name, feature_of(field_name, value, first_class))


def _masked(crc: int) -> bytes:
    """A crc as the format stores it: rotated and shifted, so that a crc of crcs stays sound."""
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF)

"""TensorFlow's TFRecord: ``.tfrecord``, plain or gzip.

The framing is that of tensorflow/core/lib/io/record_writer.cc: ``u64 length, u32 masked crc32c of
the length, data, u32 masked crc32c of the data``, little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from google_crc32c import extend, value

from dsprep.formats.base import Entry, Format
from dsprep.formats.example import decode_example, encode_example
from dsprep.formats.features import PRESETS, Preset, features_of, sample_of
from dsprep.sample import Sample

if TYPE_CHECKING:
    import polars as pl

    from dsprep.formats.stream import ShardStream

_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


@dataclass(frozen=True)
class TFRecord(Format):
    """Records that are ``tf.train.Example`` messages.

    Attributes:
        preset: The names of the features.
        gzip: Whether the shard is compressed.
    """

    name: ClassVar[str] = "tfrecord"
    suffix: ClassVar[str] = ".tfrecord"
    preset: Preset = field(default=PRESETS["dsprep"])
    gzip: bool = False

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

    @cached_property
    def wants(self) -> frozenset[str]:
        """Those of class, filename, width and height that the preset names."""
        names = set(self.preset.names)
        return frozenset(names & {"class", "filename", "width", "height"}) | (
            frozenset({"class"}) if "synset" in names else frozenset()
        )

    def encode(self, sample: Sample) -> list[bytes]:
        """Lay one sample out as the record of an Example."""
        parts = encode_example(features_of(sample, self.preset))
        length = _LENGTH.pack(sum(map(len, parts)))
        crc = 0
        for part in parts:
            crc = extend(crc, part)
        return [length + _masked(value(length)), *parts, _masked(crc)]

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
        position = 0
        while not stream.at_end():
            offset = stream.offset
            head = stream.read(_LENGTH.size, "the length of a record")
            if stream.read(_CRC.size, "the checksum of a length") != _masked(value(head)):
                raise stream.damaged("the checksum of a record's length is wrong", offset)
            data = stream.read(_LENGTH.unpack(head)[0], "a record")
            if stream.read(_CRC.size, "the checksum of a record") != _masked(value(data)):
                raise stream.damaged("the checksum of a record's data is wrong", offset)
            try:
                sample = sample_of(decode_example(data), position)
            except (ValueError, UnicodeDecodeError) as error:
                raise stream.damaged(
                    f"the record is not a tf.train.Example: {error}", offset
                ) from None
            yield Entry(offset, stream.offset - offset, sample)
            position += 1


def _masked(crc: int) -> bytes:
    """A crc as the format stores it: rotated and shifted, so that a crc of crcs stays sound."""
    return _CRC.pack(((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF)

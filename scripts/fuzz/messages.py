"""What shards are made of: the messages in records, and the text in members."""

from __future__ import annotations

import struct
from pathlib import Path
from unittest import mock

from dsprep.formats import example as examples
from dsprep.formats.example import Feature, decode_example
from dsprep.formats.features import PRESETS
from dsprep.formats.from_features import sample_of
from dsprep.formats.label_text import parse_label
from dsprep.formats.recordio import MAGIC
from dsprep.formats.recordio_protobuf import RecordIOProtobuf
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.typed_json import decode_typed, encode_typed
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import Blobs, Floats, Ints, Sample
from scripts.fuzz.samples import SAMPLES
from scripts.fuzz.shards import HOLD_ALL, check_shard, require_same_again, write
from scripts.fuzz.target import Target, require_equal


def _check_example(data: bytes, directory: Path) -> None:
    """Decode an Example, the fast way and the thorough one, and make it again with every preset."""
    found = _decoded(data)
    with mock.patch.object(examples, "_plain_features", return_value=None):
        require_equal(_told(found), _told(_decoded(data)), "the fast way and the thorough one")
    if found is None:
        return
    for preset in PRESETS.values():
        sample = sample_of(found, 7, preset, whole=True)
        require_same_again(TFRecord(preset, whole=True), sample)


def _decoded(data: bytes) -> dict[str, Feature] | None:
    try:
        return decode_example(data)
    except ValueError:
        return None


def _told(features: dict[str, Feature] | None) -> str:
    return repr(sorted((features or {}).items()))


def _check_record(data: bytes, directory: Path) -> None:
    head = MAGIC + len(data).to_bytes(4, "little")
    check_shard(RecordIOProtobuf(), head + data + bytes(-len(data) % 4), directory)


def _check_text(data: bytes, directory: Path) -> None:
    """Read the text of a member, whichever it is."""
    typed = decode_typed(data)
    if typed is not None:
        require_equal(encode_typed(typed), data, "typed")
    parse_label(data)
    for name in ("cls", "label.json", "json", "features.json"):
        sample = Sample("0", WebDataset().fields_of({name: data}))
        for layout in HOLD_ALL:
            require_same_again(layout, sample)


def _examples() -> list[bytes]:
    layouts = [TFRecord(preset) for preset in PRESETS.values()]
    found = [write(layout, [sample])[12:-4] for layout in layouts for sample in SAMPLES]
    not_packed = bytes.fromhex("0a0d 0a0b 0a0161 1206 1a04 0801 0802")
    return [*found, not_packed]


def _records() -> list[bytes]:
    return [write(RecordIOProtobuf(), [sample])[8:] for sample in SAMPLES]


def _texts() -> list[bytes]:
    nan = Floats(struct.unpack("<2f", b"\0\0\xc0\xff\0\0\xc0\x7f"))
    return [
        encode_typed({"a": Ints((1, -2)), "b": Floats((0.5, 1e10)), "c": Blobs((b"\xff", b"a"))}),
        encode_typed({"x": nan, "y": Ints(), "z": Floats(), "t": b"text", "u": b"\xff"}),
        encode_typed({"b": Blobs((b"text",)), "e": Blobs()}),
        b'{"class":"cat","filename":"a.jpg","height":2,"id":1,"width":3}',
        b"[0.5,-0.0,1]",
        b"-12",
    ]


MESSAGES = {
    "example": Target(_check_example, _examples),
    "record": Target(_check_record, _records),
    "texts": Target(_check_text, _texts),
}

"""What shards are made of: the messages in records, and the text in members."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from dsprep.formats import protobuf
from dsprep.formats.protobuf import Feature, decode_example
from dsprep.formats.recordio import MAGIC
from dsprep.formats.recordio_protobuf import RecordIOProtobuf
from dsprep.formats.tfrecord import PRESETS, TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import Sample
from scripts.fuzz.shards import check_shard, require_same_again, seeds
from scripts.fuzz.target import Target, require_equal


def _check_example(data: bytes, directory: Path) -> None:
    """Decode an Example, the fast way and the thorough one, and make it again with every preset."""
    found = _decoded(data)
    with mock.patch.object(protobuf, "_plain_features", return_value=None):
        require_equal(_told(found), _told(_decoded(data)), "the fast way and the thorough one")
    if found is None:
        return
    for preset in PRESETS:
        layout = TFRecord(preset)
        require_same_again(layout, [layout.raw(dict(found), 7)])


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
    for name in ("cls", "label.json", "json", "txt"):
        require_same_again(WebDataset(), [Sample("0", {name: data})])


def _examples() -> list[bytes]:
    not_packed = bytes.fromhex("0a0d 0a0b 0a0161 1206 1a04 0801 0802")
    return [*(each[12:-4] for each in seeds(*map(TFRecord, PRESETS))), not_packed]


def _records() -> list[bytes]:
    return [each[8:] for each in seeds(RecordIOProtobuf())]


def _texts() -> list[bytes]:
    return [
        b'{"class":"cat","filename":"a.jpg","height":2,"id":1,"width":3}',
        b"[0.5,-0.0,1]",
        b"-12",
        b"cat",
    ]


MESSAGES = {
    "example": Target(_check_example, _examples),
    "record": Target(_check_record, _records),
    "texts": Target(_check_text, _texts),
}

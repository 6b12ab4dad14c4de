"""What `make fuzz` has found: each input as short as it could be made, and what it means now."""

from __future__ import annotations

import io
import struct
import tarfile
from pathlib import Path

import pytest

from dsprep.catalog import Catalog
from dsprep.findings import Reject
from dsprep.formats.base import Format
from dsprep.formats.protobuf import decode_example, framed
from dsprep.formats.recordio import RecordIO
from dsprep.formats.recordio_protobuf import RecordIOProtobuf
from dsprep.formats.stream import ShardStream
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.run.stream import convert_stream
from dsprep.sample import Blobs, Floats, Ints, Sample
from dsprep.sources.shards.shards import read_shards
from dsprep.sources.shards.shardset import ShardSet


def index(path: Path, layout: Format, data: bytes) -> Catalog:
    """The catalog of a shard of these bytes."""
    path.write_bytes(data)
    return read_shards(ShardSet(str(path), (str(path),), layout))[0]


def samples(catalog: Catalog) -> list[Sample]:
    return [each for each in catalog.reader.read(catalog.rows()) if isinstance(each, Sample)]


def tar_of(**pax: str) -> bytes:
    """A tar of one member that a PAX header describes."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as file:
        member = tarfile.TarInfo("x.cls")
        member.size, member.pax_headers = 1, pax
        file.addfile(member, io.BytesIO(b"1"))
    return data.getvalue()


def tfrecord_of(key: str, image: bytes) -> bytes:
    """A record with the name of a file."""
    name, data = Blobs((f"{key}.jpg".encode(),)), Blobs((image,))
    fields = {"image/filename": name, "image/encoded": data}
    return b"".join(TFRecord().encode(Sample(key, fields)))


A_ZERO = "a\x00b"


@pytest.mark.parametrize(
    ("layout", "data"),
    [(WebDataset(), tar_of(path=f"{A_ZERO}.cls")), (TFRecord(), tfrecord_of(A_ZERO, b""))],
)
def test_a_key_with_a_zero_byte_is_one_key(tmp_path: Path, layout: Format, data: bytes) -> None:
    catalog = index(tmp_path / "shard", layout, data)
    assert [each.key for each in samples(catalog)] == [A_ZERO]
    assert "\x00" not in catalog.table["path"][0]


def test_a_stream_does_not_make_one_sample_of_two_with_one_key() -> None:
    jpeg, gif = b"\xff\xd8\xff", b"GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;"
    source = io.BytesIO(tfrecord_of("0", gif) + tfrecord_of("0", jpeg))
    rejects: list[Reject] = []
    made = convert_stream(
        source, source="tfrecord", to="webdataset", check="none", on_reject=rejects.append
    )
    with ShardStream("a shard", io.BytesIO(made.read())) as stream:
        assert [entry.sample.fields for entry in WebDataset().read(stream)] == [{"gif": gif}]
    assert [each.path for each in rejects] == ["0"]


def test_a_label_that_is_an_unusual_nan_is_kept_bit_for_bit() -> None:
    nan = bytes.fromhex("0100c07f")
    record = struct.pack("<I", 0) + nan + bytes(16)
    data = b"\x0a\x23\xd7\xce" + len(record).to_bytes(4, "little") + record
    with ShardStream("a shard", io.BytesIO(data)) as stream:
        (entry,) = RecordIO().read(stream)
    assert b"".join(RecordIO().encode(entry.sample)) == data


@pytest.mark.parametrize("label", [1e30, float("inf"), float("nan"), -(2.0**62)])
def test_a_label_that_no_class_number_is(tmp_path: Path, label: float) -> None:
    sample = Sample("3", {"image": b"\xff\xd8\xff", "label": Floats((label,))}, 3)
    catalog = index(tmp_path / "a.rec", RecordIO(), b"".join(RecordIO().encode(sample)))
    (found,) = catalog.table["label"].list.first()
    assert repr(found) == repr(struct.unpack("f", struct.pack("f", label))[0])


def test_a_uid_without_a_name_is_no_key() -> None:
    data = b"\x1a\x04cat/"
    shard = b"\x0a\x23\xd7\xce" + len(data).to_bytes(4, "little") + data + bytes(2)
    with ShardStream("a shard", io.BytesIO(shard)) as stream:
        (entry,) = RecordIOProtobuf().read(stream)
    assert entry.sample.key == ""


def test_a_feature_in_many_parts_is_read_at_once() -> None:
    part = b"\x12\x05\x1a\x03\x0a\x01\x05"
    count = 200_000  # as a list that is copied for each part: hours
    entry = b"\x0a\x01a" + part * count
    features = framed(b"\x0a", entry)
    assert decode_example(framed(b"\x0a", features)) == {"a": Ints([5] * count)}

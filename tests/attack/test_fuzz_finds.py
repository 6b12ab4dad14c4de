"""What `make fuzz` has found: each input as short as it could be made, and what it means now."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from dsprep.catalog import Catalog
from dsprep.errors import BadSample
from dsprep.findings import Reject
from dsprep.formats.base import Format
from dsprep.formats.example import decode_example
from dsprep.formats.recordio_protobuf import RecordIOProtobuf
from dsprep.formats.stream import ShardStream
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.formats.wire import framed
from dsprep.sample import Ints, Sample, Value
from dsprep.sources.shards import read_shards
from dsprep.sources.shardset import ShardSet
from dsprep.streaming import convert_stream


def index(path: Path, layout: Format, data: bytes, whole: bool = False) -> Catalog:
    """The catalog of a shard of these bytes."""
    path.write_bytes(data)
    return read_shards(ShardSet(str(path), (str(path),), layout), whole=whole)[0]


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


A_ZERO = "a\x00b"


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("layout", "data"),
    [
        (WebDataset(), tar_of(path=f"{A_ZERO}.cls")),
        (TFRecord(whole=True), b"".join(TFRecord(whole=True).encode(Sample(A_ZERO, {"cls": 1})))),
    ],
)
def test_a_key_with_a_zero_byte_is_one_key(
    tmp_path: Path, layout: Format, data: bytes, whole: bool
) -> None:
    catalog = index(tmp_path / "shard", layout, data, whole)
    assert [(each.key, each.fields) for each in samples(catalog)] == [(A_ZERO, {"cls": 1})]
    assert "\x00" not in catalog.table["path"][0]


def again(layout: Format, sample: Sample) -> Sample:
    """The sample as it is read from a shard of its own."""
    data = b"".join(layout.encode(sample))
    with ShardStream("a shard", io.BytesIO(data + layout.trailer(len(data)))) as stream:
        (entry,) = layout.read(stream)
    return entry.sample


def test_a_feature_that_repeats_the_key_stays_what_it_is() -> None:
    sample = Sample("a", {"jpg": b"\xff\xd8\xff", "__key__": b"a"})
    assert again(TFRecord(whole=True), sample) == sample


@pytest.mark.parametrize("fields", [{"jpg": b"\xff\xd8\xff", "__key__": b"b"}, {"__key__": b"a"}])
def test_a_field_that_would_be_the_key_is_refused(fields: dict[str, Value]) -> None:
    with pytest.raises(BadSample, match="'__key__' would be read as its key"):
        TFRecord(whole=True).encode(Sample("a", fields))


def test_a_stream_does_not_make_one_sample_of_two_with_one_key() -> None:
    first, second = Sample("0", {"jpg": b"\xff\xd8\xff"}), Sample("0", {"png": b"\x89PNG"})
    layout = TFRecord(whole=True)
    source = io.BytesIO(b"".join((*layout.encode(first), *layout.encode(second))))
    rejects: list[Reject] = []
    made = convert_stream(source, source="tfrecord", to="webdataset", on_reject=rejects.append)
    with ShardStream("a shard", io.BytesIO(made.read())) as stream:
        assert [entry.sample.fields for entry in WebDataset().read(stream)] == [first.fields]
    assert [each.path for each in rejects] == ["0"]


def test_a_label_that_is_an_unusual_nan_is_kept_bit_for_bit() -> None:
    value = bytes.fromhex("1206 0a04 0100c07f")  # float32_tensor: values, packed
    label = bytes.fromhex("12 12 0a06") + b"values" + bytes([0x12, len(value)]) + value
    data = b"\x0a\x23\xd7\xce" + len(label).to_bytes(4, "little") + label
    layout = RecordIOProtobuf()
    with ShardStream("a shard", io.BytesIO(data)) as stream:
        (entry,) = layout.read(stream)
    assert entry.sample.fields == {"label.tensor": value}
    for other in (layout, TFRecord(whole=True), WebDataset()):
        assert again(other, entry.sample).fields == entry.sample.fields


def test_a_feature_in_many_parts_is_read_at_once() -> None:
    part = b"\x12\x05\x1a\x03\x0a\x01\x05"
    count = 200_000  # as a list that is copied for each part: hours
    entry = b"\x0a\x01a" + part * count
    features = framed(b"\x0a", entry)
    assert decode_example(framed(b"\x0a", features)) == {"a": Ints([5] * count)}

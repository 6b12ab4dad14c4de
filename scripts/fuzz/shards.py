"""Shards, read in every way that there is: whole, from a stream, by headers, through a catalog."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dsprep.errors import BadSample, DamagedShard, DsprepError
from dsprep.formats.base import Entry, Format, Span
from dsprep.formats.features import PRESETS
from dsprep.formats.recordio import RecordIO
from dsprep.formats.recordio_protobuf import RecordIOProtobuf
from dsprep.formats.stream import ShardStream, is_gzip
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.sample import Sample
from dsprep.sources.shards import read_shards
from dsprep.sources.shardset import ShardSet
from dsprep.streaming import convert_stream
from scripts.fuzz import archives
from scripts.fuzz.repair import repair_recordio, repair_tar, repair_tfrecord
from scripts.fuzz.samples import SAMPLES, told
from scripts.fuzz.target import Different, Target, is_chosen, require_equal

HOLD_ALL = (WebDataset(), TFRecord(whole=True))
"""The formats that hold whatever a sample has."""


def write(layout: Format, samples: Iterable[Sample]) -> bytes:
    """A shard of the samples that its format can hold."""
    parts: list[bytes] = []
    for sample in samples:
        with suppress(BadSample):
            parts += layout.encode(sample)
    data = b"".join(parts)
    return data + layout.trailer(len(data))


def seeds(*layouts: Format) -> list[bytes]:
    """A shard of all samples, and one of each."""
    runs = [SAMPLES, *((sample,) for sample in SAMPLES)]
    return [write(layout, run) for layout in layouts for run in runs]


def require_same_again(layout: Format, sample: Sample) -> None:
    """Write a sample and read it.

    Raises:
        Different: If it comes back as another.
    """
    with suppress(BadSample):
        data = b"".join(layout.encode(sample))
        entries, _ = _read(layout, io.BytesIO(data + layout.trailer(len(data))))
        require_equal([told(sample)], [told(each.sample) for each in entries], layout.name)


@dataclass
class _Dribble:
    """A stream that gives a few bytes at a time."""

    data: bytes

    def read(self, count: int) -> bytes:
        given, self.data = self.data[: min(count, 509)], self.data[min(count, 509) :]
        return given


def _read(layout: Format, source: io.BytesIO | _Dribble) -> tuple[list[Entry], int | None]:
    """The samples of a shard, and where it is damaged."""
    entries: list[Entry] = []
    with ShardStream("a stream", source) as stream:
        try:
            entries.extend(layout.read(stream))
        except DamagedShard as error:
            return entries, error.offset
    return entries, None


def check_shard(layout: Format, data: bytes, directory: Path) -> None:
    """Read a shard in every way.

    Raises:
        Different: If two of them disagree, or a sample that was read does not come back.
    """
    entries, damage = _read(layout, io.BytesIO(data))
    if not is_gzip(data[:9]):
        squeezed = _read(layout, _Dribble(gzip.compress(data, 1)))
        require_equal(repr((entries, damage)), repr(squeezed), "compressed")
    path = directory / "shard"
    path.write_bytes(data)
    _check_headers(layout, path, entries, damage)
    if entries and is_chosen(data):
        _check_catalog(layout, path, entries)
    _check_conversion(layout, data)
    for entry in entries[:8]:
        for other in HOLD_ALL if layout in HOLD_ALL else (layout, *HOLD_ALL):
            require_same_again(other, entry.sample)


def _check_headers(layout: Format, path: Path, entries: list[Entry], damage: int | None) -> None:
    """Find the samples by their headers; of damage, these tell no more than there is."""
    spans: list[Span] = []
    with suppress(DamagedShard), ShardStream.of_headers(str(path)) as stream:
        spans += layout.spans(stream)
    places = [(span.offset, span.size) for span in spans]
    if damage is not None:
        places = places[: len(entries)]
    require_equal([entry[:2] for entry in entries], places, "by headers")
    for entry, span in zip(entries, spans, strict=False):
        require_equal(entry.sample.key, span.key or entry.sample.key, "the key in a header")


def _check_catalog(layout: Format, path: Path, entries: list[Entry]) -> None:
    """Read the samples as workers do, the last one first."""
    try:
        catalog, _ = read_shards(ShardSet(str(path), (str(path),), layout))
    except DsprepError as error:
        raise Different(f"{len(entries)} samples, but no catalog: {error}") from error
    whole = [told(entry.sample) for entry in entries]
    forth = list(catalog.reader.read(catalog.rows()))
    back = list(catalog.reader.read(replace(catalog, table=catalog.table.reverse()).rows()))
    for found in (forth, back[::-1]):
        samples = [told(each) for each in found[: len(entries)] if isinstance(each, Sample)]
        require_equal(whole, samples, "by offset")


def _check_conversion(layout: Format, data: bytes) -> None:
    """Convert the shard as a stream; what comes out is whole."""
    for other in HOLD_ALL:
        with suppress(DsprepError):
            source = _Dribble(data)
            converted = convert_stream(
                source, source=layout.name, to=other.name, on_reject=lambda reject: None
            )
            _, damage = _read(other, io.BytesIO(converted.read()))
            require_equal(damage, None, f"converted to {other.name}")


SHARDS = {
    "webdataset": Target(
        partial(check_shard, WebDataset()),
        lambda: [*seeds(WebDataset(), WebDataset(metadata=True)), *archives.tars()],
        repair_tar,
    ),
    "tfrecord": Target(
        partial(check_shard, TFRecord(whole=True)),
        lambda: seeds(*(TFRecord(preset) for preset in PRESETS.values()), TFRecord(whole=True)),
        repair_tfrecord,
    ),
    "recordio": Target(
        partial(check_shard, RecordIO()), lambda: seeds(RecordIO()), repair_recordio
    ),
    "recordio-protobuf": Target(
        partial(check_shard, RecordIOProtobuf()),
        lambda: seeds(RecordIOProtobuf()),
        repair_recordio,
    ),
}

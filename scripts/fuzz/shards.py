"""Shards, read in every way that there is: whole, from a stream, by headers, through a catalog."""

from __future__ import annotations

import gzip
import io
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from dsprep.errors import BadSample, DamagedShard, DsprepError, OptionError
from dsprep.formats.base import Entry, Format, Span
from dsprep.formats.recordio import RecordIO
from dsprep.formats.recordio_protobuf import RecordIOProtobuf
from dsprep.formats.stream import ShardStream, compression_of_shard
from dsprep.formats.tfrecord import PRESETS, TFRecord
from dsprep.formats.webdataset import WebDataset
from dsprep.run.stream import convert_stream
from dsprep.sample import Sample
from dsprep.schema import Choice, Reading, observe, settle
from dsprep.sources.shards.shards import read_shards
from dsprep.sources.shards.shardset import ShardSet
from scripts.fuzz import archives
from scripts.fuzz.repair import repair_recordio, repair_tar, repair_tfrecord
from scripts.fuzz.samples import DATA_SETS, told
from scripts.fuzz.target import Different, Target, is_chosen, require_equal

HOLD_ALL = (WebDataset(), TFRecord())
"""The formats that hold whatever a sample has."""


def seeds(*layouts: Format) -> list[bytes]:
    """A shard of each data set that a format can hold."""
    found = []
    for layout in layouts:
        for schema, samples in DATA_SETS:
            with suppress(OptionError, BadSample):
                arranged, _ = layout.arranged(schema)
                data = b"".join(b"".join(arranged.encode(each)) for each in samples)
                found.append(data + layout.trailer(len(data)))
    return found


def through(layout: Format, sample: Sample) -> Sample:
    """Write a sample and read it.

    Raises:
        BadSample: If the format cannot hold it.
    """
    data = b"".join(layout.encode(replace(sample, fields=dict(sample.fields))))
    entries, _ = _read(layout, io.BytesIO(data + layout.trailer(len(data))))
    if len(entries) != 1:
        raise Different(f"{layout.name}: one sample has become {len(entries)}")
    return entries[0].sample


def require_same_again(layout: Format, samples: list[Sample]) -> None:
    """Write raw samples and read them, as they are and by the schema of other formats.

    Raises:
        Different: If one comes back as another.
    """
    for sample in samples:
        key = sample.key or "0"
        with suppress(BadSample):
            again = through(layout, replace(sample, key=key))
            require_equal(told(sample)[1], told(again)[1], layout.name)
    for other in HOLD_ALL:
        with suppress(DsprepError):
            found = settle(observe(samples, layout, Choice()), layout, Choice(), "the shard")
            if any("float64" in each.type for each in found.schema.fields):
                continue  # which may be rounded
            arranged, _ = other.arranged(found.schema)
            assert arranged.schema is not None
            reading, back = (
                Reading(found.schema, layout, found.ignored),
                Reading(arranged.schema, other),
            )
            for sample in samples:
                with suppress(BadSample):
                    fields = dict(sample.fields)
                    typed = reading(replace(sample, key=sample.key or "0", fields=fields))
                    require_equal(
                        told(typed), told(back(through(arranged, typed))), f"by {other.name}"
                    )


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
    if compression_of_shard(data[:9]) != "gzip":
        squeezed = _read(layout, _Dribble(gzip.compress(data, 1)))
        require_equal(repr((entries, damage)), repr(squeezed), "compressed")
    path = directory / "shard"
    path.write_bytes(data)
    _check_headers(layout, path, entries, damage)
    if entries and is_chosen(data):
        _check_catalog(layout, path, entries)
    _check_conversion(layout, data)
    require_same_again(layout, [entry.sample for entry in entries[:8]])


def _check_headers(layout: Format, path: Path, entries: list[Entry], damage: int | None) -> None:
    """Find the samples by their headers; of damage, these tell no more than there is."""
    spans: list[Span] = []
    with suppress(DamagedShard), ShardStream(str(path), headers=True) as stream:
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
    needs_image = layout.name == RecordIO.name
    entries = [each for each in entries if not needs_image or "image" in each.sample.fields]
    whole = [told(entry.sample)[1] for entry in entries]
    forth = list(catalog.reader.read(catalog.rows()))
    back = list(catalog.reader.read(replace(catalog, table=catalog.table.reverse()).rows()))
    for found in (forth, back[::-1]):
        samples = [told(each)[1] for each in found[: len(entries)] if isinstance(each, Sample)]
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
        partial(check_shard, TFRecord()), lambda: seeds(*map(TFRecord, PRESETS)), repair_tfrecord
    ),
    "recordio": Target(
        partial(check_shard, RecordIO()), lambda: seeds(RecordIO()), repair_recordio
    ),
    "recordio-protobuf": Target(
        partial(check_shard, RecordIOProtobuf()), lambda: seeds(RecordIOProtobuf()), repair_recordio
    ),
}

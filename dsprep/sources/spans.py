"""Indexing one shard, as a worker does: where its samples lie, and what headers tell of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dsprep.errors import DamagedShard
from dsprep.formats.base import Entry, Format, Span
from dsprep.formats.stream import ShardStream
from dsprep.stores.paths import facts


class IndexTask(NamedTuple):
    """A shard to index.

    Attributes:
        path: The file.
        layout: Its format.
        whole: Whether to read every sample whole, for its key, its label and its fields, where the
            headers do not tell them.
    """

    path: str
    layout: Format
    whole: bool


@dataclass
class IndexedShard:
    """What a shard holds, as far as it was read.

    Attributes:
        size: Bytes of the file.
        mtime: When it was last changed, in ns since 1970.
        compressed: Whether it is gzip, offsets being those of the decompressed shard.
        offsets: Where each sample begins.
        sizes: The bytes of each encoded sample.
        ids: The id of each.
        keys: The key of each, joined by NUL; empty where a header does not tell it, or where it is
            the number of a record without a name.
        labels: The label of each; empty if they were not read.
        fields: How many samples have each field, and the kind of its values, as far as it is known.
        passed_over: How many members belong to no sample, as their names tell no key, by extension.
        damage: Where samples, or the shard itself, break the format, and how.
    """

    size: int = 0
    mtime: int = 0
    compressed: bool = False
    offsets: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    ids: array[int] = field(default_factory=lambda: array("Q"))
    keys: str = ""
    labels: list[int | tuple[float, ...] | None] = field(default_factory=list)
    fields: Counter[tuple[str, str]] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)
    damage: list[tuple[int, str]] = field(default_factory=list)


def index_shard(task: IndexTask) -> IndexedShard:
    """Find the samples of a shard.

    Raises:
        SourceError: If it cannot be opened.
    """
    found = IndexedShard()
    keys: list[str] = []
    with ShardStream(task.path) if task.whole else ShardStream.of_headers(task.path) as stream:
        found.size, found.mtime = facts(task.path)
        found.compressed = stream.compressed
        spans = _whole_spans if task.whole else _header_spans
        try:
            for span in spans(task, stream, found):
                found.offsets.append(span.offset)
                found.sizes.append(span.size)
                found.ids.append(span.id)
                found.labels.append(span.label)
                # Only a hostile key holds what keys are joined by.
                keys.append(span.key.replace("\x00", "\\x00"))
        except DamagedShard as error:
            found.damage.append((error.offset, error.problem))
        found.passed_over = stream.passed_over
    if task.whole and _are_nameless(task, found, keys):
        keys = [""] * len(keys)
    found.keys = "\x00".join(keys)
    if all(label is None for label in found.labels):
        found.labels = []
    return found


def _are_nameless(task: IndexTask, found: IndexedShard, keys: Sequence[str]) -> bool:
    """Whether records have no names: the first, read as another number, has another key."""
    if not keys or any(key != str(id) for key, id in zip(keys, found.ids, strict=True)):
        return False
    with ShardStream(task.path) as stream:
        stream.skip(found.offsets[0], "the shard")
        encoded = stream.read(found.sizes[0], "a sample")
    other = ShardStream.of_sample(task.path, encoded, found.offsets[0], found.ids[0] + 1)
    return all(entry.sample.key != keys[0] for entry in task.layout.read(other))


def _header_spans(task: IndexTask, stream: ShardStream, found: IndexedShard) -> Iterator[Span]:
    for span in task.layout.spans(stream):
        for name in span.fields or ():
            found.fields[name, ""] += 1
        yield span


def _whole_spans(task: IndexTask, stream: ShardStream, found: IndexedShard) -> Iterator[Span]:
    start = 0
    try:
        for entry in task.layout.read(stream):
            start = entry.offset + entry.size
            yield _span_of(entry, found)
    except DamagedShard:
        yield from _spans_one_by_one(task, start, found)
        if not found.damage:
            raise


def _spans_one_by_one(task: IndexTask, start: int, found: IndexedShard) -> Iterator[Span]:
    """Read the samples from some place on, where damage to one does not spoil the next."""
    with ShardStream.of_headers(task.path) as headers, ShardStream(task.path) as stream:
        for number, span in enumerate(task.layout.spans(headers)):
            if span.offset < start:
                continue
            stream.skip(span.offset - stream.offset, "the shard")
            encoded = stream.read(span.size, "a sample")
            sample = ShardStream.of_sample(task.path, encoded, span.offset, number)
            try:
                for entry in task.layout.read(sample):
                    yield _span_of(entry, found)
            except DamagedShard as error:
                found.damage.append((error.offset, error.problem))


def _span_of(entry: Entry, found: IndexedShard) -> Span:
    offset, size, sample = entry
    for name, value in sample.fields.items():
        found.fields[name, type(value).__name__] += 1
    return Span(offset, size, sample.key, sample.id, sample.label())

"""Indexing one shard, as a worker does: where its samples lie, and what headers tell of them."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from dsprep.errors import DamagedShard
from dsprep.formats.base import Format, Span
from dsprep.formats.stream import ShardStream


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
        keys: The key of each, empty where a header does not tell it, joined by NUL.
        labels: The label of each; empty if they were not read.
        fields: How many samples have each field, and the kind of its values, as far as it is known.
        damage: Where the shard breaks its format, and how; None if it is whole.
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
    damage: tuple[int, str] | None = None


def index_shard(task: IndexTask) -> IndexedShard:
    """Find the samples of a shard.

    Raises:
        SourceError: If it cannot be opened.
    """
    found = IndexedShard()
    keys: list[str] = []
    with ShardStream(task.path) if task.whole else ShardStream.of_headers(task.path) as stream:
        status = os.stat(task.path)
        found.size, found.mtime = status.st_size, status.st_mtime_ns
        found.compressed = stream.compressed
        spans = _whole_spans(task.layout, stream, found) if task.whole else None
        try:
            for span in spans or _header_spans(task.layout, stream, found):
                found.offsets.append(span.offset)
                found.sizes.append(span.size)
                found.ids.append(span.id)
                found.labels.append(span.label)
                # Only a hostile key holds what keys are joined by.
                keys.append(span.key.replace("\x00", "\\x00"))
        except DamagedShard as error:
            found.damage = (error.offset, error.problem)
    found.keys = "\x00".join(keys)
    if all(label is None for label in found.labels):
        found.labels = []
    return found


def _header_spans(layout: Format, stream: ShardStream, found: IndexedShard) -> Iterator[Span]:
    for span in layout.spans(stream):
        for name in span.fields or ():
            found.fields[name, ""] += 1
        yield span


def _whole_spans(layout: Format, stream: ShardStream, found: IndexedShard) -> Iterator[Span]:
    for offset, size, sample in layout.read(stream):
        for name, value in sample.fields.items():
            found.fields[name, type(value).__name__] += 1
        yield Span(offset, size, sample.key, sample.id, sample.label())

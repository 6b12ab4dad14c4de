"""Indexing one shard, as a worker does: where its samples lie, and what headers tell of them."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from dsprep.errors import DamagedShard
from dsprep.formats.base import Format
from dsprep.formats.stream import ShardStream
from dsprep.schema import IMAGE
from dsprep.storage.paths import facts


class IndexTask(NamedTuple):
    """A shard to index."""

    path: str  # the file
    layout: Format  # its format


@dataclass
class IndexedShard:
    """What a shard holds, as far as headers tell it."""

    size: int = 0  # bytes of the file
    mtime: int = 0  # when it was last changed, in ns since 1970
    compressed: bool = False  # whether it is gzip, offsets being those of the decompressed shard
    offsets: array[int] = field(default_factory=lambda: array("q"))  # where each sample begins
    # the bytes of each encoded sample
    sizes: array[int] = field(default_factory=lambda: array("q"))
    ids: array[int] = field(default_factory=lambda: array("Q"))  # the id of each
    # the number of each among all records of the shard
    numbers: array[int] = field(default_factory=lambda: array("q"))
    keys: str = ""  # the key of each, joined by NUL; empty where a header does not tell it
    # the label of each; empty if headers do not tell labels
    labels: list[tuple[float, ...]] = field(default_factory=list)
    members: int = 0  # how many parts of samples headers name
    # how many members belong to no sample, as their names tell no key, by extension
    passed_over: Counter[str] = field(default_factory=Counter)
    without_image: int = 0  # how many records have a label and no image: they index other records
    # where samples, or the shard itself, break the format, and how
    damage: list[tuple[int, str]] = field(default_factory=list)


def index_shard(task: IndexTask) -> IndexedShard:
    """Find the samples of a shard."""
    found = IndexedShard()
    keys: list[str] = []
    with ShardStream.of_headers(task.path) as stream:
        found.size, found.mtime = facts(task.path)
        found.compressed = stream.compressed
        try:
            for number, span in enumerate(task.layout.spans(stream)):
                names = span.fields or ()
                if span.label is not None and not any(
                    task.layout.meaning(name).role == IMAGE for name in names
                ):
                    found.without_image += 1
                    continue
                found.members += len(names)
                found.offsets.append(span.offset)
                found.sizes.append(span.size)
                found.ids.append(span.id)
                found.numbers.append(number)
                if span.label is not None:
                    found.labels.append(span.label)
                # Only a hostile key holds what keys are joined by.
                keys.append(span.key.replace("\x00", "\\x00"))
        except DamagedShard as error:
            found.damage.append((error.offset, error.problem))
        found.passed_over = stream.passed_over
    found.keys = "\x00".join(keys)
    return found

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
from dsprep.stores.paths import facts


class IndexTask(NamedTuple):
    """A shard to index.

    Attributes:
        path: The file.
        layout: Its format.
    """

    path: str
    layout: Format


@dataclass
class IndexedShard:
    """What a shard holds, as far as headers tell it.

    Attributes:
        size: Bytes of the file.
        mtime: When it was last changed, in ns since 1970.
        compressed: Whether it is gzip, offsets being those of the decompressed shard.
        offsets: Where each sample begins.
        sizes: The bytes of each encoded sample.
        ids: The id of each.
        numbers: The number of each among all records of the shard.
        keys: The key of each, joined by NUL; empty where a header does not tell it.
        labels: The label of each; empty if headers do not tell labels.
        members: How many parts of samples headers name.
        passed_over: How many members belong to no sample, as their names tell no key, by extension.
        without_image: How many records have a label and no image: they index other records.
        damage: Where samples, or the shard itself, break the format, and how.
    """

    size: int = 0
    mtime: int = 0
    compressed: bool = False
    offsets: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    ids: array[int] = field(default_factory=lambda: array("Q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))
    keys: str = ""
    labels: list[tuple[float, ...]] = field(default_factory=list)
    members: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    without_image: int = 0
    damage: list[tuple[int, str]] = field(default_factory=list)


def index_shard(task: IndexTask) -> IndexedShard:
    """Find the samples of a shard.

    Raises:
        SourceError: If it cannot be opened, or the parts of its samples are not adjacent.
    """
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

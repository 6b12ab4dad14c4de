"""Formats of shards whose samples follow a table of their offsets, as in MDS and litdata.

Both begin with the number of samples as a u32, and with as many offsets and that of the end of the
last sample as u32, little-endian. Offsets count the bytes of the shard before it is compressed.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from array import array
from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar, Self

from dsprep.formats.base import Entry, Format
from dsprep.formats.stream import ShardStream
from dsprep.sample import Sample


class OffsetTableFormat(Format):
    """Samples behind a table of their offsets."""

    concatenative: ClassVar[bool] = False
    divides: ClassVar[bool] = True
    least: ClassVar[int] = 4  # its offset

    @abstractmethod
    def open_table(self, stream: ShardStream) -> tuple[Self, Iterator[tuple[int, int]]]:
        """Read the head of a shard; return the format with its details, and where samples lie."""

    @abstractmethod
    def read_sample(self, stream: ShardStream, number: int) -> Sample:
        """Read the sample that begins here."""

    def read_end(self, stream: ShardStream) -> None:
        """Read what follows the last sample, or refuse it."""
        if not stream.at_end():
            raise stream.damaged("bytes follow the last sample")

    def read(self, stream: ShardStream) -> Iterator[Entry]:
        if stream.is_part:
            while not stream.at_end():
                offset = stream.offset
                sample = self.read_sample(stream, 0)
                yield Entry(offset, stream.offset - offset, sample)
            return
        layout, samples = self.open_table(stream)
        for number, (start, stop) in enumerate(samples):
            sample = layout.read_sample(stream, number)
            if stream.offset != stop:
                raise stream.damaged("the sample does not have the size that the head says", start)
            yield Entry(start, stop - start, sample)
        self.read_end(stream)


def read_offsets(stream: ShardStream, first: bytes, count: int) -> array[int]:
    """Read the rest of the offsets of samples and of their end, given the bytes of the first one.

    Raises:
        DamagedShard: They are cut off, or an offset is less than the one before.
    """
    offsets = array("I", first + stream.read(4 * count, "the offsets of samples"))
    if sys.byteorder == "big":
        offsets.byteswap()
    if any(stop < before for before, stop in pairwise(offsets)):
        raise stream.damaged("the offsets of samples are not in order", 4)
    return offsets

"""Transfers: the parts of a file within S3's limits, and who is told of progress."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dsprep.errors import OptionError, StoreError
from dsprep.units import format_size

MIB = 1 << 20
GIB = 1 << 30

# Amazon S3 User Guide, "Amazon S3 multipart upload limits".
MOST_PARTS = 10_000
SMALLEST_PART = 5 * MIB
LARGEST_PART = 5 * GIB
LARGEST_OBJECT = MOST_PARTS * LARGEST_PART

LARGEST_COPY = 5 * GIB
"""What CopyObject copies in one request."""

DEFAULT_PART = 32 * MIB
COPY_PART = 512 * MIB
_COMFORTABLE = 64 * MIB
_MANY = 1000
"""Number of parts above which they are made larger: each request costs money."""


class Range(NamedTuple):
    """A part of a file."""

    number: int  # from 1, as S3 counts
    start: int  # its first byte
    size: int  # in bytes


@dataclass(frozen=True)
class PartPlan:
    """A file in parts of the same size, except the last; an empty file has one part."""

    size: int  # the file's
    part_size: int  # that of each part except the last

    def __len__(self) -> int:
        return max(1, -(-self.size // self.part_size))

    def __iter__(self) -> Iterator[Range]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> Range:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = index * self.part_size
        return Range(index + 1, start, min(self.part_size, self.size - start))

    def fits(self, parts: Iterable[tuple[int, int]]) -> bool:
        """Tell whether parts, given by number and size, can be some of these."""
        return all(
            1 <= number <= len(self) and size == self[number - 1].size for number, size in parts
        )


def plan_parts(size: int, part_size: int = 0, name: str = "") -> PartPlan:
    """Cut a file into parts; 0 stands for a good size."""
    if size > LARGEST_OBJECT:
        raise OptionError(
            f"{name}: has {format_size(size)}, and S3 takes at most {format_size(LARGEST_OBJECT)} "
            "(10,000 parts of 5 GiB)"
        )
    if part_size and not SMALLEST_PART <= part_size <= LARGEST_PART:
        raise OptionError(f"parts of {format_size(part_size)}: S3 takes from 5 MiB to 5 GiB")
    wanted = part_size or min(_COMFORTABLE, max(DEFAULT_PART, _rounded(size, _MANY)))
    return PartPlan(size, max(wanted, _rounded(size, MOST_PARTS)))


def plan_copy(size: int) -> PartPlan:
    """Cut an object that the server copies into parts: one if one request is enough."""
    if size <= LARGEST_COPY:
        return PartPlan(size, LARGEST_COPY)
    return PartPlan(size, max(COPY_PART, _rounded(size, MOST_PARTS)))


def _rounded(size: int, parts: int) -> int:
    """Return the part size in whole MiB that gives at most so many parts."""
    return -(-size // (parts * MIB)) * MIB


_ours = threading.local()


def buffer(size: int) -> memoryview:
    """Return this thread's buffer, used again and again: fresh memory costs page faults."""
    kept: bytearray | None = getattr(_ours, "buffer", None)
    if kept is None or len(kept) < size:
        kept = _ours.buffer = bytearray(size)
    return memoryview(kept)[:size]


class Events:
    """Listens to transfers, from several threads at once; this one does nothing."""

    def plan(self, files: int, size: int) -> None:
        """Files and bytes are added to the transfer."""

    def begin(self, name: str, size: int, parts: int) -> None:
        """A file begins: its S3 URL, its bytes, its parts."""

    def found(self, name: str, size: int, parts: int) -> None:
        """Bytes and parts are there from an earlier run."""

    def moved(self, name: str, size: int) -> None:
        """Bytes have moved; a negative number has to be moved again."""

    def part(self, name: str, number: int) -> None:
        """A part is complete."""

    def end(self, name: str, size: int, proof: str) -> None:
        """A file is complete, proven by ``crc32c``, ``md5``, ``parts`` or ``size``."""

    def retry(self, error: StoreError, delay: float) -> None:
        """A request failed and is tried again after so many seconds."""

    def fallback(self, text: str) -> None:
        """The server does not support something that is optional."""

    def waiting(self, what: str) -> None:
        """Nothing can be done now; called once."""

"""How a file is cut into parts, within S3's limits. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dsprep.errors import OptionError
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
_COMFORTABLE = 64 * MIB
_MANY = 1000
"""Parts above which they are made larger: each request costs money."""

COPY_PART = 512 * MIB


class Range(NamedTuple):
    """A part of a file."""

    number: int  # from 1, as S3 counts
    start: int  # its first byte
    size: int  # in bytes


@dataclass(frozen=True)
class PartPlan:
    """A file in parts of the same size, but for the last; computed, not stored."""

    size: int  # the file's
    part_size: int  # that of each part but the last

    def __len__(self) -> int:
        """At least one, which is empty if the file is."""
        return max(1, -(-self.size // self.part_size))

    def __iter__(self) -> Iterator[Range]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> Range:
        """The part at a place, counted from 0."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = index * self.part_size
        return Range(index + 1, start, min(self.part_size, self.size - start))


def plan_parts(size: int, part_size: int = 0, name: str = "") -> PartPlan:
    """Cut a file into parts."""
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
    """Cut an object that the server copies itself: one part if one request can do it."""
    if size <= LARGEST_COPY:
        return PartPlan(size, LARGEST_COPY)
    return PartPlan(size, max(COPY_PART, _rounded(size, MOST_PARTS)))


def _rounded(size: int, parts: int) -> int:
    """The part size in whole MiB with which there are at most so many parts."""
    return -(-size // (parts * MIB)) * MIB

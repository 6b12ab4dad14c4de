"""Transfers of files: their parts within S3's limits, their options, and who hears of progress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsprep.errors import OptionError
from dsprep.storage.pool import Pace
from dsprep.storage.stored import Events, Stored, UploadPart, ignore
from dsprep.tuples import NamedTuple
from dsprep.units import format_size

MIB = 1 << 20
GIB = 1 << 30

# Amazon S3 User Guide, "Amazon S3 multipart upload limits".
MOST_PARTS = 10_000
SMALLEST_PART = 5 * MIB
LARGEST_PART = 5 * GIB
LARGEST_OBJECT = MOST_PARTS * LARGEST_PART

LARGEST_COPY = 5 * GIB  # what CopyObject copies in one request
COPY_PART = 512 * MIB
DEFAULT_PART = 32 * MIB
_COMFORTABLE = 64 * MIB
_MANY = 1000  # number of parts above which they are made larger: each request costs money


class Range(NamedTuple):
    """A part of a file."""

    number: int  # from 1, as S3 counts
    start: int  # its first byte
    size: int  # in bytes


def plan_parts(size: int, part_size: int = 0, name: str = "") -> list[Range]:
    """Cut a file into parts; 0 stands for a good size. An empty file has one part."""
    if size > LARGEST_OBJECT:
        raise OptionError(
            f"{name}: has {format_size(size)}, and S3 takes at most {format_size(LARGEST_OBJECT)} "
            "(10,000 parts of 5 GiB)"
        )
    if part_size and not SMALLEST_PART <= part_size <= LARGEST_PART:
        raise OptionError(f"parts of {format_size(part_size)}: S3 takes from 5 MiB to 5 GiB")
    wanted = part_size or min(_COMFORTABLE, max(DEFAULT_PART, _rounded(size, _MANY)))
    return cut(size, max(wanted, _rounded(size, MOST_PARTS)))


def plan_copy(size: int) -> list[Range]:
    """Cut an object that the server copies into parts: one if one request is enough."""
    return cut(size, size if size <= LARGEST_COPY else max(COPY_PART, _rounded(size, MOST_PARTS)))


def cut(size: int, part_size: int) -> list[Range]:
    """Cut a file into parts of one size, except the last."""
    starts = range(0, max(size, 1), max(part_size, 1))
    return [Range(n, at, min(part_size, size - at)) for n, at in enumerate(starts, 1)]


def fits(plan: Sequence[Range], parts: Iterable[UploadPart]) -> bool:
    """Return whether the parts of an upload can be some of the planned ones."""
    return all(
        1 <= part.number <= len(plan) and part.size == plan[part.number - 1].size for part in parts
    )


def _rounded(size: int, parts: int) -> int:
    """Return the part size in whole MiB that gives at most this many parts."""
    return -(-size // (parts * MIB)) * MIB


class TransferOptions(NamedTuple):
    """What all transfers of a run share; several threads use it, but not those of `Pace.each`."""

    pace: Pace  # threads and limits
    events: Events = ignore  # hears of progress
    part_size: int = 0  # in bytes; 0 for a good size
    keep: bool = True  # whether unfinished transfers are kept for the next run
    resume: bool = True  # whether to go on with transfers that other runs have left
    # the ETag of the object that may be replaced, empty if there must be none; None for any
    replaces: str | None = None


class Transferred(NamedTuple):
    """A file that has arrived."""

    stored: Stored  # the object
    crc32c: int | None  # checksum of the file's bytes, if known
    parts: int  # how many it was moved in
    found: int  # number of parts that an earlier run had moved
    moved: int  # bytes that were moved
    # what proves that both are the same: `crc32c` or `md5`, that each of its `parts` was proven, or
    # no more than the `size`
    proof: str

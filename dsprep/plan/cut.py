"""Cut samples into shards by their weights: pure functions on numbers.

A shard is a run of samples, so a plan is a list of cuts between them. The cuts depend on the
weights and the options alone, never on workers or machines.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from dsprep.errors import OptionError
from dsprep.formats.base import Format
from dsprep.units import format_count

# Bytes: SageMaker's Pipe mode and most loaders work best with shards of 100 to 200 MB.
DEFAULT_TARGET = 200_000_000


@dataclass(frozen=True)
class ShardSize:
    """How large shards are: at most one of the first three is given."""

    target: int | None = None  # bytes on disk that no shard may exceed
    shards: int | None = None  # how many shards, of about as many bytes each
    samples: int | None = None  # how many samples in each shard; the last one takes the rest
    multiple_of: int | None = None  # the number of shards is a multiple of this
    by_file: bool = False  # whether each shard of the source becomes one

    @property
    def by_bytes(self) -> bool:
        return self.shards is None and self.samples is None and not self.by_file

    def to_json(self) -> dict[str, Any]:
        size: dict[str, Any] = {
            "target": self.target,
            "shards": self.shards,
            "samples": self.samples,
        }
        rare = {"multiple_of": self.multiple_of, "by_file": self.by_file}
        return size | {name: value for name, value in rare.items() if value}


class PlannedShard(NamedTuple):
    """One output file to write."""

    name: str  # its file name
    start: int  # the first of its samples, as a row of the ordered catalog
    stop: int  # the row after its last
    bytes: int  # its size on disk, trailer included


def plan_shards(
    weights: Sequence[int],
    size: ShardSize,
    layout: Format,
    name: Callable[[int, int], str],
    capacity: int | None = None,
    files: Sequence[int] = (),
) -> list[PlannedShard]:
    """Cut the samples into shards; ``files`` are those of their samples, to cut by file."""
    if size.by_file:
        cuts = [0, *(row for row in range(1, len(files)) if files[row] != files[row - 1])]
        cuts.append(len(files))
    elif size.shards is not None:
        cuts = cut_into(weights, size.shards)
    elif size.samples is not None:
        cuts = [*range(0, len(weights), size.samples), len(weights)]
    else:
        target = DEFAULT_TARGET if size.target is None else size.target
        room = layout.capacity(target) if capacity is None else capacity
        if room < 1:
            least = bisect_left(range(1 << 24), 1, key=layout.capacity)
            raise OptionError(
                f"--target-size {target}: too small for a {layout.name} shard, which takes at "
                f"least {format_count(least, 'byte')}{in_megabytes(target)}"
            )
        cuts = cut_by_bytes(weights, room)
    if size.multiple_of is not None and (len(cuts) - 1) % size.multiple_of:
        cuts = cut_into(weights, len(cuts) - 1 + -(len(cuts) - 1) % size.multiple_of)
    sums = [0, *accumulate(weights)]
    shards = []
    for number, (start, stop) in enumerate(pairwise(cuts)):
        content = sums[stop] - sums[start]
        bytes_ = content + len(layout.trailer(content))
        shards.append(PlannedShard(name(number, len(cuts) - 1), start, stop, bytes_))
    return shards


def in_megabytes(target: int) -> str:
    """Ask whether a size of a few bytes was meant in megabytes; empty for a larger size."""
    return f"; did you mean {target}MB?" if target < 1000 else ""


def cut_by_bytes(weights: Sequence[int], capacity: int) -> list[int]:
    """Cut into the fewest shards of at most ``capacity``, of about equal size."""
    # A sample heavier than that is alone in its shard.
    sums = [0, *accumulate(weights)]
    # fits[n] is the first row from which on all samples fit into n shards: filled from the end.
    fits = [len(weights)]
    while fits[-1] > 0:
        stop = fits[-1]
        fits.append(min(bisect_left(sums, sums[stop] - capacity, 0, stop), stop - 1))
    # For equal shares, a sample that has a shard for itself counts as a full shard.
    shares = sums
    if max(weights, default=0) > capacity:
        shares = [0, *accumulate(min(weight, capacity) for weight in weights)]

    def limits(start: int, left: int) -> tuple[int, int]:
        fullest = bisect_right(sums, sums[start] + capacity) - 1
        return max(fits[left - 1], start + 1), max(fullest, start + 1)

    return _cut_evenly(shares, len(fits) - 1, limits)


def cut_into(weights: Sequence[int], count: int) -> list[int]:
    """Cut into ``count`` shards of about equal bytes, none empty."""
    if not 1 <= count <= len(weights):
        raise OptionError(f"{count:,} shards: there are {len(weights):,} samples to put into them")
    return _cut_evenly(
        [0, *accumulate(weights)], count, lambda start, left: (start + 1, len(weights))
    )


def _cut_evenly(
    sums: Sequence[int], count: int, limits: Callable[[int, int], tuple[int, int]]
) -> list[int]:
    """Cut so that each shard takes its share of what is left, as far as the limits allow."""
    cuts = [0]
    total, rows = sums[-1], len(sums) - 1
    for left in range(count, 1, -1):
        start = cuts[-1]
        ideal = sums[start] + (total - sums[start]) / left
        cut = bisect_left(sums, ideal)
        if cut > 0 and ideal - sums[cut - 1] < sums[cut] - ideal:
            cut -= 1
        lowest, highest = limits(start, left)
        cuts.append(min(max(cut, lowest), highest, rows - left + 1))
    cuts.append(rows)
    return cuts


def cut_pieces(
    sizes: Sequence[int], start: int, stop: int, piece_bytes: int
) -> list[tuple[int, int]]:
    """Cut one shard's samples into pieces that several workers can write at once."""
    weights = [size + 1 for size in sizes[start:stop]]
    count = min(max(1, sum(weights) // piece_bytes), len(weights))
    return [(start + low, start + high) for low, high in pairwise(cut_into(weights, count))]

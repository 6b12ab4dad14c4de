"""Cut samples into shards by their weights.

A shard is a run of samples, so a plan is a list of cuts between them. The cuts depend on the
weights and the options alone, never on workers or machines.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dsprep.errors import OptionError
from dsprep.formats.base import Format
from dsprep.frozen import Frozen
from dsprep.tuples import NamedTuple
from dsprep.units import format_count

if TYPE_CHECKING:
    import polars as pl

# Bytes: SageMaker's Pipe mode and most loaders work best with shards of 100 to 200 MB.
DEFAULT_TARGET = 200_000_000

# The units of a folder are a multiple of this: 2 to 6, 8, 10, 12 and more parts get equal numbers.
_UNITS = 120
_PER_FILE = 4096  # bytes that take about as long to write as a file takes to be made


class ShardSize(Frozen):
    """How large shards are: at most one of the first three is given, or target and samples."""

    target: int | None = None  # bytes on disk that no shard may exceed
    shards: int | None = None  # how many shards, of about as many bytes each
    # how many samples in each shard; the last one takes the rest. With a target, a maximum
    samples: int | None = None
    multiple_of: int | None = None  # the number of shards is a multiple of this
    by_file: bool = False  # whether each shard of the source becomes one

    @property
    def by_bytes(self) -> bool:
        by_samples = self.samples is not None and self.target is None
        return self.shards is None and not by_samples and not self.by_file

    def to_json(self) -> dict[str, Any]:
        size = {name: getattr(self, name) for name in ("target", "shards", "samples")}
        rare = {"multiple_of": self.multiple_of, "by_file": self.by_file}
        return size | {name: value for name, value in rare.items() if value}


class PlannedShard(NamedTuple):
    """One shard to write."""

    name: str  # its file name
    start: int  # the first of its samples, as a row of the ordered catalog
    stop: int  # the row after its last
    bytes: int  # its size on disk, trailer included


def plan_shards(
    weights: pl.Series,
    size: ShardSize,
    layout: Format,
    name: Callable[[int, int], str],
    capacity: int | None = None,
    files: pl.Series | None = None,
) -> list[PlannedShard]:
    """Cut the samples into shards; ``files`` are those of their samples, to cut by file."""
    # what stands for each sample before them all takes room as well
    weights = weights.cast(int) + (layout.head_size(1) - layout.head_size(0))
    if size.by_file:
        assert files is not None
        cuts = [0, *(files != files.shift()).arg_true(), len(files)]
    elif size.shards is not None:
        cuts = cut_into(weights, size.shards)
    elif size.samples is not None and size.target is None:
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
        cuts = cut_by_bytes(weights, room, size.samples)
    if size.multiple_of is not None and (len(cuts) - 1) % size.multiple_of:
        cuts = cut_into(weights, len(cuts) - 1 + -(len(cuts) - 1) % size.multiple_of)
    sums = _sums(weights)
    shards = []
    for number, (start, stop) in enumerate(pairwise(cuts)):
        content = sums[stop] - sums[start]
        bytes_ = layout.head_size(0) + content + len(layout.trailer(content))
        shards.append(PlannedShard(name(number, len(cuts) - 1), start, stop, bytes_))
    return shards


def plan_units(
    weights: pl.Series, most: int, name: Callable[[int, int], str]
) -> list[PlannedShard]:
    """Cut the samples of a folder into units of work, of about equal work.

    A unit has about ``most`` bytes or fewer. The number of units depends on the samples alone, so
    any number of machines goes on with what others have written.
    """
    work = weights + _PER_FILE
    count = -(-int(work.sum()) // most)
    count = min(count + -count % _UNITS, len(weights))
    cuts, sums = cut_into(work, count), _sums(weights)
    return [
        PlannedShard(name(number, count), start, stop, sums[stop] - sums[start])
        for number, (start, stop) in enumerate(pairwise(cuts))
    ]


def in_megabytes(target: int) -> str:
    """Return a hint to use MB for a size of a few bytes; empty for a larger size."""
    return f"; did you mean {target}MB?" if target < 1000 else ""


def cut_by_bytes(weights: pl.Series, capacity: int, samples: int | None = None) -> list[int]:
    """Cut into the fewest shards of at most ``capacity`` and samples, of about equal size."""
    # A sample heavier than that is alone in its shard.
    sums, most = _sums(weights), len(weights) if samples is None else samples
    # fits[n] is the first row from which on all samples fit into n shards: filled from the end.
    fits = [len(weights)]
    while fits[-1] > 0:
        stop = fits[-1]
        first = bisect_left(sums, sums[stop] - capacity, max(0, stop - most), stop)
        fits.append(min(first, stop - 1))
    # For equal shares, a sample that has a shard for itself counts as a full shard.
    shares = sums
    if (weights > capacity).any():
        shares = _sums(weights.clip(upper_bound=capacity))

    def limits(start: int, left: int) -> tuple[int, int]:
        fullest = min(bisect_right(sums, sums[start] + capacity) - 1, start + most)
        return max(fits[left - 1], start + 1), max(fullest, start + 1)

    return _cut_evenly(shares, len(fits) - 1, limits)


def cut_into(weights: pl.Series, count: int) -> list[int]:
    """Cut into ``count`` shards of about equal bytes, none empty."""
    if not 1 <= count <= len(weights):
        raise OptionError(f"{count:,} shards: there are {len(weights):,} samples to put into them")
    return _cut_evenly(_sums(weights), count, lambda start, left: (start + 1, len(weights)))


def _sums(weights: pl.Series) -> pl.Series:
    """Return the weight of the first n samples, for each n from 0."""
    import polars as pl

    return pl.Series([0], dtype=pl.Int64).append(weights.cast(pl.Int64).cum_sum())


def _cut_evenly(
    sums: pl.Series, count: int, limits: Callable[[int, int], tuple[int, int]]
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


def cut_pieces(sizes: pl.Series, start: int, stop: int, piece_bytes: int) -> list[tuple[int, int]]:
    """Cut one shard's samples into pieces that several workers can write at once."""
    weights = sizes[start:stop].cast(int) + 1
    count = min(max(1, int(weights.sum()) // piece_bytes), len(weights))
    return [(start + low, start + high) for low, high in pairwise(cut_into(weights, count))]

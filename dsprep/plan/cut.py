"""Weigh samples before they are encoded, and cut them into shards by their weights.

A shard is a run of samples, so a plan is a list of cuts between them. The cuts depend on the
weights and the options alone, never on workers or machines.

Weights come from columns of the catalog, or from encoding some samples. The size of an
image after a transform is unknown in advance. So a seeded sample of the catalog is transformed, and
the encoded sizes are fitted by a power of the sizes in the source:
``encoded = factor · source ** power``. Images that compress badly do so in both, so the fit leaves
much less scatter than a mean does. Shards are then planned a little below their target: by how much
the sums of that many estimates can err.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from dsprep.errors import OptionError, SourceError
from dsprep.findings import Reject
from dsprep.formats.base import Format
from dsprep.pipeline import measure
from dsprep.progress import Progress
from dsprep.units import format_count
from dsprep.workers.executor import Executor

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog
    from dsprep.plan.job import Job

# Bytes: SageMaker's Pipe mode and most loaders work best with shards of 100 to 200 MB.
DEFAULT_TARGET = 200_000_000

SAMPLE = 400  # how many images are tried: the error of the total falls with the root of this
TOLERANCE = 0.05  # how far above its target a shard may come when sizes are estimates
_SIGMAS = 4.0  # standard deviations of an error that is planned for: one shard in thirty thousand
_REPORTED = 128  # how many samples a dry run tries, to tell which would be rejected
_CHECKED = 1000  # the same, if they have annotations, which may be wrong
_AT_ONCE = 1 << 17  # samples that are tried in one task: their rows take some 50 MB
_MOST_TRIED = 1 << 30  # bytes of the samples that an estimate tries, if these are large
_LEAST_TRIED = 16  # samples that are tried, however large they are
_MOST_PASSED = 1 << 32  # bytes that an estimate unpacks of a file that is read front to back
_SAMPLE_SEED = 1  # the images that are tried do not depend on the seed of the order


@dataclass(frozen=True)
class ShardSize:
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
    """One output file to write."""

    name: str  # its file name
    start: int  # the first of its samples, as a row of the ordered catalog
    stop: int  # the row after its last
    bytes: int  # its size on disk, trailer included


class Tried(NamedTuple):
    """What trying some samples of a catalog showed."""

    sizes: pl.Series  # as `Measured` has them, in the order of the catalog
    rejects: list[Reject]
    effects: Counter[str]


def plan_shards(
    weights: pl.Series,
    size: ShardSize,
    layout: Format,
    name: Callable[[int, int], str],
    capacity: int | None = None,
    files: pl.Series | None = None,
) -> list[PlannedShard]:
    """Cut the samples into shards; ``files`` are those of their samples, to cut by file."""
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
        bytes_ = len(layout.head) + content + len(layout.trailer(content))
        shards.append(PlannedShard(name(number, len(cuts) - 1), start, stop, bytes_))
    return shards


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


@dataclass(frozen=True)
class SizeModel:
    """Encoded sizes as a function of sizes in the source."""

    factor: float  # see above
    power: float  # from 0 (all images come out alike) to 1 (in proportion to the source)
    scatter: float  # the standard deviation of encoded over predicted size
    tried: int  # how many images it was fitted to

    def predict(self, source_size: int) -> int:
        return math.ceil(self.factor * math.pow(source_size, self.power))

    def safe_capacity(self, capacity: int, mean: float) -> int:
        """Return how full to plan a shard so that it stays within the tolerance."""
        samples = max(1.0, capacity / mean)
        error = _SIGMAS * self.scatter * (1 / math.sqrt(samples) + 1 / math.sqrt(self.tried))
        return int(capacity * min(1.0, (1 + TOLERANCE) / (1 + error)))


def fit(source: Sequence[int], encoded: Sequence[int]) -> SizeModel:
    """Fit the model to sizes before and after a transform."""
    import statistics  # slow to load

    power = 0.0
    if len(set(source)) > 1:
        logs = [math.log(size) for size in source]
        slope = statistics.linear_regression(logs, [math.log(size) for size in encoded]).slope
        power = min(1.0, max(0.0, slope))
    raised = [size**power for size in source]
    factor = sum(encoded) / sum(raised)
    ratios = [size / (factor * base) for size, base in zip(encoded, raised, strict=True)]
    return SizeModel(factor, power, statistics.pstdev(ratios), len(ratios))


def weigh(
    job: Job, catalog: Catalog, sample: Catalog, pool: Executor, progress: Progress
) -> tuple[pl.Series, int | None, bool]:
    """Return the bytes of each encoded sample, how full to plan a shard, and if both are estimates.

    ``sample`` is what is tried, which does not depend on a shuffle (:func:`some_of`).
    """
    sizes = catalog.table["size"]
    layout, whole, by_bytes = job.layout, catalog.reader.reads_samples, job.size.by_bytes
    if job.copies or job.size.by_file:
        return sizes.cast(int), None, not job.copies
    encodes = catalog.reader.encodes or catalog.reader.pixels is not None
    if job.images.changes or encodes:
        capacity = None
        if by_bytes:
            sizes, capacity = _estimate(job, catalog, sample, pool, progress)
        return sizes.cast(int) if whole else encoded_sizes(job, catalog, sizes), capacity, True
    is_fixed = layout.is_fixed and catalog.schema_known  # which tables declare, and their paths
    is_sparse = layout.bounds_sparse and catalog.reader.largest_key() is not None
    if (not whole or catalog.sizes is not None or is_fixed or is_sparse) and layout.weighs:
        estimated = (whole and not is_fixed) or not layout.concatenative
        return encoded_sizes(job, catalog, sizes), None, estimated
    if not (layout.concatenative and by_bytes):
        return sizes.cast(int), None, True
    return _try_samples(job, catalog, pool, progress).sizes.clip(0), None, False


def some_of(catalog: Catalog, count: int = SAMPLE) -> Catalog:
    """Return samples to try, from all over a catalog, within limits of their bytes."""
    import polars as pl

    table = catalog.table
    if catalog.reader.spools():  # those before would be unpacked for each that lies far behind
        ends = pl.col("offset").cast(int) + pl.col("size").cast(int)
        near = table.select((ends <= _MOST_PASSED).arg_true()).to_series()
        if 0 < len(near) < len(table):
            table = table[near]
    rows = replace(catalog, table=table).shuffled_rows(_SAMPLE_SEED, count)
    chosen = table[rows]
    before = chosen["size"].cast(int).cum_sum() - chosen["size"]
    few = pl.int_range(len(chosen), eager=True) < _LEAST_TRIED
    return replace(catalog, table=chosen.filter(few | (before < _MOST_TRIED)))


def try_some(job: Job, catalog: Catalog, pool: Executor, progress: Progress) -> Tried:
    """Try some samples, for a report of what would happen to them."""
    count = _REPORTED if catalog.annotated is None else _CHECKED
    return _try_samples(job, some_of(catalog, count), pool, progress)


def object_sizes(catalog: Catalog) -> pl.DataFrame | None:
    """Return how many objects the samples of a catalog have, and of how much text; if known."""
    import polars as pl

    if catalog.sizes is not None:
        return catalog.sizes
    if catalog.settled.schema.objects is None or catalog.label_column != "label":
        return None
    label = pl.col("label")
    own = (label.list.len() - label.list.get(0)) // label.list.get(1, null_on_oob=True)
    own = own.cast(pl.Int64, strict=False).fill_null(0)  # strict would refuse a division by 0
    return catalog.table.select(objects=own, texts=pl.lit(0, pl.Int64))


def encoded_sizes(job: Job, catalog: Catalog, image_sizes: pl.Series) -> pl.Series:
    """Return the bytes of each encoded sample, or a little more, given those of its image."""
    import polars as pl

    from dsprep.catalog import AT_ONCE

    starts = range(0, max(1, len(catalog)), AT_ONCE)
    parts = ((catalog.slice(at, AT_ONCE), image_sizes.slice(at, AT_ONCE)) for at in starts)
    return pl.concat([_encoded_sizes(job, *part).cast(pl.Int64) for part in parts])


def _encoded_sizes(job: Job, catalog: Catalog, image_sizes: pl.Series) -> pl.Series:
    import polars as pl

    from dsprep.catalog import widened

    table = widened(catalog.table.with_columns(image_sizes.alias("image")))
    if (sizes := object_sizes(catalog)) is not None:
        table = table.drop("label", strict=False).with_columns(sizes)
    if (largest := catalog.reader.largest_key()) is not None:
        table = table.with_columns(largest_key=pl.lit(largest, pl.Int64))
    if job.key == "index":
        table = table.with_columns(path=pl.col("index").cast(pl.String).str.zfill(9) + ".webp")
    if catalog.classes and catalog.label_column == "cls":
        table = table.with_columns(pl.Series("class", catalog.classes).gather(table["cls"]))
    return job.layout.weights(table)


def _weights(weights: Iterable[int]) -> pl.Series:
    import polars as pl

    return pl.Series(array("q", weights), dtype=pl.Int64)


def _estimate(
    job: Job, catalog: Catalog, sample: Catalog, pool: Executor, progress: Progress
) -> tuple[pl.Series, int]:
    """Return estimates of the bytes of each image, and how full to plan a shard with them."""
    target = job.layout.capacity(job.size.target or DEFAULT_TARGET)
    tried = _try_samples(job, sample, pool, progress)
    sizes = tried.sizes
    if not (sizes > 0).any():
        raise SourceError(
            f"{job.source.root}: no image can be packed of {len(sizes):,} that dsprep tried: "
            f"{tried.rejects[0].reason if tried.rejects else 'they are empty'}"
        )
    if len(sizes) == len(catalog):
        known = dict(zip(sample.table["index"], sizes.clip(0), strict=True))
        return _weights(known[index] for index in catalog.table["index"]), target
    measured = zip(sample.table["size"], sizes, strict=True)
    source, encoded = zip(*(each for each in measured if each[1] > 0), strict=True)
    model = fit(source, encoded)
    predicted = _weights(map(model.predict, catalog.table["size"]))
    return predicted, model.safe_capacity(target, int(predicted.sum()) / len(predicted))


def _try_samples(job: Job, sample: Catalog, pool: Executor, progress: Progress) -> Tried:
    """Make the samples of a catalog, all workers sharing the work, and measure them."""
    import polars as pl

    # What can only be read from front to back is unpacked once by each worker: rows are tried in
    # their order in the source, and each worker goes on where its last rows ended.
    order = sample.source_order()
    rows = sample if order is None else replace(sample, table=sample.table[order])
    tasks_each = 1 if sample.reader.spools() else 4
    share = min(math.ceil(len(rows) / (tasks_each * pool.size)), _AT_ONCE)
    pipeline = job.pipeline(sample)
    tasks = ((pipeline, rows.slice(at, share).rows()) for at in range(0, len(rows), share))
    with progress.running("estimating sizes", len(rows)):
        parts = pool.map(measure, tasks, progress.advance, progress.beat)
    sizes = pl.concat([pl.Series(part.sizes, dtype=pl.Int64) for part in parts])
    if order is not None:
        sizes = sizes.gather(order.arg_sort())
    rejects = list(chain.from_iterable(part.rejects for part in parts))
    effects = sum((part.effects for part in parts), Counter[str]())
    return Tried(sizes, rejects, effects)

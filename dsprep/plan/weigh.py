"""Weigh samples before they are encoded.

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
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.findings import Reject
from dsprep.frozen import Frozen
from dsprep.moving import TURNED
from dsprep.pipeline import measure
from dsprep.plan.cut import DEFAULT_TARGET
from dsprep.progress import Progress
from dsprep.tuples import NamedTuple
from dsprep.workers.executor import Executor

if TYPE_CHECKING:
    import polars as pl

    from dsprep.catalog import Catalog
    from dsprep.plan.job import Job

SAMPLE = 400  # how many images are tried: the error of the total falls with the root of this
TOLERANCE = 0.05  # how far above its target a shard may come when sizes are estimates
_SIGMAS = 4.0  # standard deviations of an error that is planned for: one shard in thirty thousand
_REPORTED = 128  # how many samples a dry run tries, to tell which would be rejected
_CHECKED = 1000  # number of images that are tried if they have annotations, which may be wrong
_AT_ONCE = 1 << 17  # samples that are tried in one task: their rows take some 50 MB
_SEEN = 64  # images that show whether some are turned: of 5 in 100, one is among them in 96 %
_MOST_TRIED = 1 << 30  # bytes of the samples that an estimate tries, if these are large
_LEAST_TRIED = 16  # samples that are tried, however large they are
_MOST_PASSED = 1 << 32  # bytes that an estimate unpacks of a file that is read front to back
_SAMPLE_SEED = 1  # the images that are tried do not depend on the seed of the order


class Tried(NamedTuple):
    """What trying some samples of a catalog showed."""

    sizes: pl.Series  # as `Measured` has them, in the order of the catalog
    rejects: list[Reject]
    effects: Counter[str]


class SizeModel(Frozen):
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
    """Return the encoded sizes of samples, the planned size of a shard, and if both are estimates.

    ``sample`` has the rows that are encoded for the estimate. A shuffle does not change them
    (:func:`some_of`).
    """
    sizes = catalog.table["size"]
    layout, whole, by_bytes = job.layout, not catalog.tells_all, job.size.by_bytes
    if job.copies or job.size.by_file:
        return sizes.cast(int), None, not job.copies
    encodes = catalog.reader.encodes or catalog.reader.pixels is not None
    changes = job.images.changes or encodes
    if changes or (by_bytes and _turns_some(job, sample, pool, progress)):
        capacity = None
        if by_bytes:
            sizes, capacity = _estimate(job, catalog, sample, pool, progress)
        return sizes.cast(int) if whole else encoded_sizes(job, catalog, sizes), capacity, True
    # tables declare their fields, and the length of their paths is known
    is_fixed = layout.is_fixed and catalog.schema_known
    is_sparse = layout.bounds_sparse and catalog.reader.largest_key() is not None
    has_sizes = catalog.annotated is not None and catalog.annotated.tells_sizes
    if (not whole or has_sizes or is_fixed or is_sparse) and layout.weighs:
        estimated = (whole and not is_fixed) or not layout.in_spans
        return encoded_sizes(job, catalog, sizes), None, estimated
    if not (layout.in_spans and by_bytes):
        return sizes.cast(int), None, True
    return _try_samples(job, catalog, pool, progress).sizes.clip(0), None, False


def may_turn_some(job: Job, catalog: Catalog) -> bool:
    """Return whether images are turned upright that have an orientation, and it can be seen."""
    # to look into an archive that is unpacked as a whole takes long
    return job.pipeline(catalog).moves and not catalog.reader.spools()


def some_of(catalog: Catalog, count: int = SAMPLE) -> Catalog:
    """Return samples to try, from all over a catalog, within limits of their bytes."""
    import polars as pl

    table = catalog.table
    if catalog.reader.spools():  # reading a sample far behind would unpack all samples before it
        is_near = pl.col("offset").cast(int) + pl.col("size").cast(int) <= _MOST_PASSED
        near = table.lazy().select(is_near).collect(engine="streaming").to_series()
        if near.any() and not near.all():
            table = table.filter(near)
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

    parts = []
    for at in range(0, max(1, len(catalog)), AT_ONCE):
        rows, sizes = catalog.slice(at, AT_ONCE), image_sizes.slice(at, AT_ONCE)
        parts.append(job.layout.weights(_weighed(job, rows, sizes)).cast(pl.Int64))
    return pl.concat(parts)


def _weighed(job: Job, catalog: Catalog, image_sizes: pl.Series) -> pl.DataFrame:
    """Return the columns that a format weighs samples by, as `Format.weights` has them."""
    import polars as pl

    from dsprep.catalog import widened

    table = widened(catalog.table.with_columns(image_sizes.alias("image")))
    if (sizes := object_sizes(catalog)) is not None:
        are_objects = catalog.settled.schema.label is None
        table = table.drop(["label"] if are_objects else [], strict=False).with_columns(sizes)
    if (largest := catalog.reader.largest_key()) is not None:
        table = table.with_columns(largest_key=pl.lit(largest, pl.Int64))
    if job.key == "index":
        table = table.with_columns(path=pl.col("index").cast(pl.String).str.zfill(9) + ".webp")
    if catalog.classes and catalog.label_column == "cls":
        table = table.with_columns(pl.Series("class", catalog.classes).gather(table["cls"]))
    return table


def _weights(weights: Iterable[int]) -> pl.Series:
    import polars as pl

    return pl.Series(array("q", weights), dtype=pl.Int64)


def _turns_some(job: Job, sample: Catalog, pool: Executor, progress: Progress) -> bool:
    """Return whether images are turned upright for their boxes or masks, by trying a few."""
    if not may_turn_some(job, sample):
        return False
    few = sample.slice(0, _SEEN)
    return TURNED in _try_samples(job, few, pool, progress, one_worker=True).effects


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


def _try_samples(
    job: Job, sample: Catalog, pool: Executor, progress: Progress, *, one_worker: bool = False
) -> Tried:
    """Make the samples of a catalog, all workers sharing the work, and measure them.

    With ``one_worker``, only one is started: a few images take less time than another one's start.
    """
    import polars as pl

    # What can only be read from front to back is unpacked once by each worker: rows are tried in
    # their order in the source, and each worker goes on where its last rows ended.
    order = sample.source_order()
    rows = sample if order is None else replace(sample, table=sample.table[order])
    tasks_each = 1 if sample.reader.spools() else 4
    tasks = 1 if one_worker else tasks_each * pool.size
    share = min(math.ceil(len(rows) / tasks), _AT_ONCE)
    pipeline = job.pipeline(sample)
    shares = ((pipeline, rows.slice(at, share).rows()) for at in range(0, len(rows), share))
    with progress.running("estimating sizes", len(rows)):
        parts = pool.map(measure, shares, progress.advance, progress.beat)
    sizes = pl.concat([pl.Series(part.sizes, dtype=pl.Int64) for part in parts])
    if order is not None:
        sizes = sizes.gather(order.arg_sort())
    rejects = list(chain.from_iterable(part.rejects for part in parts))
    effects = sum((part.effects for part in parts), Counter[str]())
    return Tried(sizes, rejects, effects)

"""Weigh samples before they are encoded: by columns of the catalog, or by trying some.

Nobody knows what an image weighs after a transform before it is done. So a seeded sample of the
catalog is transformed, and the encoded sizes are fitted by a power of the sizes in the source:
``encoded = factor · source ** power``. Images that compress badly do so in both, so the fit leaves
much less scatter than a mean does. Shards are then planned a little below their target: by how much
the sums of that many estimates can err.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.pipeline import Measured, measure
from dsprep.plan.cut import DEFAULT_TARGET
from dsprep.plan.job import Job
from dsprep.progress import Progress
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

SAMPLE = 400  # how many images are tried: the error of the total falls with the root of this
TOLERANCE = 0.05  # how far above its target a shard may come when sizes are estimates
_SIGMAS = 4.0  # standard deviations of an error that is planned for: one shard in thirty thousand
_TIMED = 128  # how many samples are tried to find out how long a run will take
_SAMPLE_SEED = 1  # the images that are tried do not depend on the seed of the order


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
    job: Job, catalog: Catalog, indexed: Catalog, pool: Pool, progress: Progress
) -> tuple[list[int], int | None, bool]:
    """Return the bytes of each encoded sample, how full to plan a shard, and if both are estimates.

    ``indexed`` is the catalog in the order of the source: what is tried does not depend on a
    shuffle.
    """
    sizes: list[int] = catalog.table["size"].to_list()
    layout, whole, by_bytes = job.layout, catalog.reader.reads_samples, job.size.by_bytes
    if job.copies or job.size.by_file:
        return sizes, None, not job.copies
    if job.images.transform is not None or catalog.reader.encodes:
        capacity = None
        if by_bytes:
            sample = indexed.shuffle(_SAMPLE_SEED).slice(0, SAMPLE)
            sizes, capacity = _estimate(job, catalog, sample, pool, progress)
        return sizes if whole else _exact_weights(job, catalog, sizes), capacity, True
    if not whole:
        return _exact_weights(job, catalog, sizes), None, not layout.concatenative
    if not (layout.concatenative and by_bytes):
        return sizes, None, True
    tried = _try_samples(job, catalog, pool, progress)
    return [size or 0 for size in tried.sizes], None, False


def seconds(job: Job, catalog: Catalog, pool: Pool, progress: Progress) -> float:
    """Return how long a run will take, by trying some samples now."""
    tried = _try_samples(job, catalog.shuffle(_SAMPLE_SEED).slice(0, _TIMED), pool, progress)
    return tried.seconds / len(tried.sizes) * len(catalog) / pool.size


def _exact_weights(job: Job, catalog: Catalog, image_sizes: Sequence[int]) -> list[int]:
    """Return the bytes of each encoded sample, given those of its image."""
    import polars as pl

    table = catalog.table.with_columns(pl.Series("image", image_sizes, dtype=pl.Int64))
    if job.key == "index":
        table = table.with_columns(path=pl.col("index").cast(pl.String).str.zfill(9) + ".webp")
    if catalog.classes and catalog.label_column == "cls":
        table = table.with_columns(pl.Series("class", catalog.classes).gather(table["cls"]))
    return job.layout.weights(table).to_list()


def _estimate(
    job: Job, catalog: Catalog, sample: Catalog, pool: Pool, progress: Progress
) -> tuple[list[int], int]:
    """Return estimates of the bytes of each image, and how full to plan a shard with them."""
    target = job.layout.capacity(job.size.target or DEFAULT_TARGET)
    tried = _try_samples(job, sample, pool, progress)
    measured = zip(sample.table["index"].to_list(), tried.sizes, strict=True)
    known = {index: size for index, size in measured if size}
    if not known:
        raise SourceError(
            f"{job.source.root}: no image can be packed of {len(tried.sizes):,} that dsprep tried: "
            f"{tried.reason or 'they are empty'}"
        )
    ids, sizes = catalog.table["index"].to_list(), catalog.table["size"].to_list()
    if len(tried.sizes) == len(catalog):
        return [known.get(index, 0) for index in ids], target
    source = dict(zip(ids, sizes, strict=True))
    model = fit([source[index] for index in known], list(known.values()))
    predicted = [model.predict(size) for size in sizes]
    mean = math.fsum(predicted) / len(predicted)
    return predicted, model.safe_capacity(target, mean)


def _try_samples(job: Job, sample: Catalog, pool: Pool, progress: Progress) -> Measured:
    """Make the samples of a small catalog, all workers sharing the work, and measure them."""
    share = math.ceil(len(sample) / (4 * pool.size))
    pipeline = job.pipeline(sample)
    tasks = [(pipeline, sample.slice(at, share).rows()) for at in range(0, len(sample), share)]
    with progress.task("estimating sizes", len(sample)):
        parts = pool.map(measure, tasks, progress.advance)
    sizes = list(chain.from_iterable(part.sizes for part in parts))
    reason = next((part.reason for part in parts if part.reason), "")
    return Measured(sizes, sum(part.seconds for part in parts), reason)

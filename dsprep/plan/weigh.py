"""What samples will weigh, and how long they take: by columns, or by trying some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.formats import Format
from dsprep.plan.cuts import DEFAULT_TARGET
from dsprep.plan.estimate import SAMPLE, fit
from dsprep.plan.packing import Packing
from dsprep.plan.recipe import Measured, measure
from dsprep.progress import Progress
from dsprep.workers.pool import Pool

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

_SAMPLE_SEED = 1
"""The images that are tried do not depend on the seed of the order."""


def weigh(
    packing: Packing, catalog: Catalog, indexed: Catalog, pool: Pool, progress: Progress
) -> tuple[list[int], int | None, bool]:
    """Encoded bytes of each sample, how full to plan a shard, and whether these are estimates."""
    sizes: list[int] = catalog.table["size"].to_list()
    layout, whole = packing.layout, catalog.reader.whole
    by_index = packing.key == "index"
    if packing.copies:
        return sizes, None, False
    if packing.size.by_file:
        return sizes, None, True
    if packing.transform is not None or catalog.reader.encodes:
        if not packing.size.by_bytes:
            return sizes if whole else _exact_weights(layout, catalog, sizes, by_index), None, True
        predicted, capacity = _estimate(
            packing, catalog, pick(indexed, SAMPLE), sizes, pool, progress
        )
        weights = predicted if whole else _exact_weights(layout, catalog, predicted, by_index)
        return weights, capacity, True
    if not whole:
        return _exact_weights(layout, catalog, sizes, by_index), None, not layout.concatenative
    if not (layout.concatenative and packing.size.by_bytes):
        return sizes, None, True
    tried = try_samples(packing, catalog, pool, progress)
    measured = chain.from_iterable(each.sizes for each in tried)
    return [size or 0 for size in measured], None, False


def _exact_weights(
    layout: Format, catalog: Catalog, image_sizes: Sequence[int], by_index: bool
) -> list[int]:
    """The bytes of each encoded sample, given those of its image."""
    import polars as pl

    table = catalog.table.with_columns(pl.Series("image", image_sizes, dtype=pl.Int64))
    if by_index:
        table = table.with_columns(path=pl.col("index").cast(pl.String).str.zfill(9) + ".webp")
    if catalog.classes and catalog.label_column == "cls":
        table = table.with_columns(pl.Series("class", catalog.classes).gather(table["cls"]))
    return layout.weights(table).to_list()


def _estimate(
    packing: Packing,
    catalog: Catalog,
    sample: Catalog,
    sizes: Sequence[int],
    pool: Pool,
    progress: Progress,
) -> tuple[list[int], int]:
    """Encoded bytes of each image, and how full to plan a shard with them."""
    target = packing.layout.capacity(packing.size.target or DEFAULT_TARGET)
    tried = try_samples(packing, sample, pool, progress)
    encoded = list(chain.from_iterable(each.sizes for each in tried))
    measured = zip(sample.table["index"].to_list(), encoded, strict=True)
    known = {index: size for index, size in measured if size}
    if not known:
        reason = next((each.reason for each in tried if each.reason), "they are empty")
        raise SourceError(
            f"{packing.source.root}: no image can be packed of {len(encoded):,} that dsprep tried: "
            f"{reason}"
        )
    ids = catalog.table["index"].to_list()
    if len(encoded) == len(catalog):
        return [known.get(index, 0) for index in ids], target
    source = dict(zip(ids, sizes, strict=True))
    model = fit([source[index] for index in known], list(known.values()))
    predicted = [model.predict(size) for size in sizes]
    mean = math.fsum(predicted) / len(predicted)
    return predicted, model.safe_capacity(target, mean)


def try_samples(
    packing: Packing, sample: Catalog, pool: Pool, progress: Progress
) -> list[Measured]:
    """Make the samples of a small catalog, all workers sharing the work, and measure them."""
    share = math.ceil(len(sample) / (4 * pool.size))
    recipe = packing.recipe(sample)
    tasks = [(recipe, sample.slice(at, share).rows()) for at in range(0, len(sample), share)]
    progress.begin("estimating sizes", len(sample), 0)
    try:
        found = dict(pool.run(measure, tasks, progress.advance))
    finally:
        progress.end()
    return [found[number] for number in range(len(tasks))]


def pick(catalog: Catalog, count: int) -> Catalog:
    """Some samples, chosen at random but always the same."""
    return catalog.shuffle(_SAMPLE_SEED).slice(0, count)

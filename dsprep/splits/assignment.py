"""Which side each sample of a split goes to.

What is drawn is drawn by hash, so that a split depends on the samples and the seed, and not on
their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dsprep.lists.hashing import hash_unit
from dsprep.splits.groups import fill_empty_sides, place_groups
from dsprep.splits.ratios import Ratios
from dsprep.splits.strata import Table, apportion

_PURPOSE = "split"
_FINE = 1 << 20
_CLASS_BITS = 20


def draw(texts: pl.Series, seed: int) -> pl.Series:
    """The number of each text, in [0, 1), by which sides are chosen."""
    return hash_unit(texts, seed, _PURPOSE).alias("drawn")


def stable_sides(texts: pl.Series, ratios: Ratios, seed: int) -> pl.Series:
    """Choose the side of each sample by its own text alone."""
    drawn = draw(texts, seed)
    sides = pl.Series("side", [0], pl.Int64).new_from_index(0, len(texts))
    for bound in ratios.bounds():
        sides += (drawn >= bound).cast(pl.Int64)
    return sides


def assign_sides(samples: pl.DataFrame, ratios: Ratios, seed: int) -> pl.Series:
    """Choose the side of each sample so that each class is divided by the ratios.

    Groups of several samples are placed first, see :func:`~dsprep.splits.groups.place_groups`; the
    single samples of a class then make its counts what they should be. Without groups all counts
    are as :func:`~dsprep.splits.strata.apportion` says. Which samples of a class go where depends
    on what was drawn for each.
    """
    table = samples.with_row_index("row")
    sizes = table.group_by("stratum").len().sort("stratum")["len"].to_list()
    if "group" not in table.columns:
        counts = apportion([[size * part for part in ratios.parts] for size in sizes], ratios.whole)
        return _divide(table, counts).sort("row")["side"]
    is_single = ~pl.col("group").is_duplicated()
    singles, grouped = table.filter(is_single), table.filter(~is_single)
    groups = _largest_first(grouped, seed)
    cells = [list(zip(*row, strict=True)) for row in groups.select("strata", "counts").iter_rows()]
    placed = place_groups(cells, ratios, sizes)
    counts = _single_counts(sizes, cells, placed, ratios)
    filled = [any(column) for column in zip(*counts, strict=True)]
    if not all(side in placed or has for side, has in enumerate(filled)):
        placed = fill_empty_sides(placed, groups["size"].to_list(), filled)
        counts = _single_counts(sizes, cells, placed, ratios)
    sides = groups.select("group", side=pl.Series(placed, dtype=pl.Int64))
    of_groups = grouped.join(sides, on="group").select("row", "side")
    return pl.concat([of_groups, _divide(singles, counts)]).sort("row")["side"]


def _largest_first(grouped: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Groups with ``strata`` and ``counts`` (lists) and ``size``; equal sizes in random order."""
    cells = grouped.group_by("group", "stratum").len("count").sort("group", "stratum")
    groups = cells.group_by("group", maintain_order=True).agg(
        strata="stratum", counts="count", size=pl.col("count").sum()
    )
    groups = groups.with_columns(draw(groups["group"], seed))
    return groups.sort("size", "drawn", "group", descending=[True, False, False])


def _single_counts(
    sizes: Sequence[int],
    cells: Sequence[Sequence[tuple[int, int]]],
    placed: Sequence[int],
    ratios: Ratios,
) -> Table:
    """How many single samples of each class go to each side, given where the groups are."""
    unit = ratios.whole * _FINE
    wanted = [[size * part * _FINE for part in ratios.parts] for size in sizes]
    left = list(sizes)
    for group, side in zip(cells, placed, strict=True):
        for stratum, count in group:
            wanted[stratum][side] -= count * unit
            left[stratum] -= count
    return apportion(
        [_scale(row, singles * unit) for row, singles in zip(wanted, left, strict=True)], unit
    )


def _scale(wanted: Sequence[int], total: int) -> list[int]:
    """Divide a total by what is wanted, where that is more than there is; none of it is less."""
    open_parts = [max(part, 0) for part in wanted]
    scaled = [part * total // sum(open_parts) if total else 0 for part in open_parts]
    scaled[open_parts.index(max(open_parts))] += total - sum(scaled)
    return scaled


def _divide(samples: pl.DataFrame, counts: Table) -> pl.DataFrame:
    """Deal out the samples of each class in the order drawn: so many of them to each side."""
    runs = pl.DataFrame(
        {
            "side": [side for row in counts for side in range(len(row))],
            "count": [count for row in counts for count in row],
        },
        schema={"side": pl.Int64, "count": pl.Int64},
    ).filter(pl.col("count") > 0)
    sides = runs.select(pl.col("side").repeat_by("count").explode()).to_series()
    return pl.DataFrame([_order(samples).alias("row"), sides])


def _order(samples: pl.DataFrame) -> pl.Series:
    """The rows of samples by class, by what was drawn for them, and by path and id."""
    if len(samples) and samples["stratum"].max() < 1 << _CLASS_BITS:  # type: ignore[operator]
        # One number to sort by is several times as fast as two, and seldom are two of them equal.
        scale = 1 << (64 - _CLASS_BITS)
        packed = samples["stratum"].cast(pl.UInt64) * scale
        packed += (samples["drawn"] * scale).cast(pl.UInt64)
        order = packed.arg_sort()
        ordered = packed.gather(order)
        if not (ordered == ordered.shift(1)).any():
            return samples["row"].gather(order)
    return samples.sort("stratum", "drawn", "path", "index")["row"]

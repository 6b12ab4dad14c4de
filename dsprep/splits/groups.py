"""The side of each sample, so that classes are divided by the ratios and groups stay whole.

A group is a set of samples that must be on one side: a patient, a video, the copies of one image.
What is drawn is drawn by hash, so a split depends on the samples and the seed, not on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import polars as pl
from polars.exceptions import ComputeError

from dsprep.errors import OptionError, SourceError
from dsprep.lists.stats import hash_unit
from dsprep.splits.ratios import Ratios, Table, apportion

T = TypeVar("T", int, str)

Cells = Sequence[tuple[int, int]]
"""What a group is made of: classes, and how many samples of each."""

_FINE = 1 << 20
_CLASS_BITS = 20


def draw(texts: pl.Series, seed: int) -> pl.Series:
    """Draw a number in [0, 1) for each text."""
    return hash_unit(texts, seed, "split").alias("drawn")


def stable_sides(texts: pl.Series, ratios: Ratios, seed: int) -> pl.Series:
    """Choose the side of each sample by its own text alone."""
    drawn = draw(texts, seed)
    sides = pl.Series("side", [0], pl.Int64).new_from_index(0, len(texts))
    for bound in ratios.bounds():
        sides += (drawn >= bound).cast(pl.Int64)
    return sides


def assign_sides(samples: pl.DataFrame, ratios: Ratios, seed: int) -> pl.Series:
    """Choose the side of each sample so that each class is divided by the ratios.

    Groups of several samples are placed first; the single samples of a class then make its counts
    right. Without groups all counts are those of :func:`~dsprep.splits.ratios.apportion`.
    """
    table = samples.with_row_index("row")
    sizes = table.group_by("stratum").len().sort("stratum")["len"].to_list()
    if "group" not in table.columns:
        counts = apportion([[size * part for part in ratios.parts] for size in sizes], ratios.whole)
        return _divide(table, counts).sort("row")["side"]
    is_single = ~pl.col("group").is_duplicated()
    singles, grouped = table.filter(is_single), table.filter(~is_single)
    cells = grouped.group_by("group", "stratum").len("count").sort("group", "stratum")
    groups = cells.group_by("group", maintain_order=True).agg(
        strata="stratum", counts="count", size=pl.col("count").sum()
    )
    groups = groups.with_columns(draw(groups["group"], seed))
    groups = groups.sort("size", "drawn", "group", descending=[True, False, False])
    made_of = [
        list(zip(*row, strict=True)) for row in groups.select("strata", "counts").iter_rows()
    ]
    placed = place_groups(made_of, ratios, sizes)
    counts = _single_counts(sizes, made_of, placed, ratios)
    filled = [any(column) for column in zip(*counts, strict=True)]
    if not all(side in placed or has for side, has in enumerate(filled)):
        placed = fill_empty_sides(placed, groups["size"].to_list(), filled)
        counts = _single_counts(sizes, made_of, placed, ratios)
    sides = groups.select("group", side=pl.Series(placed, dtype=pl.Int64))
    of_groups = grouped.join(sides, on="group").select("row", "side")
    return pl.concat([of_groups, _divide(singles, counts)]).sort("row")["side"]


def _single_counts(
    sizes: Sequence[int], groups: Sequence[Cells], placed: Sequence[int], ratios: Ratios
) -> Table:
    """Count the single samples of each class that go to each side, given the groups' sides."""
    unit = ratios.whole * _FINE
    wanted = [[size * part * _FINE for part in ratios.parts] for size in sizes]
    left = list(sizes)
    for group, side in zip(groups, placed, strict=True):
        for stratum, count in group:
            wanted[stratum][side] -= count * unit
            left[stratum] -= count
    return apportion(
        [_scale(row, singles * unit) for row, singles in zip(wanted, left, strict=True)], unit
    )


def _scale(wanted: Sequence[int], total: int) -> list[int]:
    """Divide a total in proportion to what is wanted; a side with more than its share gets none."""
    open_parts = [max(part, 0) for part in wanted]
    scaled = [part * total // sum(open_parts) if total else 0 for part in open_parts]
    scaled[open_parts.index(max(open_parts))] += total - sum(scaled)
    return scaled


def _divide(samples: pl.DataFrame, counts: Table) -> pl.DataFrame:
    """Deal out the samples of each class in the order drawn."""
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
    """Return the rows of samples by class, by the number drawn, and by path and id."""
    if len(samples) and samples["stratum"].max() < 1 << _CLASS_BITS:  # type: ignore[operator]
        # One number to sort by is several times as fast as two, and two are seldom equal.
        scale = 1 << (64 - _CLASS_BITS)
        packed = samples["stratum"].cast(pl.UInt64) * scale
        packed += (samples["drawn"] * scale).cast(pl.UInt64)
        order = packed.arg_sort()
        ordered = packed.gather(order)
        if not (ordered == ordered.shift(1)).any():
            return samples["row"].gather(order)
    return samples.sort("stratum", "drawn", "path", "index")["row"]


def group_by_pattern(paths: pl.Series, pattern: str) -> pl.Series:
    """Return the group of each sample: what a regular expression finds in its path."""
    try:
        parentheses = paths.head(1).str.extract_groups(pattern).struct.fields
        groups = paths.str.extract(pattern, 1 if parentheses else 0)
    except ComputeError as error:
        reason = str(error).partition("\n\nThis error")[0]
        raise OptionError(f"--group {pattern!r}: not a regular expression: {reason}") from None
    return require_groups(groups.alias("group"), paths, f"--group {pattern!r} matches nothing in")


def require_groups(groups: pl.Series, paths: pl.Series, problem: str) -> pl.Series:
    """Refuse samples without a group."""
    without = groups.is_null() | (groups == "")
    if without.any():
        named = paths.filter(without)
        raise SourceError(
            f"{problem} {named[0]!r} ({len(named):,} such): every sample needs a group"
        )
    return groups


def join_sets(sets: Iterable[Iterable[T]]) -> dict[T, T]:
    """Join sets that overlap: return for each member the least member that it is joined with."""
    least: dict[T, T] = {}

    def root(member: T) -> T:
        while (above := least.setdefault(member, member)) != member:
            least[member] = least[above]
            member = above
        return member

    for members in sets:
        roots = [root(member) for member in members]
        least.update(dict.fromkeys(roots, min(roots)))
    return {member: root(member) for member in list(least)}


def merge_groups(groups: pl.Series, sets: Iterable[Sequence[int]]) -> pl.Series:
    """Make one group of the groups that the rows of a set are in."""
    merged = join_sets(groups.gather(list(rows)).to_list() for rows in sets)
    return groups.replace(merged) if merged else groups


def place_groups(groups: Sequence[Cells], ratios: Ratios, class_sizes: Sequence[int]) -> list[int]:
    """Choose a side for each group so that the classes' counts come near to their shares.

    Greedily, each group in turn goes where it makes the sum of the squared deviations smallest, of
    each class and of all samples, as shares of what is wanted there (the statistic of a chi-squared
    test). Pass the larger groups first: the small ones fill the gaps.
    """
    every = sum(class_sizes)
    wanted = [
        [size * part / ratios.whole or 1.0 for size in (*class_sizes, every)]
        for part in ratios.parts
    ]
    missing = [list(row) for row in wanted]
    total = len(class_sizes)
    placed = []
    for group in groups:
        cells = (*group, (total, sum(count for _, count in group)))
        costs = [
            sum(count * (count - 2 * lacks[number]) / wants[number] for number, count in cells)
            for lacks, wants in zip(missing, wanted, strict=True)
        ]
        side = costs.index(min(costs))
        for number, count in cells:
            missing[side][number] -= count
        placed.append(side)
    return placed


def fill_empty_sides(placed: list[int], sizes: Sequence[int], filled: Sequence[bool]) -> list[int]:
    """Give each empty side the smallest group of a side that has several."""
    placed = list(placed)
    counts = [placed.count(side) for side in range(len(filled))]
    smallest_first = sorted(range(len(placed)), key=lambda group: (sizes[group], -group))
    for side, has_others in enumerate(filled):
        if counts[side] or has_others:
            continue
        for group in smallest_first:
            giver = placed[group]
            if counts[giver] > 1 or (counts[giver] and filled[giver]):
                placed[group] = side
                counts[giver] -= 1
                counts[side] += 1
                break
    return placed

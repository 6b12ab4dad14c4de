"""Dealing samples out to sides: by hash alone, by class, by several classes, whole groups at once.

Pure functions on tables. What is drawn depends on texts and the seed, not on the order of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

import polars as pl

from dsprep.lists.stats import hash_unit
from dsprep.splits.ratios import Ratios, Table, apportion

T = TypeVar("T", int, str)

Cells = Sequence[tuple[int, int]]  # what a group is made of: classes, and how many samples of each

_FINE = 1 << 20

_CLASS_BITS = 20


def stratify_tags(tags: pl.Series, table: pl.DataFrame, ratios: Ratios) -> pl.Series:
    """Choose the side of each sample so that each of its classes is divided by the ratios.

    Iterative stratification (Sechidis, Tsoumakas and Vlahavas, "On the Stratification of
    Multi-Label Data", 2011): the samples of the rarest class are dealt out first, each to the side
    that lacks most of it. A group goes to one side as a whole.
    """
    of_sample = tags.to_list()
    order = table.with_row_index("row").sort("drawn", "path", "index")["row"].to_list()
    members = {row: [row] for row in order}
    if "group" in table.columns:
        groups = table["group"].to_list()
        members, firsts = {}, dict[str, int]()
        for row in order:
            members.setdefault(firsts.setdefault(groups[row], row), []).append(row)
    counts = {
        row: Counter(tag for each in own for tag in of_sample[each]) for row, own in members.items()
    }
    holders: dict[int, list[int]] = {}
    for row, own in counts.items():
        for tag in own:
            holders.setdefault(tag, []).append(row)
    left = Counter[int]()
    for own in counts.values():
        left.update(own)
    whole = ratios.whole
    wanted = {tag: [count * part / whole for part in ratios.parts] for tag, count in left.items()}
    room = [len(of_sample) * part / whole for part in ratios.parts]
    sides = [0] * len(of_sample)
    waiting = set(members)

    def place(row: int, lacks: Sequence[float]) -> None:
        side = max(range(len(room)), key=lambda side: (lacks[side], room[side], -side))
        waiting.discard(row)
        room[side] -= len(members[row])
        for tag, count in counts[row].items():
            wanted[tag][side] -= count
            left[tag] -= count
        for each in members[row]:
            sides[each] = side

    # A class becomes rarer as its samples are dealt out with those of others.
    rarest = [(count, tag) for tag, count in left.items()]
    heapify(rarest)
    while rarest:
        count, tag = heappop(rarest)
        if left[tag] < count:
            if left[tag]:
                heappush(rarest, (left[tag], tag))
            continue
        for row in holders[tag]:
            if row in waiting:
                place(row, wanted[tag])
    for row in order:
        if row in waiting:
            place(row, room)
    return pl.Series("side", sides, pl.Int64)


def how_well(tags: pl.Series, numbers: pl.Series, ratios: Ratios, names: Sequence[str]) -> str:
    """Say how far the classes are from their shares."""
    table = pl.DataFrame([tags, numbers]).explode("tags").drop_nulls("tags")
    counts = Counter(table.rows())
    worst, most = "", 0.0
    for tag, total in sorted(Counter(table["tags"].to_list()).items()):
        for side, part in enumerate(ratios.parts):
            off = abs(counts[tag, side] - total * part / ratios.whole)
            if off > most:
                name = names[tag] if tag < len(names) else str(tag)
                worst, most = f"{name} on {ratios.names[side]}", off
    if not worst:
        return "each class is on each side by its exact share"
    return f"the largest difference of a class from its share is {most:.1f} samples ({worst})"


def draw(texts: pl.Series, seed: int) -> pl.Series:
    """Draw a number in [0, 1) for each text."""
    return hash_unit(texts, seed, "split").alias("drawn")


def stable_sides(texts: pl.Series, ratios: Ratios, seed: int) -> pl.Series:
    """Choose the side of each sample by its own text alone."""
    bounds = pl.Series("side", ratios.bounds(), pl.Float64)
    return bounds.search_sorted(draw(texts, seed), side="right").cast(pl.Int64)


def assign_sides(samples: pl.DataFrame, ratios: Ratios, seed: int) -> pl.Series:
    """Choose the side of each sample so that each class is divided by the ratios."""
    # Groups of several samples are placed first; the single samples of a class then make its counts
    # right. Without groups all counts are those of `~dsprep.splits.ratios.apportion`.
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
    # They are divided in proportion to what is missing; a side with more than its share gets none.
    unit = ratios.whole * _FINE
    wanted = [[size * part * _FINE for part in ratios.parts] for size in sizes]
    left = list(sizes)
    for group, side in zip(groups, placed, strict=True):
        for stratum, count in group:
            wanted[stratum][side] -= count * unit
            left[stratum] -= count
    shares = []
    for row, singles in zip(wanted, left, strict=True):
        parts, total = [max(part, 0) for part in row], singles * unit
        scaled = [part * total // sum(parts) if total else 0 for part in parts]
        scaled[parts.index(max(parts))] += total - sum(scaled)
        shares.append(scaled)
    return apportion(shares, unit)


def _divide(samples: pl.DataFrame, counts: Table) -> pl.DataFrame:
    """Deal out the samples of each class in the order drawn, then by path and id."""
    runs = pl.DataFrame(
        [run for row in counts for run in enumerate(row) if run[1]],
        schema={"side": pl.Int64, "count": pl.Int64},
        orient="row",
    )
    sides = runs.select(pl.col("side").repeat_by("count").explode()).to_series()
    rows = None
    if len(samples) and samples["stratum"].max() < 1 << _CLASS_BITS:  # type: ignore[operator]
        # One number to sort by is several times as fast as two, and two are seldom equal.
        scale = 1 << (64 - _CLASS_BITS)
        packed = samples["stratum"].cast(pl.UInt64) * scale
        packed += (samples["drawn"] * scale).cast(pl.UInt64)
        order = packed.arg_sort()
        ordered = packed.gather(order)
        if not (ordered == ordered.shift(1)).any():
            rows = samples["row"].gather(order)
    if rows is None:
        rows = samples.sort("stratum", "drawn", "path", "index")["row"]
    return pl.DataFrame([rows, sides])


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
    """Choose a side for each group so that the classes' counts come near to their shares."""
    # Greedily, each group in turn goes where it makes the sum of the squared deviations smallest,
    # of each class and of all samples, as shares of what is wanted there (the statistic of a
    # chi-squared test). Pass the larger groups first: the small ones fill the gaps.
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

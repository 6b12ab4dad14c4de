"""Groups of samples that stay on one side: a patient, a video, the copies of one image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl
from polars.exceptions import ComputeError

from dsprep.errors import OptionError, SourceError
from dsprep.splits.ratios import Ratios

Cells = Sequence[tuple[int, int]]
"""What a group is made of: classes, and how many samples of each."""


def group_by_pattern(paths: pl.Series, pattern: str) -> pl.Series:
    """The group of each sample by its path."""
    try:
        parentheses = paths.head(1).str.extract_groups(pattern).struct.fields
        groups = paths.str.extract(pattern, 1 if parentheses else 0)
    except ComputeError as error:
        reason = str(error).partition("\n\nThis error")[0]
        raise OptionError(f"--group {pattern!r}: is no regular expression: {reason}") from None
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


def merge_groups(groups: pl.Series, sets: Iterable[Sequence[int]]) -> pl.Series:
    """Make one group of all groups that some samples have in common."""
    first: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := first.get(name, name)) != name:
            first[name] = first.get(above, above)
            name = above
        return name

    for rows in sets:
        roots = {root(name) for name in groups.gather(list(rows)).to_list()}
        first.update(dict.fromkeys(roots, min(roots)))
    merged = {name: root(name) for name in list(first)}
    return groups.replace(merged) if merged else groups


def place_groups(groups: Sequence[Cells], ratios: Ratios, class_sizes: Sequence[int]) -> list[int]:
    """Choose sides for groups so that the classes' counts on each side are as they should be.

    Greedily, each group in turn goes where it makes the sum of the squared deviations smallest, of
    each class and of all samples, as shares of what is wanted there (the statistic of a chi-squared
    test). The larger groups should come first, as the small ones fill what they leave.
    """
    every = sum(class_sizes)
    wanted = [
        [size * part / ratios.whole or 1.0 for size in (*class_sizes, every)]
        for part in ratios.parts
    ]
    missing = [list(row) for row in wanted]
    sides = range(len(ratios.parts))
    total = len(class_sizes)
    placed = []
    for group in groups:
        cells = (*group, (total, sum(count for _, count in group)))
        costs = [_cost(cells, missing[side], wanted[side]) for side in sides]
        side = costs.index(min(costs))
        for number, count in cells:
            missing[side][number] -= count
        placed.append(side)
    return placed


def fill_empty_sides(placed: list[int], sizes: Sequence[int], filled: Sequence[bool]) -> list[int]:
    """Let each side that has nothing have the smallest group of a side that has several."""
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


def _cost(cells: Cells, missing: Sequence[float], wanted: Sequence[float]) -> float:
    """By how much the statistic grows where a group is placed."""
    return sum(count * (count - 2 * missing[number]) / wanted[number] for number, count in cells)

"""What came out of a split: counts by class and side, and how far they are from the ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from dsprep.splits.ratios import Ratios


class ClassFacts(NamedTuple):
    """A class on the sides of a split."""

    name: str  # its name, or its number
    counts: tuple[int, ...]  # its samples on each side
    # by how many samples the count that is farthest from its exact share is off; 0 where no shares
    # were asked for
    off: float


def class_facts(
    numbers: pl.Series, sides: pl.Series, width: int, ratios: Ratios | None, names: Sequence[str]
) -> list[ClassFacts]:
    """Count the samples of each class on each side."""
    table = pl.DataFrame({"number": numbers, "side": sides})
    counted = table.group_by("number").agg(
        (pl.col("side") == side).sum().alias(str(side)) for side in range(width)
    )
    return [
        ClassFacts(_name(number, names), tuple(counts), how_far_off(counts, ratios))
        for number, *counts in counted.sort("number").iter_rows()
    ]


def how_far_off(counts: Sequence[int], ratios: Ratios | None) -> float:
    """By how much the count that is farthest from its exact share is off."""
    if ratios is None:
        return 0.0
    total, whole = sum(counts), ratios.whole
    off = (
        abs(count * whole - total * part) for count, part in zip(counts, ratios.parts, strict=True)
    )
    return max(off) / whole


def _name(number: int, names: Sequence[str]) -> str:
    return names[number] if 0 <= number < len(names) else str(number)

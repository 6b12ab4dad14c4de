"""As many samples of each class: some left out, or some written more than once.

What is drawn is drawn by hash: the samples of a class are put in the order of
:func:`~dsprep.lists.hashing.hash_unit` of their keys with the purpose ``balance``, and the first
are taken, so that a data set that grows changes as little as can be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError
from dsprep.lists.hashing import hash_unit
from dsprep.units import format_count, format_some


@dataclass(frozen=True, eq=False)
class Balance:
    """What balancing did."""

    # the column `copy`: 0 for a sample itself; its copies are counted from 1, and
    # :func:`~dsprep.plan.copies.key_of_copy` tells their keys
    copies: pl.Series
    left_out: dict[int, int]  # how many samples were left out, by class number, where any were
    repeated: dict[int, int]  # how many copies were added, by class number, where any were


def balance(catalog: Catalog, seed: int, oversample: bool) -> tuple[Catalog, Balance]:
    """Take as many samples of each class."""
    if catalog.label_column != "cls":
        raise OptionError(f"{catalog.root}: only samples with one class each can be balanced")
    before = catalog.samples_per_class()
    goal = max(before.values(), default=0) if oversample else min(before.values(), default=0)
    if not goal:
        empty = [number for number, count in before.items() if not count]
        names = [repr((catalog.classes or ())[number]) for number in empty]
        raise OptionError(
            f"{catalog.root}: {format_count(len(empty), 'class')} of {len(before):,} have no "
            f"samples ({format_some(names)}), so that none of any would be left: balance by "
            "oversampling, or take them off the list of classes"
        )
    times = _times(catalog, seed, goal)
    taken = pl.select(place=pl.int_range(len(catalog)).repeat_by(times)).explode("place")
    taken = taken.drop_nulls()  # of samples that are not taken
    copies = taken.select(copy=pl.int_range(pl.len()).over("place")).to_series()
    left_out = {number: count - goal for number, count in before.items() if count > goal}
    repeated = {number: goal - count for number, count in before.items() if 0 < count < goal}
    balanced = replace(catalog, table=catalog.table[taken["place"]])
    return balanced, Balance(copies, left_out, repeated)


def _times(catalog: Catalog, seed: int, goal: int) -> pl.Series:
    """How often to take each sample, so that every class has ``goal``."""
    chance = hash_unit(catalog.keys(), seed, "balance").alias("chance")
    rows = catalog.table.select("cls", place=pl.int_range(pl.len())).with_columns(chance)
    rows = rows.sort("chance", "place")
    among, rank = pl.len().over("cls"), pl.int_range(pl.len()).over("cls")
    rows = rows.with_columns(times=goal // among + (rank < goal % among).cast(pl.Int64))
    return rows.sort("place")["times"]

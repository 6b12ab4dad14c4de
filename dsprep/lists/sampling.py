"""Some of the rows of a list, drawn by the hash of their paths.

A row's chance is :func:`~dsprep.lists.hashing.hash_unit` of its path, with the purpose ``sample``.
So the same rows are drawn wherever they stand, a larger sample holds every smaller one with its
seed, and when a list grows, only new rows come in: where a number is asked for, they take the place
of others; where a fraction is, the others stay.
"""

from __future__ import annotations

import polars as pl

from dsprep.errors import OptionError
from dsprep.lists.hashing import hash_unit
from dsprep.lists.rows import class_numbers


def sample_fraction(rows: pl.DataFrame, fraction: float, seed: int) -> pl.DataFrame:
    """Take the rows whose hash is below a number, which are about this share of them."""
    if not 0 < fraction <= 1:
        raise OptionError(f"--fraction {fraction:g}: give a number above 0 and at most 1")
    return rows.filter(_chances(rows, seed) < fraction)


def sample_count(rows: pl.DataFrame, count: int, seed: int) -> pl.DataFrame:
    """Take so many rows, those of the smallest hashes; all, if there are fewer."""
    return _in_order(_by_chance(rows, seed).head(count))


def sample_per_class(rows: pl.DataFrame, count: int | None, seed: int) -> pl.DataFrame:
    """Take so many rows of each class, those of the smallest hashes."""
    if rows.select(class_numbers().has_nulls()).item():
        raise OptionError("only lists with one class number a row can be sampled class by class")
    if count is None:
        count = class_sizes(rows)["rows"].min()  # type: ignore[assignment]
    drawn = _by_chance(rows, seed).filter(pl.int_range(pl.len()).over("label") < count)
    return _in_order(drawn)


def class_sizes(rows: pl.DataFrame) -> pl.DataFrame:
    """Count the rows of each class: ``label`` and ``rows``, in the order of their numbers."""
    return rows.group_by("label").len("rows").sort(class_numbers())


def _chances(rows: pl.DataFrame, seed: int) -> pl.Series:
    return hash_unit(rows["path"], seed, "sample")


def _by_chance(rows: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The rows with their place and chance, the first to be drawn first."""
    chances = _chances(rows, seed).alias("chance")
    return rows.with_row_index("place").with_columns(chances).sort("chance", "path", "index")


def _in_order(drawn: pl.DataFrame) -> pl.DataFrame:
    return drawn.sort("place").drop("place", "chance")

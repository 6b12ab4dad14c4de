"""Where the files of a split lie in a tree: ``SIDE/CLASS/NAME``, or ``SIDE/`` and the path."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.rows import class_numbers, plain_path


def plan_tree(
    rows: pl.DataFrame, sides: pl.Series, classes: Sequence[str] | None, keep_paths: bool
) -> pl.DataFrame:
    """Choose a place in the tree for each sample."""
    path = plain_path(pl.col("path"))
    numbers = rows.select(class_numbers()).to_series()
    if keep_paths or numbers.null_count():
        below = path
    else:
        below = pl.concat_str("directory", path.str.split("/").list.last(), separator="/")
    table = rows.with_columns(side=sides, directory=_directories(numbers, classes))
    table = table.select(
        source="path", target=pl.concat_str("side", below, separator="/"), plain=path
    )
    return _require_places(table)


def _directories(numbers: pl.Series, classes: Sequence[str] | None) -> pl.Series:
    if classes is None or numbers.null_count():
        return numbers.cast(pl.String)
    outside = numbers.filter(~numbers.is_between(0, len(classes) - 1))
    if len(outside):
        raise SourceError(f"the label {outside[0]} is none of the {len(classes)} classes")
    return numbers.replace_strict(range(len(classes)), classes, return_dtype=pl.String)


def _require_places(table: pl.DataFrame) -> pl.DataFrame:
    bad = r"\x00|(?:^|/)(?:\.{1,2})?(?:/|$)"
    hostile = table.filter(pl.col("target").str.contains(bad))["target"]
    if len(hostile):
        raise SourceError(f"{hostile[0]!r} cannot be a place below the output: rename the class")
    clash = table.unique(["target", "plain"]).filter(pl.col("target").is_duplicated())
    if len(clash):
        clash = clash.sort("target", "plain")
        first = clash.filter(pl.col("target") == clash["target"][0])
        raise SourceError(
            f"{first['plain'][0]!r} and {first['plain'][1]!r} would both be {first['target'][0]!r} "
            f"({clash['target'].n_unique():,} such places): rename files"
        )
    return table.select("source", "target")

"""Taking from a catalog what a selection wants."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from dsprep.catalog import COPY_COLUMNS, LABEL_COLUMNS, Catalog
from dsprep.errors import SourceError
from dsprep.plan.balance import balance
from dsprep.plan.filter import filter_catalog, judge
from dsprep.plan.selection import Chosen, Selection
from dsprep.sample import key_expr
from dsprep.sources.table import PATH_COLUMNS, parse_cells
from dsprep.text import read_text
from dsprep.units import quoted_names

_BOOLEANS = {"true": True, "false": False}


def select(catalog: Catalog, selection: Selection) -> tuple[Catalog, Chosen]:
    """Take some samples, and some more than once."""
    chosen = Chosen()
    if selection.filter is not None:
        before = len(catalog)
        extra = None if selection.table is None else read_columns(selection.table, catalog)
        unknown = judge(catalog, selection.filter, extra).null_count()
        catalog = filter_catalog(catalog, selection.filter, extra)
        chosen = replace(chosen, filtered=before - len(catalog), unknown=unknown)
    if selection.balance:
        catalog, done = balance(catalog, selection.seed, selection.oversample)
        chosen = replace(chosen, left_out=done.left_out, repeated=done.repeated)
        if done.repeated:
            catalog = _with_copies(catalog, done.copies)
    return catalog, chosen


def read_columns(path: str, catalog: Catalog) -> pl.DataFrame:
    """Read a table that tells more of samples: one row each, found by key."""
    cells, _ = parse_cells(read_text(path), path)
    known = {name.lower(): name for name in cells.columns}
    column = next((known[name] for name in ("key", *PATH_COLUMNS) if name in known), None)
    if column is None:
        raise SourceError(
            f"{path}: has no column of keys or paths: call one of them key; its columns are "
            f"{quoted_names(cells.columns)}"
        )
    keys = cells.select(key=key_expr(column)).to_series()
    told = cells.drop(column).select(_typed(each) for each in cells.drop(column))
    named = pl.DataFrame({"path": catalog.table["path"], "key": catalog.keys()})
    found = told.with_columns(keys).join(named, on="key", how="inner").drop("key")
    if found.is_empty():
        raise SourceError(
            f"{path}: names none of the samples, {keys[0]!r} for one; theirs are like "
            f"{named['key'][0]!r}"
        )
    return found


def _typed(column: pl.Series) -> pl.Series:
    """A column as numbers or as booleans, if all of its cells are; empty cells become nulls."""
    filled = column.replace("", None)
    numbers = filled.cast(pl.Float64, strict=False)
    if numbers.null_count() == filled.null_count():
        return numbers
    booleans = filled.str.to_lowercase().replace_strict(_BOOLEANS, default=None)
    return booleans if booleans.null_count() == filled.null_count() else column


def _with_copies(catalog: Catalog, copies: pl.Series) -> Catalog:
    """The catalog with a column that tells copies apart, and ids of their own for these."""
    (name,) = COPY_COLUMNS
    last, number = pl.col("index").max(), (pl.col(name) > 0).cum_sum().cast(pl.Int64)
    own = pl.when(pl.col(name) > 0).then(last + number).otherwise(pl.col("index"))
    columns = [each for each in catalog.table.columns if each not in LABEL_COLUMNS]
    labels = [each for each in catalog.table.columns if each in LABEL_COLUMNS]
    table = catalog.table.with_columns(copies.alias(name)).with_columns(index=own)
    return replace(catalog, table=table.select(*columns, name, *labels))

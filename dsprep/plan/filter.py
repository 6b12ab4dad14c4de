"""The samples for which an expression is true.

The language is SQL's, as polars reads it, less all that does not look at one row alone: of what the
user wrote, :mod:`dsprep.plan.words` lets through only names of columns and what is known to be
harmless, for polars would read files for a subquery.
"""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.plan.words import require_harmless
from dsprep.units import quoted_names

_QUOTED_BOOLEAN = re.compile(r"'(?:true|false)'", re.IGNORECASE)


def filter_catalog(catalog: Catalog, expression: str, extra: pl.DataFrame | None = None) -> Catalog:
    """Keep the samples for which an expression is true; see :func:`judge`."""
    kept = catalog.table.filter(judge(catalog, expression, extra))
    if kept.is_empty():
        raise SourceError(
            f"{catalog.root}: --filter {expression!r} is true of none of {len(catalog):,} samples"
        )
    return replace(catalog, table=kept)


def judge(catalog: Catalog, expression: str, extra: pl.DataFrame | None = None) -> pl.Series:
    """Evaluate an expression for each sample."""
    columns = _columns(catalog, extra)
    require_harmless(expression, columns.columns)
    booleans = [name for name, kind in columns.schema.items() if kind == pl.Boolean]
    if booleans and _QUOTED_BOOLEAN.search(expression):
        raise OptionError(
            f"--filter {expression!r}: {quoted_names(booleans)} holds true and false, not text: "
            f"write {booleans[0]}, NOT {booleans[0]}, or {booleans[0]} = TRUE without quotes"
        )
    try:
        verdicts = columns.select(pl.sql_expr(expression))
    except pl.exceptions.PolarsError as error:
        problem = str(error).strip().partition("\n")[0].removesuffix(" as Expr")
        raise OptionError(f"--filter {expression!r}: {problem}") from None
    if verdicts.dtypes != [pl.Boolean] or verdicts.height != len(catalog):
        kinds = ", ".join(map(str, verdicts.dtypes))
        raise OptionError(
            f"--filter {expression!r}: is no matter of true and false, but {kinds}: "
            "compare it to something, as in size > 1000"
        )
    return verdicts.to_series()


def _columns(catalog: Catalog, extra: pl.DataFrame | None) -> pl.DataFrame:
    """What an expression can be about."""
    table = catalog.table
    columns = table.select("index", "path", "size").with_columns(catalog.keys())
    if catalog.label_column:
        label = table[catalog.label_column]
        if label.dtype == pl.List and label.list.len().max() == 1:  # one number is no list to SQL
            label = label.list.first()
        columns = columns.with_columns(label.alias("label"))
    if catalog.label_column == "cls" and catalog.classes is not None:
        names = pl.Series("class", catalog.classes, pl.String)
        columns = columns.with_columns(names[table["cls"]])
    if extra is None:
        return columns
    if "path" not in extra.columns:
        raise OptionError("the table for --filter has no column path")
    extra = extra.unique(maintain_order=True)
    again = extra.filter(pl.col("path").is_duplicated())["path"].drop_nulls()
    if not again.is_empty():
        raise OptionError(f"the table for --filter names {again[0]!r} twice")
    others = [each for each in extra.get_columns() if each.name not in columns.columns]
    more = pl.DataFrame([extra["path"], *others])
    return columns.join(more, on="path", how="left", maintain_order="left")

"""The samples of a catalog as the rows of a list."""

from __future__ import annotations

import polars as pl

from dsprep.catalog import Catalog
from dsprep.lst import format_number


def rows_of(catalog: Catalog) -> pl.DataFrame:
    """List all samples, with their ids, in their order; one without a label gets a 0."""
    table, column = catalog.table, catalog.label_column
    if column == "cls":
        label = table["cls"].cast(pl.String)
    elif column == "label":
        texts = ["\t".join(map(format_number, each)) for each in table["label"].to_list()]
        label = pl.Series(texts, dtype=pl.String)
    else:
        label = pl.Series(["0"], dtype=pl.String).new_from_index(0, table.height)
    return table.select("index", label.alias("label"), "path")

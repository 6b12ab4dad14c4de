"""The samples of a catalog as the rows of a list."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Reject
from dsprep.lists.editing import fits
from dsprep.lists.rows import leads_outside
from dsprep.lst import format_number


def listable(catalog: Catalog) -> tuple[Catalog, list[Reject]]:
    """Return the samples that a list can name, each path being what it calls the sample."""
    table = catalog.table.with_columns(catalog.names().alias("path"))
    path = pl.col("path")
    odd = table.select(odd=~fits(path) | leads_outside(path))["odd"]
    reason = (
        "a .lst cannot hold a name with a tab, a line break, blanks at its ends, or / or .. first"
    )
    rejects = [Reject(name, reason) for name in table["path"].filter(odd)]
    if rejects and len(rejects) == len(catalog):
        raise SourceError(f"{catalog.root}: {rejects[0].path!r}: {reason}")
    return replace(catalog, table=table.filter(~odd)), rejects


def note_unlabeled(count: int) -> str:
    """Say that the labels in the rows of a list are placeholders."""
    have = "sample has" if count == 1 else "samples have"
    return (
        f"{count:,} {have} no label, and get the label 0, as each row of a list needs one; give "
        "--labels FILE or --list FILE, or put the images of each class into a directory of its own"
    )


def rows_of(catalog: Catalog) -> pl.DataFrame:
    """List all samples, with their ids, in their order; if none has a label, each gets a 0."""
    if catalog.is_labeled and catalog.label_column is None:
        raise SourceError(
            f"{catalog.root}: some of {len(catalog):,} samples have no number as label, and each "
            "row of a list needs one: label these samples, or leave them out"
        )
    table, column = catalog.table, catalog.label_column
    if column == "cls":
        label = table["cls"].cast(pl.String)
    elif column == "label":
        texts = ["\t".join(map(format_number, each)) for each in table["label"].to_list()]
        label = pl.Series(texts, dtype=pl.String)
    else:
        label = pl.Series(["0"], dtype=pl.String).new_from_index(0, table.height)
    return table.select("index", label.alias("label"), "path")

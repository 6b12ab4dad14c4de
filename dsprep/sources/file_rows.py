"""Rows of a catalog for files that hold many samples, in little memory."""

from __future__ import annotations

import os

import polars as pl

from dsprep.catalog import AT_ONCE, COLUMNS, PLACE_COLUMNS, compact
from dsprep.sample import key_of
from dsprep.storage.stored import Facts


def rows_of(
    file: int, name: str, state: Facts, offsets: pl.Series, sizes: pl.Series, stored: pl.Series
) -> pl.DataFrame:
    """Return the rows of a file, which are called by its name and their number there."""
    stem, count = key_of(f"{os.path.splitext(name)[0]}."), len(offsets)
    columns = {
        "path": _paths(f"{stem}-", count),
        "size": sizes,
        "mtime": repeated(state.mtime_ns, count, pl.Int64()),
        "file": repeated(file, count, pl.Int32()),
        "offset": offsets,
        "stored": stored,
    }
    names = (name for name in (*COLUMNS, *PLACE_COLUMNS) if name != "index")
    return pl.DataFrame([columns[name].alias(name) for name in names])


def _paths(stem: str, count: int) -> pl.Series:
    """Return a stem with the number of each row, without a second copy of all in memory."""
    numbers = (
        pl.int_range(at, min(at + AT_ONCE, count), eager=True) for at in range(0, count, AT_ONCE)
    )
    parts = (stem + each.cast(pl.String).str.zfill(7) for each in numbers)
    return pl.concat([pl.Series(dtype=pl.String), *parts], rechunk=True)


def repeated(value: int, count: int, kind: pl.DataType) -> pl.Series:
    """Return a column of one value, whose parts share their memory."""
    part = pl.repeat(value, min(count, AT_ONCE), dtype=kind, eager=True)
    whole, rest = divmod(count, max(len(part), 1))
    return pl.concat([*[part] * whole, part.head(rest)], rechunk=False)


def narrow(column: pl.Series) -> pl.Series:
    """Return whole numbers in less memory: in 32 bits if they fit, parts shared if all are one."""
    column = compact([column]).to_series()
    if len(column) and column.min() == column.max():
        return repeated(column[0], len(column), column.dtype)
    return column

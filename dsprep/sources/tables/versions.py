"""The newest version of each record (``--latest``), as a Feature Store's offline store needs it.

Such a store never changes a row: a record that is written again, or deleted, is a further row. Its
newest row is that with the latest event time; of several, that of the latest call and, then, that
which was written last. So AWS's own query for Athena has it. Its query for an earlier time
(``--as-of``) takes the rows whose event time is not later, and then does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import polars as pl

from dsprep.errors import OptionError, SourceError
from dsprep.places.scan import RunAll
from dsprep.sources.tables.parquet_rows import read_columns
from dsprep.storage.files import common_path
from dsprep.units import format_count, quoted, quoted_names

_TIES = ("api_invocation_time", "write_time")  # columns that decide between equal event times
_DELETED = "is_deleted"
_SHOWN = 3  # times that a message names


def newest_rows(
    paths: Sequence[str], key: str, time: str, as_of: str = "", run_all: RunAll = map
) -> tuple[pl.DataFrame, list[str]]:
    """Return ``file``, ``row`` and ``key`` of the newest row of each record, with notes.

    ``key`` is the column that says which record a row is of, ``time`` that of event times. A record
    whose newest row says that it is deleted has none. If ``as_of`` is a time, later rows do not
    count, nor do rows without a time.
    """
    limit = _seconds(as_of) if as_of else None
    if as_of and (limit is None or not isfinite(limit)):
        raise OptionError(
            f"--as-of {as_of}: is no time; give one such as 2024-05-01T12:00:00Z, or seconds since "
            "1970"
        )
    tasks = [(path, {"--key": key, "--latest": time}, (*_TIES, _DELETED)) for path in paths]
    found = enumerate(run_all(read_columns, tasks))
    columns = [_with_places(number, read, key, time) for number, read in found]
    rows = pl.concat(columns, how="diagonal_relaxed")
    where = paths[0] if len(paths) == 1 else common_path(paths)
    for file, row in rows.filter(pl.col("key").is_null()).select("file", "row").head(1).rows():
        count = format_count(rows["key"].null_count(), "row")
        raise SourceError(f"{paths[file]}: row {row}: no {key!r} ({count} like this): correct it")
    rows = rows.with_columns(times(rows["time"], time, where))
    there, without = rows.height, rows["time"].null_count()
    if limit is not None:
        rows = rows.filter(_seconds_in(rows["time"], time) <= limit)
        if rows.is_empty():
            raise SourceError(
                f"{where}: has no row of --as-of {as_of} or before: give a later time"
            )
    order = [name for name in ("time", *_TIES) if name in rows.columns]
    newest = rows.sort(order, maintain_order=True).unique("key", keep="last").sort("file", "row")
    kept = newest
    tied = rows.join(newest, on=["key", *order], nulls_equal=True).height - newest.height
    if _DELETED in newest.columns:
        deleted = newest[_DELETED].cast(pl.String).str.to_lowercase().is_in(["true", "1"])
        kept = newest.filter(~deleted.fill_null(False))
    if kept.is_empty():
        raise SourceError(f"{where}: all {format_count(newest.height, 'record')} are deleted")
    notes = [
        f"--latest {time} keeps {format_count(kept.height, 'record')} of {there:,} rows; "
        f"left out: {format_count(rows.height - newest.height, 'older version')}, "
        f"{format_count(newest.height - kept.height, 'deleted record')}"
    ]
    if limit is not None:
        later = format_count(there - without - rows.height, "row")
        notes.append(f"--as-of {as_of} leaves out {later} of later times")
    if tied:
        notes.append(
            f"{format_count(tied, 'row')} as new as the newest of its record: the last is kept"
        )
    if without:
        be = "is" if without == 1 else "are"
        taken = "taken for the oldest" if limit is None else "left out"
        notes.append(f"{format_count(without, 'row')} without {time!r} {be} {taken}")
    return kept.select("file", "row", "key"), notes


def _with_places(number: int, read: Any, key: str, time: str) -> pl.DataFrame:
    """Return the columns of a file under their meanings, with its number and those of its rows."""
    rows = pl.DataFrame(pl.from_arrow(read))
    if isinstance(rows.schema[key], pl.List | pl.Array | pl.Struct):
        raise OptionError(f"--key {key}: holds {rows.schema[key]}, which cannot name a record")
    try:
        rows = rows.with_columns(pl.col(pl.Categorical, pl.Binary).cast(pl.String))
    except pl.exceptions.PolarsError:
        raise SourceError(f"--key {key}, --latest {time}: a column holds bytes, no text") from None
    told = {"key": pl.col(key), "time": pl.col(time)}
    told |= {name: pl.col(name) for name in (*_TIES, _DELETED) if name in rows.columns}
    return rows.select(file=pl.lit(number), row=pl.int_range(pl.len()), **told)


def times(column: pl.Series, name: str, where: str) -> pl.Series:
    """Return times that can be compared: numbers as they are, ISO 8601 as seconds since 1970."""
    if column.dtype.is_float():
        return column.fill_nan(None)
    if column.dtype.is_numeric() or column.dtype.is_temporal() or column.dtype == pl.Null:
        return column
    if column.dtype != pl.String:
        raise OptionError(f"--latest {name}: holds {column.dtype}, no times, in {where}")
    known = {text: _seconds(text) for text in column.unique() if text}
    if wrong := sorted(text for text, seconds in known.items() if seconds is None):
        raise SourceError(
            f"{where}: the column {name!r} holds {quoted_names(wrong, _SHOWN)}: times are numbers, "
            f"or texts such as {quoted('2024-05-01T12:00:00Z')}: correct it, or name another column"
        )
    return column.replace_strict(known, default=None, return_dtype=pl.Float64)


def _seconds_in(column: pl.Series, name: str) -> pl.Series:
    """Return times that can be compared as seconds since 1970; numbers are such."""
    if column.dtype in (pl.Duration, pl.Time):
        raise OptionError(f"--as-of: the column {name!r} holds {column.dtype}, no dates")
    return column.dt.epoch("us") / 1e6 if column.dtype.is_temporal() else column


def _seconds(text: str) -> float | None:
    """Read a time: a number, or ISO 8601, in UTC if it names no zone."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()

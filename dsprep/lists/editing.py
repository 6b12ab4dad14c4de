"""Edits of a list: what is not meant stays as it is, in its place."""

from __future__ import annotations

import polars as pl

from dsprep.errors import DestinationError, SourceError
from dsprep.lists.rows import all_detection, label_count, leads_outside


def append_rows(rows: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Add samples at the end of a list, but for those that it has already."""
    place = plain_path(pl.col("path"))
    added = new.unique("path", keep="first", maintain_order=True).join(
        rows.select(place=place), left_on=place, right_on="place", how="anti", maintain_order="left"
    )
    largest = rows["index"].max()
    first = 0 if largest is None else int(str(largest)) + 1
    index = pl.int_range(first, first + pl.len(), dtype=pl.Int64).alias("index")
    return pl.concat([rows, added.select(index, "label", "path")])


def set_rows(
    rows: pl.DataFrame, chosen: pl.Expr, label: str | None, path: str | None
) -> pl.DataFrame:
    """Change the label or the path of rows."""
    new = {"label": label, "path": path}
    return rows.with_columns(
        pl.when(chosen).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in new.items()
        if value is not None
    )


def remove_rows(rows: pl.DataFrame, chosen: pl.Expr) -> pl.DataFrame:
    """Remove rows."""
    return rows.filter(~chosen)


def replace_prefix(rows: pl.DataFrame, old: str, new: str) -> pl.DataFrame:
    """Let paths that begin with ``old`` begin with ``new``."""
    path = pl.col("path")
    rest = path.str.slice(len(old))
    return rows.with_columns(
        path=pl.when(path.str.starts_with(old)).then(pl.lit(new) + rest).otherwise(path)
    )


def plain_path(path: pl.Expr) -> pl.Expr:
    """A path without ``./`` and doubled slashes: two that are equal then name one file."""
    return path.str.replace_all(r"(^|/)(?:\.?/)+", "${1}")


def plain_paths(paths: pl.Series) -> pl.Series:
    """Likewise for many paths, most of which are plain already: the way a scan writes them."""
    odd = paths.str.contains(r"(?:^|/)\.?/").any()
    return paths.to_frame().select(plain_path(pl.col(paths.name))).to_series() if odd else paths


def fits(path: pl.Expr) -> pl.Expr:
    """Whether a list can hold a path: its readers split at tabs, and strip what they get."""
    return ~path.str.contains(r"[\t\n\r]|^[\s\x1c-\x1f]|[\s\x1c-\x1f]$|^$")


def require_fitting(rows: pl.DataFrame, source: str) -> None:
    """Refuse to write what could not be read again."""
    path = pl.col("path")
    wrong = rows.filter(~fits(path) | leads_outside(path))["path"]
    if len(wrong):
        raise DestinationError(
            f"{source}: {wrong[0]!r} cannot stand in a list: its paths lead nowhere outside, and "
            "have no tab, no line break, and no blank at an end"
        )


def require_one_kind(old: pl.DataFrame, new: pl.DataFrame, source: str) -> None:
    """Refuse rows whose labels are not as long as those of the list, but for detection."""
    both = pl.concat([old.select("label", "path"), new.select("label", "path")])
    counts = both.select(label_count()).to_series()
    if counts.n_unique() < 2 or all_detection(both):
        return
    other = both.filter(counts != counts[0])
    raise SourceError(
        f"{source}: has {counts[0]} labels a row, but the label of {other['path'][0]!r} would be "
        f"{other['label'][0]!r}"
    )

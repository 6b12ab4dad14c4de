"""What differs between two lists, as tables and as text that is a patch.

The text has a line for each row, its fields separated by tabs, ``row`` being a line of a list:

==================  ===========================================================================
``- row``           this row is gone
``< row``           this row has changed where it stands,
``> row``           on the next line, into this one
``+ place row``     this row is new, and is the line ``place`` (from 1) of the new list
``^ place id``      the row that has this id in the new list has been moved to the line ``place``
``# …``             a remark
==================  ===========================================================================

Rows of the old list that none of these names keep their order. They fill the lines that no place is
told for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dsprep.lists.matching import Contents, match_rows, unpaired
from dsprep.lists.order import still_in_order
from dsprep.lists.rows import ROWS

_ROW = pl.concat_str(*ROWS, separator="\t")
_NEW_ROW = pl.concat_str(*(f"new_{name}" for name in ROWS), separator="\t")


@dataclass(frozen=True, eq=False)
class Diff:
    """What differs between two lists."""

    removed: pl.DataFrame  # rows of the old list, with their `line` (from 1)
    added: pl.DataFrame  # rows of the new list, with their `place` in it (from 1)
    # rows that are not what they were: the columns of a list, as they were, and the same with
    # `new_` before their names; `line` and `place` say where they were and are
    changed: pl.DataFrame
    # `place` and `index` of rows that are where their neighbors do not tell
    reordered: pl.DataFrame

    @property
    def relabeled(self) -> pl.DataFrame:
        """Changed rows that have another label."""
        return self._changed("label")

    @property
    def moved(self) -> pl.DataFrame:
        """Changed rows that have another path."""
        return self._changed("path")

    @property
    def renumbered(self) -> pl.DataFrame:
        """Changed rows that have another id."""
        return self._changed("index")

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return all(part.is_empty() for part in self._parts())

    def _changed(self, name: str) -> pl.DataFrame:
        return self.changed.filter(pl.col(name) != pl.col(f"new_{name}"))

    def _parts(self) -> Sequence[pl.DataFrame]:
        return self.removed, self.added, self.changed, self.reordered


def diff_rows(
    a: pl.DataFrame,
    b: pl.DataFrame,
    *,
    ids: bool = True,
    order: bool = True,
    contents: Contents | None = None,
) -> Diff:
    """Compare two lists."""
    pairs = match_rows(a, b, by_id=ids, contents=contents)
    stays = still_in_order(pairs["a"]) if order else pairs["a"].is_not_null()
    reordered = pairs.filter(~stays)
    ids_kept = b["index"].gather(reordered["b"]) if ids else a["index"].gather(reordered["a"])
    return Diff(
        removed=_others(a, pairs["a"], "line"),
        added=_others(b, pairs["b"], "place"),
        changed=_changed(a, b, pairs, ids),
        reordered=reordered.select(pl.col("b").alias("place") + 1, ids_kept),
    )


def format_diff(diff: Diff) -> str:
    """Write the lines that :func:`~dsprep.lists.patch.parse_patch` reads."""
    place = pl.col("place").cast(pl.String)
    parts = [
        (diff.removed, [pl.lit("-\t"), _ROW]),
        (diff.changed, [pl.lit("<\t"), _ROW, pl.lit("\n>\t"), _NEW_ROW]),
        (diff.added, [pl.lit("+\t"), place, pl.lit("\t"), _ROW]),
        (diff.reordered, [pl.lit("^\t"), place, pl.lit("\t"), pl.col("index")]),
    ]
    return "".join(_join_lines(rows, pl.concat_str(line)) for rows, line in parts)


def _changed(a: pl.DataFrame, b: pl.DataFrame, pairs: pl.DataFrame, ids: bool) -> pl.DataFrame:
    """Rows of pairs that are not the same; most are alike, of which the labels are compared."""
    relabeled = a["label"].gather(pairs["a"]) != b["label"].gather(pairs["b"])
    pairs = pairs.filter(~pairs["alike"] | relabeled)
    old, new = a[pairs["a"]].select(*ROWS), b[pairs["b"]].select(*ROWS)
    if not ids:
        new = new.with_columns(old["index"])
    both = pl.concat(
        [
            pairs.select(line=pl.col("a") + 1, place=pl.col("b") + 1),
            old,
            new.select(pl.all().name.prefix("new_")),
        ],
        how="horizontal",
    )
    differ = (pl.col(name) != pl.col(f"new_{name}") for name in ROWS)
    return both.filter(pl.any_horizontal(differ))


def _others(rows: pl.DataFrame, numbers: pl.Series, name: str) -> pl.DataFrame:
    """Rows that are not among these, and where they stand, from 1."""
    numbered = rows.select(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias(name), *ROWS)
    return numbered.filter(unpaired(rows.height, numbers))


def _join_lines(rows: pl.DataFrame, line: pl.Expr) -> str:
    if rows.is_empty():
        return ""
    return str(rows.select(line).to_series().str.join("\n").item()) + "\n"

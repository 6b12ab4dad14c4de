"""What a difference between two lists means for each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from dsprep.lists.diff import Diff
from dsprep.lists.relabeling import Move
from dsprep.lists.rows import class_numbers


class ClassChange(NamedTuple):
    """What became of a class."""

    number: int  # the class number
    name: str | None  # its name, if there are names and one of them is its
    before: int  # its rows in the old list
    after: int  # its rows in the new one
    added: int  # new rows of it
    removed: int  # rows of it that are gone
    gained: int  # rows that had another label before
    lost: int  # rows that have another label now


def class_changes(
    a: pl.DataFrame, b: pl.DataFrame, diff: Diff, names: Sequence[str] | None
) -> list[ClassChange]:
    """Count what became of each class of which rows were added, removed or relabeled."""
    relabeled = diff.relabeled
    parts = (diff.added["label"], diff.removed["label"], relabeled["new_label"], relabeled["label"])
    changes = [_rows_by_class(labels) for labels in parts]
    if not any(changes):
        return []
    counts = [_rows_by_class(a["label"]), _rows_by_class(b["label"]), *changes]
    return [
        ClassChange(number, _name(number, names), *(each.get(number, 0) for each in counts))
        for number in sorted({number for each in changes for number in each})
    ]


def relabelings(diff: Diff, names: Sequence[str] | None) -> list[Move]:
    """Count rows by the class that they had and the one that they have, the most first."""
    pairs = diff.relabeled.group_by("label", "new_label").len("rows")
    old, new = (
        pairs.select(pl.col(column).alias("label")).select(class_numbers()).to_series()
        for column in ("label", "new_label")
    )
    moves = pl.DataFrame([old.alias("old"), new.alias("new"), pairs["rows"]]).drop_nulls()
    moves = moves.sort(["rows", "old", "new"], descending=[True, False, False])
    return [
        Move(_name(old, names) or str(old), _name(new, names) or str(new), rows)
        for old, new, rows in moves.iter_rows()
    ]


def _rows_by_class(labels: pl.Series) -> dict[int, int]:
    counts = labels.alias("label").to_frame().group_by("label").len()
    return dict(counts.select(class_numbers(), "len").drop_nulls().iter_rows())


def _name(number: int, names: Sequence[str] | None) -> str | None:
    return names[number] if names is not None and 0 <= number < len(names) else None

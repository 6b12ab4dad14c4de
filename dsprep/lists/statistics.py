"""What is in a list, counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from dsprep.lists.objects import objects
from dsprep.lists.rows import all_detection, class_numbers, label_count


class ClassCount(NamedTuple):
    """How much there is of a class."""

    number: int  # the class number
    name: str | None  # its name, if there are names and one of them is its
    rows: int  # how many rows have it
    objects: int | None = None  # how many objects have it, in a list for detection

    @property
    def weight(self) -> int:
        """What the class is compared by: its objects, or else its rows."""
        return self.rows if self.objects is None else self.objects


class Spread(NamedTuple):
    """The least of some numbers, their mean, and the most."""

    least: int
    mean: float
    most: int


@dataclass(frozen=True)
class Statistics:
    """What is in a list."""

    list: str  # its name
    rows: int  # its rows
    # what its labels are: one class number each, objects for detection, or other numbers
    kind: Literal["classes", "detection", "numbers"]
    widths: Mapping[int, int]  # how many rows have a label of so many numbers
    distinct: int  # how many different labels there are
    # the classes in the order of their numbers, with those that have a name and no rows; none for
    # labels of other numbers
    classes: Sequence[ClassCount]
    largest: ClassCount | None  # the class with the most rows, or objects
    smallest: ClassCount | None  # the class with the fewest that has any
    imbalance: float | None  # how many times as large the largest is
    unused: int  # how many classes have a name and no rows
    objects: int | None  # how many objects there are, in a list for detection
    objects_per_row: Spread | None  # how many of them a row has


def count_list(rows: pl.DataFrame, names: Sequence[str] | None, source: str) -> Statistics:
    """Count what is in a list."""
    widths = rows.select(width=label_count()).group_by("width").len().sort("width")
    numbers = rows.select(number=class_numbers()).to_series()
    found = objects(rows) if all_detection(rows) else None
    if found is not None:
        counts = _objects_per_class(found)
    elif not numbers.has_nulls():
        counts = numbers.to_frame().group_by("number").len("rows")
    else:
        counts = None
    classes = [] if counts is None else _named(counts, names)
    used = [each for each in classes if each.weight]
    largest = max(used, key=lambda each: each.weight, default=None)
    smallest = min(used, key=lambda each: each.weight, default=None)
    return Statistics(
        list=source,
        rows=rows.height,
        kind="numbers" if counts is None else "classes" if found is None else "detection",
        widths=dict(widths.iter_rows()),
        distinct=rows["label"].n_unique(),
        classes=classes,
        largest=largest,
        smallest=smallest,
        imbalance=largest.weight / smallest.weight if largest and smallest else None,
        unused=len(classes) - len(used),
        objects=None if found is None else found.height,
        objects_per_row=None if found is None else _spread(found["row"], rows.height),
    )


def _objects_per_class(found: pl.DataFrame) -> pl.DataFrame:
    # What is no class number is `check`'s affair; here it counts as one that is near.
    number = pl.col("cls").floor().clip(-(2**53), 2**53).cast(pl.Int64).alias("number")
    return found.group_by(number).agg(rows=pl.col("row").n_unique(), objects=pl.len())


def _named(counts: pl.DataFrame, names: Sequence[str] | None) -> list[ClassCount]:
    """Put the counts of classes in order, and those of classes without any among them."""
    names = names or ()
    all_named = pl.DataFrame({"number": range(len(names)), "name": names}, schema=_NAMES)
    table = counts.join(all_named, on="number", how="full", coalesce=True).sort("number")
    filled = table.with_columns(pl.exclude("number", "name").fill_null(0))
    return [ClassCount(**row) for row in filled.iter_rows(named=True)]


_NAMES = pl.Schema({"number": pl.Int64(), "name": pl.String()})


def _spread(places: pl.Series, rows: int) -> Spread:
    counts = places.value_counts()["count"].to_list()
    counts += [0] * (rows - len(counts))
    return Spread(min(counts), sum(counts) / len(counts), max(counts))

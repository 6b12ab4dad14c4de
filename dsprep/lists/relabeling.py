"""Other classes for rows or objects: renamed, merged, refined, numbered without gaps.

A map has a line for each change, ``old<TAB>new`` or ``old,new``. What is old is a class (its name,
or its number where classes have no names) or a pattern of paths; what is new is a class. A pattern
wins over a class, and of several patterns the first.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.objects import objects
from dsprep.lists.rows import class_numbers, is_detection
from dsprep.lists.selecting import glob_pattern
from dsprep.units import format_count

_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")
_HEADER = ("old", "new")


class Change(NamedTuple):
    """A line of a map."""

    line: int
    old: str
    new: str


class Move(NamedTuple):
    """How many rows, or objects, went from one class to another; one without name is its number."""

    old: str
    new: str
    moved: int


@dataclass(frozen=True, eq=False)
class Relabeled:
    """A list with other classes.

    Attributes:
        rows: The list.
        classes: The names of its classes; None if they have none.
        unit: What has a class: a ``row``, or an ``object`` in a list for detection.
        moves: From where to where, those that kept their class included.
        dropped: Old classes of which no row is left, and which nothing became.
        idle: Changes that no row is of.
    """

    rows: pl.DataFrame
    classes: tuple[str, ...] | None
    unit: str
    moves: Sequence[Move]
    dropped: Sequence[str]
    idle: Sequence[Change]


def parse_map(text: str, source: str) -> list[Change]:
    """Read a map; a first line of ``old`` and ``new`` is a header.

    Raises:
        SourceError: If a line has not two columns, or a class is to become two things.
    """
    changes: list[Change] = []
    for line, content in enumerate(text.splitlines(), 1):
        if not content.strip() or content.startswith("#"):
            continue
        cells = _cells(content)
        if len(cells) != 2 or not all(cells):
            raise SourceError(
                f"{source}:{line}: a line is an old class or a pattern of paths, and the new class"
            )
        if (line, cells) != (1, _HEADER):
            changes.append(Change(line, *cells))
    firsts: dict[str, Change] = {}
    for change in changes:
        first = firsts.setdefault(change.old, change)
        if first.new != change.new:
            raise SourceError(
                f"{source}:{change.line}: {change.old!r} is {first.new!r} in line {first.line}"
            )
    if not changes:
        raise SourceError(f"{source}: holds no changes")
    return list(firsts.values())


def relabel(
    rows: pl.DataFrame,
    classes: tuple[str, ...] | None,
    changes: Sequence[Change],
    source: str,
    *,
    keep: bool = False,
    renumber: bool = False,
    order: tuple[str, ...] | None = None,
) -> Relabeled:
    """Carry out a map.

    Args:
        rows: A list with one class number a row, or one for detection.
        classes: The names of the classes; None if they have none.
        changes: The map.
        source: Its name, for messages.
        keep: Whether rows that the map says nothing of keep their class; else they are an error.
        renumber: Whether numbers without names are made 0, 1, … in their order.
        order: The new classes in their order, if that is fixed; by default plain sorted order.

    Raises:
        SourceError: If rows have another kind of label, or none of the changes is for them.
    """
    has_objects = bool(rows.select(is_detection().all()).item())
    unit = "object" if has_objects else "row"
    labeled = _objects(rows) if has_objects else rows
    numbers = labeled.select(class_numbers()).to_series()
    if numbers.null_count():
        path = labeled.filter(numbers.is_null())["path"][0]
        raise SourceError(f"{source}: {path!r} has a label that is not one class number")
    old = _names(numbers, classes, source)
    new = _new_names(labeled, old, changes, set(old.unique()) | set(classes or ()), source)
    unmatched = labeled.filter(new.is_null())
    if not keep and len(unmatched):
        raise SourceError(
            f"{source}: says nothing of {format_count(unmatched.height, unit)}, "
            f"{unmatched['path'][0]!r} of class {old.filter(new.is_null())[0]!r} among them; add a "
            "line, or give --keep-unmatched"
        )
    new = new.fill_null(old) if keep else new
    named = classes is not None or any(not _NUMBER.fullmatch(change.new) for change in changes)
    found = _in_order(new.unique().to_list(), changes, named)
    if named and classes is None and any(map(_NUMBER.fullmatch, found)):
        raise SourceError(f"{source}: gives some classes names and leaves others their numbers")
    numbered, new_classes = _numbered(found, order, named, renumber, source)
    labels = new.replace_strict(numbered, return_dtype=pl.String).alias("label")
    counts = pl.DataFrame({"old": old, "new": new}).group_by("old", "new").len()
    moves = [Move(*row) for row in counts.sort("old", "new").iter_rows()]
    return Relabeled(
        rows.with_columns(_with_classes(rows["label"], labels) if has_objects else labels),
        new_classes,
        unit,
        moves,
        sorted(set(classes or ()) - {move.old for move in moves} - {each.old for each in changes}),
        [change for change in changes if not _has_any(change, labeled, old)],
    )


def _objects(rows: pl.DataFrame) -> pl.DataFrame:
    """The objects of a list for detection: the path and, as ``label``, the class of each."""
    found = objects(rows)
    number = pl.col("cls")
    whole = pl.when(number % 1 == 0).then(number.cast(pl.Int64).cast(pl.String))
    return found.select(
        label=whole.otherwise(number.cast(pl.String)), path=rows["path"].gather(found["row"])
    )


def _with_classes(labels: pl.Series, classes: pl.Series) -> pl.Series:
    """Detection labels with other classes for their objects, one after the other."""
    following = iter(classes.to_list())
    made = []
    for label in labels.to_list():
        words = label.split("\t")
        for place in range(int(words[0]), len(words), int(words[1])):
            words[place] = next(following)
        made.append("\t".join(words))
    return pl.Series("label", made, pl.String)


def _cells(line: str) -> tuple[str, ...]:
    separator = "\t" if "\t" in line else ","
    return tuple(cell.strip() for cell in next(csv.reader([line], delimiter=separator)))


def _names(numbers: pl.Series, classes: tuple[str, ...] | None, source: str) -> pl.Series:
    if classes is None:
        return numbers.cast(pl.String)
    outside = numbers.filter(~numbers.is_between(0, len(classes) - 1))
    if len(outside):
        raise SourceError(f"{source}: the label {outside[0]} is none of the {len(classes)} classes")
    return numbers.replace_strict(range(len(classes)), classes, return_dtype=pl.String)


def _new_names(
    rows: pl.DataFrame, old: pl.Series, changes: Sequence[Change], known: set[str], source: str
) -> pl.Series:
    """The new class of each row; null where nothing is said of it."""
    by_class = {change.old: change.new for change in changes if change.old in known}
    of_class = old.replace_strict(by_class, default=None, return_dtype=pl.String)
    patterns = [change for change in changes if change.old not in known]
    for change in patterns:
        if not re.search(r"[/*?]", change.old):
            raise SourceError(f"{source}:{change.line}: {change.old!r} is no class of the list")
    of_path = [
        pl.when(pl.col("path").str.contains(glob_pattern(change.old))).then(pl.lit(change.new))
        for change in patterns
    ]
    return rows.select(pl.coalesce(*of_path, of_class).alias("new")).to_series()


def _in_order(found: Sequence[str], changes: Sequence[Change], named: bool) -> list[str]:
    """The new classes: those with rows, and those that an old one was to become."""
    every = {*found, *(change.new for change in changes)} if named else set(found)
    return sorted(every) if named else sorted(every, key=int)


def _numbered(
    found: Sequence[str], order: tuple[str, ...] | None, named: bool, renumber: bool, source: str
) -> tuple[Mapping[str, str], tuple[str, ...] | None]:
    """The label of each new class, and the names of all."""
    if not named:
        numbers = range(len(found)) if renumber else map(int, found)
        return dict(zip(found, map(str, numbers), strict=True)), None
    classes = tuple(found) if order is None else order
    for name in found:
        if name not in classes:
            raise SourceError(f"{source}: the class {name!r} is none of the {len(classes)} given")
    return {name: str(number) for number, name in enumerate(classes)}, classes


def _has_any(change: Change, rows: pl.DataFrame, old: pl.Series) -> bool:
    if (old == change.old).any():
        return True
    return bool(rows["path"].str.contains(glob_pattern(change.old)).any())

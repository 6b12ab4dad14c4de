"""Other classes for rows or objects: renamed, merged, refined, numbered without gaps.

A map has a line for each change, ``old<TAB>new`` or ``old,new``. What is old is a class (its name,
or its number where classes have no names) or a pattern of paths; what is new is a class. A pattern
wins over a class, and of several patterns the first.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.objects import objects
from dsprep.lists.rows import all_detection, class_numbers
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
    """A list with other classes."""

    rows: pl.DataFrame  # the list
    classes: tuple[str, ...] | None  # the names of its classes; None if they have none
    unit: str  # what has a class: a `row`, or an `object` in a list for detection
    moves: Sequence[Move]  # from where to where, those that kept their class included
    dropped: Sequence[str]  # old classes of which no row is left, and which nothing became
    idle: Sequence[Change]  # changes that no row is of


def parse_map(text: str, source: str) -> list[Change]:
    """Read a map; a first line of ``old`` and ``new`` is a header."""
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
    """Carry out a map."""
    has_objects = all_detection(rows)
    unit = "object" if has_objects else "row"
    labeled = _objects(rows) if has_objects else rows
    _require_classes(labeled, source)
    known = set(labeled["label"].unique()) if classes is None else set(classes)
    labeled = labeled.with_columns(pattern=_of_patterns(changes, known, source))
    groups = labeled.group_by("label", "pattern", maintain_order=True).agg(
        pl.len(), pl.col("path").first()
    )
    by_class = {change.old: change.new for change in changes if change.old in known}
    moves, unmatched = [], []
    for label, pattern, count, path in groups.iter_rows():
        old = _name(label, classes, source)
        new = pattern or by_class.get(old)
        if new is None and not keep:
            unmatched.append((count, path, old))
        moves.append(Move(old, new or old, count))
    if unmatched:
        _, path, old = unmatched[0]
        total = format_count(sum(count for count, _, _ in unmatched), unit)
        raise SourceError(
            f"{source}: says nothing of {total}, {path!r} of class {old!r} among them; add a line, "
            "or give --keep-unmatched"
        )
    named = classes is not None or any(not _NUMBER.fullmatch(change.new) for change in changes)
    found = _in_order([move.new for move in moves], changes, named)
    if named and classes is None and any(map(_NUMBER.fullmatch, found)):
        raise SourceError(f"{source}: gives some classes names and leaves others their numbers")
    numbered, new_classes = _numbered(found, order, named, renumber, source)
    numbers = [numbered[move.new] for move in moves]
    new_labels = groups.select("label", "pattern", number=pl.Series(numbers, dtype=pl.String))
    labels = labeled.join(
        new_labels, on=["label", "pattern"], how="left", nulls_equal=True, maintain_order="left"
    )["number"].alias("label")
    moved = {move.old for move in moves}
    return Relabeled(
        rows.with_columns(_with_classes(rows["label"], labels) if has_objects else labels),
        new_classes,
        unit,
        _summed(moves),
        sorted(set(classes or ()) - moved - {each.old for each in changes}),
        list(_idle(changes, labeled, moved)),
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


def _require_classes(labeled: pl.DataFrame, source: str) -> None:
    other = labeled.filter(labeled.select(class_numbers().is_null()).to_series())["path"]
    if len(other):
        raise SourceError(f"{source}: {other[0]!r} has a label that is not one class number")


def _name(label: str, classes: tuple[str, ...] | None, source: str) -> str:
    if classes is None:
        return label
    if not 0 <= int(label) < len(classes):
        raise SourceError(f"{source}: the label {label} is none of the {len(classes)} classes")
    return classes[int(label)]


def _of_patterns(changes: Sequence[Change], known: set[str], source: str) -> pl.Expr:
    """The new class that a row has by its path, or null."""
    found: list[pl.Expr] = []
    for change in changes:
        if change.old in known:
            continue
        if not re.search(r"[/*?]", change.old):
            raise SourceError(f"{source}:{change.line}: {change.old!r} is no class of the list")
        is_meant = pl.col("path").str.contains(glob_pattern(change.old))
        found.append(pl.when(is_meant).then(pl.lit(change.new)))
    return pl.coalesce(*found, pl.lit(None, pl.String))


def _summed(moves: Sequence[Move]) -> list[Move]:
    """The moves, those between the same classes as one, in the order of their names."""
    counts: Counter[tuple[str, str]] = Counter()
    for move in moves:
        counts[move.old, move.new] += move.moved
    return [Move(*names, count) for names, count in sorted(counts.items())]


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


def _idle(changes: Sequence[Change], rows: pl.DataFrame, old: set[str]) -> Iterator[Change]:
    """The changes that no row is of."""
    for change in changes:
        if change.old not in old:
            pattern = glob_pattern(change.old)
            if not rows.select(pl.col("path").str.contains(pattern).any()).item():
                yield change

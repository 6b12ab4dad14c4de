"""New classes for rows or objects: renamed, merged, refined, numbered without gaps.

A map has a line per change, ``old<TAB>new`` or ``old,new``. The old value is a class (its name, or
its number if classes have no names) or a pattern of paths; the new value is a class. A pattern wins
over a class, and of several patterns the first wins.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.diff import Move
from dsprep.lists.edit import glob_pattern
from dsprep.lists.rows import all_detection, class_numbers, objects_of
from dsprep.units import format_count

_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")
_HEADER = ("old", "new")


class Change(NamedTuple):
    """A line of a map."""

    line: int
    old: str
    new: str

    @property
    def pattern(self) -> str:
        """The old value as a regular expression for paths."""
        return glob_pattern(self.old)


@dataclass(frozen=True, eq=False)
class Relabeled:
    """A list with new classes."""

    rows: pl.DataFrame  # the list
    classes: tuple[str, ...] | None  # the names of its classes; None if they have none
    unit: str  # what has a class: a `row`, or an `object` in a list for detection
    moves: Sequence[Move]  # how many went from class to class, and how many kept theirs
    dropped: Sequence[str]  # old classes that have no rows, and that the map does not name
    idle: Sequence[Change]  # changes that match no row


def parse_map(text: str, source: str) -> list[Change]:
    """Read a map; a first line of ``old`` and ``new`` is a header."""
    firsts: dict[str, Change] = {}
    for line, content in enumerate(text.splitlines(), 1):
        if not content.strip() or content.startswith("#"):
            continue
        delimiter = "\t" if "\t" in content else ","
        cells = tuple(cell.strip() for cell in next(csv.reader([content], delimiter=delimiter)))
        if len(cells) != 2 or not all(cells):
            raise SourceError(
                f"{source}:{line}: a line is an old class or a pattern of paths, and the new class"
            )
        if (line, cells) != (1, _HEADER):
            first = firsts.setdefault(cells[0], Change(line, *cells))
            if first.new != cells[1]:
                raise SourceError(
                    f"{source}:{line}: {cells[0]!r} is {first.new!r} in line {first.line}"
                )
    if not firsts:
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
    other = labeled.filter(labeled.select(class_numbers().is_null()).to_series())["path"]
    if len(other):
        raise SourceError(f"{source}: {other[0]!r} has a label that is not one class number")
    known = set(labeled["label"].unique()) if classes is None else set(classes)
    labeled = labeled.with_columns(pattern=_of_patterns(changes, known, source))
    groups = labeled.group_by("label", "pattern", maintain_order=True).agg(
        pl.len(), pl.col("path").first()
    )
    by_class = {change.old: change.new for change in changes if change.old in known}
    moves, unmatched = [], []
    for label, pattern, count, path in groups.iter_rows():
        if classes is not None and not 0 <= int(label) < len(classes):
            raise SourceError(f"{source}: the label {label} is none of the {len(classes)} classes")
        old = label if classes is None else classes[int(label)]
        new = pattern or by_class.get(old)
        if new is None and not keep:
            unmatched.append((count, path, old))
        moves.append(Move(old, new or old, count))
    if unmatched:
        _, path, old = unmatched[0]
        total = format_count(sum(count for count, _, _ in unmatched), unit)
        raise SourceError(
            f"{source}: does not match {total}, such as {path!r} of class {old!r}; add a line, or "
            "give --keep-unmatched"
        )
    named = classes is not None or any(not _NUMBER.fullmatch(change.new) for change in changes)
    found = {move.new for move in moves}
    if named:  # also the classes that no row has now
        found.update(change.new for change in changes)
    if named and classes is None and any(map(_NUMBER.fullmatch, found)):
        raise SourceError(f"{source}: gives some classes names and leaves others their numbers")
    numbers, new_classes = _numbered(found, order, named, renumber, source)
    new_numbers = pl.Series([numbers[move.new] for move in moves], dtype=pl.String)
    new_labels = groups.select("label", "pattern", number=new_numbers)
    labels = labeled.join(
        new_labels, on=["label", "pattern"], how="left", nulls_equal=True, maintain_order="left"
    )["number"].alias("label")
    totals: Counter[tuple[str, str]] = Counter()
    for move in moves:
        totals[move.old, move.new] += move.moved
    moved, named_old = {move.old for move in moves}, {change.old for change in changes}
    idle = [change for change in changes if change.old not in moved]
    matches = labeled.select(
        pl.col("path").str.contains(change.pattern).any().alias(change.old) for change in idle
    )
    return Relabeled(
        rows.with_columns(_with_classes(rows["label"], labels) if has_objects else labels),
        new_classes,
        unit,
        [Move(*names, count) for names, count in sorted(totals.items())],
        sorted(set(classes or ()) - moved - named_old),
        [change for change in idle if not matches[change.old].item()],
    )


def _objects(rows: pl.DataFrame) -> pl.DataFrame:
    """List the objects of a list for detection: the path and, as ``label``, the class of each."""
    found = objects_of(rows)
    number = pl.col("cls")
    whole = pl.when(number % 1 == 0).then(number.cast(pl.Int64).cast(pl.String))
    return found.select(
        label=whole.otherwise(number.cast(pl.String)), path=rows["path"].gather(found["row"])
    )


def _with_classes(labels: pl.Series, classes: pl.Series) -> pl.Series:
    """Give the objects of detection labels new classes, one after the other."""
    following = iter(classes.to_list())
    made = []
    for label in labels.to_list():
        words = label.split("\t")
        for place in range(int(words[0]), len(words), int(words[1])):
            words[place] = next(following)
        made.append("\t".join(words))
    return pl.Series("label", made, pl.String)


def _of_patterns(changes: Sequence[Change], known: set[str], source: str) -> pl.Expr:
    """Return the new class that a row has by its path, or null."""
    found: list[pl.Expr] = []
    for change in changes:
        if change.old in known:
            continue
        if not re.search(r"[/*?]", change.old):
            raise SourceError(f"{source}:{change.line}: {change.old!r} is no class of the list")
        matches = pl.col("path").str.contains(change.pattern)
        found.append(pl.when(matches).then(pl.lit(change.new)))
    return pl.coalesce(*found, pl.lit(None, pl.String))


def _numbered(
    found: set[str], order: tuple[str, ...] | None, named: bool, renumber: bool, source: str
) -> tuple[Mapping[str, str], tuple[str, ...] | None]:
    """Return the labels of the new classes, and the names of all classes."""
    if not named:
        numbers = sorted(found, key=int)
        return {old: str(at) if renumber else str(int(old)) for at, old in enumerate(numbers)}, None
    names = sorted(found)
    classes = tuple(names) if order is None else order
    for name in names:
        if name not in classes:
            raise SourceError(f"{source}: the class {name!r} is none of the {len(classes)} given")
    return {name: str(number) for number, name in enumerate(classes)}, classes

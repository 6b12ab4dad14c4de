"""Edits of a list: which rows are selected, and how they change; all others stay.

:func:`relabel` gives rows or objects new classes: renamed, merged, refined, numbered without gaps.
Its map has a line per change, ``old<TAB>new`` or ``old,new``. The old value is a class (its name,
or its number if classes have no names) or a pattern of paths; the new value is a class. A pattern
wins over a class, and of several patterns the first wins.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

import polars as pl

from dsprep.csv_parsers import CsvError, first_record
from dsprep.errors import OptionError, SourceError
from dsprep.frozen import Frozen
from dsprep.lists.diff import ClassMove
from dsprep.lists.rows import (
    all_detection,
    canonical_label,
    class_numbers,
    is_number,
    objects_of,
    plain_path,
)
from dsprep.lists.store import ListWritten
from dsprep.numbering import Known, number_classes, numbers_of
from dsprep.printable import json_values
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, lines_of

_ID_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,14}")


def selected(
    paths: Sequence[str] = (),
    ids: Sequence[str] = (),
    classes: Sequence[int] = (),
    numbers: Sequence[int] | None = None,
    advice: str = "--path, --id or --class",
) -> pl.Expr:
    """Return which rows meet all conditions that are given; one value of a condition is enough."""
    # Conditions are globs of paths, ids or ranges of them (`7`, `10-19`), class numbers, and
    # numbers of rows.
    row = pl.int_range(pl.len())
    conditions = [
        [pl.col("path").str.contains(glob_pattern(glob)) for glob in paths],
        [pl.col("index").is_between(*_id_range(text)) for text in ids],
        [class_numbers().is_in(classes).fill_null(False)] if classes else [],
        [] if numbers is None else [row.is_in(pl.Series(numbers, dtype=pl.Int64).implode())],
    ]
    if not any(conditions):
        raise OptionError(f"no condition selects rows: give {advice}")
    return reduce(and_, (reduce(or_, any_of) for any_of in conditions if any_of))


def glob_pattern(glob: str) -> str:
    """Return a glob as a regular expression."""
    # `*` and `?` match any characters except `/`, and `**` matches any. As in `.gitignore`, a glob
    # without `/` is compared with the last part of a path, any other with the whole of it.
    parts = re.split(r"(\*\*|\*|\?)", glob.removeprefix("/"))
    wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pattern = "".join(wild.get(part) or pl.escape_regex(part) for part in parts)
    return rf"(?s)^{pattern}$" if "/" in glob else rf"(?s)(?:^|/){pattern}$"


def _id_range(text: str) -> tuple[int, int]:
    match = _ID_RANGE.fullmatch(text)
    if match is None:
        raise OptionError(f"--id {text}: give an id or a range of them, such as 7 or 10-19")
    return int(match[1]), int(match[2] or match[1])


def class_number(text: str, classes: Sequence[str] | None) -> int:
    """Return the number of a class that a user gave by name or number."""
    if classes and text in classes:
        return classes.index(text)
    if re.fullmatch(r"-?[0-9]{1,15}", text) is None:
        if classes:
            raise OptionError(f"{text!r} is none of the {len(classes)} classes")
        raise OptionError(f"{text!r} is no class number, and no classes.txt names the classes")
    number = int(text)
    if classes is not None and not 0 <= number < len(classes):
        raise OptionError(f"the class {number} is none of 0 to {len(classes) - 1}")
    return number


def parse_label(text: str, classes: Sequence[str] | None) -> str:
    """Read a label as a user gives it: a class name, a number, or several with commas."""
    words = [word.strip() for word in text.split(",")]
    are_numbers = is_number(pl.Series(words, dtype=pl.String)).all()
    if len(words) == 1 and (classes is not None or not are_numbers):
        return str(class_number(text, classes))
    if not are_numbers:
        raise OptionError(f"--label {text}: give a class, or numbers separated by commas")
    return canonical_label(words)


def append_rows(rows: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Add samples at the end of a list, without those that it has already."""
    place = plain_path(pl.col("path"))
    added = new.unique("path", keep="first", maintain_order=True).join(
        rows.select(place=place), left_on=place, right_on="place", how="anti", maintain_order="left"
    )
    largest = rows["index"].max()
    first = 0 if largest is None else int(str(largest)) + 1
    index = pl.int_range(first, first + pl.len(), dtype=pl.Int64).alias("index")
    return pl.concat([rows, added.select(index, "label", "path")])


def cut_parts(
    rows: int, chunks: int = 1, train_ratio: float = 1.0, test_ratio: float = 0.0
) -> dict[str, range]:
    """Cut a list as ``make_list`` of MXNet's ``tools/im2rec.py`` does, without its losses."""
    # Every row is in exactly one part, whatever the ratios, and no chunk is empty. Parts are named
    # by what their file names have after the list's: `_train`, `_0_val`, or nothing.
    if not 0 < train_ratio <= 1 or not 0 <= test_ratio < 1 or train_ratio + test_ratio > 1 + 1e-9:
        raise OptionError(
            "--train-ratio and --test-ratio are shares: the first above 0, both together at most 1"
        )
    if not 1 <= chunks <= rows:
        raise OptionError(f"--chunks {chunks}: a list of {rows} samples has from 1 to {rows}")
    parts = {}
    for chunk in range(chunks):
        start, stop = chunk * rows // chunks, (chunk + 1) * rows // chunks
        left = 1 - train_ratio - test_ratio > 1e-9
        test = start + round((stop - start) * test_ratio)
        train = start + round((stop - start) * (test_ratio + train_ratio)) if left else stop
        sides = {"": range(start, stop)}
        if train_ratio < 1:
            sides = {"_train": range(test, train)}
            sides |= {"_val": range(train, stop)} if left else {}
            sides |= {"_test": range(start, test)} if test_ratio else {}
        name = f"_{chunk}" if chunks > 1 else ""
        for side, part in sides.items():
            if not part:
                raise OptionError(f"{(name + side)[1:]} would have no samples, of {stop - start}")
            parts[name + side] = part
    return parts


# Relabeling


class Change(NamedTuple):
    """A line of a map."""

    line: int
    old: str
    new: str

    def to_json(self) -> dict[str, Any]:
        return json_values({"line": self.line, "old": self.old, "new": self.new})


class Relabeled(Frozen, eq=False):
    """Lists with new classes."""

    rows: pl.DataFrame  # their rows, one list after the other
    classes: tuple[str, ...] | None  # the names of the classes now; None if they have none
    unit: str = "row"  # what has a class: a `row`, or an `object` in a list for detection
    moves: Sequence[ClassMove] = ()  # how many went from class to class, and how many kept theirs
    dropped: Sequence[str] = ()  # old classes that have no rows, and that the map does not name
    idle: Sequence[Change] = ()  # changes that match no row
    lists: Sequence[ListWritten] = ()
    written: bool = False  # whether any list was
    already_done: bool = False  # whether the same command did it before

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "lists": self.lists,
                "unit": self.unit,
                "moves": self.moves,
                "classes": self.classes,
                "dropped": self.dropped,
                "idle": self.idle,
                "written": self.written,
                "already_done": self.already_done,
            }
        )


def parse_map(text: str, source: str) -> list[Change]:
    """Read a map; a first line of ``old`` and ``new`` is a header."""
    firsts: dict[str, Change] = {}
    for line, content in enumerate(lines_of(text), 1):
        if not content.strip() or content.startswith("#"):
            continue
        delimiter = "\t" if "\t" in content else ","
        try:
            cells = tuple(cell.strip() for cell in first_record(content, delimiter))
        except CsvError as error:
            raise SourceError(f"{source}:{line}: is not CSV ({error})") from None
        if len(cells) != 2 or not all(cells):
            raise SourceError(
                f"{source}:{line}: a line is an old class or a pattern of paths, and the new class"
            )
        if (line, cells) != (1, ("old", "new")):
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
    _require_class_numbers(labeled, source)
    known = set(labeled["label"].unique()) if classes is None else set(classes)
    labeled = labeled.with_columns(pattern=_of_patterns(changes, known, source))
    groups = labeled.group_by("label", "pattern", maintain_order=True).agg(
        pl.len(), pl.col("path").first()
    )
    by_class = {change.old: change.new for change in changes if change.old in known}
    moves = _moves(groups, classes, by_class, source)
    if not keep:
        _require_all_matched(moves, groups["path"], unit, source)
    named = _gives_names(classes, changes)
    found = _classes_after(moves, changes, named)
    if named and classes is None and any(map(_NUMBER.fullmatch, found)):
        raise SourceError(f"{source}: gives some classes names and leaves others their numbers")
    numbers, new_classes = _numbered(found, order, named, renumber, source)
    labels = _new_labels(labeled, groups, [numbers[move.new or move.old] for move in moves])
    return Relabeled(
        rows.with_columns(_with_classes(rows["label"], labels) if has_objects else labels),
        new_classes,
        unit,
        _summed(moves),
        _classes_without_rows(classes, moves, changes),
        _without_effect(changes, moves, labeled),
    )


class _Move(NamedTuple):
    """What the map says of the rows that have one class and match the same pattern."""

    old: str
    new: str | None  # None if the map says nothing
    rows: int


def _require_class_numbers(labeled: pl.DataFrame, source: str) -> None:
    """Refuse labels that are not one class number each."""
    other = labeled.filter(labeled.select(class_numbers().is_null()).to_series())["path"]
    if len(other):
        raise SourceError(f"{source}: {other[0]!r} has a label that is not one class number")


def _moves(
    groups: pl.DataFrame, classes: tuple[str, ...] | None, by_class: Mapping[str, str], source: str
) -> list[_Move]:
    """Return what the map says of each group of rows; a pattern counts before a class."""
    moves = []
    for label, pattern, count, _ in groups.iter_rows():
        if classes is not None and not 0 <= int(label) < len(classes):
            raise SourceError(f"{source}: the label {label} is none of the {len(classes)} classes")
        old = label if classes is None else classes[int(label)]
        moves.append(_Move(old, pattern or by_class.get(old), count))
    return moves


def _require_all_matched(moves: Sequence[_Move], paths: pl.Series, unit: str, source: str) -> None:
    """Refuse a map that says nothing of some rows."""
    unmatched = [at for at, move in enumerate(moves) if move.new is None]
    if unmatched:
        total = format_count(sum(moves[at].rows for at in unmatched), unit)
        path, old = paths[unmatched[0]], moves[unmatched[0]].old
        raise SourceError(
            f"{source}: does not match {total}, such as {path!r} of class {old!r}; add a line, or "
            "give --keep-unmatched"
        )


def _gives_names(classes: tuple[str, ...] | None, changes: Sequence[Change]) -> bool:
    """Return whether classes have names after the changes, and not only numbers."""
    return classes is not None or any(not _NUMBER.fullmatch(change.new) for change in changes)


def _classes_after(moves: Sequence[_Move], changes: Sequence[Change], named: bool) -> set[str]:
    """Return the classes after the changes; a named class counts even if no row has it now."""
    found = {move.new or move.old for move in moves}
    return found | {change.new for change in changes} if named else found


def _classes_without_rows(
    classes: tuple[str, ...] | None, moves: Sequence[_Move], changes: Sequence[Change]
) -> list[str]:
    """Return the classes that no row had before, and that no change names."""
    mentioned = {move.old for move in moves} | {change.old for change in changes}
    return sorted(set(classes or ()) - mentioned)


def _without_effect(
    changes: Sequence[Change], moves: Sequence[_Move], labeled: pl.DataFrame
) -> list[Change]:
    """Return the changes of classes that no row has, and patterns that no path matches."""
    moved = {move.old for move in moves}
    return [each for each in changes if each.old not in moved and not _matches(each, labeled)]


def _new_labels(labeled: pl.DataFrame, groups: pl.DataFrame, numbers: Sequence[str]) -> pl.Series:
    """Return the label of each row, given that of each group."""
    of_groups = groups.select("label", "pattern", number=pl.Series(numbers, dtype=pl.String))
    found = labeled.join(
        of_groups, on=["label", "pattern"], how="left", nulls_equal=True, maintain_order="left"
    )
    return found["number"].alias("label")


def _summed(moves: Sequence[_Move]) -> list[ClassMove]:
    """Return how many rows moved from each class to each other."""
    totals: Counter[tuple[str, str]] = Counter()
    for move in moves:
        totals[move.old, move.new or move.old] += move.rows
    return [ClassMove(*names, count) for names, count in sorted(totals.items())]


def _matches(change: Change, labeled: pl.DataFrame) -> bool:
    """Return whether a change is a pattern that some path matches."""
    return bool(labeled["path"].str.contains(glob_pattern(change.old)).any())


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
        matches = pl.col("path").str.contains(glob_pattern(change.old))
        found.append(pl.when(matches).then(pl.lit(change.new)))
    return pl.coalesce(*found, pl.lit(None, pl.String))


def _numbered(
    found: set[str], order: tuple[str, ...] | None, named: bool, renumber: bool, source: str
) -> tuple[Mapping[str, str], tuple[str, ...] | None]:
    """Return the labels of the new classes, and the names of all classes."""
    if not named:
        numbers = sorted(found, key=int)
        return {old: str(at) if renumber else str(int(old)) for at, old in enumerate(numbers)}, None
    classes = number_classes(found, Known(order), source, _not_given)
    return {name: str(number) for name, number in numbers_of(classes).items()}, classes


def _not_given(place: str, names: Sequence[str], classes: Sequence[str]) -> SourceError:
    return SourceError(f"{place}: the class {names[0]!r} is none of the {len(classes)} given")

"""The labels of a list or a table as columns of a catalog."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.rows import is_too_large
from dsprep.sources.classes import number_classes
from dsprep.text import refuse
from dsprep.units import format_count, quoted

_LARGEST_EXACT = 2**53

_SEPARATORS = ("|", ";", ",", " ")
"""What separates tags in the tables that people have; a name of a class rarely holds the first."""

_LOOKED_AT = 10_000
"""How many different cells of a column tell whether they hold tags."""

_WHOLE_PER_FRACTION = 10
"""If fewer than one number in this many is a fraction, the others are class numbers."""

_MOST_VALUES = 3 * 10**7
"""The most values of labels with a 0 or 1 for each class: a list of them takes about 1 GB."""


class Known(NamedTuple):
    """What is known of the classes before labels are read."""

    classes: tuple[str, ...] | None  # the classes and their order, if they are fixed already
    owner: str | None = None  # the source that these are of, if the user did not give them
    order: str | None = None  # otherwise, the order of the names; see :func:`number_classes`


def labels_from_numbers(
    rows: pl.DataFrame,
    classes: tuple[str, ...] | None,
    source: str,
    owner: str | None = None,
) -> pl.Series:
    """Turn labels into class numbers, if every sample has one label and all are whole."""
    labels, first = pl.col("labels"), pl.col("labels").list.first()
    is_class = (labels.list.len() == 1) & (first % 1 == 0) & (first.abs() < _LARGEST_EXACT)
    if not rows.select(is_class.all()).item():
        return rows["labels"].alias("label")
    numbers = rows.select("line", cls=first.cast(pl.Int64))
    if classes is not None:
        outside = ~pl.col("cls").is_between(0, len(classes) - 1)
        which = _among(classes, owner)
        refuse(source, numbers, outside, lambda row: f"{row['cls']} is none of {which}")
    return numbers["cls"]


def labels_from_names(
    rows: pl.DataFrame, known: Known, source: str
) -> tuple[pl.Series, tuple[str, ...]]:
    """Turn class names into class numbers."""
    classes = known.classes
    if classes is None:
        classes = number_classes(rows["name"].unique(), source, known.order)
    unknown, which = ~pl.col("name").is_in(classes), _among(classes, known.owner)
    refuse(source, rows, unknown, lambda row: f"{row['name']!r} is none of {which}")
    numbers = rows["name"].replace_strict(classes, range(len(classes)), return_dtype=pl.Int64)
    return numbers.alias("cls"), classes


def _among(classes: Sequence[object], owner: str | None) -> str:
    """Call the classes something, and say which option gives others."""
    of = f" of {owner}: give --classes FILE with the names of all classes" if owner else ""
    return f"the {len(classes)} classes{of}"


def label_column(
    labels: Sequence[int | tuple[float, ...] | None], samples: int
) -> pl.Series | None:
    """Return the labels of samples as the column of a catalog; None unless all samples have one."""
    if len(labels) < samples or None in labels:
        return None
    if all(isinstance(label, int) for label in labels):
        return pl.Series("cls", labels, dtype=pl.Int64)
    lists = [[float(label)] if isinstance(label, int) else list(label or ()) for label in labels]
    return pl.Series("label", lists, dtype=pl.List(pl.Float64))


def require_known(labels: pl.Series, classes: tuple[str, ...], name: str) -> None:
    """Refuse class numbers without a name."""
    unknown = labels.filter(~labels.is_between(0, len(classes) - 1))
    if len(unknown):
        raise SourceError(
            f"{name}: holds the class {unknown[0]}, which is none of its {len(classes)} classes"
        )


def numbers_in(column: pl.Series) -> pl.Series:
    """Return which texts are finite numbers."""
    return column.cast(pl.Float64, strict=False).is_finite().fill_null(False)


def refuse_mixture(
    column: pl.Series, lines: pl.Series, is_number: pl.Series, way_out: str, source: str
) -> None:
    """Refuse a column of numbers in which names stand, or of names in which numbers stand.

    As names, all of its numbers would get other numbers.
    """
    numbers = int(is_number.sum())
    names = len(column) - numbers
    if not (numbers and names):
        return
    if names <= numbers:
        wrong, reason = ~is_number, f"is not a number, but {_are(numbers)}"
    else:
        wrong, reason = is_number, f"is a number, but {_are(names)} not"
    refuse_labels(column, lines, wrong, f"{reason}: correct it, or {way_out}", source)


def _are(count: int) -> str:
    return f"{format_count(count, 'label')} of this column {'is' if count == 1 else 'are'}"


def refuse_two_readings(column: pl.Series, lines: pl.Series, known: Known, source: str) -> None:
    """Refuse numbers that are also names of other classes of the source."""
    classes, number = known.classes or (), column.cast(pl.Float64, strict=False)
    if known.owner is None or not numbers_in(column).all():
        return
    named = column.replace_strict(classes, range(len(classes)), return_dtype=pl.Float64)
    reason = (
        f"is the number of one class of {known.owner} and the name of another: give --classes FILE "
        "with the names of all classes, in the order of their numbers"
    )
    refuse_labels(column, lines, named != number, reason, source)


def refuse_labels(
    column: pl.Series, lines: pl.Series, wrong: pl.Series, reason: str, source: str
) -> None:
    """Refuse a column in which labels are wrong, with the first of them."""
    rows = pl.DataFrame([lines, column.alias("label"), wrong.alias("wrong")])
    where = f"in the column {quoted(column.name)}"
    refuse(source, rows, pl.col("wrong"), lambda row: f"{quoted(row['label'])} {where} {reason}")


def refuse_fractions(column: pl.Series, lines: pl.Series, kind: str | None, source: str) -> None:
    """Refuse fractions among the numbers of classes."""
    fractions = column.cast(pl.Float64) % 1 != 0
    count = int(fractions.sum())
    if kind == "class":
        refuse_labels(column, lines, fractions, "is not the number of a class", source)
    elif count * _WHOLE_PER_FRACTION < len(column):
        reason = (
            f"is a fraction, but {format_count(len(column) - count, 'label')} of this column are "
            "whole: correct it, or give --label-type float if they number no classes"
        )
        refuse_labels(column, lines, fractions, reason, source)


def refuse_tags(column: pl.Series, lines: pl.Series, source: str) -> None:
    """Refuse a column whose cells hold several labels each, unless they are few and unclear."""
    texts = column.unique(maintain_order=True).head(_LOOKED_AT)
    separator = find_separator(texts.to_list())
    if separator is None:
        return
    cells = [split_cell(text, separator) for text in texts]
    place = next(place for place, cell in enumerate(cells) if len(cell) > 1)
    tags = pl.Series(sorted({tag for cell in cells for tag in cell}))
    are_numbers = bool(numbers_in(tags).all())
    option = f"--label-separator {separator!r}"
    kept = "add --label-type float to keep numbers as they are, " if are_numbers else ""
    line = lines.filter(column == texts[place])[0]
    raise SourceError(
        f"{source}:{line}: {quoted(texts[place])} in the column {column.name!r} looks like several "
        f"{'numbers' if are_numbers else 'tags'} ({len(tags):,} different ones in "
        f"{format_count(len(texts), 'combination')}): give {option} for labels of a 0 or a 1 for "
        f"each, {kept}or give --label-type class if each text is the name of one class"
    )


def find_separator(texts: Sequence[str]) -> str | None:
    """Find what separates tags in the cells of a column; None if the cells are single labels.

    Names of classes hold blanks, too: "golden retriever", "New York". What tells tags from words:
    there are fewer of them than cells, most cells consist of tags that other cells have as well,
    and tags do not keep their place. In names they do: "left lung", "right lung" and "lung" have
    each word at one place, counted from the front or from the back. They are tags, too, if
    each part of each cell also stands alone in a cell.
    """
    for separator in _SEPARATORS:
        cells = [split_cell(text, separator) for text in texts]
        several = [cell for cell in cells if len(cell) > 1]
        if not several:
            continue
        count = Counter(tag for cell in cells for tag in set(cell))
        if numbers_in(pl.Series(list(count), dtype=pl.String)).all():
            return separator
        if count.keys() == {cell[0] for cell in cells if len(cell) == 1}:
            return separator
        shared = sum(all(count[tag] > 1 for tag in cell) for cell in several)
        if separator in "|;":
            if len(several) > 1 and 2 * shared >= len(several):
                return separator
        elif (
            len(count) < len(cells)
            and 4 * shared >= 3 * len(several)
            and _moving(cells) >= max(2, len(count) / 3)
        ):
            return separator
    return None


def _moving(cells: Sequence[Sequence[str]]) -> int:
    """Count the tags that have several places, from the front and from the back."""
    from_front, from_back = defaultdict(set), defaultdict(set)
    for cell in cells:
        for place, tag in enumerate(cell):
            from_front[tag].add(place)
            from_back[tag].add(len(cell) - place)
    return sum(len(from_front[tag]) > 1 and len(from_back[tag]) > 1 for tag in from_front)


def split_cell(text: str, separator: str) -> list[str]:
    """Take a cell of several labels apart: ``a b``, or as Python writes a list, ``['a', 'b']``."""
    is_list = text.startswith("[") and text.endswith("]")
    words = (word.strip() for word in (text[1:-1] if is_list else text).split(separator))
    if is_list:
        words = (word.strip("'\"") for word in words)
    return [word for word in words if word]


def labels_from_cells(
    column: pl.Series,
    lines: pl.Series,
    separator: str,
    kind: str | None,
    known: Known,
    source: str,
) -> tuple[pl.Series, tuple[str, ...] | None]:
    """Turn cells of several labels into labels of several numbers."""
    parts = {text: split_cell(text, separator) for text in column.unique()}
    cells = pl.Series("label", [parts[text] for text in column], pl.List(pl.String))
    rows = pl.DataFrame([lines, cells]).with_row_index("row")
    where = f"in the column {quoted(column.name)}"
    exploded = rows.explode("label").drop_nulls("label")
    tags, at = exploded["label"].alias(column.name), exploded["line"]
    is_number = numbers_in(tags)
    reason = "is too large: whole numbers have to be below 2^53"
    refuse_labels(tags, at, is_too_large(tags), reason, source)
    if kind == "float":
        reason = "is not a number, as --label-type float says"
        refuse_labels(tags, at, ~is_number, reason, source)
        count = len(cells[0])
        refuse(
            source,
            rows,
            (pl.col("label").list.len() != count) | (pl.col("label").list.len() == 0),
            lambda row: f"{len(row['label'])} numbers {where}, where the first row has {count}",
        )
        return cells.cast(pl.List(pl.Float64)), None
    if tags.is_empty():
        raise SourceError(f"{source}: no label {where}")
    classes = known.classes
    are_named = classes is not None and bool(tags.is_in(classes).all())
    if are_named:
        refuse_two_readings(tags, at, known, source)
    else:
        way_out = "give --classes FILE with the names of all classes"
        refuse_mixture(tags, at, is_number, way_out, source)
    if is_number.all() and not are_named:
        number = tags.cast(pl.Float64)
        reason = "is not the number of a class; --label-type float keeps numbers as they are"
        wrong = (number % 1 != 0) | (number < 0) | (number >= _LARGEST_EXACT)
        refuse_labels(tags, at, wrong, reason, source)
        places = number.cast(pl.Int64)
        width = len(classes) if classes else int(str(places.max())) + 1
        wrong = places >= width
    else:
        classes = classes or number_classes(tags.unique(), source, known.order)
        width = len(classes)
        places = tags.replace_strict(classes, range(width), default=None, return_dtype=pl.Int64)
        wrong = places.is_null()
    among = _among(range(width), known.owner if classes else None)
    refuse_labels(tags, at, wrong, f"is none of {among}", source)
    if len(column) * width > _MOST_VALUES:
        raise SourceError(
            f"{source}: labels of {width:,} classes for {len(column):,} rows are more than "
            f"{_MOST_VALUES:,} values: split the table, or choose fewer classes"
        )
    zeros = pl.zeros(len(column) * width, dtype=pl.Float64, eager=True)
    ones = zeros.scatter(exploded["row"].cast(pl.Int64) * width + places, 1.0)
    return ones.reshape((len(column), width)).arr.to_list().alias("label"), classes

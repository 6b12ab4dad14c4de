"""The labels of a list or a table as columns of a catalog."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.rows import is_too_large
from dsprep.sources.classes import number_classes
from dsprep.text import refuse
from dsprep.units import format_count, quoted

_LARGEST_EXACT = 2**53
_TOO_LARGE = "is too large: whole numbers have to be below 2^53"
# Separators of tags in real tables; a class name rarely holds the first ones.
_SEPARATORS = ("|", ";", ",", " ")
_LOOKED_AT = 10_000  # different cells of a column that show whether they hold tags
_WHOLE_PER_FRACTION = 10  # with fewer fractions than one in this many, the others are classes
_MOST_VALUES = 3 * 10**7  # of labels with a 0 or 1 for each class: they take about 1 GB
_NOT_GIVEN = ("", "nan")


class Known(NamedTuple):
    """The classes as far as they are known before labels are read."""

    classes: tuple[str, ...] | None  # the classes and their order, if they are fixed already
    owner: str | None = None  # the source that these are of, if the user did not give them
    order: str | None = None  # otherwise, the order of the names; see `number_classes`


def label_lists(labels: Iterable[Any]) -> pl.Series | None:
    """Return labels as a column of lists; None unless each is of numbers that a float can hold."""
    lists = [each if isinstance(each, tuple | list) else (each,) for each in labels]
    for label in lists:
        if not label or any(not isinstance(number, int | float) for number in label):
            return None
        if any(isinstance(number, int) and abs(number) > _LARGEST_EXACT for number in label):
            return None
    return pl.Series("label", lists, dtype=pl.List(pl.Float64), strict=False)


def class_numbers(lists: pl.Series) -> pl.Series | None:
    """Return class numbers if every sample has one label and all are whole; else None."""
    if not (lists.list.len() == 1).all():
        return None
    first = lists.list.first()
    is_class = (first % 1 == 0) & (first.abs() < _LARGEST_EXACT)
    return first.cast(pl.Int64).alias("cls") if is_class.all() else None


def labels_from_numbers(rows: pl.DataFrame, known: Known, source: str) -> pl.Series:
    """Turn labels into class numbers, if every sample has one label and all are whole."""
    numbers = class_numbers(rows["labels"])
    if numbers is None:
        return rows["labels"].alias("label")
    if known.classes is not None:
        outside = ~pl.col("cls").is_between(0, len(known.classes) - 1)
        which = _among(known.classes, known.owner)
        listed = pl.DataFrame([rows["line"], numbers])
        refuse(source, listed, outside, lambda row: f"{row['cls']} is none of {which}")
    return numbers


def _among(classes: Sequence[object], owner: str | None) -> str:
    of = f" of {owner}: give --classes FILE with the names of all classes" if owner else ""
    return f"the {len(classes)} classes{of}"


class _Cells(NamedTuple):
    """A column of labels as text."""

    texts: pl.Series
    lines: pl.Series  # the line of each, in the file
    source: str

    @property
    def where(self) -> str:
        return f"in the column {quoted(self.texts.name)}"

    def are_numbers(self) -> pl.Series:
        return numbers_in(self.texts)

    def refuse(self, wrong: pl.Series, reason: str) -> None:
        """Refuse the column if some labels are wrong, and name the first of them."""
        rows = pl.DataFrame([self.lines, self.texts.alias("label"), wrong.alias("wrong")])
        text = f"{self.where} {reason}"
        refuse(self.source, rows, pl.col("wrong"), lambda row: f"{quoted(row['label'])} {text}")

    def refuse_mixture(self, is_number: pl.Series, way_out: str) -> None:
        """Refuse numbers with some names among them, or names with some numbers.

        As names, all numbers would get other numbers.
        """
        numbers = int(is_number.sum())
        names = len(self.texts) - numbers
        if not (numbers and names):
            return
        most = max(numbers, names)
        are = f"{format_count(most, 'label')} of this column {'is' if most == 1 else 'are'}"
        if names <= numbers:
            self.refuse(~is_number, f"is not a number, but {are}: correct it, or {way_out}")
        self.refuse(is_number, f"is a number, but {are} not: correct it, or {way_out}")

    def refuse_two_readings(self, known: Known) -> None:
        """Refuse numbers that are also names of other classes of the source."""
        classes, number = known.classes or (), self.texts.cast(pl.Float64, strict=False)
        if known.owner is None or not self.are_numbers().all():
            return
        named = self.texts.replace_strict(classes, range(len(classes)), return_dtype=pl.Float64)
        reason = (
            f"is the number of one class of {known.owner} and the name of another: give "
            "--classes FILE with the names of all classes, in the order of their numbers"
        )
        self.refuse(named != number, reason)

    def refuse_fractions(self, kind: str | None) -> None:
        """Refuse fractions among the numbers of classes."""
        fractions = self.texts.cast(pl.Float64) % 1 != 0
        count, others = int(fractions.sum()), int((~fractions).sum())
        if kind == "class":
            self.refuse(fractions, "is not the number of a class")
        elif count * _WHOLE_PER_FRACTION < len(self.texts):
            reason = (
                f"is a fraction, but {format_count(others, 'label')} of this column are whole: "
                "correct it, or give --label-type float if they number no classes"
            )
            self.refuse(fractions, reason)

    def refuse_tags(self) -> None:
        """Refuse a column whose cells hold several labels each, unless they are few and unclear."""
        texts = self.texts.unique(maintain_order=True).head(_LOOKED_AT)
        separator = find_separator(texts.to_list())
        if separator is None:
            return
        cells = [split_cell(text, separator) for text in texts]
        text = next(texts[at] for at, cell in enumerate(cells) if len(cell) > 1)
        tags = pl.Series(sorted({tag for cell in cells for tag in cell}))
        are_numbers = bool(numbers_in(tags).all())
        kept = "add --label-type float to keep numbers as they are, " if are_numbers else ""
        line = self.lines.filter(self.texts == text)[0]
        raise SourceError(
            f"{self.source}:{line}: {quoted(text)} in the column {self.texts.name!r} looks like "
            f"several {'numbers' if are_numbers else 'tags'} ({len(tags):,} different ones in "
            f"{format_count(len(texts), 'combination')}): give --label-separator {separator!r} for "
            f"labels of a 0 or a 1 for each, {kept}or give --label-type class if each text is the "
            "name of one class"
        )

    def named(self, known: Known) -> tuple[pl.Series, tuple[str, ...]]:
        """Turn class names into class numbers."""
        rows = pl.DataFrame([self.lines, self.texts.alias("name")])
        classes = known.classes
        if classes is None:
            classes = number_classes(rows["name"].unique(), self.source, known.order)
        unknown, which = ~pl.col("name").is_in(classes), _among(classes, known.owner)
        refuse(self.source, rows, unknown, lambda row: f"{row['name']!r} is none of {which}")
        numbers = rows["name"].replace_strict(classes, range(len(classes)), return_dtype=pl.Int64)
        return numbers.alias("cls"), classes


def labels_from_table(
    cells: pl.DataFrame,
    lines: pl.Series,
    known: Known,
    separator: str | None,
    kind: str | None,
    source: str,
) -> tuple[pl.Series, tuple[str, ...] | None]:
    """Make the labels and the classes from the columns that hold labels."""
    columns = [_Cells(column, lines, source) for column in cells]
    for column in columns:
        missing = column.texts.str.to_lowercase().is_in(_NOT_GIVEN[separator is not None :])
        rows, where = pl.DataFrame([lines, missing.alias("missing")]), column.texts.name
        refuse(source, rows, pl.col("missing"), lambda _: f"no label in the column {where!r}")  # noqa: B023
    first = columns[0]
    if separator is not None:
        return _labels_from_lists(first, separator, kind, known)
    must_be_numbers = cells.width > 1 or kind == "float"
    if not must_be_numbers and known.classes and first.texts.is_in(known.classes).all():
        first.refuse_two_readings(known)
        return first.named(known)
    are_numbers = [column.are_numbers() for column in columns]
    if must_be_numbers:
        for column, is_number in zip(columns, are_numbers, strict=True):
            column.refuse(~is_number, "is not a number, as each of these labels must be")
    elif kind is None and not are_numbers[0].all():
        first.refuse_tags()
        way_out = "give --label-type class if all labels are names of classes"
        first.refuse_mixture(are_numbers[0], way_out)
    if not all(column.all() for column in are_numbers):
        return first.named(known)
    for column in columns:
        column.refuse(is_too_large(column.texts), _TOO_LARGE)
    labels = cells.select(lines, labels=pl.concat_list(pl.all().cast(pl.Float64)))
    if kind == "float":
        return labels["labels"].alias("label"), None
    label = labels_from_numbers(labels, known, source)
    if label.name != "cls" and not must_be_numbers:
        first.refuse_fractions(kind)
    return label, known.classes


def numbers_in(column: pl.Series) -> pl.Series:
    """Return which texts are finite numbers."""
    return column.cast(pl.Float64, strict=False).is_finite().fill_null(False)


def find_separator(texts: Sequence[str]) -> str | None:
    """Find what separates tags in the cells of a column; None if the cells are single labels.

    Names of classes hold blanks, too: "golden retriever", "New York". Tags differ from words:
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
    """Count the tags that have several positions, from the front and from the back."""
    from_front, from_back = defaultdict(set), defaultdict(set)
    for cell in cells:
        for position, tag in enumerate(cell):
            from_front[tag].add(position)
            from_back[tag].add(len(cell) - position)
    return sum(len(from_front[tag]) > 1 and len(from_back[tag]) > 1 for tag in from_front)


def split_cell(text: str, separator: str) -> list[str]:
    """Split a cell of several labels: ``a b``, or as Python writes a list, ``['a', 'b']``."""
    is_list = text.startswith("[") and text.endswith("]")
    words = (word.strip() for word in (text[1:-1] if is_list else text).split(separator))
    if is_list:
        words = (word.strip("'\"") for word in words)
    return [word for word in words if word]


def _labels_from_lists(
    column: _Cells, separator: str, kind: str | None, known: Known
) -> tuple[pl.Series, tuple[str, ...] | None]:
    """Turn cells of several labels into numbers as they are, or a 0 or a 1 for each class."""
    texts, lines, source = column
    parts = {text: split_cell(text, separator) for text in texts.unique()}
    cells = pl.Series("label", [parts[text] for text in texts], pl.List(pl.String))
    rows = pl.DataFrame([lines, cells]).with_row_index("row")
    exploded = rows.explode("label").drop_nulls("label")
    tags = _Cells(exploded["label"].alias(texts.name), exploded["line"], source)
    is_number = tags.are_numbers()
    tags.refuse(is_too_large(tags.texts), _TOO_LARGE)
    if kind == "float":
        tags.refuse(~is_number, "is not a number, as --label-type float says")
        count, length = len(cells[0]), pl.col("label").list.len()
        refuse(
            source,
            rows,
            (length != count) | (length == 0),
            lambda row: (
                f"{len(row['label'])} numbers {column.where}, where the first row has {count}"
            ),
        )
        return cells.cast(pl.List(pl.Float64)), None
    if tags.texts.is_empty():
        raise SourceError(f"{source}: no label {column.where}")
    classes = known.classes
    are_named = classes is not None and bool(tags.texts.is_in(classes).all())
    if are_named:
        tags.refuse_two_readings(known)
    else:
        tags.refuse_mixture(is_number, "give --classes FILE with the names of all classes")
    if is_number.all() and not are_named:
        number = tags.texts.cast(pl.Float64)
        wrong = (number % 1 != 0) | (number < 0) | (number >= _LARGEST_EXACT)
        reason = "is not the number of a class; --label-type float keeps numbers as they are"
        tags.refuse(wrong, reason)
        positions = number.cast(pl.Int64)
        width = len(classes) if classes else int(str(positions.max())) + 1
        wrong = positions >= width
    else:
        classes = classes or number_classes(tags.texts.unique(), source, known.order)
        width = len(classes)
        positions = tags.texts.replace_strict(
            classes, range(width), default=None, return_dtype=pl.Int64
        )
        wrong = positions.is_null()
    among = _among(range(width), known.owner if classes else None)
    tags.refuse(wrong, f"is none of {among}")
    if len(texts) * width > _MOST_VALUES:
        raise SourceError(
            f"{source}: labels of {width:,} classes for {len(texts):,} rows are more than "
            f"{_MOST_VALUES:,} values: split the table, or choose fewer classes"
        )
    zeros = pl.zeros(len(texts) * width, dtype=pl.Float64, eager=True)
    ones = zeros.scatter(exploded["row"].cast(pl.Int64) * width + positions, 1.0)
    return ones.reshape((len(texts), width)).arr.to_list().alias("label"), classes

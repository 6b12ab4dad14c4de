"""Arrays of labels: a number, a text or several numbers for each row of other arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl

from dsprep.errors import OptionError, SourceError
from dsprep.numbering import number_classes, numbered
from dsprep.sources.labels.classes import LARGEST_EXACT
from dsprep.sources.tables.arrays import Array, Bytes, Plain, opened_arrays, read_header
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from dsprep.sources.source import Source

# What an array of labels may be, by its type; other numbers are labels as they are.
_FITTING = {"text": ("class", "text"), **dict.fromkeys(("int", "bool"), ("class", "float"))}


class Labels(NamedTuple):
    """The labels that an array has for some rows."""

    where: str  # the file, and the array in it, for messages
    kind: str  # the type, as `Array.type` says it
    width: int  # numbers of a row
    values: pl.Series  # all texts or numbers, row by row


def labels_in(source: Source, path: str, count: int) -> Labels:
    """Read the labels of an ``.npy`` for as many rows."""
    with opened_arrays(path) as file:
        known = read_header(path, Plain(file), 0, file.facts().size, None)
        return read_labels(source, path, known, Plain(file), count)


def read_labels(source: Source, where: str, known: Array, file: Bytes, count: int) -> Labels:
    """Read the labels of an array for as many rows; refuse those that are no labels."""
    if known.shape[:1] != (count,):
        rows = known.shape[0] if known.shape else 0
        raise SourceError(f"{where}: has {rows:,} labels, but there are {count:,} rows")
    if known.width == 1:
        known = known._replace(shape=(count,))
    kind, asked = known.type, source.choice.label_type
    fitting = _FITTING.get(kind, ("float", "multi" if known.width > 1 else "class"))
    if not known.width or kind == "list<text>":
        raise SourceError(f"{where}: has {known.width:,} labels a row: save numbers, or one text")
    if asked not in (None, *fitting):
        raise OptionError(
            f"--label-type {asked}: the labels of {where} are of the type {kind}: give "
            f"--label-type {fitting[0]}, or leave it out"
        )
    if kind == "text":
        return Labels(where, kind, 1, pl.Series(known.rows(file, 0, count), dtype=pl.String))
    if known.by_column and known.width > 1:
        lists = known.rows(file, 0, count)
        values = pl.Series(list(chain.from_iterable(lists)), strict=False)
    else:
        values = column_of(file, known)
    is_float = values.dtype.is_float()
    wrong = ~values.is_finite() if is_float else values.cast(pl.Float64).abs() >= LARGEST_EXACT
    for at in wrong.arg_true()[:1]:
        raise SourceError(
            f"{where}: the label of row {at // known.width:,} is {values[at]}: correct it; labels "
            "are finite, and whole numbers are below 2^53"
        )
    return Labels(where, kind, known.width, values)


def label_column(
    source: Source, arrays: Sequence[Labels]
) -> tuple[pl.Series, tuple[str, ...] | None]:
    """Return the labels of arrays as one column of a catalog, and the class names."""
    classes, asked, first = source.class_names(), source.choice.label_type, arrays[0]
    for each in arrays:
        if (each.kind == "text", each.width) != (first.kind == "text", first.width):
            raise SourceError(
                f"{each.where}: has other labels than {first.where}; pack them one by one"
            )
    if first.kind == "text":
        texts = pl.concat(each.values for each in arrays)
        classes = number_classes({*texts.unique()}, source.known_classes(), first.where)
        return numbered(texts, classes), classes
    is_class = all(each.kind in _FITTING for each in arrays) and asked != "float"
    if is_class or asked == "class":
        for each in arrays:
            for fraction in each.values.filter(each.values % 1 != 0)[:1]:
                raise SourceError(
                    f"{each.where}: the label {fraction} is not the number of a class"
                )
            require_known(each.values.unique(maintain_order=True), classes, each.where)
        return pl.concat(each.values.cast(pl.Int64) for each in arrays).alias("cls"), classes
    values = pl.concat(each.values.cast(pl.Float64) for each in arrays)
    return values.reshape((-1, first.width)).arr.to_list().alias("label"), None


def require_known(numbers: Iterable[int], classes: Sequence[str] | None, where: str) -> None:
    """Refuse a label that is the number of no class."""
    for number in numbers:
        if classes and not 0 <= number < len(classes):
            raise SourceError(f"{where}: the label {number} is none of the {len(classes)} classes")


def column_of(file: Bytes, numbers: Array) -> pl.Series:
    """Return all numbers of an array, in their order in the file."""
    kind = pl.Float64 if numbers.code in "efd" else pl.UInt64 if numbers.code == "Q" else pl.Int64
    blocks = (pl.Series(block, dtype=kind) for block in numbers.numbers(file))
    return pl.concat([pl.Series(dtype=kind), *blocks], rechunk=True)

"""What each row of a catalog will weigh as a ``tf.train.Example``.

The formulas follow :mod:`dsprep.formats.example` length by length, on whole columns. Where the
catalog cannot know a value (the width of an image that nobody has opened yet), its largest size is
taken, so that a shard is never larger than planned.
"""

from __future__ import annotations

from typing import TypeAlias

import polars as pl

from dsprep.formats.features import CLASS_NUMBER, FORMAT, Preset, own_feature_of
from dsprep.formats.wire import varint_size
from dsprep.schema import Field, Schema

Sizes: TypeAlias = pl.Series | int
"""A size in bytes for each row, or one that all rows share."""

_LONGEST_FORMAT_NAME = len("jpeg")
"""Also that of ``tiff`` and ``webp``, in case the file's name does not tell the right one."""

_LARGEST_DIMENSION = 5
"""Bytes of a width or height as a varint: PNG has 31 bits for either."""


def example_weights(rows: pl.DataFrame, schema: Schema, names: Preset) -> pl.Series:
    """Return the bytes of the Example of each row."""
    label = schema.label_field
    total = rows["image"] * 0
    for column in schema.fields:
        feature = own_feature_of(column) if column.places else ""
        if (body := _list_size(column, feature, rows, schema, names)) is not None:
            total += _entry(feature, body)
    total += _entry(names.path, framed(_text(rows["path"])))
    if "format" in names.written and schema.image:
        total += _entry(FORMAT, framed(_LONGEST_FORMAT_NAME))
    if label is not None and label.places == ((CLASS_NUMBER,),):
        longest = max((len(name.encode()) for name in label.names), default=0)
        body = framed(_text(rows["class"]) if "class" in rows.columns else longest)
        for feature in names.names:
            total += _entry(feature, body)
    example = framed(total)
    assert isinstance(example, pl.Series)
    return example


def _list_size(
    column: Field, feature: str, rows: pl.DataFrame, schema: Schema, names: Preset
) -> Sizes | None:
    """Return the bytes of the list of values of a field; None if rows do not tell them."""
    if feature in names.box_names:
        return framed(_objects(rows) * (10 if feature == names.classes else 4))
    if column.name == schema.image:
        return framed(rows["image"])
    if column.name == schema.label and column.places:
        return _label_size(column.type, feature, rows, names)
    if column.name in ("width", "height"):
        return framed(_LARGEST_DIMENSION)
    return framed(_text(rows["index"].cast(str))) if column.name == "source_id" else None


def _label_size(kind: str, feature: str, rows: pl.DataFrame, names: Preset) -> Sizes | None:
    if kind in ("class", "int", "bool") and "cls" in rows.columns:
        first = names.first_class if feature == CLASS_NUMBER else 0
        return framed(_varint(rows["cls"].fill_null(0) + first))
    if kind == "text" and "class" in rows.columns:
        return framed(_text(rows["class"]))
    return framed(_count(rows) * 4) if "label" in rows.columns else None


def _count(rows: pl.DataFrame) -> pl.Series:
    """Return how many numbers the label of each row has."""
    return rows["label"].list.len().cast(int).fill_null(0)


def _objects(rows: pl.DataFrame) -> pl.Series:
    """How many objects a detection label describes, at most."""
    return _count(rows) // 5 if "label" in rows.columns else rows["image"] * 0


def _entry(name: str, body: Sizes) -> Sizes:
    """A map entry: its key, and a feature that holds a list of the given size."""
    return framed(framed(framed(body)) + framed(len(name.encode())))


def framed(size: Sizes) -> Sizes:
    """The bytes of a tag of one byte, a length, and what it measures."""
    return size + 1 + _varint(size)


def _varint(number: Sizes) -> Sizes:
    """The bytes of a number as a varint; a negative one takes ten."""
    if isinstance(number, int):
        return varint_size(number)
    largest = int(number.cast(float).max() or 0)  # type: ignore[arg-type]
    total = number * 0 + 1 + (number < 0).cast(int) * 9
    for bits in range(7, min(largest.bit_length(), 62) + 1, 7):
        total += (number >= (1 << bits)).cast(int)
    return total


def _text(column: pl.Series) -> pl.Series:
    return column.str.len_bytes().cast(int).fill_null(0)

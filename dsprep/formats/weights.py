"""What each row of a catalog will weigh as a ``tf.train.Example``.

The formulas follow :mod:`dsprep.formats.example` length by length, on whole columns. Where the
catalog cannot know a value (the width of an image that nobody has opened yet), its largest size is
taken, so that a shard is never larger than planned.
"""

from __future__ import annotations

from typing import TypeAlias

import polars as pl

from dsprep.formats.features import BOXES, Preset
from dsprep.formats.wire import varint_size

Sizes: TypeAlias = pl.Series | int
"""A size in bytes for each row, or one that all rows share."""

_LONGEST_FORMAT_NAME = len("jpeg")
"""Also that of ``tiff`` and ``webp``, in case the file's name does not tell the right one."""

_LARGEST_DIMENSION = 5
"""Bytes of a width or height as a varint: PNG has 31 bits for either."""


def example_weights(rows: pl.DataFrame, preset: Preset) -> pl.Series:
    """The bytes of the Example of each row.

    Args:
        rows: As :meth:`dsprep.formats.base.Format.weights` takes them.
        preset: The names of the features.
    """
    total = rows["image"] * 0
    for field, name in preset.names.items():
        if field == "boxes":
            for side in BOXES:
                total += _entry(f"{name}/{side}", framed(_objects(rows) * 4))
        elif (body := _list_size(field, rows, preset)) is not None:
            total += _entry(name, body)
    example = framed(total)
    assert isinstance(example, pl.Series)
    return example


def _list_size(field: str, rows: pl.DataFrame, preset: Preset) -> Sizes | None:
    """The bytes of the list of values of one field, or None if the rows have no such field."""
    columns = rows.columns
    if field == "image":
        return framed(rows["image"])
    if field == "format":
        return framed(_LONGEST_FORMAT_NAME)
    if field in ("width", "height"):
        return framed(_LARGEST_DIMENSION)
    if field == "cls" and "cls" in columns:
        return framed(_varint(rows["cls"] + preset.first_class))
    if field == "label" and "label" in columns:
        return framed(rows["label"].list.len().cast(int) * 4)
    if field in ("class", "synset") and "class" in columns:
        return framed(_text(rows["class"]))
    if field == "filename":
        return framed(_text(rows["path"]))
    if field == "source_id":
        return framed(_text(rows["index"].cast(str)))
    if field == "classes" and "label" in columns:
        return framed(_objects(rows) * 10)
    return None


def _objects(rows: pl.DataFrame) -> pl.Series:
    """How many objects a detection label describes, at most."""
    return rows["label"].list.len().cast(int) // 5 if "label" in rows.columns else rows["image"] * 0


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
    return column.str.len_bytes().cast(int)

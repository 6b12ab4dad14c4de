"""What those who read a list require of it beyond what every list has to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from dsprep.lists.checking import mostly, mostly_detection, undetected, usual
from dsprep.lists.faults import Fault, faults_of
from dsprep.lists.objects import numbers, objects
from dsprep.lists.rows import is_detection, label_count


@dataclass(frozen=True)
class Reader:
    """Who reads a list."""

    title: str  # the name, for people
    # says what is wrong with rows (`line`, `index`, `label`, `path`) for it
    check: Callable[[pl.DataFrame], Iterator[Fault]]
    numbered: bool = False  # whether labels have to be class numbers without a gap


def check_for_sagemaker(rows: pl.DataFrame) -> Iterator[Fault]:
    """Check a list for the image classification that SageMaker has built in.

    Its documentation ("Train with Image Format") asks for three columns, unique image indices,
    classes numbered from 0 without a gap, paths relative to the channel, and images in .jpg or
    .png; .jpeg is the same content type, image/jpeg.
    """
    count = rows.with_columns(count=label_count())
    yield from faults_of(
        count.filter(pl.col("count") != 1),
        "columns",
        lambda row: f"{row['count'] + 2} columns: an id, one class number and a path are three",
    )
    yield from faults_of(
        rows.filter(~pl.col("path").str.contains(r"(?i)\.(?:jpe?g|png)$")),
        "extension",
        lambda row: f"{row['path']!r} is neither .jpg nor .png",
    )


def check_for_mxnet(rows: pl.DataFrame) -> Iterator[Fault]:
    """Check a list for im2rec, ``ImageIter``, ``ImageRecordIter`` and ``ImageDetIter``.

    They keep labels as 32-bit floats. For detection, ``ImageDetIter`` (mxnet 1.9.1,
    ``image/detection.py``) needs A of at least 2, B of at least 5 and the same in all records, one
    object or more, and passes by objects of a negative class or an empty box; its C++ counterpart
    splits the lines of a list at any blank.
    """
    yield from faults_of(
        # Short labels are spared the taking apart.
        rows.filter(pl.col("label").str.contains(r"[0-9]{8}|e")).filter(_changes_in_float32()),
        "float32",
        lambda row: f"the label {_spaced(row)} changes as a 32-bit float, exact up to 2^24",
    )
    if not rows.is_empty() and (mostly_detection(rows) or _is_meant_for_detection(rows)):
        yield from _check_detection(rows)


READERS: Mapping[str, Reader] = {
    "sagemaker": Reader("SageMaker's image classification", check_for_sagemaker, numbered=True),
    "mxnet": Reader("MXNet", check_for_mxnet),
}
"""Whom a list can be checked for."""


def _changes_in_float32() -> pl.Expr:
    """Whether a whole number is another one as a 32-bit float, or any has none near it."""
    number = pl.element().cast(pl.Float64)
    kept = number.cast(pl.Float32).cast(pl.Float64)
    changes = ((number % 1 == 0) & (number != kept)) | kept.is_infinite()
    return pl.col("label").str.split("\t").list.eval(changes).list.any()


def _is_meant_for_detection(rows: pl.DataFrame) -> bool:
    """Whether most labels are built like ones for detection, if not exactly so."""
    if not mostly(rows, label_count() > 2):
        return False
    header, width = (numbers().list.get(place, null_on_oob=True) for place in (0, 1))
    size = label_count() - header
    loosely = (header >= 2) & (width >= 2) & (width % 1 == 0) & (size > 0) & (size % width == 0)
    return mostly(rows, loosely.fill_null(False))


def _check_detection(rows: pl.DataFrame) -> Iterator[Fault]:
    yield from faults_of(
        rows.filter(pl.col("path").str.contains(r"\s")),
        "blank",
        lambda row: f"a blank in {row['path']!r}, where MXNet's detection reader splits the line",
    )
    is_right = rows.select(is_detection()).to_series()
    yield from undetected(rows.filter(~is_right))
    rows = rows.filter(is_right).with_columns(width=numbers().list.get(1).cast(pl.Int64))
    if rows.is_empty():
        return
    width = usual(rows["width"])
    yield from faults_of(
        rows.filter(pl.col("width") != width),
        "detection",
        lambda row: f"B, the values of an object, is {row['width']}; most lines have {width}",
    )
    yield from faults_of(
        rows.filter(label_count() == numbers().list.get(0)),
        "detection",
        lambda row: "no object: MXNet's ImageDetIter and ImageDetRecordIter stop at this image",
    )
    yield from _check_boxes(rows)


def _check_boxes(rows: pl.DataFrame) -> Iterator[Fault]:
    """Find the first wrong object of each row."""
    found = objects(rows).with_columns(object=pl.int_range(1, pl.len() + 1).over("row"))
    wrong = pl.any_horizontal([expr for expr, _ in _BOX_FAULTS])
    first = found.filter(wrong).unique("row", keep="first", maintain_order=True)
    said = pl.coalesce([pl.when(expr).then(pl.lit(text)) for expr, text in _BOX_FAULTS])
    yield from faults_of(
        first.with_columns(rows["line"].gather(first["row"]), said=said),
        "box",
        lambda row: f"object {row['object']}: " + row["said"].format(**row),
    )


def _outside(name: str) -> tuple[pl.Expr, str]:
    return ~pl.col(name).is_between(0, 1), f"{name} is {{{name}:g}}, not within 0 and 1"


_BOX_FAULTS = [
    ((pl.col("cls") < 0) | (pl.col("cls") % 1 != 0), "{cls:g} is not a class number"),
    *map(_outside, ("xmin", "ymin", "xmax", "ymax")),
    (pl.col("xmin") >= pl.col("xmax"), "xmin, {xmin:g}, is not below xmax, {xmax:g}"),
    (pl.col("ymin") >= pl.col("ymax"), "ymin, {ymin:g}, is not below ymax, {ymax:g}"),
]
"""What can be wrong with an object, and how to say so."""


def _spaced(row: dict[str, Any]) -> str:
    return str(row["label"]).replace("\t", " ")

"""Sides or classes that a file gives: a column of folds, or ImageNet's validation ground truth."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from dsprep.errors import OptionError, SourceError
from dsprep.lists.rows import plain_path
from dsprep.sources.match import find_spelled, more_than_names
from dsprep.sources.table import find_columns, parse_cells
from dsprep.text import refuse
from dsprep.units import quoted_names

SIDE_COLUMNS = ("split", "fold", "side", "subset", "partition", "set")
"""Names of columns of sides, in any case; if a file has several, the user has to choose."""

_PREDICTION = "predictionstring"
_SYNSET = re.compile(r"n[0-9]{8}")
_NUMBER = r"^[0-9]{1,9}$"
_BOX = 5


@dataclass(frozen=True, eq=False)
class Assignment:
    """What a file gives to samples."""

    gives: str  # `side`, `class` (its name) or `number` (a class number from 1)
    # the columns `line`, `value` and, unless the file follows the sorted order of the samples,
    # `name`: a path, or an id
    values: pl.DataFrame


def parse_assignment(
    text: str,
    source: str,
    column: str | None,
    path_column: str | None = None,
    is_shared: bool = False,
) -> Assignment:
    """Parse a file that assigns samples.

    It is a CSV or TSV file with a column of sides; or Kaggle's ``LOC_val_solution.csv``, whose
    ``PredictionString`` repeats a class and a box (``n01440764 x y x y``); or the ImageNet
    development kit's ``ILSVRC2012_validation_ground_truth.txt``, a class number a line. The path
    column of a file that is shared with ``--labels`` may be that of the other.
    """
    lines = text.rstrip().split("\n")
    if column is None and re.fullmatch(_NUMBER, lines[0].strip()):
        values = pl.DataFrame({"value": lines}, schema={"value": pl.String}).with_columns(
            pl.col("value").str.strip_chars(), line=pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        )
        wrong = ~pl.col("value").str.contains(_NUMBER) | pl.col("value").str.contains("^0+$")
        refuse(source, values, wrong, lambda row: f"{row['value']!r} is no class number from 1")
        return Assignment("number", values)
    cells, numbers = parse_cells(text, source)
    if is_shared and path_column not in cells.columns:
        path_column = None
    gives = "side"
    if column is None:
        prediction = [name for name in cells.columns if name.lower() == _PREDICTION]
        sides = [name for name in cells.columns if name.lower() in SIDE_COLUMNS]
        gives = "class" if prediction else "side"
        if not prediction and len(sides) != 1:
            raise OptionError(
                f"{source}: name its column of sides with --assign-column: "
                f"{quoted_names(cells.columns)}"
            )
        column = (prediction or sides)[0]
    names = find_columns(cells.columns, path_column, [column], source).path
    values = pl.DataFrame([numbers, cells[names].alias("name"), cells[column].alias("value")])
    refuse(source, values, pl.col("name") == "", lambda row: f"no path in the column {names!r}")
    if gives == "side":
        empty = pl.col("value") == ""
        refuse(source, values, empty, lambda row: f"nothing in the column {column!r}")
        return Assignment("side", values)
    words = pl.col("value").str.split(" ").list.eval(pl.element().filter(pl.element() != ""))
    values = values.with_columns(words=words)
    # the class of an image is the first word of each of its boxes
    values = values.with_columns(classes=pl.col("words").list.gather_every(_BOX).list.unique())
    refuse(
        source,
        values,
        (pl.col("words").list.len() % _BOX != 0) | (pl.col("classes").list.len() != 1),
        lambda row: f"{row['value']!r} is not one class with its boxes: class x y x y, repeated",
    )
    values = values.select("line", "name", value=pl.col("classes").list.first())
    return Assignment("class", values)


def assigned_values(
    assignment: Assignment, paths: pl.Series, source: str, skip_unmatched: bool = False
) -> pl.Series:
    """Return the value of each sample.

    A name may lack its extension, and its directories if no other sample has that name.
    """
    known = pl.DataFrame({"path": paths}).select(path=plain_path(pl.col("path")))
    values = assignment.values
    if "name" not in values.columns:
        if values.height != len(paths):
            raise SourceError(
                f"{source}: has {values.height:,} lines, one for each image in sorted order, but "
                f"there are {len(paths):,} images"
            )
        return values["value"].gather(known["path"].rank("ordinal").cast(pl.Int64) - 1)
    named = values.with_columns(name=plain_path(pl.col("name")))
    every = known.unique().sort("path")
    spellings = [every.select("path", name="path"), *more_than_names(every)]
    spelled = find_spelled(named, spellings, source)
    found = named.join(spelled, on="name", how="left", maintain_order="left")
    lost = pl.col("path").is_null()
    if not skip_unmatched:
        refuse(
            source,
            found,
            lost,
            lambda row: f"{row['name']!r} names no sample; --skip-unmatched passes over such rows",
        )
    found = found.filter(~lost).with_columns(
        pl.col("line", "value").first().over("path").name.prefix("first_")
    )
    refuse(
        source,
        found,
        pl.col("value") != pl.col("first_value"),
        lambda row: f"{row['path']!r} is assigned in line {row['first_line']} already",
    )
    found = found.unique("path", keep="first", maintain_order=True)
    all_values = known.join(
        found.select("path", "value"), on="path", how="left", maintain_order="left"
    )
    missing = all_values.filter(pl.col("value").is_null())["path"]
    if len(missing):
        raise SourceError(
            f"{source}: does not assign {missing[0]!r} ({len(missing):,} such): every sample needs "
            "a side or a class"
        )
    return all_values["value"]


def class_labels(
    assignment: Assignment, values: pl.Series, classes: tuple[str, ...] | None, source: str
) -> tuple[pl.Series, tuple[str, ...]]:
    """Return the class numbers of the classes that a file gives, and the names of classes."""
    if assignment.gives == "number":
        numbers = values.cast(pl.Int64)
        largest = int(str(numbers.max()))
        if classes is None:
            classes = tuple(map(str, range(1, largest + 1)))
        if (
            len(classes) > 1
            and list(classes) == sorted(classes)
            and all(map(_SYNSET.fullmatch, classes))
        ):
            raise SourceError(
                f"{source}: numbers classes by ILSVRC2012_ID, but --classes has them in sorted "
                "order; give them in the order of the development kit's meta.mat"
            )
        if largest > len(classes):
            raise SourceError(f"{source}: {largest} is none of the {len(classes)} classes")
        return (numbers - 1).cast(pl.String).alias("label"), classes
    found = sorted(values.unique())
    unknown = sorted(set(found).difference(classes or found))
    if unknown:
        raise SourceError(f"{source}: {unknown[0]!r} is none of the {len(classes or ())} classes")
    classes = classes or tuple(found)
    numbers = values.replace_strict(classes, range(len(classes)), return_dtype=pl.Int64)
    return numbers.cast(pl.String).alias("label"), classes

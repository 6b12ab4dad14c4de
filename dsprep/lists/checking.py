"""What is wrong with a list, whoever reads it: all of it, not the first thing that is met."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from dsprep.lists.editing import plain_path
from dsprep.lists.faults import Fault, faults_of
from dsprep.lists.objects import objects, why_undetected
from dsprep.lists.rows import (
    any_objects,
    class_numbers,
    is_detection,
    label_count,
    leads_outside,
)


def check_rows(
    rows: pl.DataFrame, classes: Sequence[str] | None, numbered: bool = False
) -> Iterator[Fault]:
    """Check the rows of a list against each other."""
    yield from _repeated_ids(rows)
    yield from _repeated_paths(rows)
    yield from faults_of(
        rows.filter(leads_outside(pl.col("path"))),
        "outside",
        lambda row: f"{row['path']!r} is not a path below the folder",
    )
    if rows.is_empty():
        return
    yield from _ragged_labels(rows)
    if mostly_detection(rows):
        yield from _unknown_objects(rows, classes)
    elif mostly(rows, label_count() == 1):
        yield from _classes(rows, classes, numbered)


def mostly(rows: pl.DataFrame, expr: pl.Expr) -> bool:
    """Whether something is so for more than half of the rows."""
    return bool(rows.select(expr.sum() * 2 > pl.len()).item())


def mostly_detection(rows: pl.DataFrame) -> bool:
    """Whether more than half of the rows have labels for detection."""
    return any_objects(rows) and mostly(rows, is_detection())


def usual(column: pl.Series) -> int:
    """The most frequent number; the first to come of those that are equally frequent."""
    counts = column.to_frame("number").group_by("number", maintain_order=True).len()
    return int(counts.sort("len", descending=True, maintain_order=True)["number"][0])


def _repeated_ids(rows: pl.DataFrame) -> Iterator[Fault]:
    if rows["index"].n_unique() == rows.height:
        return
    repeated = rows.filter(pl.col("index").is_duplicated())
    firsts = repeated.with_columns(first=pl.col("line").first().over("index"))
    yield from faults_of(
        firsts.filter(pl.col("line") != pl.col("first")),
        "duplicate-id",
        lambda row: f"the id {row['index']} stands in line {row['first']} already",
    )


def _repeated_paths(rows: pl.DataFrame) -> Iterator[Fault]:
    files = rows["path"]
    if files.str.contains(r"(?:^|/)\.?/").any():
        files = rows.select(plain_path(pl.col("path"))).to_series()
    if files.n_unique() == files.len():
        return
    firsts = (
        rows.with_columns(files.alias("file"))
        .filter(pl.col("file").is_duplicated())
        .with_columns(pl.col("line", "path", "label").first().over("file").name.prefix("first_"))
    )
    yield from faults_of(
        firsts.filter(pl.col("line") != pl.col("first_line")), "duplicate-path", _say_repeated
    )


def _say_repeated(row: dict[str, object]) -> str:
    spelled = f" as {row['first_path']!r}" if row["path"] != row["first_path"] else ""
    label = str(row["first_label"]).replace("\t", " ")
    labeled = f", with the label {label}" if row["label"] != row["first_label"] else ""
    return f"the file {row['path']!r} stands in line {row['first_line']} already{spelled}{labeled}"


def _ragged_labels(rows: pl.DataFrame) -> Iterator[Fault]:
    rows = rows.with_columns(count=label_count())
    if rows["count"].n_unique() == 1:
        return
    if mostly_detection(rows):
        yield from undetected(rows)
        return
    width = usual(rows["count"])
    yield from faults_of(
        rows.filter(pl.col("count") != width),
        "width",
        lambda row: f"{_numbers(row['count'])}, where most lines have {width}",
    )


def _numbers(count: int) -> str:
    return "1 label" if count == 1 else f"{count} labels"


def undetected(rows: pl.DataFrame) -> Iterator[Fault]:
    """Find the rows whose labels are not ones for detection."""
    yield from faults_of(
        rows.filter(~is_detection()), "detection", lambda row: why_undetected(row["label"])
    )


def _classes(rows: pl.DataFrame, classes: Sequence[str] | None, numbered: bool) -> Iterator[Fault]:
    rows = rows.filter(label_count() == 1).with_columns(number=class_numbers())
    number = pl.col("number")
    if classes is not None:
        count = len(classes)
        yield from faults_of(
            rows.filter(~number.is_between(0, count - 1).fill_null(False)),
            "not-a-class",
            lambda row: f"{row['label']} is none of the {count} classes",
        )
    elif rows["number"].has_nulls() and not numbered:
        return  # there are fractions among the labels: they measure something
    else:
        yield from faults_of(
            rows.filter(~(number >= 0).fill_null(False)),
            "not-a-class",
            lambda row: f"{row['label']} is not a class number: these are whole, from 0 on",
        )
    if numbered or classes is None:
        yield from _gaps(rows.filter(number >= 0))


def _gaps(rows: pl.DataFrame) -> Iterator[Fault]:
    """Find the first row of each class that does not follow on another."""
    firsts = rows.group_by("number").agg(pl.col("line").min()).sort("number")
    below = firsts.with_columns(below=pl.col("number").shift(fill_value=-1) + 1)
    yield from faults_of(
        below.filter(pl.col("below") < pl.col("number")),
        "gap",
        lambda row: f"the class {row['number']}, while no line has {_span(row)}",
    )


def _span(row: dict[str, int]) -> str:
    first, last = row["below"], row["number"] - 1
    return f"the class {first}" if first == last else f"the classes {first} to {last}"


def _unknown_objects(rows: pl.DataFrame, classes: Sequence[str] | None) -> Iterator[Fault]:
    if classes is None:
        return
    rows = rows.filter(is_detection())
    count, number = len(classes), pl.col("cls")
    wrong = objects(rows).filter(~((number % 1 == 0) & number.is_between(0, count - 1)))
    wrong = wrong.unique("row", keep="first", maintain_order=True)
    yield from faults_of(
        wrong.with_columns(rows["line"].gather(wrong["row"])),
        "not-a-class",
        lambda row: f"an object of the class {row['cls']:g}, which is none of the {count}",
    )

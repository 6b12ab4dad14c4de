"""A ``.lst`` as a table: ``id<TAB>label[<TAB>label…]<TAB>path``, a line a sample.

As ``read_list`` in MXNet's ``tools/im2rec.py`` reads it: fields are separated by tabs and stripped,
labels are any numbers. What it would pass over or misread is an error here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import polars as pl
from polars.exceptions import PolarsError

from dsprep.errors import SourceError
from dsprep.lists.canonical import canonical_label, canonical_labels
from dsprep.text import Problem, refuse
from dsprep.units import quoted

ROWS = pl.Schema({"index": pl.Int64(), "label": pl.String(), "path": pl.String()})
"""The columns of a list: id, labels as text (see :func:`parse_rows`), and path."""

_PARSED = pl.Schema({"line": pl.Int64(), **ROWS})
_PIECE = 1 << 22
_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_CANONICAL = r"^(?:0|-?[1-9][0-9]{0,14})$"
_LARGEST_EXACT = 2**53
_LARGEST_ID = 10**18 - 1
_LEAST_HEADER, _LEAST_OBJECT = 2, 5
Texts = TypeVar("Texts", pl.Expr, pl.Series)
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")


def parse_rows(text: str, source: str, duplicates: str | None = None) -> pl.DataFrame:
    """Read the lines of a ``.lst``."""
    rows = _parse_plain(text)
    is_plain = rows is not None
    if rows is None:
        rows = pl.concat([_PARSED.to_frame(), *_parse_pieces(text, source)])
        _refuse_ragged_labels(rows, source)
    if rows.is_empty():
        raise SourceError(f"{source}: names no files")
    _refuse_repeated_ids(rows, source, duplicates)
    if not is_plain or any(sign in text for sign in ("..", "\t/", "\x00")):
        outside = leads_outside(pl.col("path"))
        refuse(source, rows, outside, lambda row: f"{row['path']!r} is not a path below the folder")
    return rows


def format_rows(rows: pl.DataFrame) -> str:
    """Write a list: what :func:`parse_rows` reads as the same rows."""
    if rows.is_empty():
        return ""
    lines = rows.select(pl.concat_str("index", "label", "path", separator="\t"))
    return str(lines.to_series().str.join("\n").item()) + "\n"


def class_numbers() -> pl.Expr:
    """The label as a class number, where it is one whole number; else null."""
    label = pl.col("label")
    return pl.when(label.str.contains(_CANONICAL)).then(label).cast(pl.Int64)


def leads_outside(path: pl.Expr) -> pl.Expr:
    """Whether a path is absolute, or goes up, or cannot be one."""
    return path.str.contains(r"^/|(?:^|/)\.\.(?:/|$)|\x00")


def _parse_plain(text: str) -> pl.DataFrame | None:
    """Read a list of one label a line in the usual spelling, fast; None if it is another."""
    try:
        rows = pl.read_csv(
            text.encode(),
            has_header=False,
            schema=ROWS,
            separator="\t",
            quote_char=None,
        )
    except PolarsError:
        return None
    if sum(rows.null_count().row(0)):
        return None
    spelled = rows["label"].unique()
    are_plain = is_number(spelled) & ~is_too_large(spelled)
    path = pl.col("path")
    as_usual = pl.col("index").is_between(0, _LARGEST_ID) & (path.str.strip_chars() == path)
    if not are_plain.all() or not rows.select(as_usual.all()).item():
        return None
    if not spelled.str.contains(_CANONICAL).all():
        plain = [canonical_label([word]) for word in spelled.to_list()]
        rows = rows.with_columns(pl.col("label").replace_strict(spelled, plain))
    line = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("line")
    return rows.select(line, "index", "label", "path")


def _parse_pieces(text: str, source: str) -> Iterator[pl.DataFrame]:
    """Parse some megabytes at a time: what lies between text and table is ten times as large."""
    start, line = 0, 1
    while start < len(text):
        stop = text.find("\n", start + _PIECE) + 1 or len(text)
        yield _parse_lines(text[start:stop], line, source)
        line += text.count("\n", start, stop)
        start = stop


def _parse_lines(text: str, first_line: int, source: str) -> pl.DataFrame:
    rows = split_lines(text, first_line)
    if rows.is_empty():
        return _PARSED.to_frame()
    for wrong, problem in wrong_lines():
        refuse(source, rows, wrong, problem)
    labels = canonical_labels(rows["words"])
    return rows.select("line", pl.col("id").cast(pl.Int64).alias("index"), labels, "path")


def split_lines(text: str, first_line: int = 1) -> pl.DataFrame:
    """Take lines apart, whatever is in them."""
    lines = pl.DataFrame({"text": [text]}).select(pl.col("text").str.split("\n").explode())
    lines = lines.with_row_index("line", offset=first_line)
    lines = lines.with_columns(pl.col("text").str.strip_chars()).filter(pl.col("text") != "")
    fields = pl.col("text").str.split("\t")
    return lines.select(
        pl.col("line").cast(pl.Int64),
        count=fields.list.len().cast(pl.Int64),
        id=fields.list.first().str.strip_chars(),
        words=fields.list.slice(1, (fields.list.len().cast(pl.Int64) - 2).clip(0)).list.eval(
            pl.element().str.strip_chars()
        ),
        path=fields.list.last().str.strip_chars(),
    )


def wrong_lines() -> Iterator[tuple[pl.Expr, Problem]]:
    """What can be wrong with a line that :func:`split_lines` made, and how to say so."""
    word = pl.element()
    yield pl.col("id").str.slice(0, 7).is_in(_CONFLICT), lambda row: "an undecided merge conflict"
    yield (
        pl.col("count") < 3,
        lambda row: "fewer than 3 columns: a line is an id, labels and a path, separated by tabs",
    )
    yield (
        ~pl.col("id").str.contains(r"^\+?0*[0-9]{1,18}$"),
        lambda row: f"{quoted(row['id'])} is not an id: a whole number from 0 up",
    )
    yield (
        ~pl.col("words").list.eval(is_number(word)).list.all(),
        lambda row: f"not all of the labels {quoted(row['words'])} are numbers",
    )
    yield (
        pl.col("words").list.eval(is_too_large(word)).list.any(),
        lambda row: f"the labels {quoted(row['words'])}: whole numbers have to be below 2^53",
    )


def is_number(text: Texts) -> Texts:
    """Whether a text is a finite number."""
    finite = text.cast(pl.Float64, strict=False).is_finite().fill_null(False)
    return text.str.contains(_NUMBER) & finite


def is_too_large(text: Texts) -> Texts:
    """Whether a text is a whole number of 2^53 or more, which 64-bit floats may not hold."""
    number = text.cast(pl.Float64, strict=False)
    return text.str.contains(r"^[+-]?[0-9]{16,}(\.0*)?$") & (number.abs() >= _LARGEST_EXACT)


def _refuse_repeated_ids(rows: pl.DataFrame, source: str, duplicates: str | None) -> None:
    if rows["index"].n_unique() == rows.height:
        return
    first = pl.col("line").first().over("index")
    rows = rows.with_columns(
        first=first, same=pl.col("path") == pl.col("path").first().over("index")
    )
    advice = "; give --duplicates first to use only the first row of each image"
    refuse(
        source,
        rows,
        (pl.col("line") != pl.col("first")) & ~(pl.col("same") & (duplicates == "first")),
        lambda row: (
            f"the id {row['index']} stands in line {row['first']} already"
            f"{advice if row['same'] and duplicates else ''}"
        ),
    )


def _refuse_ragged_labels(rows: pl.DataFrame, source: str) -> None:
    """Let labels differ in length for detection alone."""
    rows = rows.with_columns(count=label_count())
    if rows["count"].n_unique() < 2:
        return
    usual = rows["count"][0]
    all_should_be = any_objects(rows) and rows.head(1).select(is_detection()).item()
    refuse(
        source,
        rows,
        ~is_detection() if all_should_be else pl.col("count") != usual,
        lambda row: (
            f"{row['count']} labels, where the first line has {usual}: only detection labels may "
            "differ in length (A, B, A - 2 more values, then B values for each object, if there "
            "are any; A is at least 2 and B at least 5)"
        ),
    )


def label_count() -> pl.Expr:
    """How many numbers a label has."""
    return pl.col("label").str.count_matches("\t", literal=True).cast(pl.Int64) + 1


def any_objects(rows: pl.DataFrame) -> bool:
    """Whether a label is as long as one for detection with an object."""
    shortest = _LEAST_HEADER + _LEAST_OBJECT
    return bool(rows.select((label_count() >= shortest).any()).item())


def all_detection(rows: pl.DataFrame) -> bool:
    """Whether all labels are ones for detection; told at once where they are too short for that."""
    return any_objects(rows) and bool(rows.select(is_detection().all()).item())


def is_detection() -> pl.Expr:
    """Whether a label is one for detection.

    These are A, B, A - 2 more header values, and B values for each object, as MXNet's
    ``ImageDetIter`` reads them. An image without objects has the header alone; only in a list with
    :func:`any_objects` is a label like that one for detection.
    """
    words = pl.col("label").str.split("\t")
    header, width = (words.list.get(place, null_on_oob=True).cast(pl.Float64) for place in (0, 1))
    objects = label_count() - header
    large_enough = (header >= _LEAST_HEADER) & (width >= _LEAST_OBJECT) & (objects >= 0)
    return (large_enough & (width % 1 == 0) & (objects % width == 0)).fill_null(False)

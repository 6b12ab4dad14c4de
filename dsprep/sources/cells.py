"""A CSV or TSV file as rows of text."""

from __future__ import annotations

import csv
import io
import re

import polars as pl

from dsprep.errors import SourceError
from dsprep.units import quoted_names

_ANNOTATIONS = [
    (name, re.compile(pattern, re.DOTALL))
    for name, pattern in (
        ("COCO's JSON", r'\s*\{\s*"(?=.*"annotations"\s*:)(?=.*"(?:images|categories)"\s*:)'),
        ("Label Studio's JSON", r'\s*\[\s*\{\s*"(?=.*"(?:annotations|completions)"\s*:)'),
        ("JSON", r'\s*[\[{]\s*(?:[\[{]\s*)?["\]}]'),
        ("Pascal VOC's XML", r"\s*<(?:\?xml[^>]*>\s*<)?annotation\b"),
        ("XML", r"\s*<\?xml\b"),
        ("a label file of YOLO", r"(?:[0-9]+(?: [0-9.]+){4,}[ \r]*(?:\n|$)){1,20}"),
    )
]
"""What annotation tools write, by its beginning: the name, and what it is known by."""


_AUGMENTED = re.compile(r'\s*\{[^\n]*"[^"\n]*-ref"\s*:')


def parse_cells(text: str, source: str) -> tuple[pl.DataFrame, pl.Series]:
    """Read a CSV file (with commas or semicolons) or a TSV file, either with a header."""
    refuse_annotations(text, source)
    separator = _separator(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = [name.strip() for name in next(filter(None, reader), [])]
    if len(set(header)) < len(header):
        raise SourceError(
            f"{source}:{reader.line_num}: two columns have one name, of {quoted_names(header)}: "
            "the first line has to name the columns, such as path,label"
        )
    try:
        cells = pl.read_csv(text.encode(), separator=separator, infer_schema=False)
        cells.columns = header
    except pl.exceptions.PolarsError:
        raise SourceError(_what_is_wrong(text, separator, source)) from None
    cells = cells.with_columns(pl.all().fill_null(""))
    lines = _first_lines(cells, reader.line_num + 1)
    cells = cells.with_columns(pl.all().str.strip_chars())
    given = cells.select(pl.any_horizontal(pl.all() != "")).to_series()
    if not given.any():
        raise SourceError(f"{source}: names no files: there is nothing below its header")
    return cells.filter(given), lines.filter(given)


def refuse_annotations(text: str, source: str) -> None:
    """Refuse the files of annotation tools that are no tables and no lists."""
    if _AUGMENTED.match(text):
        raise SourceError(
            f"{source}: is an augmented manifest of SageMaker: give it with --list, or as SOURCE "
            "with --from manifest"
        )
    for name, pattern in _ANNOTATIONS:
        if pattern.match(text):
            raise SourceError(
                f"{source}: is {name}, which dsprep does not read yet: give a CSV or TSV file with "
                "a header line and a row for each image, such as path,label; for boxes, give an "
                "MXNet .lst with detection labels with --list"
            )


def _separator(text: str) -> str:
    header = text.lstrip("\r\n").partition("\n")[0]
    return max(",;\t", key=header.count)


def _first_lines(cells: pl.DataFrame, first: int) -> pl.Series:
    """The line in which each row begins; cells in quotes may hold line breaks."""
    breaks = cells.select(pl.sum_horizontal(pl.all().str.count_matches("\n"))).to_series()
    above = breaks.cast(pl.Int64).cum_sum().shift(1, fill_value=0)
    return (pl.int_range(cells.height, eager=True) + above + first).alias("line")


def _what_is_wrong(text: str, separator: str, source: str) -> str:
    """Read again, slowly, to find the line that could not be read."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        width = len(next(filter(None, reader), []))
        for row in reader:
            if len(row) > width:
                where = f"{source}:{reader.line_num}"
                return f"{where}: {len(row)} cells, where the header has {width}"
    except csv.Error as error:
        return f"{source}:{reader.line_num}: {error}"
    return f"{source}: not a table: give a CSV or TSV file with a header"

"""A list as it comes: every line that can be read, and what is wrong with each of the others."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from dsprep.lists.canonical import canonical_labels
from dsprep.lists.faults import Fault, faults_of
from dsprep.lists.rows import ROWS, split_lines, wrong_lines

_COLUMNS = pl.Schema({"line": pl.Int64(), **ROWS})
_FIELDS = list(ROWS)
_PLAIN = (
    r"^(?:0|[1-9][0-9]{0,17})"
    r"\t(?:0|-?[1-9][0-9]{0,14})(?:\.0+)?"
    r"\t\S(?:[^\t\r]*\S)?$"
)
"""A line with one whole number for a label, as nearly all are: it is read without a detour."""

_PIECE = 50_000
"""Other lines are taken apart so many at a time: that takes ten times their bytes."""


class Lenient(NamedTuple):
    """What can be read of a list."""

    # the lines that can be read, with the columns `line`, `index`, `label` and `path` as
    # :func:`dsprep.lists.rows.parse_rows` has them
    rows: pl.DataFrame
    faults: list[Fault]  # what is wrong with the text of lines, in no particular order


def read_leniently(data: bytes) -> Lenient:
    """Read what can be read of the bytes of a list."""
    text, faults = _decode(data)
    lines = _split(text)
    is_plain = lines.select(pl.col("text").str.contains(_PLAIN)).to_series()
    pieces = [_read_plain(lines.filter(is_plain))]
    for piece in lines.filter(~is_plain).iter_slices(_PIECE):
        rows, found = _read_other(piece)
        pieces.append(rows)
        faults += found
    if lines.is_empty() and not faults:
        faults.append(Fault(1, "unreadable", "the list names no files"))
    rows = pl.concat(pieces)
    return Lenient(rows if len(pieces) == 1 else rows.sort("line"), faults)


def _decode(data: bytes) -> tuple[str, list[Fault]]:
    """The text, without those of its lines that are none."""
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        pass
    lines, faults = data.split(b"\n"), []
    for place, line in enumerate(lines):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            lines[place] = b""
            wrong = line[error.start : error.end].hex(" ")
            message = f"not UTF-8 text: the bytes {wrong} at column {error.start + 1}"
            faults.append(Fault(place + 1, "encoding", message))
    return b"\n".join(lines).decode("utf-8-sig"), faults


def _split(text: str) -> pl.DataFrame:
    """The lines that are not blank, with the columns ``line`` and ``text``."""
    lines = pl.DataFrame({"text": [text]}).select(pl.col("text").str.split("\n").explode())
    return (
        lines.with_row_index("line", offset=1)
        .select(pl.col("line").cast(pl.Int64), pl.col("text").str.strip_chars_end("\r"))
        .filter(pl.col("text").str.contains(r"\S"))
    )


def _read_plain(lines: pl.DataFrame) -> pl.DataFrame:
    fields = pl.col("text").str.split_exact("\t", 2).struct.rename_fields(_FIELDS)
    return (
        lines.select("line", fields.alias("fields"))
        .unnest("fields")
        .select(
            "line",
            pl.col("index").cast(pl.Int64),
            pl.col("label").str.replace(r"\.0+$", ""),
            "path",
        )
    )


def _read_other(lines: pl.DataFrame) -> tuple[pl.DataFrame, list[Fault]]:
    rows = split_lines("\n".join(lines["text"]))
    as_written = lines[(rows["line"] - 1).to_list()]
    rows = rows.with_columns(as_written["line"], as_written["text"])
    faults = list(
        faults_of(
            rows.filter(pl.col("text").str.contains("\r", literal=True)),
            "carriage-return",
            lambda row: "a carriage return in the line, where im2rec ends it: write it anew",
        )
    )
    for wrong, problem in wrong_lines():
        is_wrong = rows.select(wrong.fill_null(False)).to_series()
        faults += faults_of(rows.filter(is_wrong), "unreadable", problem)
        rows = rows.filter(~is_wrong)
    faults += faults_of(
        rows.filter(pl.col("text").str.split("\t").list.last() != pl.col("path")),
        "blank",
        lambda row: (
            f"blanks around the path {row['path']!r}: readers take them away, and do not find a "
            "file that has them in its name"
        ),
    )
    labels = canonical_labels(rows["words"])
    return rows.select("line", pl.col("id").cast(pl.Int64).alias("index"), labels, "path"), faults

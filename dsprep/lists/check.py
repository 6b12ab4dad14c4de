"""What is wrong with a list: all of it, for every reader or for one, not only the first fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from dsprep.lists.rows import (
    OUTSIDE,
    REPEATED,
    any_objects,
    class_numbers,
    is_detection,
    label_count,
    label_numbers,
    leads_outside,
    objects_of,
    parse_plain,
    plain_paths,
    read_lines,
    repeated_ids,
    split_lines,
)
from dsprep.printable import json_values
from dsprep.text import Problem
from dsprep.tuples import NamedTuple
from dsprep.units import format_count


class Fault(NamedTuple):
    """One thing that is wrong with a list; there is at most one of a kind per line."""

    line: int  # where, from 1
    kind: str  # kind of the fault, such as `duplicate-path` or `width`
    message: str  # what is wrong, for people

    def to_json(self) -> dict[str, Any]:
        return json_values({"line": self.line, "kind": self.kind, "message": self.message})


def _faults(kind: str, wrong: pl.DataFrame, problem: str | Problem) -> Iterator[Fault]:
    """Make faults of rows that are wrong; a problem may be a format of their columns."""
    say = problem.format_map if isinstance(problem, str) else problem
    for row in wrong.iter_rows(named=True):
        yield Fault(row["line"], kind, say(row))


# Text


def read_leniently(data: bytes) -> tuple[pl.DataFrame, list[Fault]]:
    """Read the lines of a list that can be read, and what is wrong with the text of the others."""
    # The rows have the columns of `dsprep.lists.rows.parse_rows`; the faults have no order.
    faults = []
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        pieces = data.split(b"\n")
        for place, piece in enumerate(pieces):
            try:
                piece.decode()
            except UnicodeDecodeError as error:
                pieces[place] = b""
                wrong = piece[error.start : error.end].hex(" ")
                message = f"not UTF-8 text: the bytes {wrong} at column {error.start + 1}"
                faults.append(Fault(place + 1, "encoding", message))
        text = b"\n".join(pieces).decode("utf-8-sig")
    plain = parse_plain(text) if text.count("\r") == text.count("\r\n") else None
    if plain is not None:
        return plain, faults
    lines, raw = split_lines(text), pl.col("raw")
    rows, problems = read_lines(lines)
    faults += [Fault(line, "unreadable", problem) for line, problem in problems]
    faults += _faults(
        "carriage-return",
        lines.filter(raw.str.contains("\r", literal=True)),
        "a carriage return in the line, where im2rec ends it: remove it",
    )
    faults += _faults(
        "blank",
        lines.join(rows, on="line").filter(raw.str.split("\t").list.last() != pl.col("path")),
        "blanks around the path {path!r}: readers take them away, and do not find a file that has "
        "them in its name",
    )
    if lines.is_empty() and not faults:
        faults.append(Fault(1, "unreadable", "the list names no files"))
    return rows, faults


# Rows


def check_rows(
    rows: pl.DataFrame, classes: Sequence[str] | None, numbered: bool = False
) -> Iterator[Fault]:
    """Compare the rows of a list with each other and with its classes."""
    yield from _faults("duplicate-id", repeated_ids(rows), REPEATED)
    yield from _repeated_paths(rows)
    yield from _faults("outside", rows.filter(leads_outside(pl.col("path"))), OUTSIDE)
    if rows.is_empty():
        return
    for_detection = _mostly_detection(rows)
    counted = rows.with_columns(count=label_count())
    if counted["count"].n_unique() > 1 and for_detection:
        yield from _undetected(rows)
    elif counted["count"].n_unique() > 1:
        width = _usual(counted["count"])
        yield from _faults(
            "width",
            counted.filter(pl.col("count") != width),
            lambda row: f"{format_count(row['count'], 'label')}, where most lines have {width}",
        )
    if for_detection and classes is not None:
        rows, count, number = rows.filter(is_detection()), len(classes), pl.col("cls")
        wrong = objects_of(rows).filter(~((number % 1 == 0) & number.is_between(0, count - 1)))
        wrong = wrong.unique("row", keep="first", maintain_order=True)
        yield from _faults(
            "not-a-class",
            wrong.with_columns(rows["line"].gather(wrong["row"])),
            f"an object of the class {{cls:g}}, which is none of the {count}",
        )
    elif not for_detection and _mostly(rows, label_count() == 1):
        yield from _wrong_classes(rows, classes, numbered)


def _mostly(rows: pl.DataFrame, expr: pl.Expr) -> bool:
    """Whether something is so for more than half of the rows."""
    return bool(rows.select(expr.sum() * 2 > pl.len()).item())


def _mostly_detection(rows: pl.DataFrame) -> bool:
    return any_objects(rows) and _mostly(rows, is_detection())


def _usual(column: pl.Series) -> int:
    """Return the most frequent number, or the first of several that are equally frequent."""
    counts = column.to_frame("number").group_by("number", maintain_order=True).len()
    return int(counts.sort("len", descending=True, maintain_order=True)["number"][0])


def _repeated_paths(rows: pl.DataFrame) -> Iterator[Fault]:
    files = plain_paths(rows["path"])
    if files.n_unique() == files.len():
        return
    firsts = (
        rows.with_columns(files.alias("file"))
        .filter(pl.col("file").is_duplicated())
        .with_columns(pl.col("line", "path", "label").first().over("file").name.prefix("first_"))
    )

    def say(row: dict[str, object]) -> str:
        spelled = f" as {row['first_path']!r}" if row["path"] != row["first_path"] else ""
        label = str(row["first_label"]).replace("\t", " ")
        labeled = f", with the label {label}" if row["label"] != row["first_label"] else ""
        start = f"the file {row['path']!r} stands in line {row['first_line']} already"
        return f"{start}{spelled}{labeled}"

    yield from _faults("duplicate-path", firsts.filter(pl.col("line") != pl.col("first_line")), say)


def _undetected(rows: pl.DataFrame) -> Iterator[Fault]:
    """Find the rows whose labels are not ones for detection."""

    def why(row: dict[str, str]) -> str:
        values = [float(word) for word in row["label"].split("\t")]
        if len(values) < 2:
            return "1 label, where most lines have one for detection"
        header, width = values[:2]
        size = len(values) - header
        of_header = f"A, the width of the header, is {header:g}"
        if header < 2 or header % 1:
            return f"{of_header}: it has to be 2 or more"
        if width < 5 or width % 1:
            return f"B, the values of an object, is {width:g}: it has to be 5 or more"
        if size < 0:
            return f"{of_header}, but there are only {len(values)} values"
        return f"{size:g} values after the header are no multiple of B, which is {width:g}"

    yield from _faults("detection", rows.filter(~is_detection()), why)


def _wrong_classes(
    rows: pl.DataFrame, classes: Sequence[str] | None, numbered: bool
) -> Iterator[Fault]:
    rows = rows.filter(label_count() == 1).with_columns(number=class_numbers())
    if classes is None and rows["number"].has_nulls() and not numbered:
        return  # labels with fractions are measurements, not classes
    number = pl.col("number")
    is_class = number >= 0 if classes is None else number.is_between(0, len(classes) - 1)
    yield from _faults(
        "not-a-class",
        rows.filter(~is_class.fill_null(False)),
        "{label} is not a class number: these are whole, from 0 on"
        if classes is None
        else f"{{label}} is none of the {len(classes)} classes",
    )
    if classes is not None and not numbered:
        return
    # The first row of each class whose number does not follow that of another.
    firsts = rows.filter(number >= 0).group_by("number").agg(pl.col("line").min()).sort("number")
    gaps = firsts.with_columns(below=number.shift(fill_value=-1) + 1, last=number - 1)
    alone = pl.col("below") == pl.col("last")
    gap = "the class {number}, while no line has the class"
    yield from _faults("gap", gaps.filter(alone), f"{gap} {{last}}")
    wide = gaps.filter(pl.col("below") < pl.col("last"))
    yield from _faults("gap", wide, f"{gap}es {{below}} to {{last}}")


# Readers


def _check_for_sagemaker(rows: pl.DataFrame) -> Iterator[Fault]:
    """Check a list for the image classification that SageMaker has built in."""
    # Its documentation ("Train with Image Format") asks for three columns, unique image indices,
    # classes numbered from 0 without a gap, paths relative to the channel, and images in .jpg or
    # .png; .jpeg is the same content type, image/jpeg.
    yield from _faults(
        "columns",
        rows.with_columns(count=label_count() + 2).filter(pl.col("count") != 3),
        "{count} columns: an id, one class number and a path are three",
    )
    is_read = pl.col("path").str.contains(r"(?i)\.(?:jpe?g|png)$")
    yield from _faults("extension", rows.filter(~is_read), "{path!r} is neither .jpg nor .png")


def _check_for_mxnet(rows: pl.DataFrame) -> Iterator[Fault]:
    """Check a list for im2rec, ``ImageIter``, ``ImageRecordIter`` and ``ImageDetIter``."""
    # They store labels as 32-bit floats. For detection, `ImageDetIter` (mxnet 1.9.1,
    # `image/detection.py`) needs A of at least 2, B of at least 5 and the same in all records, and
    # one object or more; it skips objects of a negative class or an empty box. Its C++ counterpart
    # splits the lines of a list at any blank.
    number = pl.element().cast(pl.Float64)
    kept = number.cast(pl.Float32).cast(pl.Float64)
    changes = ((number % 1 == 0) & (number != kept)) | kept.is_infinite()
    # Short labels do not change: they are not split.
    long = rows.filter(pl.col("label").str.contains(r"[0-9]{8}|e"))
    changed = long.filter(pl.col("label").str.split("\t").list.eval(changes).list.any())
    yield from _faults(
        "float32",
        changed.with_columns(pl.col("label").str.replace_all("\t", " ")),
        "the label {label} changes as a 32-bit float, exact up to 2^24",
    )
    # Most labels may have the layout of detection labels, with a wrong A or B.
    header, width = (label_numbers().list.get(place, null_on_oob=True) for place in (0, 1))
    size = label_count() - header
    loosely = (header >= 2) & (width >= 2) & (width % 1 == 0) & (size > 0) & (size % width == 0)
    if _mostly_detection(rows) or (
        _mostly(rows, label_count() > 2) and _mostly(rows, loosely.fill_null(False))
    ):
        yield from _check_detection(rows)


class ListReader(NamedTuple):
    """A program that reads lists."""

    title: str  # its name, for people
    check: Callable[[pl.DataFrame], Iterator[Fault]]  # yields what is wrong with rows for it
    numbered: bool = False  # whether labels have to be class numbers without a gap


READERS: Mapping[str, ListReader] = {
    "sagemaker": ListReader(
        "SageMaker's image classification", _check_for_sagemaker, numbered=True
    ),
    "mxnet": ListReader("MXNet", _check_for_mxnet),
}
"""The readers that a list can be checked for."""


def _check_detection(rows: pl.DataFrame) -> Iterator[Fault]:
    yield from _faults(
        "blank",
        rows.filter(pl.col("path").str.contains(r"\s")),
        "a blank in {path!r}, where MXNet's detection reader splits the line",
    )
    is_right = rows.select(is_detection()).to_series()
    yield from _undetected(rows.filter(~is_right))
    rows = rows.filter(is_right).with_columns(width=label_numbers().list.get(1).cast(pl.Int64))
    if rows.is_empty():
        return
    width = _usual(rows["width"])
    other = f"B, the values of an object, is {{width}}; most lines have {width}"
    yield from _faults("detection", rows.filter(pl.col("width") != width), other)
    yield from _faults(
        "detection",
        rows.filter(label_count() == label_numbers().list.get(0)),
        "no object: MXNet's ImageDetIter and ImageDetRecordIter stop at this image",
    )
    # The first wrong object of each row.
    found = objects_of(rows).with_columns(object=pl.int_range(1, pl.len() + 1).over("row"))
    said = pl.coalesce(pl.when(wrong).then(pl.lit(text)) for text, wrong in _BOX_FAULTS.items())
    found = found.with_columns(said=said).filter(pl.col("said").is_not_null())
    first = found.unique("row", keep="first", maintain_order=True)
    yield from _faults(
        "box",
        first.with_columns(rows["line"].gather(first["row"])),
        lambda row: f"object {row['object']}: " + row["said"].format_map(row),
    )


_BOX_FAULTS = {
    "{cls:g} is not a class number": (pl.col("cls") < 0) | (pl.col("cls") % 1 != 0),
    **{
        f"{name} is {{{name}:g}}, not within 0 and 1": ~pl.col(name).is_between(0, 1)
        for name in ("xmin", "ymin", "xmax", "ymax")
    },
    "xmin, {xmin:g}, is not below xmax, {xmax:g}": pl.col("xmin") >= pl.col("xmax"),
    "ymin, {ymin:g}, is not below ymax, {ymax:g}": pl.col("ymin") >= pl.col("ymax"),
}
"""What can be wrong with an object: the message for it, and when it is so."""

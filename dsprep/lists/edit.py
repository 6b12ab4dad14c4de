"""Edits of a list: which rows are selected, and how they change; all others stay."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_
from typing import NamedTuple

import polars as pl

from dsprep.errors import OptionError
from dsprep.lists.rows import canonical_label, class_numbers, is_number, plain_path

_ID_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def selected(
    paths: Sequence[str] = (), ids: Sequence[str] = (), classes: Sequence[int] = ()
) -> pl.Expr:
    """Return which rows meet all conditions that are given; one value of a condition is enough.

    Conditions are globs of paths, ids or ranges of them (``7``, ``10-19``), and class numbers.
    """
    conditions = [
        [pl.col("path").str.contains(glob_pattern(glob)) for glob in paths],
        [pl.col("index").is_between(*_id_range(text)) for text in ids],
        [class_numbers().is_in(classes).fill_null(False)] if classes else [],
    ]
    if not any(conditions):
        raise OptionError("no condition selects rows: give --path, --id or --class")
    return reduce(and_, (reduce(or_, any_of) for any_of in conditions if any_of))


def glob_pattern(glob: str) -> str:
    """Return a glob as a regular expression.

    ``*`` and ``?`` match any characters except ``/``, and ``**`` matches any. As in ``.gitignore``,
    a glob without ``/`` is compared with the last part of a path, any other with the whole of it.
    """
    parts = re.split(r"(\*\*|\*|\?)", glob.removeprefix("/"))
    wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pattern = "".join(wild.get(part) or pl.escape_regex(part) for part in parts)
    return rf"(?s)^{pattern}$" if "/" in glob else rf"(?s)(?:^|/){pattern}$"


def _id_range(text: str) -> tuple[int, int]:
    match = _ID_RANGE.fullmatch(text)
    if match is None:
        raise OptionError(f"--id {text}: give an id or a range of them, such as 7 or 10-19")
    return int(match[1]), int(match[2] or match[1])


def class_number(text: str, classes: Sequence[str] | None) -> int:
    """Return the number of a class that a user gave by name or number."""
    if classes and text in classes:
        return classes.index(text)
    if re.fullmatch(r"-?[0-9]{1,15}", text) is None:
        if classes:
            raise OptionError(f"{text!r} is none of the {len(classes)} classes")
        raise OptionError(f"{text!r} is no class number, and no classes.txt names the classes")
    number = int(text)
    if classes is not None and not 0 <= number < len(classes):
        raise OptionError(f"the class {number} is none of 0 to {len(classes) - 1}")
    return number


def parse_label(text: str, classes: Sequence[str] | None) -> str:
    """Read a label as a user gives it: a class name, a number, or several with commas."""
    words = [word.strip() for word in text.split(",")]
    are_numbers = is_number(pl.Series(words, dtype=pl.String)).all()
    if len(words) == 1 and (classes is not None or not are_numbers):
        return str(class_number(text, classes))
    if not are_numbers:
        raise OptionError(f"--label {text}: give a class, or numbers separated by commas")
    return canonical_label(words)


def append_rows(rows: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Add samples at the end of a list, without those that it has already."""
    place = plain_path(pl.col("path"))
    added = new.unique("path", keep="first", maintain_order=True).join(
        rows.select(place=place), left_on=place, right_on="place", how="anti", maintain_order="left"
    )
    largest = rows["index"].max()
    first = 0 if largest is None else int(str(largest)) + 1
    index = pl.int_range(first, first + pl.len(), dtype=pl.Int64).alias("index")
    return pl.concat([rows, added.select(index, "label", "path")])


def set_rows(
    rows: pl.DataFrame, chosen: pl.Expr, label: str | None, path: str | None
) -> pl.DataFrame:
    """Change the label or the path of rows."""
    new = {"label": label, "path": path}
    return rows.with_columns(
        pl.when(chosen).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in new.items()
        if value is not None
    )


def replace_prefix(rows: pl.DataFrame, old: str, new: str) -> pl.DataFrame:
    """Replace the prefix of paths."""
    path = pl.col("path")
    rest = path.str.slice(len(old))
    return rows.with_columns(
        path=pl.when(path.str.starts_with(old)).then(pl.lit(new) + rest).otherwise(path)
    )


class Part(NamedTuple):
    """A run of rows that becomes a list."""

    name: str  # what its file name has after the list's: `_train`, `_0_val`, or nothing
    start: int  # its first row
    stop: int  # the row after its last


def cut_parts(
    rows: int, chunks: int = 1, train_ratio: float = 1.0, test_ratio: float = 0.0
) -> list[Part]:
    """Cut a list as ``make_list`` of MXNet's ``tools/im2rec.py`` does, without its losses.

    Every row is in exactly one part, whatever the ratios, and no chunk is empty.
    """
    if not 0 < train_ratio <= 1 or not 0 <= test_ratio < 1 or train_ratio + test_ratio > 1 + 1e-9:
        raise OptionError(
            "--train-ratio and --test-ratio are shares: the first above 0, both together at most 1"
        )
    if not 1 <= chunks <= rows:
        raise OptionError(f"--chunks {chunks}: a list of {rows} samples has from 1 to {rows}")
    parts = []
    for chunk in range(chunks):
        start, stop = chunk * rows // chunks, (chunk + 1) * rows // chunks
        name = f"_{chunk}" if chunks > 1 else ""
        if train_ratio == 1:
            parts.append(Part(name, start, stop))
            continue
        left = 1 - train_ratio - test_ratio > 1e-9
        test = start + round((stop - start) * test_ratio)
        train = start + round((stop - start) * (test_ratio + train_ratio)) if left else stop
        made = [Part(f"{name}_train", test, train)]
        made += [Part(f"{name}_val", train, stop)] * left
        made += [Part(f"{name}_test", start, test)] * bool(test_ratio)
        for part in made:
            if part.start == part.stop:
                raise OptionError(f"{part.name[1:]} would have no samples, of {stop - start}")
        parts += made
    return parts

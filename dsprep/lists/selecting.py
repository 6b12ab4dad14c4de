"""Which rows of a list are meant: by path, id or class."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

import polars as pl

from dsprep.errors import OptionError
from dsprep.lists.rows import class_numbers

_ID_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


@dataclass(frozen=True)
class Selection:
    """Rows that fulfill all conditions, any one of the values each."""

    paths: tuple[str, ...] = ()  # globs, see :func:`glob_pattern`
    ids: tuple[tuple[int, int], ...] = ()  # first and last id of ranges
    classes: tuple[int, ...] = ()  # class numbers

    def expr(self) -> pl.Expr:
        """Whether a row is selected."""
        conditions = []
        if self.paths:
            matches = [pl.col("path").str.contains(glob_pattern(glob)) for glob in self.paths]
            conditions.append(reduce(or_, matches))
        if self.ids:
            ranges = [pl.col("index").is_between(first, last) for first, last in self.ids]
            conditions.append(reduce(or_, ranges))
        if self.classes:
            conditions.append(class_numbers().is_in(self.classes).fill_null(False))
        if not conditions:
            raise OptionError("say which rows: --path, --id or --class")
        return reduce(and_, conditions)


def glob_pattern(glob: str) -> str:
    """A glob as a regular expression.

    ``*`` and ``?`` stand for any characters but ``/``, and ``**`` for any. As in ``.gitignore``, a
    glob without ``/`` is matched with the last part of a path, any other with the whole of it.
    """
    parts = re.split(r"(\*\*|\*|\?)", glob.removeprefix("/"))
    wild = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pattern = "".join(wild.get(part) or pl.escape_regex(part) for part in parts)
    return rf"(?s)^{pattern}$" if "/" in glob else rf"(?s)(?:^|/){pattern}$"


def parse_ids(texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Read ids and ranges of them: ``7``, ``10-19``."""
    found = []
    for text in texts:
        match = _ID_RANGE.fullmatch(text)
        if match is None:
            raise OptionError(f"--id {text}: give an id or a range of them, such as 7 or 10-19")
        first, last = int(match[1]), int(match[2] or match[1])
        found.append((first, last))
    return tuple(found)


def class_number(text: str, classes: Sequence[str] | None) -> int:
    """The number of a class that a user named, or gave the number of."""
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

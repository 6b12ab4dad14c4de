"""What is wrong with a list: one fault a line and kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from dsprep.text import Problem


class Fault(NamedTuple):
    """One thing that is wrong with a list.

    ===================  =======================================================================
    kind                 what it means
    ===================  =======================================================================
    ``encoding``         the line is not UTF-8
    ``unreadable``       it is not an id, labels and a path; or the list has no lines
    ``carriage-return``  a carriage return stands in it, where some readers end it
    ``blank``            blanks stand around the path, or inside it where they must not
    ``duplicate-id``     another line has the id
    ``duplicate-path``   another line has the file
    ``outside``          the path is absolute or leads out of the root
    ``width``            another number of labels than most lines have
    ``not-a-class``      the label is not the number of a class
    ``gap``              class numbers below this one are not used
    ``missing``          the file is not there, or cannot be reached
    ``not-a-file``       it is a directory, or another thing that is no file
    ``empty``            the file has no bytes
    ``float32``          the label changes where it is kept as a 32-bit float
    ``detection``        the label is not built as one for detection has to be
    ``box``              an object of it has an impossible class or box
    ``columns``          there are more columns than three
    ``extension``        the file name's extension is not one that is read
    ===================  =======================================================================
    """

    line: int  # where, from 1
    kind: str  # one of the above
    message: str  # what is wrong, for people


def faults_of(wrong: pl.DataFrame, kind: str, problem: Problem) -> Iterator[Fault]:
    """Make faults of rows that are wrong."""
    for row in wrong.iter_rows(named=True):
        yield Fault(row["line"], kind, problem(row))

"""Lists for tests: rows that a `.lst` can hold, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from hypothesis import strategies as st

from dsprep.lists.rows import ROWS

Row = tuple[int, str, str]


def rows(*given: Row) -> pl.DataFrame:
    """A list of rows: id, label and path."""
    return pl.DataFrame(list(given), schema=ROWS, orient="row")


_names = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6
)
paths = st.lists(
    _names.filter(lambda name: name not in (".", "..") and "/" not in name), min_size=1, max_size=3
).map("/".join)
"""Paths that a list can hold."""

_classes = st.integers(0, 5).map(str)
_numbers = st.integers(-9, 9).map(str) | st.sampled_from(["0.5", "-1.25", "1e-07"])


@st.composite
def _detection(draw: st.DrawFn) -> str:
    boxes = draw(st.lists(_classes, min_size=1, max_size=3))
    return "\t".join(["2", "5", *(f"{each}\t0\t0.25\t0.5\t1" for each in boxes)])


def label_texts(count: int) -> Sequence[st.SearchStrategy[str]]:
    """Kinds of label, one of which all rows of a list have."""
    return [
        _classes,
        st.lists(_numbers, min_size=count, max_size=count).map("\t".join),
        _detection(),
    ]


@st.composite
def tables(draw: st.DrawFn, min_size: int = 1, max_size: int = 12) -> pl.DataFrame:
    """Lists of one label, several labels or detection labels; ids differ, paths may not."""
    label = draw(st.sampled_from(label_texts(draw(st.integers(1, 3)))))
    row = st.tuples(st.integers(0, 10**12), label, paths)
    return rows(
        *draw(st.lists(row, min_size=min_size, max_size=max_size, unique_by=lambda each: each[0]))
    )

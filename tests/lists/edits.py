"""Edits of lists for tests, as people make them."""

from __future__ import annotations

import polars as pl
from hypothesis import strategies as st

from tests.lists import Row, paths, rows


@st.composite
def edits(draw: st.DrawFn, table: pl.DataFrame) -> pl.DataFrame:
    """A list with some rows relabeled, moved, renumbered, removed, added or put elsewhere."""
    labels = table["label"].to_list() or ["0", "1"]
    found: list[Row] = [(index, label, path) for index, label, path in table.iter_rows()]
    free = st.integers(0, 20).filter(lambda number: all(number != row[0] for row in found))
    some_path = paths | st.sampled_from(table["path"].to_list() or ["x"])
    for _ in range(draw(st.integers(0, 5))):
        kinds = ["label", "path", "id", "remove", "put"] if found else []
        kind = draw(st.sampled_from([*kinds, "add"]))
        at = draw(st.integers(0, max(len(found) - 1, 0)))
        if kind == "add":
            found.insert(at, (draw(free), draw(st.sampled_from(labels)), draw(some_path)))
            continue
        index, label, path = found.pop(at)
        if kind == "label":
            found.insert(at, (index, draw(st.sampled_from(labels)), path))
        elif kind == "path":
            found.insert(at, (index, label, draw(some_path)))
        elif kind == "id":
            found.insert(at, (draw(free), label, path))
        elif kind == "put":
            found.insert(draw(st.integers(0, len(found))), (index, label, path))
    return rows(*found)

"""The two parsers of CSV."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.csv_parsers import CsvError, PlacedRecords, first_record, lines_in, read_columns

CELLS = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=5)
ROWS = st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=6)


def written(rows: list[list[str]], quoting: int = csv.QUOTE_MINIMAL) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(rows)
    return text.getvalue()


@given(ROWS, st.booleans())
def test_each_record_lies_where_it_says(rows: list[list[str]], marked: bool) -> None:
    mark = b"\xef\xbb\xbf" * (marked or rows[0][0].startswith("\ufeff"))
    data = mark + written(rows).encode()
    placed, found, end = PlacedRecords(lines_in(data)), [], 0
    for cells in placed:
        assert placed.offset == end
        end += placed.size
        record = data[placed.offset : end].removeprefix(mark).decode()
        assert first_record(record) == cells
        assert data[: placed.offset].count(b"\n") == placed.first
        found.append(cells)
    assert end == len(data)
    assert found == rows


@given(ROWS)
def test_both_parsers_read_the_same(rows: list[list[str]]) -> None:
    text = written(rows, csv.QUOTE_ALL)
    columns = read_columns(text, ",", header=False)
    assert [list(row) for row in columns.fill_null("").rows()] == rows


def test_bytes_that_are_no_text() -> None:
    data = b'a,b\n"c\n\xff",d\ne,f\n'
    placed = PlacedRecords(lines_in(data), replaces=True)
    assert [(cells, placed.is_text, placed.first) for cells in placed] == [
        (["a", "b"], True, 0),
        (["c\n\ufffd", "d"], False, 1),
        (["e", "f"], True, 3),
    ]
    placed = PlacedRecords(lines_in(data))
    with pytest.raises(UnicodeDecodeError):
        list(placed)
    assert (placed.first, placed.lines_read) == (1, 3)


def test_what_is_no_csv() -> None:
    placed = PlacedRecords(lines_in(b'a\n"b\nc'))
    with pytest.raises(CsvError):
        list(placed)
    assert (placed.first, placed.offset, placed.lines_read) == (1, 2, 3)
    with pytest.raises(CsvError):
        read_columns("a\nb,c\n", ",", header=True)
    assert first_record('a "b",c"') == ['a "b"', 'c"']

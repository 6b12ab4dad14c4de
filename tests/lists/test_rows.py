"""Lists as text and as tables."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from dsprep.errors import SourceError
from dsprep.lists import rows as module
from dsprep.lists.rows import (
    ROWS,
    canonical_label,
    canonical_labels,
    class_numbers,
    format_rows,
    is_detection,
    parse_rows,
)
from tests.lists import rows, tables

DETECTION = "2\t5\t1\t0\t0\t1\t1"


@given(tables())
def test_what_is_written_is_read(table: pl.DataFrame) -> None:
    read = parse_rows(format_rows(table), "x.lst")
    assert_frame_equal(read.select(*ROWS), table)
    assert read["line"].to_list() == list(range(1, table.height + 1))


@given(st.text("01.-e\t\n\r ax/", max_size=40))
@example("0\t1\ta\n3\t0.50\tx/a\n")
def test_the_fast_way_reads_what_the_thorough_one_reads(text: str) -> None:
    fast = module.parse_plain(text)
    if fast is None:
        return
    thorough = module.rows_of_lines(module.split_lines(text), "x.lst")
    assert_frame_equal(fast, thorough)


def test_a_large_file_of_another_kind_is_refused_by_its_first_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PIECE", 2)
    lines = module.split_lines("0\t1\ta\n" * 2 + "no id\t1\ta\n" * 10)
    assert len(module.read_lines(lines, strict=True)[1]) == 2
    assert len(module.read_lines(lines)[1]) == 10


@pytest.mark.parametrize(
    "spelled",
    ["1\t2.000000\ta\n", "1\t2\ta", "\ufeff1\t2\ta\n", "\n 1 \t +2. \t a \r\n\n", "01\t0.2e1\ta\n"],
)
def test_one_list_has_many_spellings(spelled: str) -> None:
    text = spelled.removeprefix("\ufeff")
    assert parse_rows(text, "x.lst").select(*ROWS).rows() == [(1, "2", "a")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no files"),
        ("1\ta\n", "x.lst:1: fewer than 3 columns"),
        ("1\t0\ta\n2\t0\n", "x.lst:2: fewer than 3 columns"),
        ("-1\t0\ta\n", "x.lst:1: '-1' is not an id"),
        ("1e3\t0\ta\n", "x.lst:1: '1e3' is not an id"),
        ("9999999999999999999\t0\ta\n", "is not an id"),
        ("1\tcat\ta\n", "x.lst:1: not all of the labels ['cat']"),
        ("1\tnan\ta\n", "not all of the labels ['nan']"),
        ("1\t1e999\ta\n", "not all of the labels ['1e999']"),
        ("1\t1_0\ta\n", "not all of the labels ['1_0']"),
        ("1\t9007199254740993\ta\n", "below 2^53"),
        ("1\t0\ta\n\n1\t0\tb\n", "x.lst:3: the id 1 stands in line 1 already"),
        ("1\t0\t../a\n", "x.lst:1: '../a' is not a path below"),
        ("1\t0\t/etc/passwd\n", "is not a path below"),
        ("1\t0\ta\0b\n", "is not a path below"),
        ("1\t0\ta\n2\t0\t1\tb\n", "x.lst:2: 2 labels, where the first line has 1"),
        ("1\t0\ta\n<<<<<<< ours\n2\t0\tb\n", "x.lst:2: an undecided merge conflict"),
        (f"1\t{DETECTION}\ta\n2\t{DETECTION}\t1\tb\n", "x.lst:2: 8 labels"),
    ],
)
def test_what_is_no_list_is_refused_by_its_line(text: str, message: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse_rows(text, "x.lst")
    assert message in str(refused.value)


def test_detection_labels_may_differ_in_length() -> None:
    two = DETECTION + "\t0\t0\t0\t1\t1"
    table = parse_rows(f"1\t{DETECTION}\ta\n2\t{two}\tb\n", "x.lst")
    assert table["label"].to_list() == [DETECTION, two]
    assert table.select(is_detection()).to_series().to_list() == [True, True]


def test_class_numbers_are_whole() -> None:
    table = rows((0, "3", "a"), (1, "0.5", "b"), (2, "1\t2", "c"), (3, "-1", "d"))
    assert table.select(class_numbers()).to_series().to_list() == [3, None, None, -1]


_decimals = st.builds(
    "{}{}.{}{}".format,
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**8) | st.integers(0, 9),
    st.sampled_from(["", "0", "000", "0000", "00000"]),
    st.integers(0, 10**16) | st.integers(0, 99),
)
_whole = st.integers(-(2**53) + 1, 2**53 - 1).map(str)
_floats = st.floats(allow_nan=False, allow_infinity=False).map(repr)
_odd = st.sampled_from(["0", "-0", "-0.0", "00", "1.", ".5", "1e3", "1E-5", "0.0001", "0.00001"])
numbers = _decimals | _whole | _floats | _odd


@given(st.lists(st.lists(numbers, min_size=1, max_size=4)))
def test_labels_are_spelled_as_one_by_one(words: list[list[str]]) -> None:
    labels = canonical_labels(pl.Series(words, dtype=pl.List(pl.String)))
    assert labels.to_list() == [canonical_label(each) for each in words]
    again = canonical_labels(labels.str.split("\t"))
    assert again.to_list() == labels.to_list()

"""Patches: what a diff says gives the new list; a patch that is anything else is refused."""

from __future__ import annotations

from contextlib import suppress

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from dsprep.errors import SourceError
from dsprep.lists.diff import diff_rows, format_diff, parse_patch, patch_rows
from dsprep.lists.rows import ROWS, format_rows, parse_rows
from tests.lists import rows, tables
from tests.lists.edits import edits

properties = settings(deadline=None)

LIST = rows((0, "0", "cat/1"), (1, "0", "cat/2"), (2, "1", "dog/3"), (3, "1", "dog/4"))


def patched(table: pl.DataFrame, text: str) -> pl.DataFrame:
    return patch_rows(table, parse_patch(text, "p"), "p")


@properties
@given(tables(), tables())
def test_patching_with_the_diff_gives_the_other_list(a: pl.DataFrame, b: pl.DataFrame) -> None:
    assert_frame_equal(patched(a, format_diff(diff_rows(a, b))), b)


@properties
@given(st.data())
def test_patching_with_the_diff_gives_the_edited_list(data: st.DataObject) -> None:
    a = data.draw(tables())
    b = data.draw(edits(a))
    text = format_diff(diff_rows(a, b))
    assert_frame_equal(patched(a, text), b)
    assert_frame_equal(patched(a, f"# a remark\n\n{text}\n".replace("\n", "\r\n")), b)


@properties
@given(tables(), st.permutations(range(12)))
def test_another_order_is_told_by_places_alone(a: pl.DataFrame, order: list[int]) -> None:
    b = a[[place for place in order if place < a.height]]
    text = format_diff(diff_rows(a, b))
    assert {line[:1] for line in text.splitlines()} <= {"^"}
    assert_frame_equal(patched(a, text), b)


def test_an_empty_patch_changes_nothing() -> None:
    for text in ("", "\n\n", "# nothing\n"):
        assert_frame_equal(patched(LIST, text), LIST)


@properties
@given(tables())
def test_what_is_ignored_is_not_in_the_patch(a: pl.DataFrame) -> None:
    b = a.reverse().with_columns(pl.col("index") + 1)
    assert format_diff(diff_rows(a, b, ids=False, order=False)) == ""
    kept = patched(a, format_diff(diff_rows(a, b, ids=False)))
    assert kept["path"].to_list() == b["path"].to_list()
    assert set(kept["index"]) == set(a["index"])


def test_rows_of_one_path_are_told_apart_by_their_labels_if_ids_tell_nothing() -> None:
    a = rows((0, "0", "cat/1"), (1, "1", "cat/1"))
    b = rows((1, "0", "cat/1"), (0, "1", "cat/1"))
    assert format_diff(diff_rows(a, b, ids=False)) == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*\t0\t0\tcat/1", r"p:1: not a line of a diff"),
        ("- 0 0 cat/1", r"p:1: not a line of a diff"),
        ("-", r"p:1: not a line of a diff"),
        ("<<<<<<< ours", r"p:1: not a line of a diff"),
        ("# x\n-\t0\tcat/1", r"p:2: fewer than 3 columns"),
        ("-\tx\t0\tcat/1", r"p:1: 'x' is not an id"),
        ("-\t0\tcat\tcat/1", r"p:1: not all of the labels"),
        ("\n-\t0\t0\tcat/1\n-\t0\t0\tcat/1", r"p:3: the id 0 stands in line 2 already"),
        ("+\t1\t9\t0\t../x", r"p:1: '../x' is not a path below the folder"),
        ("+\t1\t9\t0\t/x", r"p:1: '/x' is not a path below the folder"),
        ("+\t0\t9\t0\tx", r"p:1: '0' is not a line number"),
        ("+\t-1\t9\t0\tx", r"p:1: '-1' is not a line number"),
        ("+\t1e3\t9\t0\tx", r"p:1: '1e3' is not a line number"),
        (f"+\t{'9' * 30}\t9\t0\tx", r"p:1: '9{30}' is not a line number"),
        ("+\t5", r"p:1: nothing follows the line number"),
        ("+\t6\t9\t0\tx", r"p:1: line 6 is beyond the end of a list of 5 rows"),
        ("+\t5\t9\t0\tx\n+\t5\t8\t0\ty", r"p:2: another row is line 5 already"),
        ("^\t1\t3\n^\t1\t2", r"p:2: another row is line 1 already"),
        ("^\t1\t3\n^\t2\t3", r"p:2: the row 3 is moved already"),
        ("^\t1\tx", r"p:1: 'x' is not an id"),
        ("^\t1\t-3", r"p:1: '-3' is not an id"),
        ("^\t1\t7", r"p:1: the patch does not fit: no row that is kept has the id 7"),
        ("-\t3\t1\tdog/4\n^\t1\t3", r"p:2: the patch does not fit: no row that is kept"),
        ("+\t5\t9\t0\tx\n^\t1\t9", r"p:2: the patch does not fit: no row that is kept"),
        ("<\t0\t0\tcat/1", r"p:1: a line with < and one with > belong together"),
        (">\t0\t0\tcat/1", r"p:1: a line with < and one with > belong together"),
        ("<\t0\t0\tcat/1\n<\t1\t0\tcat/2\n>\t0\t1\tcat/1", r"p:1: a line with <"),
        ("<\t0\t0\tcat/1\n-\t1\t0\tcat/2\n>\t0\t1\tcat/1", r"p:1: a line with <"),
        ("-\t9\t0\tcat/1", r"p:1: the patch does not fit: the list has no row with the id 9"),
        ("-\t0\t1\tcat/1", r"p:1: the patch does not fit: the row 0 of the list is '0 cat/1'"),
        ("-\t0\t0\tcat/2", r"p:1: the patch does not fit: the row 0"),
        ("<\t1\t0\tcat/1\n>\t1\t1\tcat/1", r"p:1: the patch does not fit: the row 1"),
        ("+\t1\t2\t0\tx", r"p:1: the patch does not fit: another row of the list has the id 2"),
        ("<\t0\t0\tcat/1\n>\t3\t0\tcat/1", r"p:2: the patch does not fit: another row"),
        ("<\t0\t0\tcat/1\n>\t9\t0\tcat/1\n+\t5\t9\t0\tx", r"p:3: the id 9 stands in line 2"),
        ("+\t5\t9\t0\tx\n+\t6\t8\t0\t1\ty", r"p:2: 2 labels, where the first line has 1"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused_by_its_line(text: str, message: str) -> None:
    with pytest.raises(SourceError, match=f"^{message}"):
        patched(LIST, text)


def test_ids_may_be_exchanged() -> None:
    text = "<\t0\t0\tcat/1\n>\t1\t0\tcat/1\n<\t1\t0\tcat/2\n>\t0\t0\tcat/2\n"
    assert patched(LIST, text)["index"].to_list() == [1, 0, 2, 3]
    assert patched(LIST, "-\t0\t0\tcat/1\n+\t4\t0\t0\tx")["path"].to_list()[-1] == "x"


def test_rows_are_compared_by_what_they_mean() -> None:
    assert patched(LIST, "-\t00\t0.000000\t cat/1 ")["index"].to_list() == [1, 2, 3]


_words = st.sampled_from(
    [
        "-",
        "<",
        ">",
        "+",
        "^",
        "#",
        "0",
        "1",
        "3",
        "4",
        "9",
        "-1",
        "1e3",
        "cat/1",
        "dog/4",
        "../x",
        "\r",
    ]
)
_lines = st.lists(_words, max_size=6).map("\t".join)


@properties
@given(st.lists(_lines | st.text(max_size=8), max_size=5).map("\n".join))
def test_whatever_a_patch_is_the_list_stays_a_list(text: str) -> None:
    with suppress(SourceError):
        result = patched(LIST, text)
        assert result.schema == ROWS
        if not result.is_empty() and "\r" not in "".join(result["path"]):
            again = parse_rows(format_rows(result), "again").select(*ROWS)
            assert_frame_equal(again, result)

"""Differences: which rows are of one sample, and what is told of them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from dsprep.lists.diff import (
    ClassChange,
    arrange,
    class_changes,
    diff_rows,
    format_diff,
    match_rows,
    relabelings,
    still_in_order,
)
from tests.lists import Row, rows, tables

properties = settings(deadline=None)

LIST = rows((0, "0", "cat/1"), (1, "0", "cat/2"), (2, "1", "dog/3"), (3, "1", "dog/4"))


def told(*new: Row, **options: bool) -> list[str]:
    """The lines of the diff from LIST."""
    text = format_diff(diff_rows(LIST, rows(*new), **options))
    return [" ".join(line.split("\t")) for line in text.splitlines()]


def pairs(a: pl.DataFrame, b: pl.DataFrame, **options: Any) -> list[tuple[int, int]]:
    """The numbers of rows that are of one sample."""
    found = match_rows(a, b, **options)
    for each, other, alike in found.iter_rows():
        assert not alike or a.row(each)[::2] == b.row(other)[::2]
    return [(each, other) for each, other, _ in found.iter_rows()]


def listed() -> list[Row]:
    return [(index, label, path) for index, label, path in LIST.iter_rows()]


@properties
@given(tables())
def test_a_list_differs_from_itself_in_nothing(table: pl.DataFrame) -> None:
    diff = diff_rows(table, table)
    assert diff.is_empty
    assert format_diff(diff) == ""


def test_each_kind_of_difference() -> None:
    cat1, cat2, dog3, dog4 = listed()
    assert told(cat1, cat2, dog4) == ["- 2 1 dog/3"]
    assert told(cat1, (7, "1", "new"), cat2, dog3, dog4) == ["+ 2 7 1 new"]
    assert told(cat1, (1, "1", "cat/2"), dog3, dog4) == ["< 1 0 cat/2", "> 1 1 cat/2"]
    assert told(cat1, (1, "0", "cat/5"), dog3, dog4) == ["< 1 0 cat/2", "> 1 0 cat/5"]
    assert told(cat1, (9, "0", "cat/2"), dog3, dog4) == ["< 1 0 cat/2", "> 9 0 cat/2"]
    assert told(dog4, cat1, cat2, dog3) == ["^ 1 3"]
    assert told((8, "2", "dog/4"), cat1, cat2, dog3) == ["< 3 1 dog/4", "> 8 2 dog/4", "^ 1 8"]


def test_one_row_counts_as_all_that_it_is() -> None:
    cat1, cat2, dog3, _ = listed()
    diff = diff_rows(LIST, rows((3, "0", "cat/4"), cat1, cat2, dog3))
    assert [len(diff.changed_in(name)) for name in ("label", "path", "index")] == [1, 1, 0]
    assert len(diff.reordered) == 1


def test_ids_and_order_may_be_ignored() -> None:
    cat1, cat2, dog3, dog4 = listed()
    assert told((5, "0", "cat/1"), cat2, dog3, dog4, ids=False) == []
    assert told(dog4, cat1, cat2, dog3, order=False) == []
    moved = (dog4, (9, "0", "cat/1"), (1, "0", "other"), dog3)
    assert told(*moved, ids=False) == ["- 1 0 cat/2", "+ 3 1 0 other", "^ 1 3"]


def test_a_path_tells_more_than_an_id() -> None:
    swapped = rows((1, "0", "cat/1"), (0, "0", "cat/2"))
    assert pairs(LIST, swapped) == [(0, 0), (1, 1)]
    assert pairs(LIST, rows((0, "0", "cat/2"), (2, "0", "x"))) == [(1, 0), (2, 1)]


def test_rows_of_one_path_are_paired_by_id_and_then_in_their_order() -> None:
    a = rows((0, "0", "x"), (1, "1", "x"), (2, "2", "x"))
    b = rows((5, "0", "x"), (1, "1", "x"), (0, "2", "x"), (6, "0", "x"))
    assert pairs(a, b) == [(2, 0), (1, 1), (0, 2)]


def test_content_tells_more_than_an_id() -> None:
    held = {"a": "same", "b": None, "c": "other", "d": "same", "e": "else", "f": None, "kept": "k"}

    def contents(paths: pl.Series, others: pl.Series) -> tuple[pl.Series, pl.Series]:
        a, b = (
            pl.Series([held[path] for path in each], dtype=pl.String) for each in (paths, others)
        )
        return a, b

    a = rows((0, "0", "a"), (1, "0", "b"), (2, "0", "c"), (3, "0", "kept"))
    b = rows((2, "0", "e"), (0, "0", "f"), (1, "0", "d"), (3, "0", "kept"))
    by_content = pairs(a, b, contents=contents)
    assert by_content == [(0, 2), (3, 3)]
    assert pairs(a, b) == [(2, 0), (0, 1), (1, 2), (3, 3)]
    c = rows((1, "0", "f"), (2, "0", "e"))
    assert pairs(a, c, contents=contents) == [(1, 0)]


@properties
@given(tables(min_size=0), tables(min_size=0))
def test_no_row_is_in_two_pairs(a: pl.DataFrame, b: pl.DataFrame) -> None:
    found = pairs(a, b)
    firsts, seconds = ([pair[side] for pair in found] for side in (0, 1))
    assert len(set(firsts)) == len(found)
    assert seconds == sorted(set(seconds))
    left_a = {row[2] for number, row in enumerate(a.rows()) if number not in firsts}
    left_b = {row[2] for number, row in enumerate(b.rows()) if number not in seconds}
    assert not left_a & left_b


@properties
@given(st.permutations(range(9)))
def test_as_few_rows_as_can_be_are_out_of_order(order: list[int]) -> None:
    stays = still_in_order(pl.Series(order, dtype=pl.Int64))
    kept = [position for position, stay in zip(order, stays, strict=True) if stay]
    assert kept == sorted(kept)
    longest = [1] * len(order)
    for place, position in enumerate(order):
        before = [longest[i] for i in range(place) if order[i] < position]
        longest[place] = 1 + max(before, default=0)
    assert len(kept) == max(longest)


def test_moving_one_row_of_many_is_one_line() -> None:
    many = rows(*((number, "0", f"{number}.jpg") for number in range(1000)))
    for new in (pl.concat([many[1:], many[:1]]), pl.concat([many[-1:], many[:-1]])):
        assert diff_rows(many, new).reordered.height == 1


def test_rows_fill_the_places_that_are_left() -> None:
    placed = rows((8, "0", "x"), (9, "0", "y")).with_columns(place=pl.Series([5, 1]))
    found = arrange(LIST, placed)
    assert found["index"].to_list() == [9, 0, 1, 2, 8, 3]
    assert_frame_equal(arrange(LIST, placed.clear()), LIST)


def test_what_became_of_each_class() -> None:
    new = rows((0, "1", "cat/1"), (2, "1", "dog/3"), (3, "1", "dog/4"), (5, "2", "cow"))
    diff = diff_rows(LIST, new)
    names = ("cat", "dog")
    assert class_changes(LIST, new, diff, names) == [
        ClassChange(0, "cat", before=2, after=0, added=0, removed=1, gained=0, lost=1),
        ClassChange(1, "dog", before=2, after=3, added=0, removed=0, gained=1, lost=0),
        ClassChange(2, None, before=0, after=1, added=1, removed=0, gained=0, lost=0),
    ]
    assert relabelings(diff, names) == [("cat", "dog", 1)]
    assert relabelings(diff, None) == [("0", "1", 1)]


@pytest.mark.parametrize("label", ["0.5", "1\t2", "2\t5\t0\t0\t0\t1\t1"])
def test_labels_that_are_no_class_numbers_have_no_classes(label: str) -> None:
    a, b = rows((0, label, "x")), rows((0, label + "\t3" if "\t" in label else "0.25", "x"))
    diff = diff_rows(a, b)
    assert diff.changed_in("label").height == 1
    assert class_changes(a, b, diff, None) == []
    assert relabelings(diff, None) == []


@properties
@given(tables(), tables())
def test_what_became_of_the_classes_adds_up(a: pl.DataFrame, b: pl.DataFrame) -> None:
    for each in class_changes(a, b, diff_rows(a, b), None):
        assert each.after - each.before == each.added - each.removed + each.gained - each.lost

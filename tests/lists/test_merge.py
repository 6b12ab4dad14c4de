"""Merges: each side's edits are kept, no row is lost, and contradictions are told."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from dsprep.errors import SourceError
from dsprep.lists.diff import Edits
from dsprep.lists.merge import Merged, Side, format_merged, merge_rows
from dsprep.lists.rows import format_rows, parse_rows
from tests.lists import Row, rows, tables
from tests.lists.edits import edits

properties = settings(deadline=None)

BASE = ((0, "0", "cat/1"), (1, "0", "cat/2"), (2, "1", "dog/3"))
CAT1, CAT2, DOG3 = BASE


def merge(ours: tuple[Row, ...], theirs: tuple[Row, ...]) -> Merged:
    return merge_rows(rows(*BASE), rows(*ours), rows(*theirs))


def agreed(ours: tuple[Row, ...], theirs: tuple[Row, ...]) -> list[Row]:
    merged = merge(ours, theirs)
    assert not merged.conflicts
    assert_frame_equal(merged.decided_by("ours"), merged.decided_by("theirs"))
    return [(index, label, path) for index, label, path in merged.decided_by("ours").iter_rows()]


def is_exactly(merged: Merged, table: pl.DataFrame) -> None:
    assert not merged.conflicts
    assert not merged.renumbered
    assert_frame_equal(merged.decided_by("ours"), table)
    assert_frame_equal(merged.decided_by("theirs"), table)
    assert format_merged(merged) == format_rows(table)


@properties
@given(tables(), tables())
def test_what_one_side_does_alone_is_done_as_it_is(a: pl.DataFrame, b: pl.DataFrame) -> None:
    is_exactly(merge_rows(b, a, a), a)
    is_exactly(merge_rows(a, b, a), b)
    is_exactly(merge_rows(a, a, b), b)


@properties
@given(st.data())
def test_what_both_do_alike_is_done_once(data: st.DataObject) -> None:
    base = data.draw(tables())
    edited = data.draw(edits(base))
    is_exactly(merge_rows(base, edited, edited), edited)
    is_exactly(merge_rows(base, base, edited), edited)
    is_exactly(merge_rows(base, edited, base), edited)


@properties
@given(st.data())
def test_no_row_is_lost(data: st.DataObject) -> None:
    base = data.draw(tables())
    ours, theirs = data.draw(edits(base)), data.draw(edits(base))
    merged = merge_rows(base, ours, theirs)
    decided = [set(merged.decided_by(side)["path"]) for side in ("ours", "theirs")]
    in_conflict = {
        row[2] for each in merged.conflicts for row in (each.ours, each.theirs) if row is not None
    }
    gone_from = {
        "ours": set(base["path"]) - set(ours["path"]),
        "theirs": set(base["path"]) - set(theirs["path"]),
    }
    for path in {*ours["path"], *theirs["path"]}:
        kept = all(path in each for each in decided) or path in in_conflict
        by_id = any(path in each for each in gone_from.values())
        repeated = base.filter(pl.col("path") == path).height > 1
        assert kept or by_id or repeated


@properties
@given(st.data())
def test_ids_stay_different_whoever_decides(data: st.DataObject) -> None:
    base = data.draw(tables(min_size=0))
    ours, theirs = data.draw(edits(base)), data.draw(edits(base))
    merged = merge_rows(base, ours, theirs)
    for side in ("ours", "theirs"):
        assert merged.decided_by(side)["index"].is_unique().all()
    text = format_merged(merged)
    assert text.count("<<<<<<< ours\n") == text.count(">>>>>>> theirs") == len(merged.conflicts)
    assert len(merged.conflicts) == merged.contested.height


@properties
@given(st.data())
def test_deciding_by_hand_is_deciding(data: st.DataObject) -> None:
    base = data.draw(tables())
    merged = merge_rows(base, data.draw(edits(base)), data.draw(edits(base)))
    for side in ("ours", "theirs"):
        kept, here = [], {"ours", "theirs"}
        for line in format_merged(merged).splitlines():
            marker = {"<<<<<<<": {"ours"}, "=======": {"theirs"}, ">>>>>>>": {"ours", "theirs"}}
            if line[:7] in marker:
                here = marker[line[:7]]
            elif side in here:
                kept.append(line + "\n")
        assert "".join(kept) == format_rows(merged.decided_by(side))


def test_fields_are_merged_one_by_one() -> None:
    ours, theirs = ((0, "5", "cat/1"), CAT2, DOG3), BASE
    assert agreed(ours, theirs)[0] == (0, "5", "cat/1")
    moved = ((0, "0", "pets/1"), CAT2, DOG3)
    assert agreed(ours, moved)[0] == (0, "5", "pets/1")
    assert agreed(moved, ours)[0] == (0, "5", "pets/1")
    renumbered = ((7, "0", "cat/1"), CAT2, DOG3)
    assert agreed(ours, renumbered)[0] == (7, "5", "cat/1")


def test_removals_and_additions_of_both() -> None:
    ours, theirs = (CAT1, CAT2, (3, "1", "dog/4")), (CAT2, DOG3, (4, "1", "dog/5"))
    assert agreed(ours, theirs) == [CAT2, (3, "1", "dog/4"), (4, "1", "dog/5")]


def test_a_row_removed_by_one_and_renumbered_by_the_other_is_gone() -> None:
    assert agreed((CAT2, DOG3), ((9, "0", "cat/1"), CAT2, DOG3)) == [CAT2, DOG3]
    assert agreed(((9, "0", "cat/1"), CAT2, DOG3), (CAT2, DOG3)) == [CAT2, DOG3]


def test_an_id_that_ours_has_given_away_is_not_given_twice() -> None:
    ours, theirs = (*BASE, (3, "1", "ours")), (*BASE, (3, "1", "theirs"), (4, "1", "more"))
    merged = merge(ours, theirs)
    assert merged.renumbered == [("theirs", 3, 5)]
    found = merged.decided_by("ours").rows()
    assert found[3:] == [(3, "1", "ours"), (5, "1", "theirs"), (4, "1", "more")]


def test_a_file_that_both_added_is_there_once() -> None:
    ours, theirs = (*BASE, (3, "1", "new")), (*BASE, (8, "1", "new"))
    assert agreed(ours, theirs) == [*BASE, (3, "1", "new")]
    merged = merge(ours, (*BASE, (8, "2", "new")))
    assert merged.conflicts == [("label", None, (3, "1", "new"), (8, "2", "new"))]
    assert merged.decided_by("theirs").rows()[3:] == [(3, "2", "new")]


def test_a_file_that_one_added_where_the_other_moved_one_is_there_once() -> None:
    ours, theirs = (*BASE, (3, "0", "new")), ((0, "0", "new"), CAT2, DOG3)
    assert agreed(ours, theirs) == [CAT2, DOG3, (3, "0", "new")]
    merged = merge(theirs, (*BASE, (3, "2", "new")))
    assert merged.conflicts == [("label", CAT1, (0, "0", "new"), (3, "2", "new"))]
    assert merged.decided_by("ours").rows() == [(0, "0", "new"), CAT2, DOG3]
    assert merged.decided_by("theirs").rows() == [(0, "2", "new"), CAT2, DOG3]


@pytest.mark.parametrize(
    ("what", "ours", "theirs"),
    [
        ("label", (0, "1", "cat/1"), (0, "2", "cat/1")),
        ("path", (0, "0", "a/1"), (0, "0", "b/1")),
        ("id", (7, "0", "cat/1"), (8, "0", "cat/1")),
        ("label,path", (0, "1", "a/1"), (0, "2", "b/1")),
        ("removed", None, (0, "1", "cat/1")),
        ("removed", (0, "0", "a/1"), None),
        # It may be another file, which got the id when that was free.
        ("label,path", (0, "0", "other"), (0, "1", "cat/1")),
    ],
)
def test_conflicts(what: str, ours: Row | None, theirs: Row | None) -> None:
    left = tuple(row for row in (ours, CAT2, DOG3) if row)
    right = tuple(row for row in (theirs, CAT2, DOG3) if row)
    merged = merge(left, right)
    assert merged.conflicts == [(what, CAT1, ours, theirs)]
    assert set(merged.decided_by("ours").rows()) == set(left)
    assert set(merged.decided_by("theirs").rows()) == set(right)
    written = {row: "\t".join(map(str, row)) + "\n" for row in (ours, theirs) if row}
    hunk = (
        f"<<<<<<< ours\n{written.get(ours, '')}=======\n{written.get(theirs, '')}>>>>>>> theirs\n"
    )
    assert hunk in format_merged(merged)
    with pytest.raises(SourceError, match="x:[13]: an undecided merge conflict"):
        parse_rows(format_merged(merged), "x")


def test_in_a_conflict_the_sides_differ_only_in_what_it_is_about() -> None:
    merged = merge(((0, "1", "pets/1"), CAT2, DOG3), ((0, "2", "cat/1"), CAT2, DOG3))
    assert merged.decided_by("ours").rows()[0] == (0, "1", "pets/1")
    assert merged.decided_by("theirs").rows()[0] == (0, "2", "pets/1")


@pytest.mark.parametrize(
    ("ours", "theirs", "order", "ids"),
    [
        (BASE, BASE, None, [0, 1, 2]),
        ((DOG3, CAT1, CAT2), (*BASE, (3, "0", "x")), "ours", [2, 0, 1, 3]),
        ((*BASE, (3, "0", "x")), (DOG3, CAT1, CAT2), "theirs", [2, 0, 1, 3]),
        ((DOG3, CAT1, CAT2), (CAT2, CAT1, DOG3), "ours", [2, 0, 1]),
        ((*BASE, (4, "0", "y")), ((3, "0", "x"), *BASE), "theirs", [3, 0, 1, 2, 4]),
    ],
)
def test_order(
    ours: tuple[Row, ...], theirs: tuple[Row, ...], order: Side | None, ids: list[int]
) -> None:
    merged = merge(ours, theirs)
    assert merged.order == order
    assert merged.decided_by("ours")["index"].to_list() == ids


def test_what_each_side_did_is_counted() -> None:
    merged = merge(((0, "9", "cat/1"), DOG3, (5, "0", "x")), (CAT1, CAT2))
    assert merged.ours == Edits(added=1, removed=1, changed=1)
    assert merged.theirs == Edits(removed=1)


def test_without_a_base_both_have_added_everything() -> None:
    merged = merge_rows(rows(), rows(CAT1, CAT2), rows((0, "0", "x"), CAT2))
    assert not merged.conflicts
    assert merged.decided_by("ours").rows() == [CAT1, CAT2, (2, "0", "x")]


def test_no_id_is_made_that_cannot_be_read() -> None:
    last = 10**18 - 1
    with pytest.raises(SourceError, match="no ids are left"):
        merge((*BASE, (last, "0", "x")), (*BASE, (last, "0", "y")))

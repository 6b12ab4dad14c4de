"""Groups: found in paths, merged, and placed whole."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.errors import OptionError, SourceError
from dsprep.splits.groups import fill_empty_sides, group_by_pattern, merge_groups, place_groups
from dsprep.splits.ratios import equal_ratios, make_ratios

properties = settings(deadline=None)

PATHS = pl.Series("path", ["p1/a_7.jpg", "p1/b_7.jpg", "p22/c_8.jpg"])


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        (r"p[0-9]+", ["p1", "p1", "p22"]),
        (r"^p([0-9]+)/", ["1", "1", "22"]),
        (r"_(\d)\.(jpg)$", ["7", "7", "8"]),
        (r"_(?:\d)", ["_7", "_7", "_8"]),
        (r"^(?P<who>[^/]+)/", ["p1", "p1", "p22"]),
    ],
)
def test_a_group_is_what_matches(pattern: str, groups: list[str]) -> None:
    assert group_by_pattern(PATHS, pattern).to_list() == groups


@pytest.mark.parametrize("pattern", ["p1/", "q", "x*", "(x)?p"])
def test_a_path_without_a_group_is_named(pattern: str) -> None:
    with pytest.raises(SourceError, match=r"'p(1/a_7|22/c_8)\.jpg'.*every sample needs a group"):
        group_by_pattern(PATHS, pattern)


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{2,1}", "(?=p)", r"(p)\1"])
def test_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match="not a regular expression"):
        group_by_pattern(PATHS, pattern)


def test_an_evil_expression_takes_no_time() -> None:
    paths = pl.Series("path", ["a" * 5000 + "!"])
    with pytest.raises(SourceError, match="matches nothing"):
        group_by_pattern(paths, r"^(a+)+$")


@properties
@given(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=12),
    st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=4), max_size=6),
)
def test_merged_groups_are_those_that_are_connected(
    names: list[str], sets: list[list[int]]
) -> None:
    sets = [[row % len(names) for row in rows] for rows in sets]
    merged = merge_groups(pl.Series("group", names), sets).to_list()
    connected = [{name} for name in set(names)]
    for rows in sets:
        touched = [each for each in connected if each & {names[row] for row in rows}]
        connected = [each for each in connected if each not in touched] + [set().union(*touched)]
    expected = {name: min(each) for each in connected for name in each}
    assert merged == [expected[name] for name in names]


def test_groups_fill_sides_by_their_shares() -> None:
    ratios = make_ratios({"train": "0.8", "val": "0.1", "test": "0.1"})
    groups = [[(number % 4, 5)] for number in range(400)]
    placed = place_groups(groups, ratios, [500] * 4)
    for stratum in range(4):
        sides = placed[stratum::4]
        assert [sides.count(side) for side in range(3)] == [80, 10, 10]


def test_groups_of_several_classes_even_out() -> None:
    groups = [[(0, 9), (1, 1)], [(0, 1), (1, 9)]] * 20
    placed = place_groups(groups, equal_ratios("ab"), [200, 200])
    for side in (0, 1):
        on_side = [group for group, place in zip(groups, placed, strict=True) if place == side]
        assert sum(group[0][1] for group in on_side) == 100


@properties
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 4),
    st.data(),
)
def test_no_side_stays_empty_if_it_need_not(
    sizes: list[int], sides: int, data: st.DataObject
) -> None:
    placed = data.draw(
        st.lists(st.integers(0, sides - 1), min_size=len(sizes), max_size=len(sizes))
    )
    filled = fill_empty_sides(placed, sizes, [False] * sides)
    assert len(set(filled)) == min(sides, len(sizes))
    moved = [old for old, new in zip(placed, filled, strict=True) if old != new]
    assert len(moved) == len(set(filled)) - len(set(placed))


def test_a_side_with_other_samples_needs_no_group() -> None:
    assert fill_empty_sides([0, 0], [1, 1], [True, True]) == [0, 0]
    assert fill_empty_sides([0], [1], [True, False]) == [1]

"""Counts: less than one from their shares in each class and in all, and never one too many."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.splits.ratios import apportion, largest_remainder

properties = settings(deadline=None)

PARTS = st.lists(st.integers(1, 30), min_size=1, max_size=6)
SIZES = st.lists(st.integers(0, 60), min_size=1, max_size=30)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """Shares that are not those of fixed ratios: rows of any numbers that sum to whole samples."""
    unit = draw(st.integers(1, 12))
    width = draw(st.integers(1, 5))
    rows = draw(
        st.lists(
            st.lists(st.integers(0, 30), min_size=width, max_size=width), min_size=1, max_size=8
        )
    )
    for row in rows:
        row[-1] += -sum(row) % unit
    return rows, unit


def assert_near(shares: list[list[int]], unit: int, counts: list[list[int]]) -> None:
    for row, counted in zip(shares, counts, strict=True):
        assert sum(counted) * unit == sum(row)
        for share, count in zip(row, counted, strict=True):
            assert count >= 0
            assert abs(count - Fraction(share, unit)) < 1
    for column, counted in zip(zip(*shares, strict=True), zip(*counts, strict=True), strict=True):
        assert abs(sum(counted) - Fraction(sum(column), unit)) < 1


@properties
@given(SIZES, PARTS)
def test_classes_and_totals_are_less_than_one_off(sizes: list[int], parts: list[int]) -> None:
    shares = [[size * part for part in parts] for size in sizes]
    assert_near(shares, sum(parts), apportion(shares, sum(parts)))


@properties
@given(tables())
def test_so_they_are_whatever_the_shares(table: tuple[list[list[int]], int]) -> None:
    shares, unit = table
    assert_near(shares, unit, apportion(shares, unit))


@properties
@given(SIZES, st.integers(1, 30), st.integers(1, 30))
def test_of_two_sides_the_totals_are_rounded_as_best_can_be(
    sizes: list[int], first: int, second: int
) -> None:
    unit = first + second
    counts = apportion([[size * first, size * second] for size in sizes], unit)
    totals = [sum(column) for column in zip(*counts, strict=True)]
    assert totals == largest_remainder([sum(sizes) * first, sum(sizes) * second], unit)


def test_classes_of_one_go_to_all_sides() -> None:
    counts = apportion([[8, 1, 1]] * 1000, 10)
    assert [sum(column) for column in zip(*counts, strict=True)] == [800, 100, 100]


def test_what_is_even_is_exact() -> None:
    assert apportion([[80, 10, 10], [800, 100, 100]], 10) == [[8, 1, 1], [80, 10, 10]]
    assert apportion([], 10) == []


def test_a_round_that_went_wrong_is_repaired() -> None:
    """Taken row by row alone, one side of these gets a whole sample too few."""
    shares = [[2, 2, 6, 2], [2, 2, 4, 8]]
    counts = apportion(shares, 4)
    assert_near(shares, 4, counts)


@properties
@given(st.lists(st.integers(0, 100), min_size=1, max_size=8), st.integers(1, 12))
def test_largest_remainders_are_rounded_up(shares: list[int], unit: int) -> None:
    shares[-1] += -sum(shares) % unit
    counts = largest_remainder(shares, unit)
    assert sum(counts) * unit == sum(shares)
    up = [
        share % unit for share, count in zip(shares, counts, strict=True) if count > share // unit
    ]
    down = [
        share % unit for share, count in zip(shares, counts, strict=True) if count == share // unit
    ]
    assert not up or not down or min(up) >= max(down)


@pytest.mark.parametrize("sides", [2, 10, 50])
def test_many_classes_and_folds_come_out_even(sides: int) -> None:
    sizes = [(7 * number) % 23 for number in range(500)]
    counts = apportion([[size] * sides for size in sizes], sides)
    totals = [sum(column) for column in zip(*counts, strict=True)]
    assert max(totals) - min(totals) <= 1

"""Ratios of a split: exact; and counts that are less than one from their shares."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.errors import OptionError
from dsprep.splits.ratios import (
    Ratios,
    apportion,
    largest_remainder,
    make_ratios,
    parse_ratios,
    require_side_names,
)

properties = settings(deadline=None)


def test_shares_are_exact() -> None:
    ratios = make_ratios(parse_ratios("train=0.8, val=.1 ,test=1/10"))
    assert ratios.names == ("train", "val", "test")
    assert [Fraction(part, ratios.whole) for part in ratios.parts] == [
        Fraction(4, 5),
        Fraction(1, 10),
        Fraction(1, 10),
    ]
    assert ratios.bounds() == [0.8, 0.9]


def test_thirds_can_be_written_and_computed() -> None:
    assert make_ratios({"a": "1/3", "b": "1/3", "c": "1/3"}).parts == (1, 1, 1)
    computed = make_ratios({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert len(set(computed.parts)) == 1


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6))
def test_shares_of_a_whole_are_kept(parts: list[int]) -> None:
    shares = {str(side): f"{part}/{sum(parts)}" for side, part in enumerate(parts)}
    ratios = make_ratios(shares)
    assert [Fraction(each, ratios.whole) for each in ratios.parts] == [
        Fraction(part, sum(parts)) for part in parts
    ]


def test_folds_are_equal() -> None:
    assert Ratios(("0", "1", "2", "3"), (1, 1, 1, 1)).bounds() == [0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    "text", ["", "train", "0.8", "train=0.5,train=0.5", "train=0.5;val=0.5", "train=1,"]
)
def test_what_is_not_written_so_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="--ratio"):
        make_ratios(parse_ratios(text))


@pytest.mark.parametrize(
    "share",
    ["nan", "inf", "-inf", "-0.5", "0", "0.0", "0/5", "1/0", "1.5", "5", "", ".", "x", "50%", "٠.٥"]
    + ["1e-999999999", "1e999999999", "1e-400", "1" * 400, "1_0", "0x1", "--0.5", "1/2/3", "9" * 9],
)
def test_what_is_no_share_is_refused(share: str) -> None:
    with pytest.raises(OptionError, match="--ratio a="):
        make_ratios({"a": share, "b": "0.5"})


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        (("0.8", "0.1"), "0.9"),
        (("0.8", "0.3"), "1.1"),
        (("0.333", "0.666"), "0.999"),
        (("0.5", "0.499999"), "0.999999"),
    ],
)
def test_a_wrong_sum_is_said(shares: tuple[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=rf"is {said}, not 1"):
        make_ratios(dict(zip("ab", shares, strict=True)))


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".hidden", "a/b", "/etc", "../up", "a\nb", "a\tb", "a\0b", " a", "a ", "\ud800"]
    + ["train.lst", "classes.txt", "x" * 201, "ä" * 101],
)
def test_what_is_no_file_name_is_no_side(name: str) -> None:
    with pytest.raises(OptionError):
        require_side_names(["train", name])


def test_sides_differ_on_every_disk() -> None:
    with pytest.raises(OptionError, match="one file on some disks"):
        require_side_names(["Train", "train"])
    require_side_names(["train", "val", "test", "hold-out 2", "ねこ"])


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

"""Ratios of a split: exact, and refused where they make no sense."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import OptionError
from dsprep.splits.ratios import equal_ratios, make_ratios, parse_ratios, require_side_names


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
    assert equal_ratios(["0", "1", "2", "3"]).bounds() == [0.25, 0.5, 0.75]


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

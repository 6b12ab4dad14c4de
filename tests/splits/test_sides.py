"""Sides of samples: a partition, by the ratios, the same in any order, groups whole."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.errors import OptionError, SourceError
from dsprep.splits.dealing import (
    assign_sides,
    draw,
    fill_empty_sides,
    merge_groups,
    place_groups,
    stable_sides,
)
from dsprep.splits.ratios import Ratios, make_ratios
from dsprep.splits.samples import Samples
from dsprep.splits.sides import groups_of

properties = settings(deadline=None)

PATHS = pl.Series("path", ["p1/a_7.jpg", "p1/b_7.jpg", "p22/c_8.jpg"])


def samples(paths: pl.Series) -> Samples:
    return Samples("photos", paths.to_frame())


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
    assert groups_of(samples(PATHS), pattern).to_list() == groups


@pytest.mark.parametrize("pattern", ["p1/", "q", "x*", "(x)?p"])
def test_a_path_without_a_group_is_named(pattern: str) -> None:
    with pytest.raises(SourceError, match=r"'p(1/a_7|22/c_8)\.jpg'.*every sample needs a group"):
        groups_of(samples(PATHS), pattern)


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{2,1}", "(?=p)", r"(p)\1"])
def test_no_expression_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match="not a regular expression"):
        groups_of(samples(PATHS), pattern)


def test_an_evil_expression_takes_no_time() -> None:
    paths = pl.Series("path", ["a" * 5000 + "!"])
    with pytest.raises(SourceError, match="matches nothing"):
        groups_of(samples(paths), r"^(a+)+$")


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
    placed = place_groups(groups, Ratios(("a", "b"), (1, 1)), [200, 200])
    for side in (0, 1):
        on_side = [group for group, place in zip(groups, placed, strict=True) if place == side]
        assert sum(group[0][1] for group in on_side) == 100


@properties
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 4), st.data())
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


PARTS = st.lists(st.integers(1, 9), min_size=1, max_size=5)
SEEDS = st.integers(-(2**63), 2**63)


def ratios_of(parts: list[int]) -> Ratios:
    return Ratios(tuple(map(str, range(len(parts)))), tuple(parts))


def samples_of(strata: list[int], groups: list[str] | None = None, seed: int = 0) -> pl.DataFrame:
    """Samples of classes that have numbers without gaps."""
    codes = {number: code for code, number in enumerate(sorted(set(strata)))}
    columns = {
        "path": [f"{number % 7}/{number}.jpg" for number in range(len(strata))],
        "index": list(range(len(strata))),
        "stratum": [codes[number] for number in strata],
    }
    table = pl.DataFrame(columns | ({"group": groups} if groups is not None else {}))
    return table.with_columns(draw(table["path"], seed))


STRATA = st.lists(st.integers(0, 5), min_size=1, max_size=80)


@properties
@given(STRATA, PARTS, SEEDS)
def test_each_class_is_divided_by_the_ratios(
    strata: list[int], parts: list[int], seed: int
) -> None:
    samples, ratios = samples_of(strata, seed=seed), ratios_of(parts)
    sides = assign_sides(samples, ratios, seed)
    assert len(sides) == len(strata)
    assert sides.is_between(0, len(parts) - 1).all()
    counts = Counter(zip(samples["stratum"], sides, strict=True))
    for stratum, size in Counter(samples["stratum"]).items():
        for side, part in enumerate(parts):
            assert abs(counts[stratum, side] - Fraction(size * part, ratios.whole)) < 1
    for side, part in enumerate(parts):
        total = sum(side == each for each in sides)
        assert abs(total - Fraction(len(strata) * part, ratios.whole)) < 1


@properties
@given(STRATA, PARTS, SEEDS, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_the_samples_does_not_matter(
    strata: list[int], parts: list[int], seed: int, random: object, grouped: bool
) -> None:
    groups = [str(number % 9) for number in range(len(strata))] if grouped else None
    samples, ratios = samples_of(strata, groups, seed), ratios_of(parts)
    order = list(range(len(strata)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = samples[order]
    sides = assign_sides(samples, ratios, seed)
    assert assign_sides(shuffled, ratios, seed).to_list() == sides.gather(order).to_list()


@properties
@given(STRATA, PARTS, SEEDS, st.data())
def test_groups_stay_whole(
    strata: list[int], parts: list[int], seed: int, data: st.DataObject
) -> None:
    count = len(strata)
    groups = data.draw(st.lists(st.sampled_from("abcdefgh"), min_size=count, max_size=count))
    sides = assign_sides(samples_of(strata, groups, seed), ratios_of(parts), seed)
    assert len(sides) == count
    assert len(set(zip(groups, sides, strict=True))) == len(set(groups))
    if len(set(groups)) >= 2 * len(parts) and Counter(groups).most_common()[-1][1] > 1:
        assert sides.n_unique() == len(parts)


@properties
@given(STRATA, PARTS, SEEDS)
def test_groups_of_one_are_no_groups(strata: list[int], parts: list[int], seed: int) -> None:
    alone = [f"{number}" for number in range(len(strata))]
    ratios = ratios_of(parts)
    with_groups = assign_sides(samples_of(strata, alone), ratios, seed)
    assert with_groups.to_list() == assign_sides(samples_of(strata), ratios, seed).to_list()


@properties
@given(st.integers(1, 30), SEEDS)
def test_single_samples_make_up_for_groups(groups: int, seed: int) -> None:
    """Where the groups leave room, classes come out within one of their shares."""
    strata = [number % 3 for number in range(300)]
    names = [f"g{number // 2}" if number < 2 * groups else f"s{number}" for number in range(300)]
    samples = samples_of(strata, names)
    sides = assign_sides(samples, make_ratios({"a": 0.6, "b": 0.2, "c": 0.2}), seed)
    counts = Counter(zip(samples["stratum"], sides, strict=True))
    for stratum in range(3):
        for side, share in enumerate((60, 20, 20)):
            assert abs(counts[stratum, side] - share) < 1


def test_the_seed_chooses() -> None:
    samples = samples_of([number % 5 for number in range(1000)])
    ratios = Ratios(("a", "b"), (1, 1))
    other = samples.with_columns(draw(samples["path"], 1))
    first, second = assign_sides(samples, ratios, 0), assign_sides(other, ratios, 1)
    assert first.to_list() == assign_sides(samples, ratios, 0).to_list()
    assert 400 < (first == second).sum() < 600


def test_a_split_never_changes() -> None:
    """Lists are made again after an upgrade: these are the sides for good."""
    samples = samples_of([0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0])
    ratios = make_ratios({"train": "0.5", "val": "0.25", "test": "0.25"})
    assert assign_sides(samples, ratios, 0).to_list() == [2, 0, 0, 0, 1, 2, 2, 1, 1, 0, 0, 0]
    stable = stable_sides(samples["path"], ratios, 0)
    assert stable.to_list() == [2, 0, 0, 0, 2, 1, 2, 1, 0, 1, 0, 0]


@properties
@given(
    st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=60, unique=True),
    PARTS,
    SEEDS,
    st.data(),
)
def test_stable_sides_do_not_change_as_the_data_set_grows(
    texts: list[str], parts: list[int], seed: int, data: st.DataObject
) -> None:
    ratios = ratios_of(parts)
    before = data.draw(st.lists(st.sampled_from(texts), unique=True, max_size=len(texts)))
    side_of = dict(zip(texts, stable_sides(pl.Series(texts), ratios, seed), strict=True))
    sides = stable_sides(pl.Series(before, dtype=pl.String), ratios, seed).to_list()
    assert sides == [side_of[text] for text in before]
    assert set(side_of.values()) <= set(range(len(parts)))


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_stable_sides_are_about_right(seed: int) -> None:
    texts = pl.Series([f"{number}" for number in range(20_000)])
    sides = stable_sides(texts, make_ratios({"a": 0.7, "b": 0.2, "c": 0.1}), seed)
    for side, count in enumerate((14_000, 4_000, 2_000)):
        assert abs((sides == side).sum() - count) < 400


@pytest.mark.parametrize("paths", [["a", "a", "a", "a"], ["b", "a", "b", "a"]])
def test_equal_paths_are_told_apart_by_their_ids(paths: list[str]) -> None:
    samples = pl.DataFrame({"path": paths, "index": [3, 1, 2, 0], "stratum": [0, 0, 0, 0]})
    samples = samples.with_columns(draw(samples["path"], 0))
    ratios = Ratios(("a", "b"), (1, 1))
    sides = dict(zip(samples["index"], assign_sides(samples, ratios, 0), strict=True))
    other = samples[[2, 0, 3, 1]]
    again = dict(zip(other["index"], assign_sides(other, ratios, 0), strict=True))
    assert sides == again
    assert Counter(sides.values()) == {0: 2, 1: 2}

"""Some of the rows of a list: a subset, the same one again, and stable when the list grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import OptionError
from dsprep.lists.stats import class_sizes, hash_unit, sample_count, sample_fraction
from tests.lists import paths, rows, tables

seeds = st.integers(-(2**40), 2**40)
fractions = st.floats(0, 1, exclude_min=True)
counts = st.integers(1, 8)
Draw = Callable[[pl.DataFrame, int], pl.DataFrame]


def sample_per_class(table: pl.DataFrame, count: int | None, seed: int) -> pl.DataFrame:
    """A number of rows of each class, or as many as the smallest has."""
    least = min(class_sizes(table).values())
    return sample_count(table, least if count is None else count, seed, per_class=True)


@st.composite
def classed(draw: st.DrawFn, min_size: int = 1, max_size: int = 30) -> pl.DataFrame:
    """Lists of one class number a row; some paths stand there more than once."""
    row = st.tuples(st.integers(0, 10**9), st.integers(0, 3).map(str), paths)
    return rows(
        *draw(st.lists(row, min_size=min_size, max_size=max_size, unique_by=lambda each: each[0]))
    )


@st.composite
def samplers(draw: st.DrawFn) -> Draw:
    kind = draw(st.sampled_from(["fraction", "count", "per class", "balanced"]))
    fraction, count = draw(fractions), draw(counts)
    if kind == "fraction":
        return lambda table, seed: sample_fraction(table, fraction, seed)
    if kind == "count":
        return lambda table, seed: sample_count(table, count, seed)
    return lambda table, seed: sample_per_class(table, count if kind == "per class" else None, seed)


def labels_of(table: pl.DataFrame) -> Counter[str]:
    return Counter(table["label"].to_list())


@given(classed(), samplers(), seeds)
def test_a_sample_is_some_rows_in_their_order(table: pl.DataFrame, draw: Draw, seed: int) -> None:
    kept = draw(table, seed)
    ids = set(kept["index"])
    assert len(ids) == kept.height
    assert kept.equals(table.filter(pl.col("index").is_in(ids)))


@given(classed(), samplers(), seeds)
def test_the_order_of_the_list_is_of_no_account(table: pl.DataFrame, draw: Draw, seed: int) -> None:
    assert draw(table.reverse(), seed).reverse().equals(draw(table, seed))


@given(tables(), fractions, fractions, seeds)
def test_a_larger_fraction_holds_a_smaller(
    table: pl.DataFrame, one: float, other: float, seed: int
) -> None:
    less, more = (set(sample_fraction(table, each, seed)["index"]) for each in sorted((one, other)))
    assert less <= more
    assert sample_fraction(table, 1, seed).equals(table)


@given(classed(), counts, counts, seeds)
def test_a_larger_count_holds_a_smaller(
    table: pl.DataFrame, one: int, other: int, seed: int
) -> None:
    for sample in (sample_count, sample_per_class):
        less, more = (set(sample(table, each, seed)["index"]) for each in sorted((one, other)))
        assert less <= more


@given(tables(), counts, seeds)
def test_counts_are_exact(table: pl.DataFrame, count: int, seed: int) -> None:
    assert sample_count(table, count, seed).height == min(count, table.height)


@given(classed(), counts, seeds)
def test_counts_per_class_are_exact(table: pl.DataFrame, count: int, seed: int) -> None:
    sizes = labels_of(table)
    kept = labels_of(sample_per_class(table, count, seed))
    assert kept == {label: min(size, count) for label, size in sizes.items()}
    balanced = labels_of(sample_per_class(table, None, seed))
    assert balanced == dict.fromkeys(sizes, min(sizes.values()))
    assert class_sizes(table) == sizes


@given(tables(), fractions, seeds)
def test_a_fraction_is_those_of_smaller_hashes(
    table: pl.DataFrame, fraction: float, seed: int
) -> None:
    chances = hash_unit(table["path"], seed, "sample")
    assert sample_fraction(table, fraction, seed).equals(table.filter(chances < fraction))


@given(classed(min_size=2), fractions, counts, seeds, st.data())
def test_a_sample_is_stable_when_the_list_grows(
    table: pl.DataFrame, fraction: float, count: int, seed: int, data: st.DataObject
) -> None:
    old_ids = data.draw(st.sets(st.sampled_from(table["index"].to_list()), min_size=1))
    old = table.filter(pl.col("index").is_in(old_ids))
    before = set(sample_fraction(old, fraction, seed)["index"])
    assert set(sample_fraction(table, fraction, seed)["index"]) & old_ids == before
    for sample in (sample_count, sample_per_class):
        before = set(sample(old, count, seed)["index"])
        after = set(sample(table, count, seed)["index"])
        # No old row comes in, and each that goes made room for a new one.
        assert after & old_ids <= before
        assert len(before - after) <= len(after - old_ids)


def test_the_rows_never_change() -> None:
    table = rows(*((number, str(number % 2), f"{number}.jpg") for number in range(20)))
    assert sample_fraction(table, 0.2, 0)["index"].to_list() == [2, 17]
    assert sample_count(table, 4, 0)["index"].to_list() == [0, 2, 9, 17]
    assert sample_per_class(table, 2, 1)["index"].to_list() == [12, 13, 16, 17]


def test_rows_of_one_path_are_told_apart_by_id() -> None:
    table = rows((7, "0", "a.jpg"), (3, "1", "a.jpg"), (5, "0", "a.jpg"))
    assert sample_count(table, 2, 0)["index"].to_list() == [3, 5]


def test_fractions_are_about_as_large_as_they_should_be() -> None:
    table = rows(*((number, "0", f"{number}.jpg") for number in range(20_000)))
    kept = sample_fraction(table, 0.25, 3)
    assert 4700 < kept.height < 5300
    other = sample_fraction(table, 0.25, 4)
    both = kept.join(other, on="index").height
    assert 1100 < both < 1400


@pytest.mark.parametrize("fraction", [0, -0.5, 1.5, float("nan"), float("inf")])
def test_fractions_that_are_none_are_refused(fraction: float) -> None:
    with pytest.raises(OptionError, match="above 0 and at most 1"):
        sample_fraction(rows((0, "0", "a")), fraction, 0)


@pytest.mark.parametrize("label", ["0.5", "1\t2", "2\t5\t0\t0\t0\t1\t1"])
def test_labels_that_are_no_classes_have_no_samples_per_class(label: str) -> None:
    with pytest.raises(OptionError, match="one class number"):
        class_sizes(rows((0, label, "a")))

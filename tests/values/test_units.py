"""Sizes, times and counts, as people read and write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import OptionError
from dsprep.units import format_count, format_duration, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1500", 1500),
        (1500, 1500),
        ("200MB", 200_000_000),
        ("200M", 200_000_000),
        ("200 mb", 200_000_000),
        ("64KiB", 65_536),
        ("1GiB", 1 << 30),
        ("1.5GB", 1_500_000_000),
        ("2TB", 2_000_000_000_000),
        ("7B", 7),
    ],
)
def test_sizes_are_read(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MB", "-5", "-5MB", "1.2.3", "5PB", "5 M B", "inf", "0", "0.1"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(OptionError):
        parse_size(text)


@given(st.integers(1, 10**15))
def test_a_size_that_is_written_is_read_again(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.06)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (742, "742 B"), (999, "999 B"), (1000, "1 KB"), (1536, "1.5 KB"), (2e8, "200 MB")],
)
def test_sizes_are_written(size: float, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.4 s"),
        (12.3, "12 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (59.7, "1 min 00 s"),
    ],
)
def test_times_are_written(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_counts_are_written() -> None:
    assert format_count(1, "sample") == "1 sample"
    assert format_count(0, "shard") == "0 shards"
    assert format_count(1_281_167, "sample") == "1,281,167 samples"
    assert format_count(2, "class") == "2 classes"

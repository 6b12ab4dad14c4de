"""Chance that is always the same: outputs depend on these very numbers."""

from __future__ import annotations

from hashlib import blake2b

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import OptionError
from dsprep.lists.stats import hash_unit

TEXTS = pl.Series("path", ["", "a.jpg", "cat/ねこ.jpg"])

GOLDEN = {
    (0, ""): ["0x1.6964f2e8af414p-1", "0x1.134e24dc05e08p-1", "0x1.9aef506443891p-1"],
    (1, ""): ["0x1.be3914bf48f08p-2", "0x1.e8c86c88fedb9p-1", "0x1.544edf0db72e6p-2"],
    (-1, ""): ["0x1.1bd7bf9211970p-2", "0x1.ba46601ec69aap-2", "0x1.7d934507f9d2dp-1"],
    (0, "sample"): ["0x1.2986e6679176bp-1", "0x1.38ec905fd8a0ep-1", "0x1.808db8afba254p-3"],
}


@pytest.mark.parametrize(("seed", "purpose"), GOLDEN)
def test_numbers_never_change(seed: int, purpose: str) -> None:
    found = hash_unit(TEXTS, seed, purpose)
    assert (found.name, found.dtype) == ("path", pl.Float64)
    assert [number.hex() for number in found.to_list()] == GOLDEN[seed, purpose]


@given(st.lists(st.text(st.characters(codec="utf-8"))), st.integers(-(2**127), 2**127 - 1))
def test_numbers_are_what_is_documented(texts: list[str], seed: int) -> None:
    salt = seed.to_bytes(16, "little", signed=True)
    digests = [blake2b(each.encode(), digest_size=8, salt=salt).digest() for each in texts]
    expected = [(int.from_bytes(each, "little") >> 11) / 2**53 for each in digests]
    found = hash_unit(pl.Series(texts, dtype=pl.String), seed).to_list()
    assert found == expected
    assert all(0 <= number < 1 for number in found)


def test_numbers_spread_evenly_and_seeds_have_nothing_in_common() -> None:
    texts = pl.Series([f"{number}.jpg" for number in range(20_000)])
    first, second = hash_unit(texts, 0), hash_unit(texts, 1)
    for numbers in (first, second):
        assert all(1800 < count < 2200 for count in numbers.hist(bin_count=10)["count"])
    both = ((first < 0.5) & (second < 0.5)).sum()
    assert 4700 < both < 5300


@pytest.mark.parametrize("seed", [2**127, -(2**127) - 1])
def test_a_seed_that_is_too_large_is_refused(seed: int) -> None:
    with pytest.raises(OptionError, match="at most 38 digits"):
        hash_unit(TEXTS, seed)

"""The one spelling of labels: that of Python's shortest decimals, whatever way is taken to it."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from dsprep.lists.rows import canonical_label, canonical_labels

_decimals = st.builds(
    "{}{}.{}{}".format,
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**8) | st.integers(0, 9),
    st.sampled_from(["", "0", "000", "0000", "00000"]),
    st.integers(0, 10**16) | st.integers(0, 99),
)
_whole = st.integers(-(2**53) + 1, 2**53 - 1).map(str)
_floats = st.floats(allow_nan=False, allow_infinity=False).map(repr)
_odd = st.sampled_from(["0", "-0", "-0.0", "00", "1.", ".5", "1e3", "1E-5", "0.0001", "0.00001"])
numbers = _decimals | _whole | _floats | _odd


@given(st.lists(st.lists(numbers, min_size=1, max_size=4)))
def test_labels_are_spelled_as_one_by_one(words: list[list[str]]) -> None:
    labels = canonical_labels(pl.Series(words, dtype=pl.List(pl.String)))
    assert labels.to_list() == [canonical_label(each) for each in words]
    again = canonical_labels(labels.str.split("\t"))
    assert again.to_list() == labels.to_list()

"""Labels in the formats of 32-bit floats: held exactly, rounded if fractions, or refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import BadSample
from dsprep.formats import Format
from dsprep.formats.features import PRESETS
from dsprep.formats.floats import require_exact
from dsprep.formats.recordio import RecordIO
from dsprep.formats.tfrecord import TFRecord
from dsprep.formats.webdataset import WebDataset
from tests.contract.layouts import JPEG, Picture, encode, read, shard

every_float_layout = pytest.mark.parametrize(
    "layout", [RecordIO(), TFRecord(), TFRecord(PRESETS["slim"], gzip=True)]
)


def label_in(layout: Format, *label: float) -> object:
    """The label of a sample after it was written and read."""
    (entry,) = read(layout, shard(layout, [Picture(0, "a.jpg", JPEG, label)]))
    return entry.sample.fields["label"]


@every_float_layout
@pytest.mark.parametrize("label", [16777217.0, -16777219.0, 2.0**53 - 1, 1e20])
def test_a_whole_number_that_would_change_is_refused(layout: Format, label: float) -> None:
    problem = f"the label {label:.0f} cannot be held exactly by 32-bit floats"
    for labels in [(label,), (0.5, label), (label, 2.0)]:
        with pytest.raises(BadSample, match=problem):
            encode(layout, Picture(0, "a.jpg", JPEG, labels))


@every_float_layout
@pytest.mark.parametrize("label", [16777216.0, -16777216.0, 16777218.0, 2.0**100, 0.0])
def test_a_whole_number_that_floats_hold_is_kept(layout: Format, label: float) -> None:
    assert label_in(layout, label, 2.0) == (label, 2.0)


@every_float_layout
@pytest.mark.parametrize("label", [0.1, -1e-300, 16777217.5])
def test_a_fraction_is_rounded(layout: Format, label: float) -> None:
    assert label_in(layout, 2.0, label) == (2.0, *struct.unpack("f", struct.pack("f", label)))


def test_text_holds_any() -> None:
    assert label_in(WebDataset(), 16777217.0, 0.1) == (16777217.0, 0.1)


@given(st.lists(st.floats(width=32)))
def test_what_floats_hold_is_exact(values: list[float]) -> None:
    require_exact(values)

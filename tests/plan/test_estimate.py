"""The model of what images weigh after a transform."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.plan.cut import SAMPLE, TOLERANCE, fit


def test_a_power_law_is_found() -> None:
    draw = random.Random(1)
    source = [draw.randrange(10_000, 1_000_000) for _ in range(200)]
    model = fit(source, [round(3 * size**0.7) for size in source])
    assert model.power == pytest.approx(0.7, abs=0.01)
    assert model.predict(250_000) == pytest.approx(3 * 250_000**0.7, rel=0.01)


def test_images_that_come_out_alike_are_predicted_alike() -> None:
    model = fit([100, 900, 5_000], [50, 50, 50])
    assert {model.predict(size) for size in (1, 10_000)} == {50}


def test_the_prediction_is_right_in_total() -> None:
    draw = random.Random(2)
    source = [draw.randrange(1_000, 100_000) for _ in range(300)]
    encoded = [round(size**0.8 * draw.uniform(0.7, 1.3)) for size in source]
    model = fit(source, encoded)
    assert sum(map(model.predict, source)) == pytest.approx(sum(encoded), rel=0.001)


@given(
    st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=1, max_size=50),
    st.integers(1, 10**9),
)
def test_no_sizes_break_it(pairs: list[tuple[int, int]], size: int) -> None:
    model = fit(*(list(column) for column in zip(*pairs, strict=True)))
    assert 0 <= model.power <= 1
    assert model.predict(size) >= 1
    assert 0 <= model.safe_capacity(10**6, 1000.0) <= 10**6


def test_shards_stay_within_the_tolerance_though_sizes_scatter() -> None:
    """Plan many shards of random sizes with the model, and weigh them."""
    draw = random.Random(3)
    source = [draw.randrange(20_000, 200_000) for _ in range(60_000)]
    encoded = [round(2 * size**0.8 * draw.lognormvariate(0, 0.3)) for size in source]
    model = fit(source[:SAMPLE], encoded[:SAMPLE])
    predicted = [model.predict(size) for size in source]
    capacity = 300 * sum(predicted) // len(predicted)
    room = model.safe_capacity(capacity, sum(predicted) / len(predicted))
    filled = real = shards = 0
    for guess, size in zip(predicted, encoded, strict=True):
        if filled + guess > room:
            assert real <= capacity * (1 + TOLERANCE)
            filled = real = 0
            shards += 1
        filled += guess
        real += size
    assert shards > 150

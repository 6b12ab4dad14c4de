"""The figures of runs, and what limits them: pure functions, judged by a model of a loop."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count
from statistics import fmean, pvariance

import pytest

from dsprep.benching.figures import (
    LimitEvidence,
    epochs_to_beat,
    figures_of,
    limit_of,
    medians,
    sentence,
    windows_of,
)
from dsprep.benching.loops import LoopRun, Step


def test_the_first_step_and_the_warmup_do_not_count() -> None:
    times = [5.0, 1.0, *(0.01 * number for number in range(1, 101))]
    run = LoopRun([Step(seconds, 4, 400) for seconds in times], cpu=2.04, memory=7)

    found = figures_of(run, warmup=1, compute=0.001)

    assert found.first_batch == pytest.approx(4.999)
    assert found.step_mean == pytest.approx(fmean(times[2:]))
    assert found.step_variance == pytest.approx(pvariance(times[2:]))
    percentiles = found.step_p50, found.step_p95, found.step_p99
    assert percentiles == pytest.approx((0.5, 0.95, 0.99))
    assert found.images_per_second == pytest.approx(400 / sum(times[2:]))
    assert found.bytes_per_second == pytest.approx(40_000 / sum(times[2:]))
    assert found.cpu_per_1000 == pytest.approx(1000 * 2.04 / 408)
    assert found.utilization == pytest.approx(0.1 / sum(times[2:]))


def test_a_run_that_is_shorter_than_the_warmup_keeps_its_last_step() -> None:
    run = LoopRun([Step(1.0, 4, None), Step(0.5, 2, None)])

    found = figures_of(run, warmup=10, compute=0)

    assert found.images_per_second == 4
    assert found.bytes_per_second is None


def test_rounds_become_medians() -> None:
    rounds = [
        figures_of(LoopRun([Step(1, 4, None), Step(seconds, 4, None)]), 0, 0)
        for seconds in (1, 2, 4)
    ]

    assert medians(rounds).step_mean == 2


def test_windows_have_a_mean_and_a_variance_each() -> None:
    steps = [Step(seconds, 4, None) for seconds in (1, 3, 5, 5, 7)]

    assert windows_of(steps, 2) == [(2, 1), (5, 0), (7, 0)]


@pytest.mark.parametrize(
    ("copying", "local", "streamed", "epochs"),
    [(100.0, 1000.0, 500.0, 10), (0.5, 1000.0, 500.0, 1), (1.0, 500.0, 1000.0, None)],
)
def test_a_copy_pays_after_some_epochs(
    copying: float, local: float, streamed: float, epochs: int | None
) -> None:
    assert epochs_to_beat(copying, 10_000, local, streamed) == epochs


def of_model(
    rng: random.Random, costs: dict[str, float], workers: int, cores: int, batch: int
) -> LimitEvidence:
    """What would be measured of a loop whose images cost these seconds of each kind."""
    processes = max(workers, 1)
    of_processes = (costs["processor"] + costs["latency"]) / processes
    of_cores = costs["processor"] / min(cores, processes)
    reading = max(of_processes, of_cores, costs["bandwidth"])
    image = reading + costs["compute"] if not workers else max(reading, costs["compute"])
    speed = rng.uniform(0.97, 1.03) / image
    busy = min(speed * costs["processor"] * rng.uniform(0.97, 1.03), cores)
    share = min(costs["compute"] * speed, 1.0)
    return LimitEvidence(speed, workers, cores, busy, share, cores - busy)


CASES = [
    (limit, seed)
    for limit in ("compute", "processor", "latency", "bandwidth")
    for seed in range(12)
]


def constructed(limit: str, seed: int) -> tuple[LimitEvidence, LimitEvidence]:
    """A case in which one cost is by far the largest, whatever the others are."""
    rng = random.Random(f"{limit} {seed}")
    cores = rng.choice((8, 16, 64))
    few = rng.choice((1, 2))
    many = few * rng.choice((2, 4))
    largest = rng.uniform(0.001, 0.1)
    costs = {
        kind: largest * rng.uniform(0, 0.08) / many
        for kind in ("compute", "processor", "latency", "bandwidth")
    }
    # A cost that workers share is as large for each of them.
    costs[limit] = largest * (many if limit in ("processor", "latency") else 1)
    one, other = (of_model(rng, costs, workers, cores, 4) for workers in (few, many))
    return one, other


@pytest.mark.parametrize(("limit", "seed"), CASES)
def test_the_limit_is_that_of_the_model(limit: str, seed: int) -> None:
    one, other = constructed(limit, seed)

    found = {limit_of(one, [other]), limit_of(other, [one])}

    assert found <= {limit, "undecided"}


def test_few_of_the_clear_cases_stay_undecided() -> None:
    found = Counter(limit_of(*reversed_pair(*case)) for case in CASES)

    assert found["undecided"] <= len(CASES) / 3


def reversed_pair(limit: str, seed: int) -> tuple[LimitEvidence, list[LimitEvidence]]:
    one, other = constructed(limit, seed)
    return other, [one]


def mixed() -> list[tuple[str, LimitEvidence, LimitEvidence]]:
    """1,000 cases with random costs of all kinds, one at least 1.5 times as large as the others."""
    found = []
    for seed in count():
        rng = random.Random(seed)
        cores, few = rng.choice((2, 4, 8)), rng.choice((0, 1, 2))
        many = max(few, 1) * rng.choice((2, 4))
        costs = {
            kind: 10 ** rng.uniform(-4, -1)
            for kind in ("compute", "processor", "latency", "bandwidth")
        }
        weights = {
            "compute": costs["compute"],
            "processor": costs["processor"] / min(max(few, 1), cores),
            "latency": costs["latency"] / max(few, 1),
            "bandwidth": costs["bandwidth"],
        }
        (limit, most), (_, next_one) = sorted(weights.items(), key=lambda each: -each[1])[:2]
        if most >= 1.5 * next_one:
            one, other = (of_model(rng, costs, workers, cores, 4) for workers in (few, many))
            noise = rng.uniform(0.9, 1.1)
            found.append((limit, one, other._replace(speed=noise * other.speed)))
        if len(found) == 1000:
            return found
    raise AssertionError


def test_no_mixed_case_is_taken_for_another() -> None:
    found = Counter()
    for limit, one, other in mixed():
        said = limit_of(one, [other])
        assert said in (limit, "undecided"), (limit, one, other)
        found[said] += 1

    assert found["undecided"] <= 1000 / 3


def test_a_machine_without_idle_cores_tells_nothing_of_waiting() -> None:
    alone = LimitEvidence(100, 2, 2, 0.3, 0, idle=1.7)

    assert limit_of(alone) == "storage"
    assert limit_of(alone._replace(idle=0.1)) == "undecided"


def test_the_sentence_names_the_fastest_first() -> None:
    said = sentence([("a", 10, "latency"), ("b", 2000, "processor"), ("c", 5, "latency")])
    alone = sentence([("a", 10, "processor"), ("b", 5, "processor")])

    assert said == (
        "b: 2,000 images/s, the most; the processor limits it. a; c: waiting for each read limits "
        "them, so that more workers help."
    )
    assert alone.endswith(" b: the processor limits it.")
    assert sentence([]) == "Nothing was measured."

"""Parts move several at once, not too fast, and stop when they are told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from dsprep.errors import Interrupted, StoreError
from dsprep.stores.retries import Retries
from dsprep.transfers.pace import Pace


@pytest.fixture
def pace() -> Iterator[Pace]:
    pace = Pace(concurrency=3)
    yield pace
    pace.close()


def test_results_are_in_order(pace: Pace) -> None:
    assert pace.each(lambda number: number * number, range(100)) == [n * n for n in range(100)]
    assert pace.each(str, []) == []


def test_so_many_at_once(pace: Pace) -> None:
    together = threading.Barrier(3)
    pace.each(lambda _: together.wait(timeout=60), range(6))
    now, most, lock = [0], [0], threading.Lock()

    def count(_: int) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.001)
        with lock:
            now[0] -= 1

    threads = [threading.Thread(target=pace.each, args=(count, range(20))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] <= 3


def test_after_a_failure_nothing_begins(pace: Pace) -> None:
    begun = []

    def fail(number: int) -> None:
        begun.append(number)
        raise StoreError(f"number {number}")

    with pytest.raises(StoreError, match="number 0"):
        pace.each(fail, range(1000))
    assert len(begun) <= 3
    assert pace.each(str, [1]) == ["1"]


def test_a_stop_ends_what_waits_and_what_runs(pace: Pace) -> None:
    def run(_: int) -> None:
        pace.stop()
        pace.wait(1000)

    with pytest.raises(Interrupted, match="to continue"):
        pace.each(run, range(10))
    with pytest.raises(Interrupted):
        pace.take(1)


def test_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    pace = Pace(bandwidth=1000)
    monkeypatch.setattr(pace, "wait", waits.append)
    for _ in range(3):
        pace.take(2000)
    pace.take(-2000)
    assert [round(wait) for wait in waits] == [2, 4, 6]


def test_waits_grow_up_to_a_limit() -> None:
    retries = Retries(first=1.0, longest=5.0)
    for failed, most in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (50, 5.0)):
        delays = [retries.delay(failed) for _ in range(200)]
        assert 0 <= min(delays) < most / 4
        assert most * 3 / 4 < max(delays) <= most

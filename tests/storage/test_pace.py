"""Parts move several at once, not too fast, and stop when they are told to."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

import pytest

from dsprep.errors import Interrupted, StoreError
from dsprep.storage.pool import Pace
from dsprep.storage.s3.config import Retries


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

    with pytest.raises(StoreError, match="number [012]"):  # three threads begin together
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


def interrupted_at(step: int, call: Callable[[], object]) -> bool:
    """Make a call that is interrupted as by a signal, whose handler runs between other calls.

    Args:
        step: After how many calls.
        call: The call.

    Returns:
        Whether it made as many.
    """
    before, left = sys.getprofile(), step

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal left
        left -= event in ("call", "c_return")
        if left == 0:
            left = -1
            raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
    return False


def in_time(call: Callable[[], object]) -> bool:
    """Whether a call ends, which another thread makes."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    return not thread.is_alive()


def test_a_wait_that_was_interrupted_anywhere_lets_all_be_stopped() -> None:
    pace, step = Pace(), 1
    while interrupted_at(step, partial(pace.wait, 1e-9)):
        assert in_time(pace.stop)
        pace, step = Pace(), step + 1


def test_calls_that_were_interrupted_anywhere_let_others_go_on(pace: Pace) -> None:
    pace.each(str, [1])
    step = 1
    while interrupted_at(step, lambda: pace.each(str, [1, 2])):
        assert in_time(lambda: pace.each(str, range(6)))
        step += 1


def test_several_files_have_all_threads(pace: Pace) -> None:
    together = threading.Barrier(3)
    threads = [
        threading.Thread(target=pace.each, args=(lambda _: together.wait(timeout=60), [1]))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken


def test_a_thread_that_does_not_start_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pace = Pace(1)
    with monkeypatch.context() as now, pytest.raises(RuntimeError):
        now.setattr(threading.Thread, "start", refuse)
        pace.each(str, [1])
    assert in_time(lambda: pace.each(str, [1]))


def test_threads_that_wait_hold_nothing(pace: Pace) -> None:
    class Data:
        pass

    made: list[weakref.ref[Data]] = []

    def make(_: int) -> Data:
        data = Data()
        made.append(weakref.ref(data))
        return data

    def wait() -> None:
        while any(each() for each in made):
            time.sleep(0.01)
            gc.collect()

    assert len(pace.each(make, range(6))) == 6
    assert in_time(wait)


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

"""Calls made by other threads: whatever threads there are, and nothing of them is kept."""

from __future__ import annotations

import threading
import weakref

import pytest

from dsprep.storage.pool import THREADS, Threads


class Large:
    """A result whose end is noticed."""


def test_threads_that_cannot_be_started_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    left = [0]

    def limited(self: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    threads = Threads(THREADS)
    for _ in range(THREADS):
        with pytest.raises(RuntimeError):
            threads.submit(Large)
    left[0] = 1
    found = [threads.submit(Large) for _ in range(THREADS)]
    assert all(isinstance(each.result(60), Large) for each in found)


def test_results_are_kept_by_nobody_but_who_wants_them() -> None:
    threads = Threads(THREADS)
    gone = threading.Event()
    weakref.finalize(threads.submit(Large).result(60), gone.set)
    assert gone.wait(30)


def test_calls_that_wait_for_further_ones_end() -> None:
    """Reading the head of an object asks for its bytes, and heads are read by many threads."""
    threads = Threads(2)
    found = [threads.submit(lambda: threads.submit(Large).result(60)) for _ in range(5)]
    assert all(isinstance(each.result(60), Large) for each in found)

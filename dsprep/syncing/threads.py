"""Calls in several threads, which do not keep a process from ending."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from dsprep.storage.pool import Pace

A = TypeVar("A")
B = TypeVar("B")

_GRACE = 8.0  # seconds that running calls have to end after a stop or a failure


def in_threads(
    do: Callable[[A], B], items: Iterable[A], count: int, pace: Pace
) -> Iterator[tuple[A, B]]:
    """Call a function for all items; yield items and results as they come.

    After a stop or a failure no more calls begin, and running ones get some seconds to end and to
    clean up.
    """
    waiting = deque(items)
    done: SimpleQueue[tuple[A, Future[B]]] = SimpleQueue()

    def work() -> None:
        with suppress(IndexError):  # when nothing waits
            while not pace.stopped:
                item = waiting.popleft()
                outcome = _outcome(do, item)
                if outcome.exception() is not None:
                    waiting.clear()
                done.put((item, outcome))

    left = len(waiting)
    threads = [
        threading.Thread(target=work, name="file", daemon=True) for _ in range(min(count, left))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(left):
            item, outcome = _next(done, pace)
            yield item, outcome.result()
    except BaseException:
        pace.stop()
        deadline = time.monotonic() + _GRACE
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        raise


def _outcome(do: Callable[[A], B], item: A) -> Future[B]:
    outcome: Future[B] = Future()
    try:
        outcome.set_result(do(item))
    except BaseException as error:  # it is raised where the result is asked for
        outcome.set_exception(error)
    return outcome


def _next(done: SimpleQueue[A], pace: Pace) -> A:
    while True:
        pace.check()
        with suppress(Empty):
            return done.get(timeout=0.5)

"""Calls made by other threads ahead of the one that needs their results.

What a request to S3 takes is waiting, so some are under way at once; and as many bytes at most are
in memory as are said here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 16
"""Calls that are made at once by a process."""

_CALLS = 2 * THREADS
_BYTES = 64 << 20
"""What results may take that nobody has asked for yet."""


class _Threads:
    """Threads that make calls; they end with the process, whatever they are waiting for.

    Those of :mod:`concurrent.futures` would keep a process that is to end until S3 has answered.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0

    def submit(self, call: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._count < THREADS:
                self._start()
        self._calls.put((call, future))
        return future

    def _start(self) -> None:
        try:
            threading.Thread(target=self._work, daemon=True).start()
        except RuntimeError:  # as many as the system allows are there
            if not self._count:
                raise
        else:
            self._count += 1

    def _work(self) -> None:
        while True:
            _make(*self._calls.get())


def _make(call: Callable[[], T], future: Future[T]) -> None:
    """Make a call; what it took and gave is not kept by a thread that waits for the next."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)


submit = _Threads().submit
"""Have a call made by another thread; it must not wait for one that is made so, too."""


def ahead(calls: Iterable[tuple[int, Callable[[], T]]]) -> Iterator[T]:
    """Make calls in other threads, some of them ahead of the one whose result is wanted."""
    waiting: deque[tuple[int, Future[T]]] = deque()
    coming = 0
    try:
        for size, call in calls:
            waiting.append((size, submit(call)))
            coming += size
            while len(waiting) > _CALLS or (coming > _BYTES and waiting):
                size, first = waiting.popleft()
                coming -= size
                yield first.result()
        while waiting:
            yield waiting.popleft()[1].result()
    finally:
        for _, each in waiting:
            each.cancel()

"""How fast transfers go: how many requests at once, how many bytes a second, and when to stop."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from dsprep.errors import Interrupted
from dsprep.storage.flag import Flag

A = TypeVar("A")
B = TypeVar("B")

DEFAULT_CONCURRENCY = 8

_GRACE = 2.0
"""Seconds that requests under way have to end when all is to stop."""


class Pace:
    """Threads that move parts, shared by all files, and what holds them back.

    They are daemons: a process that ends does not wait for a server that does not answer.
    """

    def __init__(self, concurrency: int = DEFAULT_CONCURRENCY, bandwidth: float = 0.0) -> None:
        """Set the pace."""
        self.concurrency = concurrency
        self.slots = threading.BoundedSemaphore(concurrency)
        self._bandwidth = bandwidth
        self._stopped = Flag()
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._due = 0.0

    @property
    def stopped(self) -> bool:
        """Whether all is to stop."""
        return self._stopped.is_set

    def stop(self) -> None:
        """Let everything end as soon as it can; for signal handlers, too."""
        self._stopped.set()

    def check(self) -> None:
        """Go on, unless all is to stop."""
        if self._stopped.is_set:
            raise Interrupted("interrupted; give the same command again to continue")

    def wait(self, seconds: float) -> None:
        """Sleep, unless all is to stop."""
        self._stopped.wait(seconds)
        self.check()

    def take(self, size: int) -> None:
        """Have so many bytes go: waits until they may."""
        self.check()
        if not self._bandwidth or size <= 0:
            return
        with self._lock:
            now = time.monotonic()
            self._due = max(self._due, now) + size / self._bandwidth
            ahead = self._due - now
        if ahead > 0:
            self.wait(ahead)

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Call a function with every item, several at once.

        Not to be called by such a function. After a failure, what has not begun does not begin,
        and what has is waited for.
        """
        batch = _Batch(function, list(items))
        self._start(len(batch.items))
        for index in range(len(batch.items)):
            self._tasks.put(partial(batch.run, index, self))
        return batch.wait(self)

    def close(self) -> None:
        """Let the threads end."""
        with self._lock:
            for _ in self._threads:
                self._tasks.put(None)
            self._threads.clear()

    def _start(self, items: int) -> None:
        """Start threads for so many items, as others may be busy with those of another file."""
        with self._lock:
            for _ in range(min(items, self.concurrency - len(self._threads))):
                thread = threading.Thread(target=self._work, name="transfer", daemon=True)
                thread.start()
                self._threads.append(thread)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # what it holds may be large, and the next may come late


class _Batch:
    """The calls of one `Pace.each`.

    A signal may interrupt who waits for them: they meet in a queue, which that does not harm, and
    not in a `threading.Condition`, which it may leave locked.
    """

    def __init__(self, function: Callable[[Any], Any], items: list[Any]) -> None:
        self.items = items
        self._function = function
        self._results: list[Any] = [None] * len(items)
        self._error: BaseException | None = None
        self._running = 0
        self._lock = threading.Lock()
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    def run(self, index: int, pace: Pace) -> None:
        if self._may_begin(pace):
            try:
                self._results[index] = self._function(self.items[index])
            except BaseException as error:  # it is raised where the results are waited for
                self._fail(error)
            with self._lock:
                self._running -= 1
        self._ended.put(None)

    def _may_begin(self, pace: Pace) -> bool:
        with self._lock:
            may = self._error is None and not pace.stopped
            self._running += may
        return may

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._error = self._error or error

    def wait(self, pace: Pace) -> list[Any]:
        """Wait for all calls; a stop is noticed within half a second."""
        try:
            left = len(self.items)
            while left:
                with suppress(queue.Empty):
                    self._ended.get(timeout=0.5)
                    left -= 1
                if pace.stopped:
                    pace.check()
        except BaseException as error:
            self._fail(error)
            deadline = time.monotonic() + _GRACE
            while self._running and time.monotonic() < deadline:
                time.sleep(0.02)
            raise
        if self._error is not None:
            raise self._error
        pace.check()
        return self._results

"""How fast transfers go: how many requests at once, how many bytes a second, and when to stop."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from dsprep.errors import Interrupted

A = TypeVar("A")
B = TypeVar("B")

DEFAULT_CONCURRENCY = 8

_GRACE = 2.0
"""Seconds that requests under way have to end when all is to stop."""


class Pace:
    """Threads that move parts, shared by all files, and what holds them back.

    They are daemons: a process that ends does not wait for a server that does not answer.

    Attributes:
        concurrency: How many parts move at once.
        slots: Held by who sends a small file without these threads, so that those are no more.
    """

    def __init__(self, concurrency: int = DEFAULT_CONCURRENCY, bandwidth: float = 0.0) -> None:
        """Set the pace.

        Args:
            concurrency: How many parts move at once.
            bandwidth: Bytes a second in all; 0 for no limit.
        """
        self.concurrency = concurrency
        self.slots = threading.BoundedSemaphore(concurrency)
        self._bandwidth = bandwidth
        self._stopped = threading.Event()
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._due = 0.0

    @property
    def stopped(self) -> bool:
        """Whether all is to stop."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Let everything end as soon as it can; for signal handlers, too."""
        self._stopped.set()

    def check(self) -> None:
        """Go on, unless all is to stop.

        Raises:
            Interrupted: If it is.
        """
        if self._stopped.is_set():
            raise Interrupted("interrupted; give the same command again to continue")

    def wait(self, seconds: float) -> None:
        """Sleep, unless all is to stop.

        Raises:
            Interrupted: If it is.
        """
        self._stopped.wait(seconds)
        self.check()

    def take(self, size: int) -> None:
        """Have so many bytes go: waits until they may.

        Raises:
            Interrupted: If all is to stop.
        """
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

        Returns:
            The results, in the order of the items.

        Raises:
            Interrupted: If all is to stop.
        """
        batch = _Batch(function, list(items))
        self._start(min(self.concurrency, len(batch.items)))
        for index in range(len(batch.items)):
            self._tasks.put(partial(batch.run, index, self))
        return batch.wait(self)

    def close(self) -> None:
        """Let the threads end."""
        with self._lock:
            for _ in self._threads:
                self._tasks.put(None)
            self._threads.clear()

    def _start(self, wanted: int) -> None:
        with self._lock:
            while len(self._threads) < wanted:
                thread = threading.Thread(target=self._work, name="transfer", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


class _Batch:
    """The calls of one `Pace.each`."""

    def __init__(self, function: Callable[[Any], Any], items: list[Any]) -> None:
        self.items = items
        self._function = function
        self._results: list[Any] = [None] * len(items)
        self._left, self._running = len(items), 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def run(self, index: int, pace: Pace) -> None:
        with self._changed:
            if self._error is not None or pace.stopped:
                self._left -= 1
                self._changed.notify()
                return
            self._running += 1
        try:
            self._results[index] = self._function(self.items[index])
        except BaseException as error:  # it is raised where the results are waited for
            with self._changed:
                self._error = self._error or error
        finally:
            with self._changed:
                self._running -= 1
                self._left -= 1
                self._changed.notify()

    def wait(self, pace: Pace) -> list[Any]:
        """Wait for all calls; a stop is noticed within half a second."""
        try:
            with self._changed:
                while self._left:
                    self._changed.wait(0.5)
                    if pace.stopped:
                        pace.check()
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
                deadline = time.monotonic() + _GRACE
                while self._running and time.monotonic() < deadline:
                    self._changed.wait(0.1)
            raise
        if self._error is not None:
            raise self._error
        pace.check()
        return self._results

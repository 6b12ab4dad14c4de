"""Threads that make requests: how many at once, how many bytes a second, and when to stop."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dsprep.errors import Interrupted

if TYPE_CHECKING:
    from concurrent.futures import Future

A = TypeVar("A")
B = TypeVar("B")

Update: TypeAlias = Callable[[bytes], object]
"""What gets each block that is read of a file."""

DEFAULT_CONCURRENCY = 8
THREADS = 16  # calls that a process makes ahead at once
_CALLS = 2 * THREADS
_BYTES = 64 << 20  # maximum size of results that are kept until they are asked for
_GRACE = 2.0  # seconds that requests under way have to end after a stop
LONG_GRACE = 8.0  # seconds that transfers of files have to end after a stop or a failure
_LOOK_EVERY = 0.2


class Flag:
    """A one-way flag that is safe to set from a signal handler.

    Unlike a `threading.Event` it has no lock: a handler may set it while the thread that it
    interrupts is waiting, and an exception that it raises leaves nothing locked.
    """

    is_set = False

    def set(self) -> None:
        self.is_set = True

    def wait(self, seconds: float) -> bool:
        """Sleep until the flag is set, or for some seconds; return whether it is set."""
        end = time.monotonic() + seconds
        while not self.is_set and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_EVERY))
        return self.is_set


_own = threading.local()
"""What each thread has of its own: a buffer, and the `Threads` that it is one of."""


class Threads:
    """Daemon threads that make calls, started when they are needed.

    The threads of :mod:`concurrent.futures` would keep a process that ends until S3 has answered.
    """

    def __init__(self, count: int) -> None:
        self._most, self._count, self._lock = count, 0, threading.Lock()
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def add(self, call: Callable[[], object]) -> None:
        """Have a call made, which must raise nothing."""
        with self._lock:
            if self._count < self._most:
                try:
                    threading.Thread(target=self._work, name="transfer", daemon=True).start()
                    self._count += 1
                except RuntimeError:  # the system allows no more threads
                    if not self._count:
                        raise
        self._calls.put(call)

    def submit(self, call: Callable[[], B]) -> Future[B]:
        """Have a call made; one that such a thread asks for is made at once, by itself.

        All threads may be busy with calls that wait for further ones, which would never be made.
        """
        from concurrent.futures import Future  # slow to load

        future: Future[B] = Future()

        def make() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)

        if getattr(_own, "threads", None) is self:
            make()
        else:
            self.add(make)
        return future

    def close(self) -> None:
        with self._lock:
            for _ in range(self._count):
                self._calls.put(None)
            self._count = 0

    def _work(self) -> None:
        _own.threads = self
        while (call := self._calls.get()) is not None:
            call()
            del call  # free the arguments now: they may be large, and the next call may come late


submit = Threads(THREADS).submit


def own_buffer(size: int) -> memoryview:
    """Return this thread's buffer, used again and again: fresh memory costs page faults."""
    kept: bytearray | None = getattr(_own, "buffer", None)
    if kept is None or len(kept) < size:
        kept = _own.buffer = bytearray(size)
    return memoryview(kept)[:size]


def ahead(calls: Iterable[tuple[int, Callable[[], B]]]) -> Generator[B, None, None]:
    """Make calls in other threads, some of them before their results are asked for."""
    # Each call comes with the size of its result.
    waiting: deque[tuple[int, Future[B]]] = deque()
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
        for _, future in waiting:
            future.cancel()


class BlocksAhead:
    """A file that is read from front to back, each block in another thread before it is asked for.

    The thread passes each block on to the updates. A file of one block is read without a thread.
    """

    def __init__(self, file: Any, *updates: Update) -> None:
        self._file, self._updates = file, updates
        self._threads = Threads(1)
        self._coming: Future[bytes] | None = None

    def read(self, size: int) -> bytes:
        """Return the next block; an empty one at the end.

        A block that was read ahead has the size that the call before gave, or is shorter.
        """
        if self._coming is None:
            block = self._read(size)
            is_last = len(block) < size
        else:
            block = self._coming.result()
            is_last = not block
        self._coming = None
        with suppress(RuntimeError):  # the system allows no more threads
            if not is_last:
                self._coming = self._threads.submit(partial(self._read, size))
        return block

    def _read(self, size: int) -> bytes:
        block: bytes = self._file.read(size)
        for update in self._updates:
            update(block)
        return block

    def __enter__(self) -> BlocksAhead:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.close()
        if self._coming is not None:  # the caller closes the file, which no thread may read then
            from concurrent.futures import wait

            wait([self._coming], _GRACE)


class Pace:
    """Threads that move parts, shared by all files, with a limit of bandwidth and a stop."""

    def __init__(self, concurrency: int = DEFAULT_CONCURRENCY, bandwidth: float = 0.0) -> None:
        self.concurrency, self.slots = concurrency, threading.BoundedSemaphore(concurrency)
        self._threads, self._bandwidth = Threads(concurrency), bandwidth
        self._stopped, self._lock, self._due = Flag(), threading.Lock(), 0.0

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set

    def stop(self) -> None:
        """Let everything end as soon as it can; signal handlers may call this."""
        self._stopped.set()

    def check(self) -> None:
        if self.stopped:
            raise Interrupted("interrupted; give the same command again to continue")

    def wait(self, seconds: float) -> None:
        """Sleep, or raise `Interrupted` as soon as there is a stop."""
        self._stopped.wait(seconds)
        self.check()

    def take(self, size: int) -> None:
        """Wait until the bandwidth limit allows this many bytes."""
        self.check()
        if not self._bandwidth or size <= 0:
            return
        with self._lock:
            now = time.monotonic()
            self._due = max(self._due, now) + size / self._bandwidth
            left = self._due - now
        self.wait(left)

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Call a function with every item, several at once; it must not call `each` itself."""
        # After a failure nothing more begins, and what has begun is waited for.
        calls = list(items)
        results = dict(self._completed(self._threads, function, calls))
        return [results[index] for index in range(len(calls))]

    def in_threads(self, function: Callable[[A], B], items: Iterable[A]) -> Iterator[tuple[A, B]]:
        """Call a function in other threads, so that it may call `each`; yield results as they come.

        A failure stops everything; calls that run get some seconds to clean up.
        """
        calls, threads = list(items), Threads(self.concurrency)
        try:
            for index, result in self._completed(threads, function, calls, fatal=True):
                yield calls[index], result
        finally:
            threads.close()

    def _completed(
        self, threads: Threads, function: Callable[[A], B], calls: list[A], *, fatal: bool = False
    ) -> Iterator[tuple[int, B]]:
        results: dict[int, B] = {}
        errors: list[BaseException] = []
        running: set[int] = set()
        # A signal may interrupt the thread that waits, which does this queue no harm; a
        # `threading.Condition` may stay locked.
        ended: queue.SimpleQueue[int] = queue.SimpleQueue()

        def run(index: int) -> None:
            running.add(index)
            if not (errors or self.stopped):
                try:
                    results[index] = function(calls[index])
                except BaseException as error:  # raised where the results are waited for
                    errors.append(error)
            running.discard(index)
            ended.put(index)

        for index in range(len(calls)):
            threads.add(partial(run, index))
        left = len(calls)
        try:
            while left and not (fatal and errors):
                with suppress(queue.Empty):
                    index = ended.get(timeout=0.5)
                    left -= 1
                    if index in results:
                        yield index, results.pop(index)
                self.check()
            if errors:
                raise errors[0]
            self.check()
        except BaseException as error:
            errors.append(error)
            if fatal:
                self.stop()
            deadline = time.monotonic() + (LONG_GRACE if fatal else _GRACE)
            while running and time.monotonic() < deadline:
                time.sleep(0.02)
            raise

    def close(self) -> None:
        self._threads.close()

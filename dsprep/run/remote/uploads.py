"""Files that wait on this machine for their way to S3, in limited room."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from dsprep.units import format_count, format_size

_THREADS = 4
"""Shards on their way at once. Large ones go in parts, which have threads of their own."""

_LOOK_EVERY = 0.02


class Uploads:
    """Sends what is finished, in threads that a process which ends does not wait for.

    Room is taken when a file begins to be written, and given back when it has been sent.
    """

    def __init__(self, room: int) -> None:
        """Begin with nothing to send."""
        self._room = room
        self._taken: dict[str, int] = {}
        self._waiting: queue.SimpleQueue[tuple[str, Callable[[], None]] | None]
        self._waiting = queue.SimpleQueue()
        self._queued = 0
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def take_room(self, name: str, size: int) -> bool:
        """Take room for a file, if there is enough, or nothing else is there."""
        with self._lock:
            if self._taken and sum(self._taken.values()) + size > self._room:
                return False
            self._taken[name] = size
            return True

    def add(self, name: str, size: int, send: Callable[[], None]) -> None:
        """Have a finished file sent."""
        with self._lock:
            self._taken[name] = size
            self._queued += 1
            if len(self._threads) < _THREADS:
                thread = threading.Thread(target=self._work, name="upload", daemon=True)
                thread.start()
                self._threads.append(thread)
        self._waiting.put((name, send))

    def check(self) -> None:
        """See that nothing has failed."""
        if self._error is not None:
            raise self._error

    def wait(self, seconds: float) -> bool:
        """Wait until all has been sent, but no longer than so many seconds; returns whether."""
        end = time.monotonic() + seconds
        # Not by a threading.Condition, which a signal may leave locked.
        while self._queued and self._error is None and time.monotonic() < end:
            time.sleep(_LOOK_EVERY)
        self.check()
        return not self._queued

    def left(self) -> str:
        """What has not been sent yet, in words."""
        with self._lock:
            size = sum(self._taken.values())
            return f"{format_count(self._queued, 'shard')} of {format_size(size)} are to be sent"

    def close(self) -> None:
        """Let the threads end."""
        for _ in self._threads:
            self._waiting.put(None)
        self._threads.clear()

    def _work(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            if self._error is None:
                self._send(*waiting)
            del waiting  # what it holds may be large, and the next may come late

    def _send(self, name: str, send: Callable[[], None]) -> None:
        error = None
        try:
            send()
        except BaseException as raised:  # raised anew where the run looks after its uploads
            error = raised
        with self._lock:
            if error is None:
                self._taken.pop(name, None)
                self._queued -= 1
            self._error = self._error or error

"""Lines of a sync in a log: what has to be known at once, and now and then how far it is."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from dsprep.cli.streams import visible
from dsprep.storage.events import Events
from dsprep.storage.retries import retry_line
from dsprep.units import format_duration, format_size

if TYPE_CHECKING:
    from dsprep.errors import StoreError

_LINE_EVERY = 15.0
"""Seconds between two lines."""

_RETRY_EVERY = 1.0
"""Seconds between two lines about what is tried again."""


class Lines(Events):
    """Writes lines."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream."""
        self.stream = stream
        self._writing = threading.RLock()
        self._said = self._start = time.monotonic()
        self._retried = -_RETRY_EVERY
        self._sent = self._size = 0

    def plan(self, files: int, size: int) -> None:
        """So many more files, and bytes, are to go."""
        with self._writing:
            self._size += size

    def found(self, name: str, size: int, parts: int) -> None:
        """Bytes that are there already count as done."""
        self.moved(name, size)

    def moved(self, name: str, size: int) -> None:
        """Write a line when one is due."""
        with self._writing:
            self._sent += size
            now = time.monotonic()
            if now - self._said < _LINE_EVERY:
                return
            self._said = now
            rate = self._sent / (now - self._start)
            left = (self._size - self._sent) / rate if rate > 0 else 0.0
            self.say(
                f"sent {format_size(self._sent)} of {format_size(self._size)}, "
                f"{format_size(rate)}/s, {format_duration(left)} left"
            )

    def retry(self, error: StoreError, delay: float) -> None:
        """A request failed, and will be made again; of many that fail at once, some are told."""
        now = time.monotonic()
        if now - self._retried >= _RETRY_EVERY:
            self._retried = now
            self.say(retry_line(error, delay))

    def fallback(self, text: str) -> None:
        """Something is done without."""
        self.say(text)

    def waiting(self, what: str) -> None:
        """Nothing can be done now."""
        self.say(what)

    def say(self, text: str) -> None:
        """Write a line; nobody may be reading any more."""
        with self._writing, suppress(OSError):
            print(visible(text), file=self.stream, flush=True)

    def close(self) -> None:
        """Nothing is left to be written."""

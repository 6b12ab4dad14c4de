"""What a process waits for, reported to a user who would wonder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_EVERY = 1.0  # seconds between two messages


class Waits:
    """Passes on what any thread waits for, but no more than a user can read."""

    def __init__(self) -> None:
        self._passing_on = threading.Lock()
        self._last = -_EVERY
        self._listener: Callable[[str], object] | None = None

    def listen(self, listener: Callable[[str], object] | None) -> None:
        """Pass messages on to this listener from now on, or to nobody."""
        self._listener = listener

    def tell(self, text: str) -> None:
        """Pass a message on, unless another one has just been passed on."""
        with self._passing_on:
            now = time.monotonic()
            if self._listener is not None and now - self._last >= _EVERY:
                self._last = now
                self._listener(text)


WAITS = Waits()  # of this process; what its workers wait for comes here, too

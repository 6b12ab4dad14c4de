"""What a process waits for, told to whoever listens to it: a user who would wonder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_EVERY = 1.0
"""Seconds between two words."""


class Waits:
    """Hears from any thread what is waited for, and tells some of it; at first, nobody listens."""

    def __init__(self) -> None:
        """Tell nobody."""
        self._telling = threading.Lock()
        self._told = -_EVERY
        self.listen(None)

    def listen(self, listener: Callable[[str], object] | None) -> None:
        """Tell this listener from now on, or nobody."""
        self._listener = listener

    def tell(self, text: str) -> None:
        """Tell what is waited for; of much that comes at once, only the first."""
        with self._telling:
            now = time.monotonic()
            if self._listener is not None and now - self._told >= _EVERY:
                self._told = now
                self._listener(text)


WAITS = Waits()
"""Those of this process; what its workers wait for comes here, too."""

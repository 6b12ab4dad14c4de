"""A word that something is over, for threads that look now and then."""

from __future__ import annotations

import time

_LOOK_EVERY = 0.2


class Flag:
    """Is set once, for good.

    Unlike a `threading.Event` it has no lock: a signal's handler may set it while the thread that
    it interrupts is waiting, and an exception that it raises leaves nothing locked.
    """

    def __init__(self) -> None:
        """Begin without."""
        self.is_set = False

    def set(self) -> None:
        """Set it."""
        self.is_set = True

    def wait(self, seconds: float) -> bool:
        """Sleep until it is set, but no longer than so many seconds; returns whether it is."""
        end = time.monotonic() + seconds
        while not self.is_set and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_EVERY))
        return self.is_set

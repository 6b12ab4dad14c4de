"""Progress of a run: files sent, and parts of others that are kept for the next run."""

from __future__ import annotations

import threading

from dsprep.errors import StoreError
from dsprep.storage.transfer import Events
from dsprep.units import format_count


class Tally(Events):
    """Counts events and passes them on."""

    def __init__(self, events: Events) -> None:
        """Pass on to `events`."""
        self._events = events
        self._lock = threading.Lock()
        self._parts: dict[str, int] = {}
        self.planned = self.whole = 0

    def so_far(self, keep: bool) -> str:
        """Return the progress, for a message that ends the run."""
        with self._lock:
            begun = [count for count in self._parts.values() if count]
        if not self.whole and not begun:
            return "nothing was sent"
        text = f"{self.whole:,} of {format_count(self.planned, 'file')} sent"
        if begun and keep:
            parts = format_count(sum(begun), "part")
            text += f", and {parts} of {len(begun):,} more {_are(sum(begun))} kept for the next run"
        elif begun:
            text += ", and nothing is kept of the others"
        return text

    def plan(self, files: int, size: int) -> None:
        """Count files."""
        self.planned += files
        self._events.plan(files, size)

    def begin(self, name: str, size: int, parts: int) -> None:
        """Watch a file of several parts."""
        if parts > 1:
            self._count(name, 0)
        self._events.begin(name, size, parts)

    def found(self, name: str, size: int, parts: int) -> None:
        """Count parts of an earlier run."""
        self._count(name, parts)
        self._events.found(name, size, parts)

    def moved(self, name: str, size: int) -> None:
        """Pass it on."""
        self._events.moved(name, size)

    def part(self, name: str, number: int) -> None:
        """Count a part."""
        if name in self._parts:
            self._count(name, 1)
        self._events.part(name, number)

    def end(self, name: str, size: int, proof: str) -> None:
        """Count a file."""
        with self._lock:
            self._parts.pop(name, None)
            self.whole += 1
        self._events.end(name, size, proof)

    def retry(self, error: StoreError, delay: float) -> None:
        """Pass it on."""
        self._events.retry(error, delay)

    def fallback(self, text: str) -> None:
        """Pass it on."""
        self._events.fallback(text)

    def waiting(self, what: str) -> None:
        """Pass it on."""
        self._events.waiting(what)

    def _count(self, name: str, parts: int) -> None:
        with self._lock:
            self._parts[name] = self._parts.get(name, 0) + parts


def _are(count: int) -> str:
    return "is" if count == 1 else "are"

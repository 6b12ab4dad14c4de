"""What happens in a sync, as it happens: JSON for programs, lines for logs, bars on a terminal."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO

from dsprep.cli.streams import visible
from dsprep.progress import bar_size
from dsprep.storage.s3.config import retry_line
from dsprep.storage.transfer import Events
from dsprep.units import format_duration, format_size

if TYPE_CHECKING:
    from dsprep.errors import StoreError

_LINE_EVERY = 15.0  # seconds between two lines
_RETRY_EVERY = 1.0  # seconds between two lines about what is tried again
_PATIENCE = 2.0  # seconds before a bar is drawn: what is over sooner needs none
_LONGEST_NAME = 30

_FACTS = {
    "plan": ("files", "bytes"),
    "begin": ("name", "bytes", "parts"),
    "found": ("name", "bytes", "parts"),
    "part": ("name", "number"),
    "end": ("name", "bytes", "proof"),
    "fallback": ("text",),
    "waiting": ("text",),
}
"""What the arguments of methods of :class:`Events` are called in JSON."""


@contextmanager
def events_for(stream: TextIO, as_json: bool, quiet: bool) -> Iterator[Events]:
    """What listens to a sync: nobody, a program, or what suits a stream that people read."""
    if quiet or as_json:
        yield JsonEvents(stream) if as_json and not quiet else Events()
        return
    with closing((Bars if stream.isatty() else Lines)(stream)) as events:
        yield events


class JsonEvents(Events):
    """Writes ``{"event": "part", "name": "s3://…", "number": 3}`` and its like."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream."""
        self._stream, self._writing = stream, threading.Lock()
        for event in _FACTS:
            setattr(self, event, partial(self._write, event))

    def _write(self, event: str, *values: Any) -> None:
        self.write(event, **dict(zip(_FACTS[event], values, strict=True)))

    def retry(self, error: StoreError, delay: float) -> None:
        """Write why a request is made again, and when."""
        self.write("retry", error=str(error), kind=error.kind, seconds=round(delay, 3))

    def write(self, event: str, **facts: Any) -> None:
        """Write an event."""
        with self._writing, suppress(OSError):  # nobody may be reading any more
            print(json.dumps({"event": event, **facts}), file=self._stream, flush=True)


class Lines(Events):
    """Writes a line from time to time, and at once what has to be known at once."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream."""
        self._stream, self._lock = stream, threading.RLock()
        self._said = self._start = time.monotonic()
        self._retried = -_RETRY_EVERY
        self._size = self._sent = self._files = 0
        for event in ("fallback", "waiting"):
            setattr(self, event, self.say)

    def plan(self, files: int, size: int) -> None:
        """Add files and bytes to the total."""
        with self._lock:
            self._files += files
            self._size += size

    def found(self, name: str, size: int, parts: int) -> None:
        """Count bytes that are there already."""
        self.moved(name, size)

    def moved(self, name: str, size: int) -> None:
        """Count bytes, and show that."""
        with self._lock:
            self._sent += size
            self._show(name, size)

    def _show(self, name: str, size: int) -> None:
        """Write a line when one is due."""
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
        """Write that a request is made again; of many that fail at once, only some are told."""
        now = time.monotonic()
        if now - self._retried >= _RETRY_EVERY:
            self._retried = now
            self.say(retry_line(error, delay))

    def say(self, text: str) -> None:
        """Write a line; nobody may be reading any more."""
        with self._lock, suppress(OSError):
            print(visible(text), file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing is left to be written."""


class Bars(Lines):
    """Draws the progress, and writes lines above it."""

    def __init__(self, stream: TextIO) -> None:
        """Draw on a terminal."""
        super().__init__(stream)
        self._ended = 0
        self._all: Any = None
        self._bars: dict[str, Any] = {}

    def plan(self, files: int, size: int) -> None:
        """Add files and bytes to the total."""
        with self._lock:
            super().plan(files, size)
            if self._all is not None:
                self._all.total = self._size

    def begin(self, name: str, size: int, parts: int) -> None:
        """Draw a bar for a file of several parts."""
        with self._lock:
            if parts > 1 and self._is_time():
                label = visible(name.rpartition("/")[2])[-_LONGEST_NAME:]
                self._bars[name] = self._bar(label, size, len(self._bars) + 1)

    def _show(self, name: str, size: int) -> None:
        """Draw the bar of all files, and that of this one."""
        if not self._is_time():
            return
        if self._all is None:
            self._all = self._bar("all", self._size, 0)
        self._all.set_postfix_str(f"{self._ended:,}/{self._files:,} files", refresh=False)
        self._all.update(self._sent - self._all.n)
        if name in self._bars:
            self._bars[name].update(size)

    def end(self, name: str, size: int, proof: str) -> None:
        """Count a file, and remove its bar."""
        with self._lock:
            self._ended += 1
            if name in self._bars:
                self._bars.pop(name).close()

    def say(self, text: str) -> None:
        """Write a line above the bars."""
        with self._lock:
            if self._all is None:
                super().say(text)
            else:
                self._all.write(visible(text), file=self._stream)

    def close(self) -> None:
        """Remove all bars."""
        with self._lock:
            for bar in (*self._bars.values(), self._all):
                if bar is not None:
                    bar.close()
            self._bars.clear()
            self._all = None

    def _is_time(self) -> bool:
        return time.monotonic() - self._start >= _PATIENCE

    def _bar(self, label: str, total: int, position: int) -> Any:
        from tqdm import tqdm

        return tqdm(
            desc=label,
            total=total,
            unit="B",
            unit_scale=True,
            **bar_size(self._stream),
            file=self._stream,
            leave=False,
            position=position,
            bar_format="{desc:<30} {percentage:3.0f}% |{bar}| {rate_fmt}{postfix} {remaining} left",
        )

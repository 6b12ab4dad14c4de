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
from dsprep.progress import Waits, bar_size
from dsprep.storage.s3.config import retry_line
from dsprep.storage.transfer import Events
from dsprep.units import format_duration, format_size

if TYPE_CHECKING:
    from dsprep.errors import StoreError

_LINE_EVERY = 15.0  # seconds between two lines
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
    "retry": ("error", "kind", "seconds"),
    "error": ("text", "code"),
}
"""The events in JSON: those of :class:`Events`, and the error that ends a command."""


@contextmanager
def events_for(stream: TextIO, as_json: bool, quiet: bool) -> Iterator[Events]:
    """What listens to a sync: nobody, a program, or what suits a stream that people read."""
    if quiet:
        yield Events()
    elif as_json:
        yield JsonEvents(stream)
    elif stream.isatty():
        with closing(Bars(stream)) as bars:
            yield bars
    else:
        yield Lines(stream)


class JsonEvents(Events):
    """Writes ``{"event": "part", "name": "s3://…", "number": 3}`` and its like."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._writing = stream, threading.Lock()
        for event in ("plan", "begin", "found", "part", "end", "fallback", "waiting"):
            setattr(self, event, partial(self.write, event))

    def retry(self, error: StoreError, delay: float) -> None:
        self.write("retry", str(error), error.kind, round(delay, 3))

    def write(self, event: str, *values: Any) -> None:
        facts = {"event": event, **dict(zip(_FACTS[event], values, strict=True))}
        with self._writing, suppress(OSError):  # nobody may be reading any more
            print(json.dumps(facts), file=self._stream, flush=True)


class Lines(Events):
    """Writes a line from time to time, and at once what has to be known at once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, threading.RLock()
        self._said = self._start = time.monotonic()
        self._retries = Waits()  # of many requests that fail at once, only some are told
        self._retries.listen(self.say)
        self._size = self._sent = self._files = 0
        for event in ("fallback", "waiting"):
            setattr(self, event, self.say)

    def plan(self, files: int, size: int) -> None:
        with self._lock:
            self._files += files
            self._size += size

    def found(self, name: str, size: int, parts: int) -> None:
        self.moved(name, size)

    def moved(self, name: str, size: int) -> None:
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
        self._retries.tell(retry_line(error, delay))

    def say(self, text: str) -> None:
        with self._lock, suppress(OSError):
            print(visible(text), file=self._stream, flush=True)


class Bars(Lines):
    """Draws the progress, and writes lines above it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._ended = 0
        self._all: Any = None
        self._bars: dict[str, Any] = {}

    def plan(self, files: int, size: int) -> None:
        with self._lock:
            super().plan(files, size)
            if self._all is not None:
                self._all.total = self._size

    def begin(self, name: str, size: int, parts: int) -> None:
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
        with self._lock:
            self._ended += 1
            if name in self._bars:
                self._bars.pop(name).close()

    def say(self, text: str) -> None:
        with self._lock:
            if self._all is None:
                super().say(text)
            else:
                self._all.write(visible(text), file=self._stream)

    def close(self) -> None:
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

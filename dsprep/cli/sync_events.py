"""What happens in a sync, as it happens: JSON for programs, lines for logs, bars on a terminal."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
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


class JsonEvents(Events):
    """Writes ``{"event": "part", "name": "s3://…", "number": 3}`` and its like."""

    def __init__(self, stream: TextIO) -> None:
        """Write to a stream."""
        self._stream = stream
        self._writing = threading.Lock()

    def plan(self, files: int, size: int) -> None:
        """How much is to go."""
        self._write("plan", files=files, bytes=size)

    def begin(self, name: str, size: int, parts: int) -> None:
        """A file begins."""
        self._write("begin", name=name, bytes=size, parts=parts)

    def found(self, name: str, size: int, parts: int) -> None:
        """What an earlier run has left."""
        self._write("found", name=name, bytes=size, parts=parts)

    def part(self, name: str, number: int) -> None:
        """A part is whole."""
        self._write("part", name=name, number=number)

    def end(self, name: str, size: int, proof: str) -> None:
        """A file is whole."""
        self._write("end", name=name, bytes=size, proof=proof)

    def retry(self, error: StoreError, delay: float) -> None:
        """A request is made again."""
        self._write("retry", error=str(error), kind=error.kind, seconds=round(delay, 3))

    def fallback(self, text: str) -> None:
        """Something is done without."""
        self._write("fallback", text=text)

    def waiting(self, what: str) -> None:
        """Nothing can be done now."""
        self._write("waiting", text=what)

    def error(self, text: str, code: int) -> None:
        """It ends, with this exit code."""
        self._write("error", text=text, code=code)

    def close(self) -> None:
        """Nothing is left to be written."""

    def _write(self, event: str, **facts: Any) -> None:
        with self._writing, suppress(OSError):  # nobody may be reading any more
            print(json.dumps({"event": event, **facts}), file=self._stream, flush=True)


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
        """Add files and bytes to the total."""
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


class Bars(Lines):
    """Draws how far a sync is, and writes what has to be known at once above that."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._began = time.monotonic()
        self._drawing = threading.RLock()
        self._total = self._files = self._done = self._done_files = 0
        self._all: Any = None
        self._bars: dict[str, Any] = {}

    def plan(self, files: int, size: int) -> None:
        """Add files and bytes to the total."""
        with self._drawing:
            self._files += files
            self._total += size
            if self._all is not None:
                self._all.total = self._total

    def begin(self, name: str, size: int, parts: int) -> None:
        """Draw a bar for a file of several parts."""
        with self._drawing:
            if parts > 1 and self._is_time():
                label = visible(name.rpartition("/")[2])[-_LONGEST_NAME:]
                self._bars[name] = self._bar(label, size, len(self._bars) + 1)

    def found(self, name: str, size: int, parts: int) -> None:
        """Bytes that are there already count as done."""
        self.moved(name, size)

    def moved(self, name: str, size: int) -> None:
        """Draw it."""
        with self._drawing:
            self._done += size
            if not self._is_time():
                return
            if self._all is None:
                self._all = self._bar("all", self._total, 0)
            self._all.set_postfix_str(f"{self._done_files:,}/{self._files:,} files", refresh=False)
            self._all.update(self._done - self._all.n)
            if name in self._bars:
                self._bars[name].update(size)

    def end(self, name: str, size: int, proof: str) -> None:
        """Remove the bar of a file."""
        with self._drawing:
            self._done_files += 1
            if name in self._bars:
                self._bars.pop(name).close()

    def say(self, text: str) -> None:
        """Write a line above the bars."""
        with self._drawing:
            if self._all is None:
                super().say(text)
            else:
                self._all.write(visible(text), file=self.stream)

    def close(self) -> None:
        """Remove all bars."""
        with self._drawing:
            for bar in (*self._bars.values(), self._all):
                if bar is not None:
                    bar.close()
            self._bars.clear()
            self._all = None

    def _is_time(self) -> bool:
        return time.monotonic() - self._began >= _PATIENCE

    def _bar(self, label: str, total: int, position: int) -> Any:
        from tqdm import tqdm

        return tqdm(
            desc=label,
            total=total,
            unit="B",
            unit_scale=True,
            **bar_size(self.stream),
            file=self.stream,
            leave=False,
            position=position,
            bar_format="{desc:<30} {percentage:3.0f}% |{bar}| {rate_fmt}{postfix} {remaining} left",
        )

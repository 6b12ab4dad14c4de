"""What happens in a sync, as it happens: JSON for programs, lines for logs, bars on a terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from dsprep.cli.streams import echo_as_is
from dsprep.errors import DestinationError
from dsprep.printable import json_values, visible
from dsprep.progress import BarProgress, LogProgress, Waits, new_bar
from dsprep.storage.s3.config import retry_line
from dsprep.storage.stored import Events, ignore
from dsprep.units import format_size

_LONGEST_NAME = 30


@contextmanager
def events_for(stream: TextIO, as_json: bool, quiet: bool) -> Iterator[Events]:
    """Provide the listener of a sync: none, JSON lines for programs, bars or lines for people."""
    if quiet or as_json:
        yield ignore if quiet else json_events(stream)
        return
    shown = Bars(stream) if stream.isatty() else Lines(stream)
    with shown.running("all", 0):
        yield shown


def json_events(stream: TextIO) -> Events:
    """Return what writes ``{"event": "part", "name": "s3://…", "number": 3}`` and its like."""
    writing = threading.Lock()

    def write(event: str, **facts: Any) -> None:
        if event != "moved":  # one event a block is too many for the log
            # nobody may be reading any more, and the disk of a log may be full
            with writing, suppress(OSError, DestinationError):
                echo_as_is(json.dumps({"event": event, **json_values(facts)}), stream)

    return write


class Lines(LogProgress):
    """Writes a line of progress from time to time, and urgent messages immediately."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lock, self._retries = threading.RLock(), Waits()
        self._retries.listen(self.note)  # when many requests fail at once, only some are printed

    def __call__(self, event: str, **facts: Any) -> None:
        with self._lock:
            match event:
                case "plan":
                    self._total += facts["bytes"]
                case "found" | "moved":
                    self.advance(facts["bytes"], 0)
                case "fallback" | "waiting":
                    self.note(facts["text"])
                case "retry":
                    self._retries.tell(retry_line(facts["error"], facts["seconds"]))

    def _line(self, seconds: float, rate: float) -> str:
        sent, size = format_size(self._done), format_size(self._total)
        return f"sent {sent} of {size}, {format_size(rate)}/s"


class Bars(Lines, BarProgress):
    """Draws the progress of all files and of large ones, and writes lines above it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._files = self._ended = 0
        self._bars: dict[str, Any] = {}

    def __call__(self, event: str, **facts: Any) -> None:
        with self._lock, suppress(OSError):  # the terminal may be closed
            super().__call__(event, **facts)
            name = facts.get("name", "")
            match event:
                case "plan":
                    self._files += facts["files"]
                case "begin" if facts["parts"] > 1:
                    self.advance(0, 0)  # draws the bar of all files if it is time for bars
                    if self._bar is not None:
                        label = visible(name.rpartition("/")[2])[-_LONGEST_NAME:]
                        self._bars[name] = self._draw(label, facts["bytes"], len(self._bars) + 1)
                case "found" | "moved" if name in self._bars:
                    self._bars[name].update(facts["bytes"])
                case "end":
                    self._ended += 1
                    if name in self._bars:
                        self._bars.pop(name).close()

    def end(self) -> None:
        with self._lock:
            with suppress(OSError):
                for bar in self._bars.values():
                    bar.close()
            self._bars.clear()
            super().end()

    def _new_bar(self, seconds: float) -> Any:
        return self._draw(self._task, self._total, 0)

    def _postfix(self, seconds: float) -> str:
        return f"{self._ended:,}/{self._files:,} files"

    def _draw(self, label: str, total: int, position: int) -> Any:
        layout = "{desc:<30} {percentage:3.0f}% |{bar}| {rate_fmt}{postfix} {remaining} left"
        options = {"unit": "B", "unit_scale": True, "position": position, "bar_format": layout}
        return new_bar(self._stream, label, total, **options)

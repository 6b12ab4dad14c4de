"""Progress of a run, and what it waits for: on a terminal, in a log, or not shown.

Everything below the command line talks to a :class:`Progress` and never asks whether there is one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from dsprep.printable import visible
from dsprep.units import format_duration, format_size

_PATIENCE = 2.0  # seconds before anything is shown: a task that ends sooner needs no bar
_LINE_EVERY = 15.0  # seconds between two lines in a log
_WAIT_EVERY = 1.0  # seconds between two messages about waits


class Progress:
    """The progress of a run; this one shows nothing."""

    def begin(self, task: str, samples: int, size: int) -> None:
        """Begin a task of this many samples and bytes of the source or the shards."""

    def advance(self, samples: int, size: int) -> None:
        """Count samples and bytes that are done."""

    def beat(self) -> None:
        """Show that the task goes on; called about once a second, also if nothing is counted."""

    def note(self, text: str) -> None:
        """Show a remark; any thread may call this."""

    def end(self) -> None:
        """End the task, finished or not."""

    @contextmanager
    def running(self, task: str, samples: int, size: int = 0) -> Iterator[None]:
        """Begin a task, and end it after the block."""
        self.begin(task, samples, size)
        try:
            yield
        finally:
            self.end()


class LogProgress(Progress):
    """Plain lines, for output that is not a terminal."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream

    def begin(self, task: str, samples: int, size: int) -> None:
        """Begin, and show nothing yet: most tasks end before anything is due."""
        # A task without samples, such as unpacking, counts bytes.
        self._in_bytes = not samples and size > 0
        self._task, self._total, self._done, self._bytes = task, samples or size, 0, 0
        self._began = self._written = time.monotonic()

    def note(self, text: str) -> None:
        with suppress(OSError):
            print(visible(text), file=self._stream, flush=True)

    def advance(self, samples: int, size: int) -> None:
        """Count, and show the progress when it is due."""
        self._done += size if self._in_bytes else samples
        self._bytes += size
        self._show(time.monotonic())

    def beat(self) -> None:
        """Show the progress when it is due: one large sample may take a minute."""
        self._show(time.monotonic())

    def _show(self, now: float) -> None:
        if now - self._written < _LINE_EVERY:
            return
        self._written = now
        rate = self._done / (now - self._began)
        until = ""
        if self._total and rate > 0:  # a total of 0 is unknown
            until = f", {format_duration((self._total - self._done) / rate)} left"
        self.note(self._line(now - self._began, rate) + until)

    def _line(self, seconds: float, rate: float) -> str:
        if self._in_bytes:
            done = f"{format_size(self._done)} of {format_size(self._total)}"
        else:
            total = f" of {self._total:,}" if self._total else ""
            done = f"{self._done:,}{total} samples, {rate:,.0f} samples/s"
        return f"{self._task}: {done}, {format_size(self._bytes / seconds)}/s"


class BarProgress(LogProgress):
    """A bar on a terminal, once the task has taken two seconds."""

    _bar: Any = None

    def _show(self, now: float) -> None:
        seconds = now - self._began
        if seconds < _PATIENCE:
            return
        with suppress(OSError):  # the terminal may be closed
            if self._bar is None:
                self._bar = self._new_bar(seconds)
            self._bar.total = self._total
            self._bar.set_postfix_str(self._postfix(seconds), refresh=False)
            self._bar.update(self._done - self._bar.n)

    def note(self, text: str) -> None:
        if self._bar is None:
            super().note(text)
            return
        with suppress(OSError):
            self._bar.write(visible(text), file=self._stream)

    def _new_bar(self, seconds: float) -> Any:
        """Return a bar for a task that began some seconds ago; its first update draws it."""
        count, rate = "{n:,}/{total:,}", "{rate_fmt}{postfix}"
        if self._in_bytes:
            count, rate = "{n_fmt}/{total_fmt}B", "{rate_fmt}"
        bar = new_bar(
            self._stream,
            self._task,
            self._total,
            unit="B" if self._in_bytes else " samples",
            unit_scale=self._in_bytes,
            delay=_PATIENCE,
            smoothing=0,
            bar_format=f"{{desc}} {{percentage:3.0f}}% |{{bar}}| {count}  {rate}  "
            "{remaining} left",
        )
        bar.start_t -= seconds
        return bar

    def _postfix(self, seconds: float) -> str:
        return f"{format_size(self._bytes / seconds)}/s"

    def end(self) -> None:
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
                # After a Ctrl-C while it was drawing, tqdm does not know that there is a bar.
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            self._bar = None


def new_bar(stream: TextIO, label: str, total: int, **options: Any) -> Any:
    """Return a bar of tqdm, in 80 columns if the terminal reports no size."""
    from tqdm import tqdm

    # Terminals of `script` and `docker run -t` report none, and tqdm would draw nothing there.
    size: dict[str, Any] = {"ncols": 80, "nrows": 24}
    with suppress(OSError, ValueError):
        if all(os.get_terminal_size(stream.fileno())):
            size = {"dynamic_ncols": True}
    return tqdm(desc=visible(label), total=total, file=stream, leave=False, **size, **options)


def progress_for(stream: TextIO, quiet: bool) -> Progress:
    """Return the kind of progress that suits a stream."""
    if quiet:
        return Progress()
    return BarProgress(stream) if stream.isatty() else LogProgress(stream)


class Waits:
    """Passes on what any thread waits for, but no more than a user can read."""

    def __init__(self) -> None:
        self._passing_on = threading.Lock()
        self._last = -_WAIT_EVERY
        self._listener: Callable[[str], object] | None = None

    def listen(self, listener: Callable[[str], object] | None) -> None:
        """Pass messages on to this listener from now on, or to nobody."""
        self._listener = listener

    def tell(self, text: str) -> None:
        """Pass a message on, unless another one has just been passed on."""
        with self._passing_on:
            now = time.monotonic()
            if self._listener is not None and now - self._last >= _WAIT_EVERY:
                self._last = now
                self._listener(text)


WAITS = Waits()  # of this process; what its workers wait for comes here, too

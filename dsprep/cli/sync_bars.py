"""Bars of a sync on a terminal: one for all of it, and one for each large file under way."""

from __future__ import annotations

import threading
import time
from typing import Any, TextIO

from dsprep.cli.streams import visible
from dsprep.cli.sync_lines import Lines
from dsprep.progress import bar_size

_PATIENCE = 2.0
"""Seconds before anything is drawn: what is over sooner needs no bar."""

_LONGEST_NAME = 30


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
        """So many more files, and bytes, are to go."""
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

"""Bar charts in a terminal."""

from __future__ import annotations

import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TextIO

from dsprep.cli.streams import visible

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SHORTEST = 4
"""Columns that a bar gets on the narrowest terminal."""


class Page(NamedTuple):
    """The width and the encoding of the output."""

    columns: int  # its width
    encoding: str  # what its characters are written in

    @property
    def blocks(self) -> bool:
        """Whether there are characters for parts of a block."""
        return self.shown(_EIGHTHS) == _EIGHTHS

    def shown(self, text: str) -> str:
        """Return a text with what cannot be written, or is invisible, escaped."""
        return visible(text).encode(self.encoding, "backslashreplace").decode(self.encoding)


def page_of(stream: TextIO) -> Page:
    """Return the page of a stream: as wide as the terminal, or 80 columns."""
    encoding = getattr(stream, "encoding", None) or "ascii"
    return Page(shutil.get_terminal_size((80, 24)).columns, encoding)


def draw_bars(entries: Sequence[tuple[str, int]], page: Page) -> Iterator[str]:
    """Draw a line for each entry: its name, its number, and a bar of proportional length."""
    names = [_cut(page.shown(name), page.columns // 3, page) for name, _ in entries]
    numbers = [f"{number:,}" for _, number in entries]
    wide, long = max(map(width_of, names), default=0), max(map(len, numbers), default=0)
    room = max(page.columns - wide - long - 6, _SHORTEST)
    most = max((number for _, number in entries), default=0)
    for name, text, (_, number) in zip(names, numbers, entries, strict=True):
        blanks = " " * (wide - width_of(name))
        yield f"  {name}{blanks}  {text:>{long}}  {_bar(number, most, room, page)}".rstrip()


def width_of(text: str) -> int:
    """Return the number of columns that a terminal needs for a text."""
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


def _cut(text: str, columns: int, page: Page) -> str:
    if width_of(text) <= columns:
        return text
    end = "…" if page.shown("…") == "…" else "..."
    while text and width_of(text) > columns - len(end):
        text = text[:-1]
    return text + end


def _bar(number: int, most: int, room: int, page: Page) -> str:
    """Draw one bar; any positive number is visible."""
    if not number:
        return ""
    if not page.blocks:
        return "#" * max(number * room // most, 1)
    whole, eighths = divmod(max(number * room * 8 // most, 1), 8)
    return _EIGHTHS[-1] * whole + _EIGHTHS[eighths].strip()

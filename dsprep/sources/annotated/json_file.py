"""Files of JSON that are larger than memory should be: read a piece at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from dsprep.errors import SourceError

_BLOCK = 1 << 24
_LONGEST = 1 << 28  # bytes of one item: the runs of a crowd may be long
_SOME = 1 << 14  # bytes of items that are read at once
_BETWEEN = re.compile(r"[ \t\r\n]*")


class JsonText:
    """The text of a file of JSON; no more is held in memory than the value that is read.

    It is read as Latin-1, where each byte is a character, so that places are those of bytes.
    """

    def __init__(self, file: Any, path: str, what: str) -> None:
        self._file, self._path, self._what = file, path, what
        self._scan = json.JSONDecoder().raw_decode
        self.text, self.start = "", 0  # what is held, and where it begins in the file
        self.position = 0  # in the text
        self.last = ""  # the text of the value that was read last
        self._fill()
        if self.text.startswith("\xef\xbb\xbf"):  # a byte order mark
            self.position = 3
        elif "\0" in self.text[:4] or self.text[:2] in ("\xff\xfe", "\xfe\xff"):
            raise SourceError(f"{path}: is UTF-16 or UTF-32: save the file as UTF-8")
        if not self.following():
            raise SourceError(f"{path}: is empty")

    def _fill(self) -> bool:
        block: bytes = self._file.read(max(_BLOCK, len(self.text)))
        self.text += block.decode("latin-1")
        return bool(block)

    def drop(self) -> None:
        """Forget what lies before the place, if that is much."""
        if self.position > _BLOCK // 2:
            self.text, self.start = self.text[self.position :], self.start + self.position
            self.position = 0

    def damaged(self) -> SourceError:
        where = self.start + self.position
        return SourceError(f"{self._path}: is no {self._what}, or ends early: byte {where:,}")

    def following(self) -> str:
        """Go to the next character that is no space, and return it; empty at the end."""
        while True:
            self.position = _BETWEEN.match(self.text, self.position).end()  # type: ignore[union-attr]
            if self.position < len(self.text) or not self._fill():
                return self.text[self.position : self.position + 1]
            self.drop()

    def expect(self, marks: str) -> str:
        """Go to the next character that is no space, which has to be one of these; return it."""
        found = self.following()
        if not found or found not in marks:
            raise self.damaged()
        return found

    def take(self, mark: str) -> None:
        """Go behind the next character that is no space, which has to be this one."""
        self.expect(mark)
        self.position += 1

    def begins(self, closes: str) -> bool:
        """Go to the first item, or behind the end if there is none; return which it was."""
        is_empty = self.following() == closes
        self.position += is_empty
        return not is_empty

    def goes_on(self, closes: str) -> bool:
        """Go behind the comma before the next item, or behind the end; return which it was."""
        mark = self.expect(f",{closes}")
        self.position += 1
        return mark == ","

    def some(self) -> list[Any]:
        """Go behind some items of a list, one at least; return them."""
        # Many at once take a fourth of the time. What ends with a brace and is a list, is items.
        end = self.text.find("]", self.position, self.position + _SOME)
        stop = self.text.rfind("}", self.position, self.position + _SOME if end < 0 else end) + 1
        try:
            found: list[Any] = json.loads(f"[{self.text[self.position : stop]}]".encode("latin-1"))
        except (ValueError, RecursionError):
            found = []
        if not found:
            return [self.value()[-1]]
        self.position = stop
        self.drop()
        return found

    def end(self) -> None:
        """Refuse what follows the value that was read, which is the whole file."""
        if mark := self.following():
            if mark not in "[{":
                raise self.damaged()
            raise SourceError(
                f"{self._path}: the {self._what} is one JSON document, and another one begins at "
                f"byte {self.start + self.position:,}: put it into a file of its own"
            )

    def value(self, *, takes_latin_1: bool = False) -> tuple[int, int, Any]:
        """Go behind a value; return where it begins in the file, its size in bytes, and itself.

        A value that is not UTF-8 is refused, or read as Latin-1 with ``takes_latin_1``.
        """
        while True:
            try:
                found, stop = self._scan(self.text, self.position)
                if stop < len(self.text) or not self._fill():  # a number may go on
                    break
            except (ValueError, RecursionError) as error:
                is_long = len(self.text) - self.position > _LONGEST
                if isinstance(error, RecursionError) or is_long or not self._fill():
                    raise self.damaged() from None
        offset, item = self.start + self.position, self.text[self.position : stop]
        self.last = item
        self.position = stop
        self.drop()
        if not item.isascii():
            try:
                found = json.loads(item.encode("latin-1"))
            except ValueError:
                if not takes_latin_1:
                    self.require_utf_8()
        return offset, len(item), found

    def require_utf_8(self) -> None:
        """Refuse the value that was read last if it is not UTF-8."""
        try:
            self.last.encode("latin-1").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            said = f"{self._path}: is not UTF-8: save the file as UTF-8"
            raise SourceError(said) from None


def items_in(held: JsonText, within: Collection[str] = ()) -> Iterator[tuple[str, int, int, Any]]:
    """Yield the items of the list or object that a file is.

    Args:
        held: The text of the file.
        within: Names of items of an object that are lists or objects whose items are yielded.

    Yields:
        The name of an item, if it is of an object; where it begins in the file, its size in bytes,
        and its value.
    """
    yield from _items_of(held, within)
    held.end()


def _items_of(held: JsonText, within: Collection[str]) -> Iterator[tuple[str, int, int, Any]]:
    closes = "]" if held.expect("[{") == "[" else "}"
    held.position += 1
    name, goes_on = "", held.begins(closes)
    while goes_on:
        if closes == "}":
            held.expect('"')
            *_, name = held.value()
            held.take(":")
        held.following()
        if name in within:
            yield from _items_of(held, ())
        else:
            yield name, *held.value()
        goes_on = held.goes_on(closes)

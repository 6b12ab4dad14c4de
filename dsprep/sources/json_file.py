"""Files of JSON that are larger than memory should be: read a piece at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dsprep.annotations.objects import Objects
from dsprep.errors import SourceError
from dsprep.sources.annotated import Annotations
from dsprep.sources.prefetch import OpenFiles, read_at
from dsprep.storage.files import open_file
from dsprep.storage.store import Facts

_BLOCK = 1 << 22
_LONGEST = 1 << 25  # bytes of one item
_BETWEEN = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Spans(Annotations):
    """Annotations of which each image has a piece of one file: a place is its offset and size."""

    path: str
    state: Facts  # of the file when it was scanned
    classes: Mapping[Any, int]  # numbers, by what the file calls them
    parse: Callable[[bytes, Mapping[Any, int]], Objects]

    @contextmanager
    def opened(self) -> Iterator[Callable[[tuple[int, int]], Objects]]:
        with OpenFiles((self.path,), (self.state,)) as files:
            file = files.same(0)

            def objects(place: tuple[int, int]) -> Objects:
                offset, size = place
                return self.parse(read_at(file, size, offset), self.classes)

            yield objects

    def objects(self, place: tuple[int, int]) -> Objects:
        with self.opened() as objects:
            return objects(place)


def list_items(path: str, sha: Any, what: str) -> Iterator[tuple[int, int, Any]]:
    """Return where each item of a list begins, its size in bytes, and its value.

    Raises:
        SourceError: If the file is no list, or ends early.
    """
    # Text is read as Latin-1, of which each byte is a character, so that places are those of bytes.
    scan = json.JSONDecoder().raw_decode
    with open_file(path) as file:
        text, start, at = "", 0, 0  # the text that is held, and where it begins

        def fill() -> bool:
            nonlocal text
            block = read_at(file, max(_BLOCK, len(text)), start + len(text))
            sha.update(block)
            text += block.decode("latin-1")
            return bool(block)

        def damaged() -> SourceError:
            return SourceError(f"{path}: is no {what}, or ends early: byte {start + at:,}")

        def following() -> str:
            """Return the next character that is no space; the empty string at the end."""
            nonlocal text, start, at
            while (at := _BETWEEN.match(text, at).end()) == len(text):  # type: ignore[union-attr]
                text, start, at = "", start + at, 0
                if not fill():
                    return ""
            at += 1
            return text[at - 1]

        def expect(marks: str) -> str:
            found = following()
            if not found or found not in marks:
                raise damaged()
            return found

        if fill() and text.startswith("\xef\xbb\xbf"):  # a byte order mark
            at = 3
        expect("[")
        mark = expect("{]")
        while mark != "]":
            at -= 1
            while True:
                try:
                    value, stop = scan(text, at)
                    break
                except RecursionError:
                    raise damaged() from None
                except ValueError:
                    if len(text) - at > _LONGEST or not fill():
                        raise damaged() from None
            item = text[at:stop]
            yield start + at, stop - at, value if item.isascii() else decoded(item, path)
            at = stop
            if at > _BLOCK:
                text, start, at = text[at:], start + at, 0
            mark = expect(",]")
            if mark == ",":
                mark = expect("{")
        if following():
            raise damaged()


def decoded(item: str, path: str) -> Any:
    """Return the value of JSON that was read as Latin-1, and is UTF-8."""
    try:
        return json.loads(item.encode("latin-1"))
    except ValueError:
        raise SourceError(f"{path}: is not UTF-8: save the file as UTF-8") from None

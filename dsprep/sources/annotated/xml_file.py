"""Files of XML that are larger than memory should be: read an element below the root at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from dsprep.annotations.elements import DEEPEST, parser_into
from dsprep.errors import SourceError

_BLOCK = 1 << 20
_LONGEST = 1 << 26  # bytes of an element below the root
_UTF_8 = frozenset(("utf-8", "utf8", "us-ascii", "ascii"))


class _Children:
    """The elements below the root of a document, with their places in it."""

    def __init__(self) -> None:
        self.root = ""  # the tag of the root
        self.found: list[tuple[int, int, Element]] = []
        self.begins = 0  # where the element that is read begins, or the last event is
        self._depth = 0
        self._ended = False  # whether an element has ended, and nothing has followed
        self._builder = TreeBuilder()
        self.parser = parser_into(self._builder)
        self.parser.buffer_text = False  # so that places are those of texts, too
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler, self.parser.CharacterDataHandler = self._end, self._text
        self.parser.XmlDeclHandler = self._declared

    def _declared(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() not in _UTF_8:
            raise ValueError(f"has the encoding {encoding:.40}: save the file as UTF-8")

    def _take(self) -> None:
        """Take the element that has ended: what follows it begins here."""
        at = self.parser.CurrentByteIndex
        if self._ended:
            self.found.append((self.begins, at - self.begins, self._builder.close()))
            self._builder, self._ended = TreeBuilder(), False
        if self._depth <= 1:
            self.begins = at

    def _start(self, tag: str, values: Mapping[str, str]) -> None:
        self._take()
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"has more than {DEEPEST} elements in one another")
        if self._depth == 1:
            self.root = tag
        else:
            self._builder.start(tag, dict(values))

    def _text(self, text: str) -> None:
        self._take()
        if self._depth > 1:
            self._builder.data(text)

    def _end(self, tag: str) -> None:
        self._take()
        if self._depth > 1:
            self._builder.end(tag)
        self._depth -= 1
        self._ended = self._depth == 1


def children_of(file: Any, path: str, root: str) -> Iterator[tuple[int, int, Element]]:
    """Yield where each element below the root begins, its size in bytes, and itself.

    Args:
        file: The open file.
        path: What messages call it.
        root: The tag that the root has to have.
    """
    children, read, is_last = _Children(), 0, False
    while not is_last:
        block: bytes = file.read(_BLOCK)
        is_last = not block
        try:
            if not read and block[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise ValueError("is UTF-16: save the file as UTF-8")
            children.parser.Parse(block, is_last)
            read += len(block)
            if children.root not in ("", root):
                raise ValueError(f"begins with <{children.root:.40}>, not with <{root}>")
            if read - children.begins > _LONGEST:
                raise ValueError(f"has an element of more than {_LONGEST:,} bytes")
        except (expat.ExpatError, LookupError) as error:  # an encoding that nobody knows
            raise SourceError(f"{path}: is no XML, or ends early: {error}") from None
        except ValueError as error:
            raise SourceError(f"{path}: {error}") from None
        yield from children.found
        children.found.clear()

"""The pickles that CIFAR's Python version is made of, read without unpickling.

A pickle is a program, and Python's own ``Unpickler`` runs it: it takes memory by the lengths that
it is told, and can be kept busy for ever, whichever names it admits. Here the few instructions that
such files are made of are followed by hand; nothing is imported and nothing is called. They are
those of ``pickletools``' documentation, up to protocol 4, and the files those of
https://www.cs.toronto.edu/~kriz/cifar.html: a dictionary of texts, lists and one NumPy array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dsprep.errors import SourceError

_MOST_IN_HAND = 1024
"""Byte strings that are longer stay where they are."""

_BYTES = {b"T"[0]: 4, b"U"[0]: 1, b"B"[0]: 4, b"C"[0]: 1, 0x8E: 8}
_TEXTS = {b"X"[0]: 4, 0x8C: 1, 0x8D: 8}
_INTS = {b"K"[0]: (1, False), b"M"[0]: (2, False), b"J"[0]: (4, True)}
_CONSTANTS = {b"N"[0]: None, 0x88: True, 0x89: False, b")"[0]: ()}
_PUT = {b"q"[0]: 1, b"r"[0]: 4}
_GET = {b"h"[0]: 1, b"j"[0]: 4}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_PASSED_OVER = {0x80: 1, 0x95: 8}


class Place(NamedTuple):
    """A long byte string in a pickle."""

    start: int  # where it begins
    size: int  # how many bytes it takes there
    text: bool  # whether it is text there, in UTF-8, of characters with the bytes' numbers


class _Global(NamedTuple):
    module: str
    name: str


@dataclass(eq=False)
class Array:
    """A NumPy array."""

    shape: tuple[int, ...] = ()  # the length of each dimension
    dtype: str = ""  # numPy's code of its numbers
    by_column: bool = False  # whether the first index runs fastest
    place: Place | None = None  # where its bytes are


class _Dtype(NamedTuple):
    code: str


_RECONSTRUCT, _NDARRAY, _DTYPE, _ENCODE = "_reconstruct", "ndarray", "dtype", "encode"
_KNOWN = {
    _Global("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    _Global("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    _Global("numpy", "ndarray"): _NDARRAY,
    _Global("numpy", "dtype"): _DTYPE,
    _Global("_codecs", "encode"): _ENCODE,
}
"""All names that such files hold."""


def read_pickle(data: bytes, source: str) -> dict[str, Any]:
    """Read a pickled dictionary."""
    try:
        found = _Reader(data, source).run()
        if isinstance(found, dict):
            return {_plain(key): value for key, value in found.items()}
    except (IndexError, KeyError, TypeError, ValueError):
        raise SourceError(f"{source}: is not a whole pickle, or not of CIFAR's kind") from None
    raise SourceError(f"{source}: is a pickle, but not of a dictionary as CIFAR's are")


def _plain(text: str | bytes) -> str:
    return text.decode("latin-1") if isinstance(text, bytes) else text


class _Reader:
    """Follows a pickle's instructions; what it cannot follow ends in one of the usual errors."""

    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._source = source
        self._at = 0
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        while (code := self._take(1)[0]) != b"."[0]:
            self._follow(code)
        return self._stack.pop()

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError
        self._at += count
        return taken

    def _number(self, width: int, signed: bool = False) -> int:
        return int.from_bytes(self._take(width), "little", signed=signed)

    def _follow(self, code: int) -> None:
        stack = self._stack
        if code in _PUT:
            self._memo[self._number(_PUT[code])] = stack[-1]
        elif code == 0x94:  # MEMOIZE
            self._memo[len(self._memo)] = stack[-1]
        elif code in _GET:
            stack.append(self._memo[self._number(_GET[code])])
        elif code in _BYTES:
            stack.append(self._string(_BYTES[code], text=False))
        elif code in _TEXTS:
            stack.append(self._string(_TEXTS[code], text=True))
        elif code in _INTS:
            stack.append(self._number(*_INTS[code]))
        elif code == 0x8A:  # LONG1
            stack.append(self._number(self._number(1), signed=True))
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code in _PASSED_OVER:  # PROTO, FRAME
            self._take(_PASSED_OVER[code])
        elif code in _TUPLES:
            count = _TUPLES[code]
            items = tuple(stack[-count:])
            if len(items) < count:
                raise IndexError
            stack[-count:] = [items]
        elif code == b"}"[0]:
            stack.append({})
        elif code == b"]"[0]:
            stack.append([])
        elif code == b"("[0]:
            self._below.append(stack)
            self._stack = []
        elif code == b"t"[0]:
            items = tuple(self._since_mark())
            self._stack.append(items)
        elif code == b"a"[0]:
            self._extend([stack.pop()])
        elif code == b"e"[0]:
            self._extend(self._since_mark())
        elif code == b"s"[0]:
            value, key = stack.pop(), stack.pop()
            self._fill([key, value])
        elif code == b"u"[0]:
            self._fill(self._since_mark())
        elif code == b"c"[0]:
            stack.append(self._known(self._line(), self._line()))
        elif code == 0x93:  # STACK_GLOBAL
            name, module = stack.pop(), stack.pop()
            stack.append(self._known(module, name))
        elif code == b"R"[0]:
            arguments, what = stack.pop(), stack.pop()
            stack.append(_made(what, arguments))
        elif code == b"b"[0]:
            state = stack.pop()
            _set_state(stack[-1], state)
        else:
            raise ValueError

    def _string(self, width: int, text: bool) -> bytes | str | Place:
        size = self._number(width)
        if size > _MOST_IN_HAND:
            start = self._at
            if size > len(self._data) - start:
                raise ValueError
            self._at += size
            return Place(start, size, text)
        taken = self._take(size)
        return taken.decode() if text else taken

    def _since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._below.pop()
        return items

    def _extend(self, items: list[Any]) -> None:
        if not isinstance(self._stack[-1], list):
            raise TypeError
        self._stack[-1].extend(items)

    def _fill(self, items: list[Any]) -> None:
        held = self._stack[-1]
        if not isinstance(held, dict) or len(items) % 2:
            raise TypeError
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes):  # others may take for ever to hash
                raise TypeError
            held[key] = value

    def _line(self) -> str:
        end = self._data.index(b"\n", self._at, self._at + 256)
        line = self._take(end - self._at).decode()
        self._at += 1
        return line

    def _known(self, module: Any, name: Any) -> _Global:
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError
        named = _Global(module, name)
        if named not in _KNOWN:
            raise SourceError(
                f"{self._source}: is a pickle that wants to load {module}.{name}, which no file of "
                "CIFAR's does: it is not opened"
            )
        return named


def _made(what: Any, arguments: Any) -> Any:
    """What a call would return."""
    if not isinstance(what, _Global) or type(arguments) is not tuple:
        raise TypeError
    called = _KNOWN[what]
    if called == _RECONSTRUCT and isinstance(arguments[0], _Global):
        return Array()
    if called == _DTYPE and isinstance(arguments[0], str | bytes):
        return _Dtype(_plain(arguments[0]))
    if called == _ENCODE and arguments[1] == "latin1":
        text = arguments[0]
        if isinstance(text, Place) and text.text:
            return text
        if isinstance(text, str):
            return text.encode("latin-1")
    raise TypeError


def _set_state(made: Any, state: Any) -> None:
    """Give an array its content, as ``ndarray.__setstate__`` takes it."""
    if isinstance(made, _Dtype):
        return
    if not isinstance(made, Array) or type(state) is not tuple:
        raise TypeError
    _, shape, dtype, by_column, place = state
    whole = type(shape) is tuple and all(type(each) is int and each >= 0 for each in shape)
    if not whole or not isinstance(dtype, _Dtype) or type(by_column) not in (bool, int):
        raise TypeError
    made.shape, made.dtype, made.by_column = shape, dtype.code, bool(by_column)
    made.place = place if isinstance(place, Place) else None

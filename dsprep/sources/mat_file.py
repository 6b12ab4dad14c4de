"""MATLAB's files of level 5: which variables they hold, where their numbers lie, and their values.

https://www.mathworks.com/help/pdf_doc/matlab/matfile_format.pdf. After a header of 128 bytes, each
variable is an element: its type and its size, then its bytes, which zlib may have compressed. A
matrix consists of elements itself: flags with its class, its dimensions, its name, and its content.
What lies there is numbers, text, cells and structs; objects and functions are refused. Files of
version 7.3 are HDF5.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from math import prod
from typing import Any, TypeAlias

from dsprep.errors import SourceError
from dsprep.tuples import NamedTuple

Read: TypeAlias = Callable[[int, int], bytes]
"""A function that reads bytes, by their offset and their number."""

_HEADER = 128
_MATRIX, _PACKED = 14, 15
# codes of `array` for the types of numbers, by the types of elements
_CODES = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "f", 9: "d", 12: "q", 13: "Q"}
_ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _STRUCT, _CHAR, _UINT8 = 1, 2, 4, 9
_NUMBERS = range(6, 16)  # classes of numbers
_HEAD = 1 << 12  # bytes that hold the flags, the dimensions and the name of a matrix
_LARGEST = 1 << 28  # bytes of a value that is read whole
_DEEPEST = 16
_MOST_VARIABLES = 10_000
_MOST_FIELDS = 10_000  # of a struct
MOST_CELLS = 1 << 20
"""Maximum number of cells, and of fields of structs, in a variable: about 200 MB of memory."""

_DAMAGE = (struct.error, IndexError, ValueError, UnicodeDecodeError, zlib.error, MemoryError)


class Variable(NamedTuple):
    """A variable of a file."""

    name: str
    kind: int  # the class of MATLAB
    shape: tuple[int, ...]
    order: str  # order of the bytes of a number: `<` or `>`
    start: int  # where its element begins in the file, after its type and size
    size: int  # bytes that it takes there
    is_packed: bool  # whether they are compressed
    # of numbers: their code as `array` has it, and where they begin, in the file or unpacked
    code: str = ""
    numbers: int = 0

    @property
    def is_bytes(self) -> bool:
        """Whether it is an array of uint8, as images are."""
        return self.kind == _UINT8 and self.code == "B"


class Values(NamedTuple):
    """The value of a variable: items in the order of MATLAB, the first dimension first.

    Items are numbers, texts, dictionaries of a struct, or values of cells.
    """

    shape: tuple[int, ...]
    items: Sequence[Any]


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Raise what parsing raises for damaged files as errors of the source."""
    try:
        yield
    except _DAMAGE as error:
        raise SourceError(f"{path}: is damaged, or no file of MATLAB: {error}") from None


def variables(read: Read, size: int, path: str) -> list[Variable]:
    """Return the variables of a file.

    Raises:
        SourceError: It is damaged, or none of level 5.
    """
    order = {b"IM": "<", b"MI": ">"}.get(read(0, _HEADER)[126:])
    if order is None:
        raise SourceError(
            f"{path}: is no file of MATLAB that dsprep reads: save it again, with -v7 in MATLAB "
            "and Octave, or with scipy.io.savemat"
        )
    found, at = list[Variable](), _HEADER
    with _errors(path):
        while at + 8 <= size:
            kind, length = struct.unpack(f"{order}2I", read(at, 8))
            is_packed = kind == _PACKED
            if not (is_packed or kind == _MATRIX) or at + 8 + length > size:
                raise ValueError("an element does not fit into it")
            if len(found) == _MOST_VARIABLES:
                raise ValueError(f"more than {_MOST_VARIABLES:,} variables")
            found.append(_variable(read, order, at + 8, length, is_packed))
            at += 8 + length
    return found


def _variable(read: Read, order: str, start: int, size: int, is_packed: bool) -> Variable:
    """Return what the head of an element says of its variable."""
    head, before = read(start, min(size, _HEAD)), start
    if is_packed:
        head, before = zlib.decompressobj().decompress(head, _HEAD)[8:], 8
    matrix = _Matrix(head, order)
    kind, shape, name = matrix.kind, matrix.shape, matrix.name
    code, numbers = "", 0
    if kind in _NUMBERS and not matrix.is_complex:
        type_of_numbers, length, at, _ = _tag(head, matrix.content, order)
        code, numbers = _CODES.get(type_of_numbers, ""), before + at
        if code and length != prod(shape) * array(code).itemsize:
            raise ValueError(f"{name} does not have as many numbers as its shape says")
        if not is_packed and at + length > size:
            raise ValueError(f"{name} does not fit into its element")
    return Variable(name, kind, shape, order, start, size, is_packed, code, numbers)


def value_of(read: Read, found: Variable, path: str) -> Values:
    """Read the value of a variable whole; refuse objects, and what is too large."""
    if found.size > _LARGEST:
        raise SourceError(f"{path}: {found.name} has {found.size:,} bytes, too many for labels")
    with _errors(path):
        data = read(found.start, found.size)
        if found.is_packed:
            unpacking = zlib.decompressobj()
            data = unpacking.decompress(data, _LARGEST)[8:]
            if not unpacking.eof:
                raise ValueError(f"{found.name} is cut short, or unpacks to too many bytes")
        return _value(data, found.order, 0, count())


class _Matrix:
    """The head of a matrix: its class, shape and name, and where its content begins."""

    def __init__(self, data: bytes, order: str) -> None:
        _, size, at, after = _tag(data, 0, order)
        (flags,) = struct.unpack_from(f"{order}I", data, at)
        self.kind, self.is_complex = flags & 0xFF, bool(flags & 0x800)
        _, size, at, after = _tag(data, after, order)
        self.shape: tuple[int, ...] = struct.unpack_from(f"{order}{size // 4}i", data, at)
        _, size, at, self.content = _tag(data, after, order)
        self.name = data[at : at + size].decode("latin-1")
        if len(self.shape) < 2 or min(self.shape) < 0:
            raise ValueError(f"{self.name} has no shape")


def _tag(data: bytes, at: int, order: str) -> tuple[int, int, int, int]:
    """Return the type and the size of an element, where its bytes begin, and where it ends."""
    word, size = struct.unpack_from(f"{order}2I", data, at)
    if word >> 16:  # up to four bytes lie in the tag itself
        return word & 0xFFFF, word >> 16, at + 4, at + 8
    return word, size, at + 8, at + 8 + size + -size % 8


def _value(data: bytes, order: str, depth: int, cells: Iterator[int]) -> Values:
    """Return the value of a matrix; ``cells`` counts all cells and fields of a variable."""
    matrix = _Matrix(data, order)
    total = prod(matrix.shape)
    if depth > _DEEPEST:
        raise ValueError("too many cells in each other")
    if matrix.kind == _CHAR:
        return _text(data, order, matrix)
    if matrix.kind in _NUMBERS and not matrix.is_complex:
        return Values(matrix.shape, _numbers(data, order, matrix.content, total))
    if matrix.kind == _CELL:
        found = _matrices(data, order, matrix.content, total, depth, cells)
        return Values(matrix.shape, found)
    if matrix.kind != _STRUCT:
        raise ValueError(f"{matrix.name} has values that dsprep does not read, such as objects")
    _, _, at, after = _tag(data, matrix.content, order)
    (length,) = struct.unpack_from(f"{order}i", data, at)
    _, size, at, after = _tag(data, after, order)
    if at + size > len(data) or size > _MOST_FIELDS * length:
        raise ValueError(f"{matrix.name} has fewer fields than it says")
    names = [
        data[start : start + length].partition(b"\0")[0].decode("latin-1")
        for start in range(at, at + size, max(length, 1))
    ]
    values = _matrices(data, order, after, total * len(names), depth, cells)
    rows = (values[start : start + len(names)] for start in range(0, len(values), len(names) or 1))
    return Values(matrix.shape, [dict(zip(names, row, strict=True)) for row in rows])


def _matrices(
    data: bytes, order: str, at: int, number: int, depth: int, cells: Iterator[int]
) -> list[Values]:
    """Return the values of matrices that follow each other."""
    if number > (len(data) - at) // 8:  # each has a tag
        raise ValueError("has fewer cells than it says")
    found = []
    for _ in range(number):
        if next(cells) >= MOST_CELLS:  # empty ones take eight bytes each, and packed ones none
            raise ValueError(f"more than {MOST_CELLS:,} cells")
        kind, size, begin, at = _tag(data, at, order)
        if kind != _MATRIX:
            raise ValueError("has a cell that is no matrix")
        inner = data[begin : begin + size]
        found.append(_value(inner, order, depth + 1, cells) if inner else Values((0, 0), []))
    return found


def _numbers(data: bytes, order: str, at: int, count: int) -> array[Any]:
    kind, size, begin, _ = _tag(data, at, order)
    numbers = array(_CODES.get(kind, "B"))
    if kind not in _CODES or size != count * numbers.itemsize or begin + size > len(data):
        raise ValueError("has fewer numbers than it says")
    numbers.frombytes(data[begin : begin + size])
    if (order == ">") == (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers


def _text(data: bytes, order: str, matrix: _Matrix) -> Values:
    """Return texts: a row of characters each."""
    if not prod(matrix.shape):
        return Values(matrix.shape, [""])
    kind, size, begin, _ = _tag(data, matrix.content, order)
    name = _ENCODINGS.get(kind, "")
    if not name or begin + size > len(data):
        raise ValueError(f"{matrix.name} has no text")
    if name in ("utf-16", "utf-32"):
        name += "-le" if order == "<" else "-be"
    text, rows = data[begin : begin + size].decode(name), matrix.shape[0]
    if rows > len(text):
        raise ValueError(f"{matrix.name} has fewer rows of text than it says")
    return Values(matrix.shape, [text[row::rows] for row in range(rows)])


def flat(value: Values) -> list[Any]:
    """Return the items of a value, cells and structs of one item replaced by that."""
    return [_single(item) for item in value.items]


def _single(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _single(each) for name, each in item.items()}
    if isinstance(item, Values):
        items = flat(item)
        return items[0] if len(items) == 1 else items
    return item

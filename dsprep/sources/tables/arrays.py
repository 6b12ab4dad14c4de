"""Files of NumPy and SciPy, and how workers read rows of them.

An ``.npy`` is a magic number, a header that is a Python literal, and the numbers
(https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). An ``.npz`` is a zip of
these, ``NAME.npy`` for each array. SciPy's ``save_npz`` writes a matrix of compressed rows as the
arrays ``format``, ``shape``, ``data``, ``indices`` and ``indptr``. Arrays of objects are pickles,
which are refused.
"""

from __future__ import annotations

import ast
import os
import re
import struct
import sys
import zlib
from array import array
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, product
from math import prod
from operator import mul
from typing import Any, ClassVar, Protocol

from dsprep.errors import BadSample, SourceError, source_errors
from dsprep.places.archive import open_archive
from dsprep.places.prefetch import OpenFiles, read_at, runs
from dsprep.places.scan import RunAll
from dsprep.places.zip import Packed, locate
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, key_of
from dsprep.sources.labels.columns import Columns
from dsprep.sources.tables.csv_rows import counted
from dsprep.storage.files import OpenFile, open_file
from dsprep.storage.stored import Facts
from dsprep.tuples import NamedTuple

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 16
_BLOCK = 1 << 20
_LARGEST_ROW = 1 << 28
# The letter that `struct` has for each type of numbers, which follows the order of bytes.
_CODES = {
    **{f"i{size}": code for size, code in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))},
    **{f"u{size}": code for size, code in ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))},
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "b1": "?",
}
_TYPES = {"e": "float32", "f": "float32", "d": "float64", "?": "bool"}
_REFUSED = {
    "O": "objects, which are pickles that dsprep does not open: save numbers",
    "c": "complex numbers: save their parts",
    "M": "times: save numbers",
    "m": "times: save numbers",
}


# How far this process has unpacked members. Rows come in many tasks, in their order. Without it,
# each task would unpack all that precedes its rows.
_LEFT: dict[Hashable, Unpacked] = {}
_MOST_LEFT = 64


class PickledArray(SourceError):
    """An array holds objects, which are pickles."""


class Array(NamedTuple):
    """An array in a file."""

    name: str
    order: str  # order of the bytes of a number: `<` or `>`
    code: str  # code of the type, as `struct` has it; `s` and `U` for text
    size: int  # bytes of an item
    shape: tuple[int, ...]
    by_column: bool  # whether the first items of all rows come first, as in Fortran
    start: int  # where its items begin in the file, or in the unpacked member
    packed: Packed | None = None  # the deflated member of a zip that it is in

    @property
    def width(self) -> int:
        return prod(self.shape[1:])

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.size

    @property
    def type(self) -> str:
        kind = "text" if self.code in "sU" else _TYPES.get(self.code, "int")
        return kind if len(self.shape) == 1 else f"list<{kind.replace('bool', 'int')}>"

    def rows(self, file: Bytes, first: int, count: int) -> Sequence[Any]:
        """Read some rows: an item each, or a tuple of them."""
        width = self.width
        if self.by_column and width > 1:
            steps = list(accumulate(self.shape, mul))[:-1]
            places = product(*map(range, self.shape[1:]))
            starts = (first + sum(map(mul, place, steps)) for place in places)
            return list(zip(*(self._items(file, at, count) for at in starts), strict=True))
        items = self._items(file, first * width, count * width)
        if len(self.shape) == 1:
            return items
        return [items[at : at + width] for at in range(0, len(items), width)]

    def numbers(self, file: Bytes) -> Iterator[array[Any]]:
        """Read all numbers in blocks, in their order in the file."""
        step, total = _BLOCK // self.size, prod(self.shape)
        for at in range(0, total, step):
            count = min(step, total - at)
            if self.code in "e?":  # half floats and booleans have no code in the module `array`
                yield array("d" if self.code == "e" else "b", self._items(file, at, count))
                continue
            block = array(self.code, file.read(self.start + at * self.size, count * self.size))
            if self.size > 1 and (self.order == ">") == (sys.byteorder == "little"):
                block.byteswap()
            yield block

    def _items(self, file: Bytes, first: int, count: int) -> tuple[Any, ...]:
        data = file.read(self.start + first * self.size, count * self.size)
        if self.code not in "sU":
            return struct.unpack(f"{self.order}{count}{self.code}", data)
        encoding = "utf-8" if self.code == "s" else f"utf-32-{'lb'[self.order == '>']}e"
        texts = (data[at : at + self.size] for at in range(0, len(data), self.size))
        return tuple(text.decode(encoding).rstrip("\0") for text in texts)


class Bytes(Protocol):
    """The bytes that an array starts in."""

    def read(self, offset: int, count: int) -> bytes:
        """Return bytes, as many as asked for."""


@dataclass
class Plain:
    """Bytes of a file."""

    file: OpenFile

    def read(self, offset: int, count: int) -> bytes:
        data = read_at(self.file, count, offset)
        if len(data) < count:
            raise BadSample("its file ends before it")
        return data


class Unpacked:
    """Bytes of a member of a zip that are unpacked on the way, from front to back."""

    def __init__(self, file: OpenFile, packed: Packed) -> None:
        self._file, self._packed = file, packed
        self._restart()

    @classmethod
    def resumed(cls, file: OpenFile, packed: Packed, key: Hashable) -> Unpacked:
        """Go on where this process has left the member, which nobody else can do meanwhile."""
        found = _LEFT.pop(key, None)
        if found is None:
            return cls(file, packed)
        found._file = file
        return found

    def leave(self, key: Hashable) -> None:
        """Keep how far the member is unpacked, for the next rows."""
        while len(_LEFT) >= _MOST_LEFT:
            _LEFT.pop(next(iter(_LEFT)), None)
        _LEFT[key] = self

    def _restart(self) -> None:
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        self._read = 0  # how many compressed bytes were read
        self._passed, self._block = 0, b""  # bytes before the block, and the block

    def read(self, offset: int, count: int) -> bytes:
        if offset < self._passed:
            self._restart()
        while len(self._block) < offset + count - self._passed:
            cut = min(max(offset - self._passed, 0), len(self._block))
            self._block, self._passed = self._block[cut:], self._passed + cut
            try:
                self._block += self._more()
            except zlib.error as error:
                raise BadSample(f"is damaged: {error}") from None
        start = offset - self._passed
        return self._block[start : start + count]

    def _more(self) -> bytes:
        if data := self._inflate.unconsumed_tail:
            return self._inflate.decompress(data, _BLOCK)
        size = min(_BLOCK, self._packed.size - self._read)
        data = read_at(self._file, size, self._packed.start + self._read)
        self._read += len(data)
        if not data:
            raise BadSample("is damaged: its data is cut short")
        return self._inflate.decompress(data, _BLOCK)


def read_header(name: str, file: Bytes, start: int, size: int, packed: Packed | None) -> Array:
    """Read the header of an array of so many bytes."""
    # Nothing is read, and no memory taken, by what it says: the size of the array is compared.
    wrong = SourceError(f"{name}: is no array of NumPy")
    if size < 10:
        raise wrong
    head = file.read(start, 10)
    width = 2 if head[6:7] == b"\1" else 4
    if head[:6] != _MAGIC or head[6] not in (1, 2, 3) or size < 8 + width:
        raise wrong
    length = int.from_bytes(file.read(start + 8, width), "little")
    begin = 8 + width + length
    if length > _LONGEST_HEADER or begin > size:
        raise wrong
    try:
        kind, by_column, shape = _described(file.read(start + 8 + width, length))
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise wrong from None
    order, code, bytes_of_item = type_of_items(name, kind)
    array = Array(name, order, code, bytes_of_item, shape, by_column, start + begin, packed)
    if begin + array.bytes != size:
        shown = " x ".join(map(str, shape))
        raise SourceError(
            f"{name}: says that it has {shown or 1} items, so {begin + array.bytes:,} bytes with "
            f"its header, but it has {size:,}: it was cut off, or is damaged"
        )
    if array.width * array.size > _LARGEST_ROW:
        raise SourceError(f"{name}: has rows of {array.width * array.size:,} bytes: too large")
    return array


def _described(header: bytes) -> tuple[Any, bool, tuple[int, ...]]:
    """Return what a header says: the type of items, whether they lie by column, and the shape."""
    values = ast.literal_eval(header.decode("latin-1").strip())
    kind, by_column, shape = values["descr"], bool(values["fortran_order"]), values["shape"]
    if not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError
    return kind, by_column, tuple(shape)


def type_of_items(name: str, kind: Any) -> tuple[str, str, int]:
    """Return the order of bytes, the code and the size of items of a type of NumPy."""
    match = re.fullmatch(r"([<>=|]?)([a-zA-Z])([0-9]{0,6})", kind if isinstance(kind, str) else "")
    if match is None:
        raise SourceError(f"{name}: has records of several values: save an array of each")
    order, letter, number = match.groups()
    items = int(number or 0)
    code = _CODES.get(letter + number) or {"S": "s", "U": "U"}.get(letter, "")
    if not code or (not items and code in "sU"):
        what = _REFUSED.get(letter, f"items of the type {kind}, which dsprep does not read")
        raise (PickledArray if letter == "O" else SourceError)(f"{name}: has {what}")
    return ">" if order == ">" else "<", code, items * (4 if code == "U" else 1)


# Reading


class ArrayReader(Reader):
    """Reads rows of arrays; the offset of a row is its number."""

    reads_samples: ClassVar[bool] = True
    has_images: ClassVar[bool] = False
    table: ClassVar = Columns()
    path: str
    state: Facts  # state of the file when it was listed
    arrays: tuple[Array, ...]
    # of a sparse matrix, whose arrays are the numbers of columns and values: a row begins at its
    # offset in them, and `stored` are its items; 0 for other arrays
    sparse_columns: int = 0
    directory: str = ""  # the directory of the unpacked members, once there are such

    def sources(self) -> Sequence[str]:
        return (self.path,)

    def largest_key(self) -> int | None:
        return self.sparse_columns - 1 if self.sparse_columns else None

    def _to_spool(self) -> list[Array]:
        return [array for array in self.arrays if array.packed]

    def spools(self) -> Sequence[int]:
        return [array.bytes for array in self._to_spool()]

    def write_spool(self, number: int, path: str) -> None:
        array, step = self._to_spool()[number], _BLOCK
        with OpenFiles((self.path,), (self.state,)) as files, open(path, "wb") as spool:
            file = bytes_of(files.same(0), array)
            for at in range(0, array.bytes, step):
                spool.write(file.read(array.start + at, min(step, array.bytes - at)))

    def spooled(self, directory: str) -> ArrayReader:
        return replace(self, directory=directory)

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        paths = [self.path]
        arrays = list(self.arrays)
        if self.directory:
            for number, array in enumerate(self._to_spool()):
                paths.append(os.path.join(self.directory, str(number)))
                arrays[arrays.index(array)] = array._replace(start=0, packed=None)
        # the numbers of items that are read at once
        most = max(_BLOCK // max(array.width * array.size for array in arrays), 1)
        with OpenFiles(tuple(paths), (self.state, *[None] * (len(paths) - 1))) as files:
            opened: list[Bytes] = []
            spooled = 0
            for own, array in zip(self.arrays, arrays, strict=True):
                spooled += own != array
                file, packed = files.same(spooled if own != array else 0), array.packed
                key = self._key(array)
                opened.append(Unpacked.resumed(file, packed, key) if packed else Plain(file))
            for run in runs(rows, most):
                yield from self._read_run(opened, arrays, rows, run)
            for each, array in zip(opened, arrays, strict=True):
                if isinstance(each, Unpacked):
                    each.leave(self._key(array))

    def _key(self, array: Array) -> Hashable:
        return self.path, self.state, array.packed

    def _read_run(
        self, opened: Sequence[Bytes], arrays: Sequence[Array], rows: Rows, run: Any
    ) -> Iterator[Sample | BadSample]:
        try:
            found = [
                array.rows(file, run.start, run.stop - run.start)
                for file, array in zip(opened, arrays, strict=True)
            ]
        except (BadSample, UnicodeDecodeError) as error:
            for _ in range(run.first, run.last):
                yield BadSample(str(error))
            return
        for row in range(run.first, run.last):
            at = rows.offsets[row] - run.start
            if self.sparse_columns:
                keys, values = (each[at : at + rows.stored[row]] for each in found)
                wrong = [key for key in keys if not 0 <= key < self.sparse_columns]
                if wrong:
                    yield BadSample(f"has a value in column {wrong[0]} of {self.sparse_columns}")
                    continue
                if len({*keys}) < len(keys):
                    twice = next(key for key in keys if keys.count(key) > 1)
                    yield BadSample(f"has two values in column {twice}: SciPy's sum_duplicates() "
                                    "makes one of them")  # fmt: skip
                    continue
                fields = {"keys": keys, "values": values, "shape": self.sparse_columns}
            else:
                names = (array.name for array in arrays)
                fields = dict(zip(names, (each[at] for each in found), strict=True))
            sample = Sample(key_of(rows.paths[row]), fields, rows.ids[row])
            lists = (each if type(each) is tuple else (each,) for each in fields.values())
            floats = [each for each in lists if each and type(each[0]) is float]
            yield self.typed(counted(sample, floats[0] if len(floats) == 1 else sum(floats, ())))


def check_member(task: tuple[str, Packed, int]) -> str:
    """Return what is wrong with a member of a zip of some size, mostly nothing; in a worker."""
    path, packed, size = task
    with OpenFiles((path,)) as files:
        file: Bytes = Unpacked(files[0], packed) if packed.is_deflated else Plain(files[0])
        start, found = 0 if packed.is_deflated else packed.start, 0
        try:
            for at in range(0, size, _BLOCK):
                found = zlib.crc32(file.read(start + at, min(_BLOCK, size - at)), found)
        except BadSample as error:
            return str(error)
    return "" if found in packed.crcs else f"is damaged: its crc32 is not {found:08x}"


class ZippedArray(NamedTuple):
    """An array that is a member of a zip."""

    array: Array
    packed: Packed
    size: int  # bytes of the member


def zipped_arrays(
    path: str, file: OpenFile, passes_objects: bool = False
) -> tuple[list[ZippedArray], list[str]]:
    """Return the arrays of a zip by their headers, and the names of its other members.

    An array of objects is an error or, if the caller passes it over, one of the other members.
    """
    archive = open_archive(path)
    for finding in (*archive.damage, *archive.odd):
        raise SourceError(f"{path}: {finding.path}: {finding.detail}")
    arrays, others = [], []
    for at, name in enumerate(archive.names):
        if not name.endswith(".npy"):
            others.append(name)
            continue
        offset, stored, size = archive.place(at)
        packed = locate(file, offset, stored)
        inside: Bytes = Unpacked(file, packed) if packed.is_deflated else Plain(file)
        start = 0 if packed.is_deflated else packed.start
        try:
            found = read_header(
                f"{path}: {name}", inside, start, size, packed if packed.is_deflated else None
            )
        except PickledArray:
            if not passes_objects:
                raise
            others.append(name)
            continue
        array = found._replace(name=name.removesuffix(".npy"))
        arrays.append(ZippedArray(array, packed, size))
    return arrays, others


def require_whole(path: str, members: Sequence[ZippedArray], run_all: RunAll) -> None:
    """Refuse a zip whose arrays do not have the checksums that it says."""
    tasks = [(path, packed, size) for _, packed, size in members]
    for member, problem in zip(members, run_all(check_member, tasks), strict=True):
        if problem:
            raise SourceError(f"{path}: {member.array.name}.npy {problem}")


@contextmanager
def opened_arrays(path: str) -> Iterator[OpenFile]:
    """Open a file of arrays; what is wrong with it is an error of the source."""
    try:
        with source_errors(path), open_file(path) as file:
            yield file
    except (BadSample, UnicodeDecodeError, struct.error) as error:
        raise SourceError(f"{path}: {error}") from None


def bytes_of(file: OpenFile, array: Array) -> Bytes:
    """Return the bytes that an array of a file lies in."""
    return Unpacked(file, array.packed) if array.packed else Plain(file)

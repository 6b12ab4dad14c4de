"""Tables as bytes, for plan files, which anybody may have written.

A damaged file of Parquet or Arrow can abort polars, so the format is plain: a line of JSON with the
number of rows and the name and type of each column, then the columns, some thousand rows a block. A
block is its packed size and its size, and the values packed by zlib: numbers in little-endian
order, or texts with a NUL after each. Lists are a block of their lengths, and one of their items.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator
from typing import IO, Any

import polars as pl

from dsprep.catalog import AT_ONCE, whole_paths
from dsprep.storage.local import LARGEST_TABLE

_NUMBERS = {"int32": (pl.Int32(), "i"), "int64": (pl.Int64(), "q"), "float64": (pl.Float64(), "d")}
_LISTS = {f"list of {name}": name for name in _NUMBERS}
_TYPES: dict[str, pl.DataType] = {
    "text": pl.String(),
    **{name: kind for name, (kind, _) in _NUMBERS.items()},
    **{name: pl.List(_NUMBERS[of][0]) for name, of in _LISTS.items()},
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_LENGTHS = "int64"  # the type of the lengths of lists
_SIZES = struct.Struct("<QQ")  # compressed size and size of a block
_LONGEST_HEADER = 1 << 16


def write_table(table: pl.DataFrame, file: IO[bytes]) -> None:
    """Write a table without nulls, a block at a time, as it may be large."""
    if sum(table.null_count().row(0)):
        raise ValueError("a table of a plan cannot hold nulls")
    columns = [[name, _name_of(kind)] for name, kind in table.schema.items()]
    file.write(json.dumps({"rows": table.height, "columns": columns}).encode() + b"\n")
    for (_, kind), column in zip(columns, table.get_columns(), strict=True):
        for start in range(0, table.height, AT_ONCE):
            file.writelines(_blocks(kind, column.slice(start, AT_ONCE)))


def _name_of(kind: pl.DataType) -> str:
    """Return the name of a type; paths in two parts are texts."""
    return "text" if isinstance(kind, pl.Struct) else _NAMES[kind]


def _blocks(kind: str, column: pl.Series) -> Iterator[bytes]:
    if kind in _LISTS:
        lengths = column.list.len()
        yield from _blocks(_LENGTHS, lengths)
        yield from _blocks(_LISTS[kind], column.filter(lengths > 0).explode())
        return
    if kind == "text":
        data = whole_paths(column).str.join("\0").item().encode() + b"\0"
    else:
        data = _little_endian(array(_NUMBERS[kind][1], column.to_list())).tobytes()
    packed = zlib.compress(data, 1)
    yield _SIZES.pack(len(packed), len(data)) + packed


def read_table(file: IO[bytes]) -> pl.DataFrame:
    """Return the table that a file holds; raises an error that says what is wrong with it."""
    header = file.readline(_LONGEST_HEADER)
    if not header.endswith(b"\n"):
        raise ValueError("the first line of a table has no end")
    told = json.loads(header)
    rows, columns = told["rows"], told["columns"]
    # zlib may say in a few bytes that a column repeats a number for ever.
    if type(rows) is not int or rows < 0 or rows * len(columns) > LARGEST_TABLE:
        raise ValueError(f"a table has {rows!r:.100} rows, more than fit into memory")
    blocks = _Blocks(file)
    table = pl.DataFrame([blocks.column(kind, rows).alias(name) for name, kind in columns])
    blocks.require_end()
    return table


class _Blocks:
    """The blocks of a table in a plan file, read one after another."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._left = LARGEST_TABLE  # how many bytes of memory the remaining blocks may take

    def require_end(self) -> None:
        """Refuse bytes behind the last block."""
        if self._file.read(1):
            raise ValueError("a table is longer than its columns")

    def column(self, kind: str, rows: int) -> pl.Series:
        """Read the next column."""
        counts = (min(AT_ONCE, rows - start) for start in range(0, rows, AT_ONCE))
        return pl.concat([pl.Series(dtype=_TYPES[kind]), *(self._part(kind, n) for n in counts)])

    def _part(self, kind: str, count: int) -> pl.Series:
        """Read some rows of a column."""
        if kind in _LISTS:
            lengths = self._part(_LENGTHS, count)
            if not (lengths >= 0).all():
                raise ValueError("a list has a negative length")
            return _lists(self._part(_LISTS[kind], sum(lengths.to_list())), lengths)
        data = self._next()
        if kind == "text":
            *texts, rest = data.decode().split("\0")
            column, is_whole = pl.Series(texts, dtype=pl.String), not rest
        else:
            numbers = array(_NUMBERS[kind][1])
            numbers.frombytes(data)
            column, is_whole = pl.Series(_little_endian(numbers), dtype=_TYPES[kind]), True
        if len(column) != count or not is_whole:
            raise ValueError(f"a block of a table has {len(column):,} values, not {count:,}")
        return column

    def _next(self) -> bytes:
        """Unpack the next block."""
        packed, size = _SIZES.unpack(self._file.read(_SIZES.size))
        self._left -= size
        if packed > LARGEST_TABLE or self._left < 0:
            raise ValueError("a block of a table is larger than it can be")
        unpacker = zlib.decompressobj()
        found = unpacker.decompress(self._file.read(packed), size + 1)
        if len(found) != size or not unpacker.eof:
            raise ValueError("a block of a table is not of its size")
        return found


def _lists(items: pl.Series, lengths: pl.Series) -> pl.Series:
    """Return lists of these lengths, of items that follow one another."""
    length = lengths[0]
    if length and (lengths == length).all():
        return items.reshape((len(lengths), length)).arr.to_list()
    values, ends = items.to_list(), lengths.cum_sum().to_list()
    starts = [0, *ends[:-1]]
    lists = [values[start:end] for start, end in zip(starts, ends, strict=True)]
    return pl.Series(lists, dtype=pl.List(items.dtype))


def _little_endian(numbers: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers

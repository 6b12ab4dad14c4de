"""The two parsers of CSV: Python's, record by record, and polars', a whole table at once.

Python's parser tells in which line a record is and what is wrong with it. Polars' is much faster,
and a worker must not load it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from dsprep.errors import SourceError
from dsprep.storage.files import OpenFile

if TYPE_CHECKING:
    import polars as pl

CsvError = csv.Error

_MARK = b"\xef\xbb\xbf"  # the byte order mark of UTF-8
_READ = 1 << 20
_LONGEST = 1 << 26  # bytes of a line


class Records(Protocol):
    """The cells of each record; a blank line is a record without cells."""

    @property
    def line_num(self) -> int:
        """The number of lines read so far."""

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


def records(lines: Iterable[str], separator: str = ",", *, strict: bool = True) -> Records:
    """Read records from lines that end in a line break, or are whole records.

    If ``strict``, a quote inside a cell or without an end is an error.
    """
    return csv.reader(lines, delimiter=separator, strict=strict)


def records_of(text: str, separator: str = ",", *, strict: bool = True) -> Records:
    """Read the records of a text."""
    return records(io.StringIO(text, newline=""), separator, strict=strict)


def first_record(line: str, separator: str = ",") -> list[str]:
    """Return the cells of the first record of a line, whose quotes may be odd."""
    return next(records([line], separator, strict=False), [])


class PlacedRecords:
    """The cells of each record of a file, with where the record lies."""

    def __init__(
        self,
        lines: Iterable[tuple[bytes, int]],
        start: int = 0,
        separator: str = ",",
        *,
        strict: bool = True,
        replaces: bool = False,
    ) -> None:
        """Read records.

        Args:
            lines: Lines, each with the offset of its end: :func:`lines_of`, :func:`lines_in`.
            start: The offset of the first line.
            separator: What stands between cells.
            strict: Whether quotes inside a cell are an error.
            replaces: Whether bytes that are not UTF-8 are replaced, and no ``UnicodeDecodeError``.
        """
        self.ends = [start]  # offsets of the ends of lines that were read
        self.first = self.last = 0  # number of lines before this record, and before the next
        self._replaces = replaces
        self._not_text = set[int]()
        self._reader = records(self._texts(lines), separator, strict=strict)

    def _texts(self, lines: Iterable[tuple[bytes, int]]) -> Iterator[str]:
        ends = self.ends
        for line, end in lines:
            if not ends[-1]:
                line = line.removeprefix(_MARK)
            ends.append(end)
            try:
                yield line.decode()
            except UnicodeDecodeError:
                if not self._replaces:
                    raise
                self._not_text.add(len(ends) - 2)
                yield line.decode(errors="replace")

    def __iter__(self) -> Iterator[list[str]]:
        self.first = self.last
        for cells in self._reader:
            self.last = self._reader.line_num
            yield cells
            self.first = self.last

    @property
    def lines_read(self) -> int:
        """How many lines were read, also those of a record that is wrong."""
        return len(self.ends) - 1

    @property
    def offset(self) -> int:
        """Where this record begins."""
        return self.ends[self.first]

    @property
    def size(self) -> int:
        """The size of this record in bytes."""
        return self.ends[self.last] - self.ends[self.first]

    @property
    def is_text(self) -> bool:
        """Whether this record is UTF-8."""
        return not self._not_text or self._not_text.isdisjoint(range(self.first, self.last))


def lines_in(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the lines of a file that was read, each with the offset of its end."""
    end = 0
    for line in io.BytesIO(data):
        end += len(line)
        yield line, end


def lines_of(file: OpenFile, path: str, start: int) -> Iterator[tuple[bytes, int]]:
    """Read lines from an offset on, each with that of its end."""
    rest, offset, end = b"", start, start
    while data := file.pread(_READ, offset):
        offset += len(data)
        parts = (rest + data).split(b"\n")
        rest = parts.pop()
        if len(rest) > _LONGEST:
            raise SourceError(f"{path}: has a line of more than {_LONGEST:,} bytes: is no CSV")
        for part in parts:
            end += len(part) + 1
            yield part + b"\n", end
    if rest:
        yield rest, end + len(rest)


def read_columns(
    text: str, separator: str, *, header: bool, schema: pl.Schema | None = None, quotes: bool = True
) -> pl.DataFrame:
    """Return all columns of a table by polars' parser, as text if no schema tells their types.

    Raises:
        CsvError: If polars cannot read the table; Python's parser tells why.
    """
    import polars as pl

    try:
        return pl.read_csv(
            text.encode(),
            separator=separator,
            has_header=header,
            infer_schema=False,
            schema=schema,
            quote_char='"' if quotes else None,
        )
    except pl.exceptions.PolarsError as error:
        raise CsvError(str(error)) from None

"""The rows of CSV files in workers: indexed block by block, and read.

A block ends where a record ends that begins in it, and only its parser knows where: cells in quotes
may hold line breaks. So a worker takes the first line break after the place where its block should
begin for the end of a record. If the block before ends elsewhere, the block is indexed again.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import isfinite
from typing import ClassVar, TypeAlias

from dsprep.csv_parsers import CsvError, PlacedRecords, lines_of, records
from dsprep.errors import BadSample, SourceError
from dsprep.places.prefetch import AdjacentRows, OpenFiles, read_at, runs
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, Value, key_of
from dsprep.sources.labels.columns import CONVERT, NUMBERS, Columns, joined, kind_of
from dsprep.storage.files import OpenFile, open_file
from dsprep.storage.stored import Facts
from dsprep.tuples import NamedTuple

_READ = 1 << 20
MOST_WRONG = 1000  # records of one block that cannot be read, of a file that may still be a table
_MOST_LABELS = 10_000  # different labels in one block that may still be names of classes
_SHOWN = 3
_AT_ONCE = 64  # rows whose cells are converted together
# What pandas takes for a missing value, in a column of numbers; in text, only an empty cell is one.
_NOT_GIVEN = frozenset(
    ("", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaN", "nan", "-nan", "-NaN", "NULL", "null", "None")
)
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
INFINITE = "sample with a number that is not finite, NaN or infinity"


# the values of some rows in a column, and whether none is missing, which is None
_Column: TypeAlias = tuple[Sequence[Value], bool]


# Indexing


class Block(NamedTuple):
    """Where a worker looks for records."""

    path: str
    facts: Facts  # state of the file when it was listed
    separator: str
    width: int  # how many cells a record has
    label: int  # the number of the column of labels; -1 if there is none
    start: int  # the first byte
    stop: int  # end of the block: records that begin before it belong to the block
    is_exact: bool = False  # whether a record begins at the first byte


@dataclass
class ColumnCells:
    """The types of the cells of a column, as far as a worker has read it."""

    kind: str = ""  # `int`, `wide` if some need more than 53 bits, `float64`, `bool`, `text`
    given: int = 0  # how many cells have a value
    numbers: int = 0  # how many of the cells are numbers
    words: list[tuple[int, str]] = field(default_factory=list)  # the first that are none, by line

    @classmethod
    def of(cls, cells: Sequence[str], lines: Sequence[int]) -> ColumnCells:
        """Look at the cells of a column."""
        kind = kind_of(cells)
        if kind in NUMBERS:
            return cls(kind, len(cells), len(cells))
        given = [cell for cell in map(str.strip, cells) if cell not in _NOT_GIVEN]
        kind = kind_of(given)
        if kind != "text":
            return cls(kind, len(given), 0 if kind == "bool" else len(given))
        count, numbers = sum(map(bool, cells)), sum(map(bool, map(_NUMBER.fullmatch, cells)))
        words = (
            (line, cell)
            for line, cell in zip(lines, cells, strict=True)
            if cell and not _NUMBER.fullmatch(cell)
        )
        return cls("text", count, numbers, list(islice(words, _SHOWN)))

    def add(self, other: ColumnCells, lines: int) -> None:
        """Add the cells of the next block, before which there are some lines."""
        self.kind = joined(self.kind, other.kind)
        self.given += other.given
        self.numbers += other.numbers
        self.words += [(line + lines, word) for line, word in other.words]
        del self.words[_SHOWN:]


@dataclass
class IndexedBlock:
    """The index of a block."""

    start: int  # where its first record begins
    stop: int = 0  # where the record after its last begins
    lines: int = 0
    # where each record lies, and its bytes
    offsets: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    cells: list[ColumnCells] = field(default_factory=list)  # by column
    # the different labels, and the number of that of each record; None if there are too many
    labels: list[str] | None = None
    label_of: array[int] = field(default_factory=lambda: array("i"))
    wrong: list[tuple[int, str]] = field(default_factory=list)  # lines that are no rows, and why


def index_block(block: Block) -> IndexedBlock:
    """Index a block, in a worker."""
    with open_file(block.path) as file:
        if file.facts() != block.facts:
            raise SourceError(f"{block.path}: has changed; give the same command again")
        start = block.start
        if not block.is_exact:
            start = next(lines_of(file, block.path, start - 1), (b"", start))[1]
        found = IndexedBlock(start, start)
        rows: list[list[str]] = []
        lines: list[int] = []  # the first line of each row
        while found.stop < block.stop:
            found.stop = _index(file, block, found, rows, lines)
    found.cells = [ColumnCells.of(column, lines) for column in zip(*rows, strict=True)]
    if block.label >= 0:
        labels = [row[block.label].strip() for row in rows]
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        if len(numbers) <= _MOST_LABELS:
            found.labels = list(numbers)
            found.label_of = array("i", map(numbers.__getitem__, labels))
    return found


def _index(
    file: OpenFile, block: Block, found: IndexedBlock, rows: list[list[str]], lines: list[int]
) -> int:
    """Index records up to the first that cannot be read; return where to go on."""
    lines_here = lines_of(file, block.path, found.stop)
    placed = PlacedRecords(lines_here, found.stop, block.separator, replaces=True)
    reader, ends = iter(placed), placed.ends
    above, problem = found.lines, ""
    while ends[placed.last] < block.stop:
        try:
            row = next(reader)
        except StopIteration:
            found.lines += placed.last
            return ends[-1]
        except CsvError as error:
            problem = f"it cannot be read: {error}"
        else:
            if not placed.is_text:
                problem = "it is not UTF-8"
            elif len(row) != block.width and row:
                problem = f"{len(row)} cells, where the header has {block.width}"
                if ends[-1] == block.facts.size and len(row) < block.width:
                    problem += ": the file was cut off in it"
            elif row:
                rows.append(row)
                lines.append(above + placed.first)
                start, stop = ends[placed.first], ends[placed.last]
                found.offsets.append(start)
                found.sizes.append(stop - start)
            if not problem:
                continue
        found.wrong.append((above + placed.first, problem))
        if len(found.wrong) > MOST_WRONG:
            found.lines += placed.first
            return block.stop
        # A quote without an end would take the rows below with it: they are read once more.
        found.lines += placed.first + 1
        return ends[placed.first + 1]
    found.lines += placed.last
    return ends[placed.last]


# Reading


class CsvReader(Reader):
    """Reads rows of CSV files."""

    reads_samples: ClassVar[bool] = True
    has_images: ClassVar[bool] = False
    table: ClassVar = Columns()
    files: tuple[str, ...]
    states: tuple[Facts, ...]  # states of the files when they were listed
    separator: str
    columns: tuple[tuple[str, str], ...]  # the names, each with its type; the empty one is left out

    def sources(self) -> Sequence[str]:
        return self.files

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        # A column of cells is converted at once, and not one cell after another: a row of 40
        # numbers takes a third of the time.
        kept = [(at, name, kind) for at, (name, kind) in enumerate(self.columns) if kind]
        every = self._records(rows)
        for first in range(0, len(rows.ids), _AT_ONCE):
            try:
                cells = list(zip(*islice(every, _AT_ONCE), strict=True))
                raw = {name: _values(kind, cells[at]) for at, name, kind in kept}
            except (CsvError, ValueError, IndexError):
                # The index has seen that all rows are whole. Size and time may be those of then.
                path = self.files[rows.files[first]]
                raise SourceError(f"{path}: has changed; give the same command again") from None
            typed = self._typed(raw)
            count = min(_AT_ONCE, len(rows.ids) - first)
            for row, fields in enumerate(_by_row(raw if typed is None else typed, count), first):
                sample = Sample(key_of(rows.paths[row]), fields, rows.ids[row])
                if typed is None:
                    floats = [value for value in fields.values() if type(value) is float]
                    yield self.typed(counted(sample, floats))
                else:
                    yield sample

    def _records(self, rows: Rows) -> Iterator[list[str]]:
        """Read the cells of each row."""
        with OpenFiles(self.files, self.states) as files:
            for run in files.ahead(runs(rows, _READ)):
                data = read_at(files.same(run.file), run.stop - run.start, run.start)
                lines = _cut(data, rows, run)
                found = records(lines, self.separator)
                for _, cells in zip(range(run.first, run.last), found, strict=True):
                    yield cells

    @cached_property
    def _fields(self) -> dict[str, tuple[str, Callable[[Value], Value | None] | None]] | None:
        """The field that each column is; None if the schema takes rows one by one."""
        kinds = {name: kind.replace("wide", "int") for name, kind in self.columns if kind}
        return self.reading.of_columns(kinds) if self.reading and self.pixels is None else None

    def _typed(self, raw: Mapping[str, _Column]) -> dict[str, _Column] | None:
        """Return the fields of some rows; None if one of them has to be looked at by itself."""
        if self.reading is None or self._fields is None:
            return None
        kinds, typed = dict(self.columns), dict[str, _Column]()
        for own, (values, is_whole) in raw.items():
            name, convert = self._fields[own]
            if kinds[own] == "float64" and not isfinite(sum(filter(None, values))):
                return None
            if convert is not None:
                try:
                    values = list(map(convert, values))
                except (ValueError, TypeError, OverflowError, LookupError):
                    return None
            if name in self.reading.required and not is_whole:
                return None
            if name:
                typed[name] = values, is_whole
        return typed or None


def _values(kind: str, cells: Sequence[str]) -> _Column:
    """Return the values of some cells of a column, None for a missing one; and if none is."""
    try:
        if kind == "text" and all(cells):
            return cells, True
        if kind == "float64":
            floats = list(map(float, cells))
            if (total := sum(floats)) == total:
                return floats, True
        elif kind != "text":
            return list(map(CONVERT[kind], cells)), True
    except (ValueError, KeyError):  # what stands for a missing number
        pass

    def value(cell: str) -> Value | None:
        try:
            return CONVERT[kind](cell)
        except (ValueError, KeyError):
            return None

    return list(map(value, cells)), False


def _by_row(columns: Mapping[str, _Column], count: int) -> Iterator[dict[str, Value]]:
    """Return the fields of each row."""
    if not columns:  # a table whose cells are all empty
        return ({} for _ in range(count))
    rows = zip(*(values for values, _ in columns.values()), strict=True)
    if all(is_whole for _, is_whole in columns.values()):
        return (dict(zip(columns, row, strict=True)) for row in rows)
    pairs = (zip(columns, row, strict=True) for row in rows)
    return ({name: value for name, value in each if value is not None} for each in pairs)


def _cut(data: bytes, rows: Rows, run: AdjacentRows) -> Iterator[str]:
    """Return the records of a run of rows."""
    for row in range(run.first, run.last):
        at = rows.offsets[row] - run.start
        yield data[at : at + rows.stored[row]].decode()


def counted(sample: Sample, floats: Sequence[float]) -> Sample:
    """Count a sample that has NaN or infinity."""
    # The sum of floats is finite if all are, and mostly only then.
    if floats and not isfinite(sum(floats)) and not all(map(isfinite, floats)):
        sample.effects = Counter({INFINITE: 1})
    return sample

"""The rows of Parquet files in workers: indexed without their images, and read.

A row group is compressed as a whole, so rows are read front to back: whatever rows are asked for,
each group that holds some is read once. For rows in another order the files are unpacked into
Arrow's own files, which have an index.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import accumulate, chain, compress
from typing import Any, ClassVar, TypeAlias

from dsprep.errors import BadSample, OptionError, SourceError, source_errors
from dsprep.formats.arrow import (
    Cell,
    ParquetColumns,
    arrow,
    cells_of,
    decode,
    file_parts,
    find_beside,
    is_file,
    kept_columns,
    plain_batch,
)
from dsprep.formats.arrow_file import ArrowFile, is_arrow
from dsprep.formats.parquet import ROWS_OF_BATCH, Parquet, columns_of, first_line, open_rows
from dsprep.images.header import sniff
from dsprep.rows import Reader, Rows
from dsprep.sample import UNKNOWN_IMAGE, Sample, key_of
from dsprep.storage.files import facts, open_file, results
from dsprep.tuples import NamedTuple
from dsprep.units import quoted_names

_HEAD = 16  # bytes that show the kind of an image
_HEADERS = 4096  # more than Arrow's file takes beside its messages
_MESSAGE = _MESSAGE_OF_COLUMN = 512  # more than Arrow's message of one row takes beside the values
_MOST_OPEN = 64  # unpacked files


# Indexing


class ParquetFile(NamedTuple):
    """A file of rows, of Parquet or Arrow."""

    path: str
    size: int  # its bytes when it was indexed
    mtime: int  # its time of last change then, in nanoseconds since 1970
    # the first row of each row group, or record batch of Arrow, and the number of all rows
    groups: tuple[int, ...]
    spool: int  # an upper limit of the bytes of its unpacked rows


@dataclass
class IndexedRows:
    """The index of a file."""

    file: ParquetFile
    # the number of each row that is a sample
    rows: array[int] = field(default_factory=lambda: array("q"))
    # the bytes of its image; without images, of all its values
    sizes: array[int] = field(default_factory=lambda: array("q"))
    kinds: list[str] = field(default_factory=list)  # the kind of its image; empty without one
    paths: list[Cell] = field(default_factory=list)  # the path of its image, if the file has it
    labels: list[Any] = field(default_factory=list)  # its cell in the column of labels
    counts: Counter[str] = field(default_factory=Counter)  # rows that have a value, by column
    without_image: int = 0  # rows that are no samples because their image is null
    damage: list[str] = field(default_factory=list)  # row groups that cannot be read, and why


# The path of a file, the columns to read, that of the labels if they are wanted, whether rows
# without an image are samples, and the rows that are wanted if not all are.
_Task: TypeAlias = tuple[str, ParquetColumns, str | None, bool, "Sequence[int] | None"]


def open_or_refuse(path: str) -> Any:
    """Open a file of rows."""
    with _require_whole(path):
        return open_rows(path)


@contextmanager
def _require_whole(path: str) -> Iterator[None]:
    """Refuse a file that cannot be read, or whose headers or footer cannot."""
    try:
        yield
    except (OSError, arrow().ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
        kind = "Arrow" if is_arrow(path) else "Parquet"
        raise SourceError(f"{path}: is not a whole {kind} file ({first_line(error)})") from None


def _rows_of_groups(file: Any, path: str) -> list[int]:
    """Return the number of rows of each row group, or of each record batch."""
    with _require_whole(path):
        if isinstance(file, ArrowFile):
            return [*file.rows]
        groups = range(file.num_row_groups)
        return [file.metadata.row_group(group).num_rows for group in groups]


def index_rows(task: _Task) -> IndexedRows:
    """Index a file, in a worker: read all of it, a few rows at a time."""
    path, columns, *_ = task
    size, mtime = facts(path)
    with open_or_refuse(path) as file:
        groups = (0, *accumulate(_rows_of_groups(file, path)))
        if list(groups) != sorted(groups) or groups[-1] > size:
            raise SourceError(
                f"{path}: is not a file of samples: {groups[-1]} rows in {size} bytes"
            )
        message = _MESSAGE + _MESSAGE_OF_COLUMN * len(columns.names)
        spool = _HEADERS + groups[-1] * message
        indexed = IndexedRows(ParquetFile(path, size, mtime, groups, spool))
        for group, start in enumerate(groups[:-1]):
            row = start
            try:
                for batch in file.iter_batches(
                    ROWS_OF_BATCH, [group], columns=list(columns.names), use_threads=False
                ):
                    rest = batch.slice(0, groups[group + 1] - row)
                    plain = plain_batch(rest, columns.names, columns.files)
                    _index(indexed, plain, row, task)
                    row += len(plain)
                    spool += plain.nbytes
                if row != groups[group + 1]:
                    indexed.damage.append(f"row group {group} holds {row - start} rows")
            except (arrow().ArrowException, OSError) as error:
                indexed.damage.append(f"row group {group}: {first_line(error)}")
    indexed.file = indexed.file._replace(spool=spool)
    return indexed


def _index(indexed: IndexedRows, batch: Any, start: int, task: _Task) -> None:
    _, columns, label, no_image, only = task
    rows: Sequence[int] = range(start, start + len(batch))
    if only is not None:
        rows = only[bisect_left(only, start) : bisect_left(only, start + len(batch))]
        batch = batch.take(arrow().array([row - start for row in rows], "int64"))
    image, count = columns.image, len(batch)
    present = {name: _present(batch.column(name)) for name in batch.schema.names}
    kept = present.get(image or "")
    if kept is not None and kept.false_count and not no_image:
        indexed.without_image += kept.false_count
        rows = list(compress(rows, kept.to_pylist()))
        batch, count = batch.filter(kept), len(rows)
        present = {name: _present(batch.column(name)) for name in present}
    indexed.rows.extend(rows)
    for name, cells in present.items():
        indexed.counts[name] += cells.true_count
    if label is not None:
        labels = cells_of(batch.column(label)) if label in present else [None] * count
        indexed.labels.extend(labels)
    if image not in present:
        indexed.sizes.extend([batch.nbytes // max(count, 1)] * count)
        indexed.kinds.extend([""] * count)
        indexed.paths.extend([None] * count)
        return
    for size, head, path in _images_of(batch.column(image), os.path.dirname(indexed.file.path)):
        indexed.sizes.append(size or 0)
        indexed.kinds.append("" if head is None else sniff(head) or UNKNOWN_IMAGE)
        indexed.paths.append(path)


def _images_of(column: Any, folder: str) -> Iterator[tuple[int | None, bytes | None, Cell]]:
    """Yield the size, the first bytes and the path of each image, in the rows or beside them."""
    compute, paths = arrow().compute, [None] * len(column)
    if is_file(column.type):
        column, places = file_parts(column)
        paths = cells_of(places)
    data = column.cast("large_binary")
    sizes = compute.binary_length(data).to_pylist()
    heads = compute.binary_slice(data, 0, _HEAD).to_pylist()
    named = [path if head is None else None for head, path in zip(heads, paths, strict=True)]
    beside = results(folder, partial(_size_and_head, folder), named)
    for size, head, path, found in zip(sizes, heads, paths, beside, strict=True):
        yield (*(found if head is None else (size, head)), path)


def _size_and_head(folder: str, path: Cell) -> tuple[int, bytes | None]:
    """Return the size of an image that a row only names, and its first bytes; None if not there."""
    if isinstance(path, str) and path:
        with suppress(BadSample, OSError):
            full, size = find_beside(folder, path)
            with open_file(full) as file:
                return size, file.pread(_HEAD, 0)
    return 0, None


def _present(column: Any) -> Any:
    """Return which rows have a value; the path of an image is one."""
    if not is_file(column.type):
        return column.is_valid()
    data, paths = file_parts(column)
    if not data.null_count:
        return data.is_valid()
    named = arrow().compute.not_equal(paths, "").fill_null(False)
    return arrow().compute.or_(data.is_valid(), named)


def read_columns(task: tuple[str, Mapping[str, str], Sequence[str]]) -> Any:
    """Read the columns of a file that options name, and some others if it has them, in a worker."""
    path, named, others = task
    with open_or_refuse(path) as file:
        there = file.schema_arrow.names
        for option, name in named.items():
            if name not in there:
                have = quoted_names(there)
                raise OptionError(f"{option} {name}: {path} has no such column, but {have}")
        names = [name for name in dict.fromkeys((*named.values(), *others)) if name in there]
        try:
            return file.read(columns=names, use_threads=False)
        except (arrow().ArrowException, OSError) as error:
            raise SourceError(
                f"{path}: is damaged ({first_line(error)}), and so it is not known which rows are "
                "the newest: download it again"
            ) from None


# Reading


class ParquetReader(Reader):
    """Reads rows of Parquet files."""

    reads_samples: ClassVar[bool] = True
    layout: Parquet  # the format, with the columns of the files
    columns: ParquetColumns  # what is read
    files: tuple[ParquetFile, ...]
    directory: str | None = None  # the directory of the unpacked files, once there are such

    @property
    def table(self) -> Parquet:
        """The format, with the columns that are kept; if all are, also those of nulls."""
        if self.reading is None:
            return self.layout
        schema = self.layout.arrow_schema
        every = (name for name in schema.names if self.layout.meaning(name).field)
        return Parquet.of(kept_columns(schema, self.names if self.reading.ignored else set(every)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that the samples need."""
        if self.reading is None:
            return self.columns.names
        beside = self.pixels.beside if self.pixels else ()
        return (*columns_of(self.reading.schema).names, *beside)

    def sources(self) -> Sequence[str]:
        return [file.path for file in self.files]

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read rows; in memory is a batch of them, and those that come before their turn."""
        rows_asked = list(zip(rows.files, rows.offsets, strict=True))
        if self.directory is not None:
            yield from self._read_unpacked(self.directory, rows_asked, rows)
            return
        asked: dict[tuple[int, int], list[int]] = {}  # the rows of each group, in the order of need
        for position, (file, row) in enumerate(rows_asked):
            group = file, bisect_right(self.files[file].groups, row) - 1
            asked.setdefault(group, []).append(position)
        reading = chain.from_iterable(
            self._read_group(group, sorted(positions, key=rows.offsets.__getitem__), rows)
            for group, positions in asked.items()
        )
        ready: dict[int, Sample | BadSample] = {}
        for position in range(len(rows_asked)):
            while position not in ready:
                found, sample = next(reading)
                ready[found] = sample
            yield ready.pop(position)

    def _read_group(
        self, group: tuple[int, int], positions: Sequence[int], rows: Rows
    ) -> Iterator[tuple[int, Sample | BadSample]]:
        file, done = self.files[group[0]], 0
        start = file.groups[group[1]]
        offsets = [rows.offsets[position] for position in positions]
        problem = "has fewer rows than it says"
        try:
            for batch in self._batches(file, group[1]):
                stop = start + len(batch)
                end = bisect_left(offsets, stop, done)
                numbers = [offset - start for offset in offsets[done:end]]
                if numbers != list(range(len(batch))):
                    batch = batch.take(arrow().array(numbers, "int64"))
                taken = positions[done:end]
                samples = self._samples(self._plain(batch), file, rows, taken)
                done, start = end, stop
                yield from zip(taken, samples, strict=True)
                if done == len(positions):
                    return
        except (arrow().ArrowException, OSError) as error:
            problem = f"is damaged: {first_line(error)}"
        for position in positions[done:]:
            yield position, BadSample(f"row group {group[1]} {problem}")

    def _plain(self, batch: Any) -> Any:
        return plain_batch(batch, self.names, self.columns.files)

    def _samples(
        self, batch: Any, file: ParquetFile, rows: Rows, positions: Iterable[int]
    ) -> Iterator[Sample | BadSample]:
        """Make samples of rows of a file, which stand at some positions in the catalog."""
        raw = self.reading is not None and self.reading.raw
        found = decode(batch, self.columns, os.path.dirname(file.path), raw)
        for sample, position in zip(found, positions, strict=True):
            if isinstance(sample, Sample):
                sample.key, sample.id = key_of(rows.paths[position]), rows.ids[position]
            yield self.typed(sample)

    def _batches(self, file: ParquetFile, group: int) -> Iterator[Any]:
        with source_errors(file.path):
            found = facts(file.path)
        if found != (file.size, file.mtime):
            raise SourceError(f"{file.path}: has changed; give the same command again")
        names = list(self.names)
        with open_rows(file.path) as opened:
            yield from opened.iter_batches(ROWS_OF_BATCH, [group], columns=names, use_threads=False)

    def spools(self) -> Sequence[int]:
        return [] if self.directory is not None else [file.spool for file in self.files]

    def write_spool(self, number: int, path: str) -> None:
        """Unpack a file, each row into a batch of its own; of a damaged row, the batch is empty."""
        pa, file = arrow(), self.files[number]
        with open_or_refuse(file.path) as opened:
            empty = [pa.nulls(0, column.type) for column in opened.schema_arrow]
            names = opened.schema_arrow.names
        nothing = self._plain(pa.RecordBatch.from_arrays(empty, names))
        written = 0
        with open(path, "wb") as spool, pa.ipc.new_file(spool, nothing.schema) as writer:
            for group, stop in enumerate(file.groups[1:]):
                batches = self._batches(file, group)
                while (batch := _next(batches)) is not None:
                    plain = self._plain(batch.slice(0, stop - written))
                    for row in range(len(plain)):
                        writer.write_batch(plain.slice(row, 1))
                    written += len(plain)
                for _ in range(written, stop):
                    writer.write_batch(nothing)
                written = stop

    def spooled(self, directory: str) -> ParquetReader:
        return replace(self, directory=directory)

    def _read_unpacked(
        self, directory: str, rows_asked: Sequence[tuple[int, int]], rows: Rows
    ) -> Iterator[Sample | BadSample]:
        pa = arrow()

        @lru_cache(_MOST_OPEN)
        def opened(number: int) -> Any:
            return pa.ipc.open_file(pa.OSFile(os.fsencode(os.path.join(directory, str(number)))))

        for position, (number, row) in enumerate(rows_asked):
            batch = opened(number).get_batch(row)
            if len(batch):
                yield from self._samples(batch, self.files[number], rows, [position])
            else:
                yield BadSample("its row group is damaged")


def _next(batches: Iterator[Any]) -> Any:
    """Return the next rows; None at the end, or if they cannot be read."""
    try:
        return next(batches, None)
    except (arrow().ArrowException, OSError):
        return None

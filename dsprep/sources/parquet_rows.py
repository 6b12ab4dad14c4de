"""The rows of Parquet files in workers: indexed without their images, and read.

A row group is compressed as a whole, so rows are read front to back: whatever rows are asked for,
each group that holds some is read once. For rows in another order the files are unpacked: each row
by itself, as Arrow's messages one after the other, then the offset of each.
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any, ClassVar, NamedTuple

from dsprep.errors import BadSample, SourceError
from dsprep.formats.arrow import (
    Cell,
    Columns,
    arrow,
    cells_of,
    decode,
    file_parts,
    find_beside,
    is_file,
    kept_columns,
    plain_batch,
)
from dsprep.formats.parquet import ROWS_OF_BATCH, Parquet, columns_of, first_line, open_parquet
from dsprep.images.header import sniff
from dsprep.rows import Reader, Rows
from dsprep.sample import UNKNOWN_IMAGE, Sample, key_of
from dsprep.sources.prefetch import OpenFiles, read_at
from dsprep.storage.files import OpenFile, facts, open_file

_HEAD = 16  # bytes that show the kind of an image
_MESSAGE = _MESSAGE_OF_COLUMN = 512  # more than Arrow's message of one row takes beside the values
_OFFSET = struct.Struct("<Q")
_TRAILER = struct.Struct("<QQ")


# Indexing


class RowsTask(NamedTuple):
    """A file to index."""

    path: str
    columns: Columns  # the columns to read
    label: str | None  # the column of labels, if labels are wanted
    no_image: bool  # whether rows without an image are samples


@dataclass
class IndexedRows:
    """The index of a file."""

    size: int  # the file's bytes
    mtime: int  # when it was last changed, in nanoseconds since 1970
    groups: list[int]  # the number of the first row of each row group, and the number of all rows
    # the number of each row that is a sample
    rows: array[int] = field(default_factory=lambda: array("q"))
    # the bytes of its image; without images, of all its values
    sizes: array[int] = field(default_factory=lambda: array("q"))
    kinds: list[str] = field(default_factory=list)  # the kind of its image; empty without one
    paths: list[Cell] = field(default_factory=list)  # the path of its image, if the file has it
    labels: list[Any] = field(default_factory=list)  # its cell in the column of labels
    counts: Counter[str] = field(default_factory=Counter)  # rows that have a value, by column
    spool: int = 4096  # an upper limit of the bytes that the rows take one by one
    without_image: int = 0  # rows that are no samples because their image is null
    damage: list[str] = field(default_factory=list)  # row groups that cannot be read, and why


def open_or_refuse(path: str) -> Any:
    """Open a Parquet file."""
    try:
        return open_parquet(path)
    except (OSError, arrow().ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
        raise SourceError(f"{path}: is not a whole Parquet file ({first_line(error)})") from None


def index_rows(task: RowsTask) -> IndexedRows:
    """Index a file, in a worker: read all of it, a few rows at a time."""
    size, mtime = facts(task.path)
    with open_or_refuse(task.path) as file:
        groups = [0]
        for group in range(file.num_row_groups):
            groups.append(groups[-1] + file.metadata.row_group(group).num_rows)
        if groups != sorted(groups) or groups[-1] > size:
            raise SourceError(
                f"{task.path}: is not a Parquet file of samples: {groups[-1]} rows in {size} bytes"
            )
        indexed = IndexedRows(size, mtime, groups)
        for group, start in enumerate(groups[:-1]):
            row = start
            try:
                for batch in file.iter_batches(
                    ROWS_OF_BATCH, [group], columns=list(task.columns.names), use_threads=False
                ):
                    batch = batch.slice(0, groups[group + 1] - row)
                    _index(indexed, plain_batch(batch, task.columns.names), row, task)
                    row += len(batch)
                if row != groups[group + 1]:
                    indexed.damage.append(f"row group {group} holds {row - start} rows")
            except (arrow().ArrowException, OSError) as error:
                indexed.damage.append(f"row group {group}: {first_line(error)}")
    indexed.spool += 8 * groups[-1]  # where each row begins, also one that is no sample
    return indexed


def _index(indexed: IndexedRows, batch: Any, start: int, task: RowsTask) -> None:
    count = len(batch)
    indexed.spool += batch.nbytes + count * (_MESSAGE + _MESSAGE_OF_COLUMN * batch.num_columns)
    present = {name: _present(batch.column(name)) for name in batch.schema.names}
    rows: Sequence[int] = range(start, start + count)
    kept = present.get(task.columns.image or "")
    if kept is not None and kept.false_count and not task.no_image:
        indexed.without_image += kept.false_count
        rows = list(compress(rows, kept.to_pylist()))
        batch, count = batch.filter(kept), len(rows)
        present = {name: _present(batch.column(name)) for name in present}
    indexed.rows.extend(rows)
    for name, cells in present.items():
        indexed.counts[name] += cells.true_count
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    if task.label is not None:
        labels = found.get(task.label)
        indexed.labels.extend([None] * count if labels is None else cells_of(labels))
    image = found.get(task.columns.image or "")
    if image is not None:
        _index_images(indexed, image, os.path.dirname(task.path))
    else:
        indexed.sizes.extend([batch.nbytes // max(count, 1)] * count)
        indexed.kinds.extend([""] * count)
        indexed.paths.extend([None] * count)


def _present(column: Any) -> Any:
    """Return which rows have a value; the path of an image is one."""
    if not is_file(column.type):
        return column.is_valid()
    data, paths = file_parts(column)
    if not data.null_count:
        return data.is_valid()
    named = arrow().compute.not_equal(paths, "").fill_null(False)
    return arrow().compute.or_(data.is_valid(), named)


def _index_images(indexed: IndexedRows, column: Any, folder: str) -> None:
    compute = arrow().compute
    data, paths = column, [None] * len(column)
    if is_file(column.type):
        data, places = file_parts(column)
        paths = cells_of(places)
    sizes = compute.binary_length(data.cast("large_binary")).to_pylist()
    heads = compute.binary_slice(data.cast("large_binary"), 0, _HEAD).to_pylist()
    for size, head, path in zip(sizes, heads, paths, strict=True):
        if head is None and isinstance(path, str) and path:
            with suppress(BadSample, OSError):
                full, length = find_beside(folder, path)
                with open_file(full) as file:
                    size, head = length, file.pread(_HEAD, 0)
        indexed.sizes.append(size or 0)
        indexed.kinds.append("" if head is None else sniff(head) or UNKNOWN_IMAGE)
        indexed.paths.append(path)


# Reading


class ParquetFile(NamedTuple):
    """A file of rows."""

    path: str
    size: int  # its bytes when it was indexed
    mtime: int  # its time of last change then, in nanoseconds since 1970
    groups: tuple[int, ...]  # the first row of each row group, and the number of all rows
    spool: int  # an upper limit of the bytes of its unpacked rows


@dataclass(frozen=True)
class _RowReader(Reader):
    whole: ClassVar[bool] = True
    layout: Parquet  # the format, with the columns of the files
    columns: Columns  # what is read

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
        return columns_of(self.reading.schema).names if self.reading else self.columns.names

    def finished(
        self, found: Iterator[Sample | BadSample], rows: Rows, positions: Iterable[int]
    ) -> Iterator[Sample | BadSample]:
        """Complete samples from their rows in the catalog."""
        for sample, position in zip(found, positions, strict=True):
            if isinstance(sample, Sample):
                sample.key, sample.id = key_of(rows.paths[position]), rows.ids[position]
            yield self.typed(sample)

    def decoded(self, batch: Any, folder: str) -> Iterator[Sample | BadSample]:
        raw = self.reading is not None and self.reading.raw
        return decode(batch, self.columns, folder, raw)


@dataclass(frozen=True)
class ParquetReader(_RowReader):
    """Reads rows of Parquet files."""

    files: tuple[ParquetFile, ...]  # the files

    def sources(self) -> Sequence[str]:
        """Return the files."""
        return [file.path for file in self.files]

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read rows; in memory is a batch of them, and those that come before their turn."""
        assert rows.files is not None and rows.offsets is not None
        rows_asked = list(zip(rows.files, rows.offsets, strict=True))
        groups = [
            (file, bisect_right(self.files[file].groups, row) - 1) for file, row in rows_asked
        ]
        asked: dict[tuple[int, int], list[int]] = {}
        for position in sorted(range(len(rows_asked)), key=rows_asked.__getitem__):
            asked.setdefault(groups[position], []).append(position)
        ready: dict[int, Sample | BadSample] = {}
        reading: Iterator[tuple[int, Sample | BadSample]] = iter(())
        current = None
        for position, group in enumerate(groups):
            if position not in ready and group != current:
                ready.update(reading)  # no more than one group is open
                reading, current = self._read_group(group, asked[group], rows), group
            while position not in ready:
                found, sample = next(reading)
                ready[found] = sample
            yield ready.pop(position)

    def _read_group(
        self, group: tuple[int, int], positions: Sequence[int], rows: Rows
    ) -> Iterator[tuple[int, Sample | BadSample]]:
        """Read rows of a group."""
        assert rows.offsets is not None
        file = self.files[group[0]]
        folder = os.path.dirname(file.path)
        start = file.groups[group[1]]
        waiting = deque(positions)
        problem = "has fewer rows than it says"
        try:
            for batch in self._batches(file, group[1]):
                taken: list[int] = []
                stop = start + len(batch)
                while waiting and rows.offsets[waiting[0]] < stop:
                    taken.append(waiting.popleft())
                numbers = [rows.offsets[position] - start for position in taken]
                if numbers != list(range(len(batch))):
                    batch = batch.take(arrow().array(numbers, "int64"))
                found = self.decoded(plain_batch(batch, self.names), folder)
                yield from zip(taken, self.finished(found, rows, taken), strict=True)
                if not waiting:
                    return
                start = stop
        except (arrow().ArrowException, OSError) as error:
            problem = f"is damaged: {first_line(error)}"
        for position in waiting:
            yield position, BadSample(f"row group {group[1]} {problem}")

    def _batches(self, file: ParquetFile, group: int) -> Iterator[Any]:
        try:
            found = facts(file.path)
        except OSError as error:
            raise SourceError(f"{file.path}: cannot be read ({error.strerror})") from None
        if found != (file.size, file.mtime):
            raise SourceError(f"{file.path}: has changed; give the same command again")
        names = list(self.names)
        with open_parquet(file.path) as opened:
            yield from opened.iter_batches(ROWS_OF_BATCH, [group], columns=names, use_threads=False)

    def spools(self) -> Sequence[int]:
        """Return an upper limit of the unpacked bytes of each file."""
        return [file.spool for file in self.files]

    def write_spool(self, number: int, path: str) -> None:
        """Unpack a file: a schema, the rows, their offsets, the offset of these."""
        file = self.files[number]
        offsets = array("Q")
        head = 0
        with open(path, "wb") as spool:
            for group, stop in enumerate(file.groups[1:]):
                batches = self._batches(file, group)
                while (batch := _next(batches)) is not None:
                    plain = plain_batch(batch, self.names)
                    head = head or spool.write(plain.schema.serialize())
                    for row in range(len(plain)):
                        offsets.append(spool.tell())
                        spool.write(plain.slice(row, 1).serialize())
                # What could not be read takes no bytes.
                offsets.extend([spool.tell()] * (stop - len(offsets)))
            start = spool.tell()
            offsets.append(start)
            if sys.byteorder == "big":
                offsets.byteswap()
            spool.write(offsets.tobytes())
            spool.write(_TRAILER.pack(head, start))

    def spooled(self, directory: str) -> SpooledRows:
        """Return the reader of unpacked rows."""
        files = tuple(os.path.join(directory, str(number)) for number in range(len(self.files)))
        folders = tuple(os.path.dirname(file.path) for file in self.files)
        return SpooledRows(self.layout, self.columns, files, folders, reading=self.reading)


def _next(batches: Iterator[Any]) -> Any:
    """Return the next rows; None at the end, or if they cannot be read."""
    try:
        return next(batches, None)
    except (arrow().ArrowException, OSError):
        return None


@dataclass(frozen=True)
class SpooledRows(_RowReader):
    """Reads rows in any order, from the files of :meth:`ParquetReader.write_spool`."""

    files: tuple[str, ...]
    folders: tuple[str, ...]  # the directory of the Parquet file that each was made from

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read rows one by one."""
        assert rows.files is not None and rows.offsets is not None
        ipc = arrow().ipc
        heads: dict[int, tuple[Any, int]] = {}
        with OpenFiles(self.files) as opened:
            for position, file in enumerate(rows.files):
                spool = opened[file]
                if file not in heads:
                    heads[file] = _head(spool)
                schema, start = heads[file]
                at = start + _OFFSET.size * rows.offsets[position]
                first, last = struct.unpack("<QQ", spool.pread(16, at))
                if first == last:
                    yield BadSample("its row group is damaged")
                    continue
                batch = ipc.read_record_batch(read_at(spool, last - first, first), schema)
                found = self.decoded(batch, self.folders[file])
                yield from self.finished(found, rows, [position])


def _head(spool: OpenFile) -> tuple[Any, int]:
    """Return the schema of a file's rows, and the offset of their offsets."""
    end = spool.facts().size
    first, start = _TRAILER.unpack(spool.pread(_TRAILER.size, end - _TRAILER.size))
    pa = arrow()
    return pa.ipc.read_schema(pa.py_buffer(read_at(spool, first, 0))) if first else None, start

"""Samples that are rows of Parquet files.

A row group is compressed as a whole, so rows are read front to back: whatever rows are asked for,
each group that holds some is read once. For rows in another order the files are laid out anew, each
row by itself, as Arrow's messages one after the other, then where each begins.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from dsprep.errors import BadSample, SourceError
from dsprep.formats.arrow import Columns, arrow, decode, kept_columns, plain_batch
from dsprep.formats.parquet import ROWS_OF_BATCH, Parquet, columns_of, first_line, open_parquet
from dsprep.readers.base import Reader
from dsprep.readers.places import OpenFiles, read_at
from dsprep.rows import Rows
from dsprep.sample import Sample, key_of
from dsprep.storage.opened import OpenFile
from dsprep.storage.paths import facts

_OFFSET = struct.Struct("<Q")
_TRAILER = struct.Struct("<QQ")


class ParquetFile(NamedTuple):
    """A file of rows."""

    path: str  # where it is
    size: int  # its bytes when it was indexed
    mtime: int  # when it had last been changed then, in nanoseconds since 1970
    # the number of the first row of each row group, and the number of all rows
    groups: tuple[int, ...]
    spool: int  # the bytes that its rows take when they are laid out anew, or more


@dataclass(frozen=True)
class _RowReader(Reader):
    """Reads rows."""

    whole: ClassVar[bool] = True
    layout: Parquet  # the format, with the columns of the files
    columns: Columns  # what is read

    @property
    def table(self) -> Parquet:
        """The format, with the columns that are kept; also those of nulls, if all are."""
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
        """Tell samples what the catalog knows of them."""
        for sample, position in zip(found, positions, strict=True):
            if isinstance(sample, Sample):
                sample.key, sample.id = key_of(rows.paths[position]), rows.ids[position]
            yield self.typed(sample)

    def decoded(self, batch: Any, folder: str) -> Iterator[Sample | BadSample]:
        """Make raw samples of plain rows."""
        raw = self.reading is not None and self.reading.raw
        return decode(batch, self.columns, folder, raw)


@dataclass(frozen=True)
class ParquetReader(_RowReader):
    """Reads rows of Parquet files."""

    files: tuple[ParquetFile, ...]  # the files

    def sources(self) -> Sequence[str]:
        """The files."""
        return [file.path for file in self.files]

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read rows; in memory is a batch of them, and those that come before their turn."""
        assert rows.files is not None and rows.offsets is not None
        places = list(zip(rows.files, rows.offsets, strict=True))
        groups = [self._group(file, row) for file, row in places]
        asked: dict[tuple[int, int], list[int]] = {}
        for position in sorted(range(len(places)), key=places.__getitem__):
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

    def _group(self, file: int, row: int) -> tuple[int, int]:
        """The file and the row group that hold a row."""
        return file, bisect_right(self.files[file].groups, row) - 1

    def _read_group(
        self, group: tuple[int, int], positions: Sequence[int], rows: Rows
    ) -> Iterator[tuple[int, Sample | BadSample]]:
        """The rows of a group that are asked for."""
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
                places = [rows.offsets[position] - start for position in taken]
                if places != list(range(len(batch))):
                    batch = batch.take(arrow().array(places, "int64"))
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
        """The rows of a group, some after others."""
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
        """A file for each, of rows that stand by themselves."""
        return [file.spool for file in self.files]

    def write_spool(self, number: int, path: str) -> None:
        """Lay a file out anew: a schema, the rows, where each begins, where that begins."""
        file = self.files[number]
        offsets = array("Q")
        head = 0
        with open(path, "wb") as spool:
            for group, stop in enumerate(file.groups[1:]):
                for batch in self._readable(file, group):
                    plain = plain_batch(batch, self.names)
                    head = head or spool.write(plain.schema.serialize())
                    for row in range(len(plain)):
                        offsets.append(spool.tell())
                        spool.write(plain.slice(row, 1).serialize())
                # What could not be read takes no bytes.
                offsets.extend([spool.tell()] * (stop - len(offsets)))
            start = spool.tell()
            offsets.append(start)
            spool.write(_little_endian(offsets))
            spool.write(_TRAILER.pack(head, start))

    def _readable(self, file: ParquetFile, group: int) -> Iterator[Any]:
        """The rows of a group, as far as they can be read."""
        try:
            yield from self._batches(file, group)
        except (arrow().ArrowException, OSError):
            return

    def spooled(self, directory: str) -> SpooledRows:
        """The reader of rows that were laid out anew."""
        files = tuple(os.path.join(directory, str(number)) for number in range(len(self.files)))
        folders = tuple(os.path.dirname(file.path) for file in self.files)
        return SpooledRows(self.layout, self.columns, files, folders, reading=self.reading)


@dataclass(frozen=True)
class SpooledRows(_RowReader):
    """Reads rows in any order, from files that :meth:`ParquetReader.write_spool` wrote."""

    files: tuple[str, ...]  # those files
    folders: tuple[str, ...]  # the directory of the Parquet file that each was made from

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read rows, each by itself."""
        assert rows.files is not None and rows.offsets is not None
        ipc = arrow().ipc
        heads: dict[int, tuple[Any, int]] = {}
        with OpenFiles(self.files) as opened:
            for position, file in enumerate(rows.files):
                spool = opened[file]
                if file not in heads:
                    heads[file] = _head(spool)
                schema, start = heads[file]
                place = start + _OFFSET.size * rows.offsets[position]
                first, last = struct.unpack("<QQ", spool.pread(16, place))
                if first == last:
                    yield BadSample("its row group is damaged")
                    continue
                batch = ipc.read_record_batch(read_at(spool, last - first, first), schema)
                found = self.decoded(batch, self.folders[file])
                yield from self.finished(found, rows, [position])


def _head(spool: OpenFile) -> tuple[Any, int]:
    """The schema of a file's rows, and where it is told where each row begins."""
    end = spool.facts().size
    first, start = _TRAILER.unpack(spool.pread(_TRAILER.size, end - _TRAILER.size))
    pa = arrow()
    return pa.ipc.read_schema(pa.py_buffer(read_at(spool, first, 0))) if first else None, start


def _little_endian(numbers: array[int]) -> bytes:
    if struct.pack("=Q", 1) != _OFFSET.pack(1):
        numbers.byteswap()
    return numbers.tobytes()

"""Samples that lie in shards, of any format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar

from dsprep.errors import BadSample, DamagedShard, SourceError
from dsprep.formats.base import Format
from dsprep.formats.stream import ShardStream
from dsprep.readers.base import Reader
from dsprep.readers.places import OpenFiles, Run, runs
from dsprep.rows import Rows
from dsprep.sample import Sample, key_of
from dsprep.storage.opened import OpenFile

_BLOCK = 1 << 18
"""Bytes read at once: few system calls, and still in a core's own cache for the checksum."""


@dataclass(frozen=True)
class ShardReader(Reader):
    """Reads samples of shards."""

    whole: ClassVar[bool] = True
    files: tuple[str, ...]  # the shards
    layout: Format  # their format
    # whether the rows' paths are the names of images, which the shards do not tell
    named: bool = False
    # the size of each shard that is compressed when it is not, by its position
    unpacked: tuple[tuple[int, int], ...] = ()
    # the size of each shard, and when it was last changed, when it was indexed; None where that
    # does not count
    states: tuple[tuple[int, int] | None, ...] = ()

    @property
    def table(self) -> Format:
        """Their format."""
        return self.layout

    def sources(self) -> Sequence[str]:
        """The shards."""
        return self.files

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read samples; those that follow one another in a shard are read in one go."""
        packed = dict(self.unpacked)
        with OpenFiles(self.files) as files, closing(_Streams(self)) as streams:
            for run in runs(rows) if packed else files.ahead(runs(rows)):
                self._require_same(run.file, files[run.file])
                numbers = range(run.first, run.last)
                if run.file in packed:
                    found = streams.read(run, rows)
                else:
                    parts = [run] if self.layout.known_by == "id" else _numbered(run, rows)
                    found = chain.from_iterable(
                        self._read_run(files[run.file], part, rows) for part in parts
                    )
                for number, sample in zip(numbers, found, strict=True):
                    yield self._finished(sample, rows, number)

    def _require_same(self, number: int, file: OpenFile) -> None:
        """Refuse a shard that is not as it was."""
        if self.states[number] not in (None, file.facts()):
            raise SourceError(f"{self.files[number]}: has changed; give the same command again")

    def _read_run(self, file: OpenFile, run: Run, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read samples that follow one another; one that is damaged does not spoil the next."""
        assert rows.offsets is not None
        path = self.files[run.file]
        number = run.first
        while number < run.last:
            start = rows.offsets[number]
            with ShardStream.of_part(path, file, start, run.stop, rows.ids[number]) as stream:
                try:
                    for entry in self.layout.read(stream):
                        if (entry.offset, entry.size) != (start, rows.sizes[number]):
                            break
                        yield entry.sample
                        number += 1
                        if number == run.last:
                            return
                        start = rows.offsets[number]
                    yield BadSample(f"at byte {start}: the shard has changed")
                except DamagedShard as error:
                    yield BadSample(f"at byte {error.offset}: {error.problem}")
                number += 1

    def _finished(self, sample: Sample | BadSample, rows: Rows, number: int) -> Sample | BadSample:
        """Tell a sample what its catalog knows of it."""
        if isinstance(sample, BadSample):
            return sample
        sample.id = rows.ids[number]
        if self.named:
            sample.path = rows.paths[number]
            sample.key = key_of(sample.path)
        elif not sample.key:
            sample.key = rows.paths[number]
        return self.typed(sample)

    def copy(self, rows: Rows) -> Iterator[tuple[bytes | BadSample, int]]:
        """Read encoded samples as they are."""
        with OpenFiles(self.files) as files:
            for run in files.ahead(runs(rows)):
                self._require_same(run.file, files[run.file])
                place = files[run.file], self.files[run.file]
                if self.layout.is_intact(b"") is None:  # nothing to check in each sample
                    yield from _blocks(run, rows, *place)
                else:
                    yield from _intact(run, rows, *place, self.layout)

    def spools(self) -> Sequence[int]:
        """The sizes of the shards that are gzip."""
        return [size for _, size in self.unpacked]

    def write_spool(self, number: int, path: str) -> None:
        """Decompress a shard."""
        with (
            ShardStream(self.files[self.unpacked[number][0]]) as stream,
            open(path, "wb") as file,
        ):
            left = self.unpacked[number][1]
            while left:
                block = min(left, _BLOCK)
                file.write(stream.read(block, "the shard"))
                left -= block

    def spooled(self, directory: str) -> ShardReader:
        """The reader of the decompressed shards."""
        files, states = list(self.files), list(self.states)
        for number, (position, _) in enumerate(self.unpacked):
            files[position], states[position] = os.path.join(directory, str(number)), None
        return replace(self, files=tuple(files), unpacked=(), states=tuple(states))


def _numbered(run: Run, rows: Rows) -> Iterator[Run]:
    """Cut a run where ids do not follow one another: they are the keys of records without names."""
    first = run.first
    for number in range(first + 1, run.last):
        if rows.ids[number] != rows.ids[number - 1] + 1:
            yield run._replace(first=first, last=number)
            first = number
    yield run._replace(first=first)


def _blocks(run: Run, rows: Rows, file: OpenFile, path: str) -> Iterator[tuple[bytes, int]]:
    """Read a run block by block, whole samples at a time as far as they are small."""
    assert rows.offsets is not None
    start, samples = run.start, 0
    for number in range(run.first, run.last):
        stop = rows.offsets[number] + rows.sizes[number]
        samples += 1
        if stop - start < _BLOCK and number + 1 < run.last:
            continue
        while start < stop:
            data = _pread(file, min(stop - start, 2 * _BLOCK), start, path)
            start += len(data)
            yield data, samples if start == stop else 0
        samples = 0


def _intact(
    run: Run, rows: Rows, file: OpenFile, path: str, layout: Format
) -> Iterator[tuple[bytes | BadSample, int]]:
    """Read a run sample by sample, and pass over those whose checksums are wrong."""
    assert rows.offsets is not None
    ahead, at = b"", run.start
    for number in range(run.first, run.last):
        start, size = rows.offsets[number], rows.sizes[number]
        if start + size > at + len(ahead):
            ahead, at = ahead[start - at :], start
            while len(ahead) < size:
                left = max(size, min(run.stop - start, _BLOCK)) - len(ahead)
                ahead += _pread(file, left, start + len(ahead), path)
        encoded = ahead[start - at : start - at + size]
        if layout.is_intact(encoded):
            yield encoded, 1
        else:
            yield BadSample(f"at byte {start}: the checksum of the sample is wrong"), 1


def _pread(file: OpenFile, size: int, offset: int, path: str) -> bytes:
    """Read some bytes, at most so many."""
    data = file.pread(size, offset)
    if not data:
        raise SourceError(f"{path}: ends before byte {offset + size}: it has changed")
    return data


class _Streams:
    """The compressed shards that are being read, each from front to back."""

    def __init__(self, reader: ShardReader) -> None:
        self._reader = reader
        self._stream: ShardStream | None = None
        self._file = -1
        self._last = -1, b""

    def read(self, run: Run, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read a run; what lies before it is passed over."""
        assert rows.offsets is not None
        for number in range(run.first, run.last):
            offset, size, id = rows.offsets[number], rows.sizes[number], rows.ids[number]
            try:
                yield self._sample(run.file, offset, size, id)
            except DamagedShard as error:
                yield BadSample(f"at byte {error.offset}: {error.problem}")

    def _sample(self, file: int, offset: int, size: int, id: int) -> Sample | BadSample:
        encoded = self._encoded(file, offset, size)
        stream = ShardStream.of_sample(self._reader.files[file], encoded, offset, id)
        found = list(self._reader.layout.read(stream))
        if [entry.size for entry in found] != [size]:
            return BadSample(f"at byte {offset}: the shard has changed")
        return found[0].sample

    def _encoded(self, file: int, offset: int, size: int) -> bytes:
        """The bytes of a sample; the last one's are kept, for copies."""
        if (file, offset) != (self._file, self._last[0]):
            stream = self._stream
            if stream is None or file != self._file or offset < stream.offset:
                self.close()
                self._file, self._stream = file, ShardStream(self._reader.files[file])
                stream = self._stream
            stream.skip(offset - stream.offset, "the shard")
            self._last = offset, stream.read(size, "a sample")
        return self._last[1]

    def close(self) -> None:
        """Close the shard that is open."""
        if self._stream is not None:
            self._stream.__exit__(None, None, None)
        self._stream, self._file, self._last = None, -1, (-1, b"")

"""What a worker does to its share of a plan: write a shard, publish it, leave a receipt.

A *piece* is a run of samples of one shard, in a file of its own. Where there are fewer shards than
workers, a shard is written as several pieces, which are joined at the end.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

from google_crc32c import extend

from dsprep.dataset.manifest import FileReceipt
from dsprep.errors import BadSample, RunStopped
from dsprep.findings import Reject, reject_of
from dsprep.formats.base import Format, path_of
from dsprep.pipeline import Pipeline, make_samples
from dsprep.rows import Rows
from dsprep.run.target import Target, Written, two_names
from dsprep.sample import Sample
from dsprep.sources.shards import ShardReader
from dsprep.storage.local import OutputFile, destination_errors, open_regular

_BUFFER = 1 << 20  # bytes per write: few system calls, and the checksum finds them in the cache
_REPORT_SECONDS = 0.1  # between two reports of progress
_LARGE_PART = 16384  # parts larger than this, on average, are written without joining them first
_REJECTS = 100  # rejects that are reported at once

# The id, the label and the name of a sample, as an index beside a shard has them.
Listed: TypeAlias = tuple[int, int | tuple[float, ...] | None, str]

# Called with the samples and bytes done, and the rejects met, since the last call.
Report: TypeAlias = Callable[[int, int, list[Reject]], None]


class ShardTask(NamedTuple):
    """A shard, or a piece of one, to write."""

    target: Target
    name: str
    pipeline: Pipeline
    rows: Rows
    whole: bool  # whether it is all of its shard, which has a trailer and sidecars


class JoinTask(NamedTuple):
    """Pieces to join into a shard."""

    target: Target
    name: str
    layout: Format
    rows: Rows
    source: str  # what the samples come from, for messages
    pieces: Sequence[tuple[str, Written]]  # their paths and receipts, in order


def write_shard(task: ShardTask, report: Report) -> Written:
    """Write a shard or a piece, publish it, and leave its receipt."""
    pipeline, rows, layout = task.pipeline, task.rows, task.pipeline.layout
    path = str(task.target.partial(task.name))
    written, sizes, listed = Written(), list[int](), list[Listed]()
    labels = _Labels(pipeline, written)
    is_listed = layout.sidecar_suffixes and pipeline.reader.reads_samples and not pipeline.copies
    position = samples = pending = told = 0
    last = monotonic()

    def tell() -> None:
        nonlocal samples, pending, told, last
        report(samples, pending, written.rejects[told:])
        samples, pending, told, last = 0, 0, len(written.rejects), monotonic()

    with destination_errors(path), closing(_open_writer(path, task)) as writer:
        for count, sample in _samples(pipeline, rows):
            try:
                if isinstance(sample, BadSample):
                    raise sample
                size = writer.add(sample)
            except BadSample as error:
                written.rejects.append(reject_of(rows.paths[position], error))
                written.rejected.append(position)
            else:
                samples += count
                pending += size
                if isinstance(sample, Sample):
                    sizes.append(size)
                    labels.add(sample)
                    written.lost_frames += sample.lost_frames
                    if is_listed:
                        listed.append(labels.listed(sample))
            position += count
            if monotonic() - last > _REPORT_SECONDS or len(written.rejects) - told >= _REJECTS:
                tell()
        writer.finish()
        tell()
    written.samples = position - len(written.rejected)
    sidecars: list[FileReceipt] = []
    if layout.sidecar_suffixes:
        kept = rows.without(set(written.rejected))
        sizes = list(kept.sizes) if pipeline.copies else sizes
        if task.whole:
            kept = _rows_of(listed) if is_listed else kept
            sidecars = _write_sidecars(path, layout, kept, sizes)
        else:
            written.sizes, written.listed = sizes, listed
    own = FileReceipt(os.path.basename(path), writer.bytes, writer.crc32c)
    written.files = [*sidecars, own]
    task.target.leave(task.name, written)
    return written


def join_pieces(task: JoinTask, report: Report) -> Written:
    """Join pieces into a shard with its trailer and its sidecars, publish it, leave its receipt."""
    layout, parts = task.layout, [part for _, part in task.pieces]
    path = str(task.target.partial(task.name))
    joined = Written.merged(parts, task.source)
    with destination_errors(path), closing(ShardWriter(path, layout, True)) as writer:
        for piece, part in task.pieces:
            crc = 0
            with open(piece, "rb", buffering=0, opener=open_regular) as file:
                while block := file.read(_BUFFER):
                    crc = extend(crc, block)
                    writer.add(block)
                    report(0, 0, [])
            if crc != part.files[-1].crc32c:
                os.unlink(piece)
                raise RunStopped(
                    f"{piece}: its checksum is wrong, so dsprep removed it; "
                    "give the same command again to continue"
                )
        writer.finish()
    joined.files = [FileReceipt(task.name, writer.bytes, writer.crc32c)]
    if layout.sidecar_suffixes:
        listed = [each for part in parts for each in part.listed]
        sizes = [size for part in parts for size in part.sizes]
        rows = _rows_of(listed) if listed else task.rows
        joined.files = [*_write_sidecars(path, layout, rows, sizes), *joined.files]
    task.target.leave(task.name, joined)
    return joined


class _Labels:
    """Gathers what samples tell of their labels."""

    def __init__(self, pipeline: Pipeline, written: Written) -> None:
        label = pipeline.layout.schema.label_field if pipeline.layout.schema else None
        self._label, self._written = pipeline.schema.label, written
        self._class = label.name if label and label.type == "class" and not label.names else None
        self._expected = label.name if label and label.missing else None

    def add(self, sample: Sample) -> None:
        if self._expected is not None and self._expected not in sample.fields:
            self._written.unlabeled += 1
        if self._class is not None and sample.class_name is not None:
            number = sample.fields.get(self._class)
            name = self._written.class_names.setdefault(str(number), sample.class_name)
            if name != sample.class_name:
                raise two_names(sample.key, number, name, sample.class_name)

    def listed(self, sample: Sample) -> Listed:
        label = sample.fields.get(self._label) if self._label else None
        return sample.id, (label,) if isinstance(label, float) else label, path_of(sample)


def _open_writer(path: str, task: ShardTask) -> Any:
    layout = task.pipeline.layout
    if layout.concatenative:
        return ShardWriter(path, layout, task.whole)
    return layout.open_writer(path, str(task.target.tree))


def _samples(pipeline: Pipeline, rows: Rows) -> Iterator[tuple[int, Sample | bytes | BadSample]]:
    """Return samples, or blocks of encoded samples, each with the number of its rows."""
    if pipeline.copies:
        assert isinstance(pipeline.reader, ShardReader)
        for block, count in pipeline.reader.copy(rows):
            yield count, block
        return
    must_differ = pipeline.layout.equal_keys == "merged" and pipeline.reader.reads_samples
    seen: set[str] = set()
    for sample in make_samples(pipeline, rows):
        if must_differ and isinstance(sample, Sample):
            if sample.key in seen:
                sample = same_key(sample.key, "another sample")
            else:
                seen.add(sample.key)
        yield 1, sample


def same_key(key: str, other: str) -> BadSample:
    """Return the error for a sample whose key another one has."""
    return BadSample(f"its key {key!r} is that of {other}; --key index makes new keys")


def _rows_of(listed: Sequence[Listed]) -> Rows:
    """Samples that were written, as the rows that sidecars are made of."""
    ids, labels, names = zip(*listed, strict=True) if listed else ((), (), ())
    labels = tuple(0 if label is None else label for label in labels)
    return Rows(ids, names, (), labels)


def _write_sidecars(
    shard: str, layout: Format, rows: Rows, sizes: Sequence[int]
) -> list[FileReceipt]:
    written = []
    for suffix, data in layout.sidecars(rows, sizes).items():
        path = Path(shard).with_suffix(suffix)
        with destination_errors(path):
            path.write_bytes(data)
        written.append(FileReceipt(path.name, len(data), extend(0, data)))
    return written


class ShardWriter(OutputFile):
    """Writes a shard that is one encoded sample after another, and a trailer if it is whole."""

    def __init__(self, path: str, layout: Format, whole: bool) -> None:
        super().__init__(path)
        self._layout, self._whole = layout, whole
        # wbits=31 is gzip with no time and no name in its header, so the same bytes every time.
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, 31) if layout.compressed else None
        self._parts: list[bytes] = []
        self._content = self._pending = 0

    def add(self, sample: Any) -> int:
        parts = [sample] if isinstance(sample, bytes) else self._layout.encode(sample)
        self._parts += parts
        size = sum(map(len, parts))
        self._content += size
        self._pending += size
        if self._pending >= _BUFFER:
            self._flush()
        return size

    def _flush(self) -> None:
        size, parts = self._pending, self._parts
        self._pending, self._parts = 0, []
        if self._deflate is not None:
            self.write(self._deflate.compress(b"".join(parts)))
        elif size <= len(parts) * _LARGE_PART:
            self.write(b"".join(parts))
        else:  # a photograph is written from where it was read to, without another copy
            self.write(*parts)

    def finish(self) -> None:
        if self._whole:
            self._parts.append(self._layout.trailer(self._content))
        self._flush()
        if self._deflate is not None:
            self.write(self._deflate.flush())

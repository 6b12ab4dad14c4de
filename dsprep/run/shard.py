"""Writing a run of samples into a file: what a worker does to its share of a plan.

A *piece* is a run of samples of one shard, in one file. Most shards are one piece; where there are
fewer shards than workers, a shard is several, which are joined at the end.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from google_crc32c import extend

from dsprep.errors import BadSample, RunStopped, SourceError
from dsprep.findings import MisfitReject, Reject, reject_of
from dsprep.formats.base import Format, path_of
from dsprep.plan.recipe import Recipe, make_samples
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.sources.shards import ShardReader
from dsprep.storage.local import destination_errors, open_regular

_BUFFER = 1 << 18
"""Bytes per write: few system calls, and still in a core's own cache for the checksum."""

_LARGE_PART = 16384
"""Parts larger than this, on average, are written one by one rather than joined first."""


Listed: TypeAlias = tuple[int, int | tuple[float, ...] | None, str]
"""The id, the label and the name of a sample, as an index beside a shard has them."""

Report: TypeAlias = Callable[[int, int, list[Reject]], None]
"""Called with the samples and bytes done, and the rejects met, since the last call."""


class PieceTask(NamedTuple):
    """A piece to write."""

    path: str  # the file to write, under a temporary name
    recipe: Recipe  # how samples are made
    rows: Rows  # the samples
    whole: bool  # whether the piece is all of its shard, and so gets the trailer and the sidecars


@dataclass
class Written:
    """What writing a piece, or joining pieces, reported."""

    samples: int  # how many samples it holds
    bytes: int  # its size on disk
    crc32c: int  # of its bytes on disk
    rejects: list[Reject]  # those of its samples that were not packed
    rejected: list[int]  # their positions among its rows
    sidecars: dict[str, tuple[int, int]]  # size and crc32c of each file beside it, by suffix
    sizes: Sequence[int] = ()  # the bytes of each sample, where joining the piece will need them
    # the id, label and name of each sample, likewise, where they were not known before
    listed: Sequence[Listed] = ()
    lost_frames: int = 0  # how many images are the first frame of an animation
    # the names of classes, by their numbers as text, that samples themselves tell
    class_names: dict[str, str] = field(default_factory=dict)
    unlabeled: int = 0  # how many samples lack the label that others have

    @property
    def misfits(self) -> int:
        """How many of the rejects do not fit the schema."""
        return sum(isinstance(each, MisfitReject) for each in self.rejects)


class LabelCollector:
    """Gathers what samples tell of their labels."""

    def __init__(self, recipe: Recipe) -> None:
        label = recipe.layout.schema.label_field if recipe.layout.schema else None
        self._field = label.name if label and label.type == "class" and not label.names else None
        self._missing = label.name if label and label.missing else None
        self.names: dict[str, str] = {}
        self.unlabeled = 0

    def add(self, sample: Sample) -> None:
        """Note the label of a sample."""
        if self._missing is not None and self._missing not in sample.fields:
            self.unlabeled += 1
        if self._field is not None and sample.class_name is not None:
            number = sample.fields.get(self._field)
            name = self.names.setdefault(str(number), sample.class_name)
            if name != sample.class_name:
                raise two_names(sample.key, number, name, sample.class_name)


def two_names(where: str, number: object, one: str, other: str) -> SourceError:
    """Return the error for a class that has two names."""
    return SourceError(
        f"{where}: the class {number} is called {one!r} and {other!r}: correct the samples"
    )


def write_piece(task: PieceTask, report: Report) -> Written:
    """Write one piece, and the sidecars if it is a whole shard."""
    if task.recipe.copies:
        return _copy_piece(task, report)
    if not task.recipe.layout.concatenative:
        return _write_with_writer(task, report)
    recipe, rows, layout = task.recipe, task.rows, task.recipe.layout
    label = recipe.schema.label
    collector = LabelCollector(recipe)
    rejects: list[Reject] = []
    rejected: list[int] = []
    listed: list[Listed] = []
    sizes = array("q")
    told_samples = told_rejects = lost_frames = 0
    with destination_errors(task.path), Sink(task.path, layout.compressed) as sink:

        def tell(written: int) -> None:
            nonlocal told_samples, told_rejects
            report(len(sizes) - told_samples, written, rejects[told_rejects:])
            told_samples, told_rejects = len(sizes), len(rejects)

        for position, sample in enumerate(_distinct(make_samples(recipe, rows), recipe)):
            try:
                if isinstance(sample, BadSample):
                    raise sample
                parts = layout.encode(sample)
            except BadSample as error:
                rejects.append(reject_of(rows.paths[position], error))
                rejected.append(position)
                continue
            sizes.append(sink.add(parts))
            lost_frames += sample.lost_frames
            collector.add(sample)
            if layout.has_sidecars and recipe.reader.whole:
                listed.append(_listed(sample, label))
            if sink.pending >= _BUFFER:
                tell(sink.flush())
        if task.whole:
            sink.add([layout.trailer(sink.content)])
        tell(sink.finish())
        sidecars = {}
        if task.whole and layout.has_sidecars:
            kept = rows_of_listed(listed) if recipe.reader.whole else rows.without(set(rejected))
            sidecars = write_sidecars(task.path, layout, kept, sizes)
        written = Written(len(sizes), sink.bytes, sink.crc32c, rejects, rejected, sidecars)
        written.lost_frames, written.unlabeled = lost_frames, collector.unlabeled
        written.class_names = collector.names
        if layout.has_sidecars and not task.whole:
            written.sizes, written.listed = list(sizes), listed
        return written


def _distinct(
    samples: Iterator[Sample | BadSample], recipe: Recipe
) -> Iterator[Sample | BadSample]:
    """Refuse a sample that readers would take for one with another that was here."""
    if not (recipe.layout.keys_must_differ and recipe.reader.whole):
        yield from samples
        return
    seen: set[str] = set()
    for sample in samples:
        if isinstance(sample, BadSample):
            yield sample
        elif sample.key in seen:
            yield BadSample(
                f"its key {sample.key!r} is that of another sample; --key index makes new keys"
            )
        else:
            seen.add(sample.key)
            yield sample


def _listed(sample: Sample, name: str | None) -> Listed:
    label = sample.fields.get(name) if name else None
    return sample.id, (label,) if isinstance(label, float) else label, path_of(sample)


def rows_of_listed(listed: Sequence[Listed]) -> Rows:
    """Samples that were written, as the rows that sidecars are made of."""
    ids, labels, names = zip(*listed, strict=True) if listed else ((), (), ())
    labels = tuple(0 if label is None else label for label in labels)
    return Rows(ids, names, (), labels)


def _copy_piece(task: PieceTask, report: Report) -> Written:
    """Copy encoded samples as they are."""
    rows, layout, reader = task.rows, task.recipe.layout, task.recipe.reader
    assert isinstance(reader, ShardReader)
    rejects: list[Reject] = []
    rejected: list[int] = []
    with destination_errors(task.path), Sink(task.path, layout.compressed) as sink:
        done = untold = 0
        for block, samples in reader.copy(rows):
            if isinstance(block, BadSample):
                rejects.append(Reject(rows.paths[done], str(block)))
                rejected.append(done)
                report(0, 0, rejects[-1:])
            else:
                sink.add([block])
                untold += samples
            done += samples
            if sink.pending >= _BUFFER:
                report(untold, sink.flush(), [])
                untold = 0
        if task.whole:
            sink.add([layout.trailer(sink.content)])
        report(untold, sink.finish(), [])
        kept = rows.without(set(rejected)) if rejected else rows
        sidecars = {}
        if task.whole and layout.has_sidecars:
            sidecars = write_sidecars(task.path, layout, kept, kept.sizes)
        count = len(kept.ids)
        written = Written(count, sink.bytes, sink.crc32c, rejects, rejected, sidecars)
        if layout.has_sidecars and not task.whole:
            written.sizes = list(kept.sizes)
        return written


def _write_with_writer(task: PieceTask, report: Report) -> Written:
    """Write samples to a file that is not one sample after another."""
    rows = task.rows
    rejects: list[Reject] = []
    rejected: list[int] = []
    untold = pending = lost_frames = 0
    collector = LabelCollector(task.recipe)
    with destination_errors(task.path):
        writer = task.recipe.layout.open_writer(task.path)
        with closing(writer):
            for position, sample in enumerate(make_samples(task.recipe, rows)):
                try:
                    if isinstance(sample, BadSample):
                        raise sample
                    size = writer.add(sample)
                except BadSample as error:
                    rejects.append(reject_of(rows.paths[position], error))
                    rejected.append(position)
                    report(0, 0, rejects[-1:])
                else:
                    untold += 1
                    pending += size
                    lost_frames += sample.lost_frames
                    collector.add(sample)
                if pending >= _BUFFER:
                    report(untold, pending, [])
                    untold = pending = 0
            writer.finish()
            report(untold, pending, [])
        count = len(rows.ids) - len(rejected)
        written = Written(count, writer.bytes, writer.crc32c, rejects, rejected, {})
        written.lost_frames, written.unlabeled = lost_frames, collector.unlabeled
        written.class_names = collector.names
        return written


class JoinTask(NamedTuple):
    """Pieces to join into a shard."""

    path: str  # the file to write, under a temporary name
    layout: Format  # the format
    pieces: Sequence[tuple[str, int]]  # the pieces' files and their checksums, in order
    rows: Rows  # the samples that they hold
    sizes: Sequence[int]  # the bytes of each of those samples, if there are sidecars


def join_pieces(task: JoinTask, report: Report) -> Written:
    """Join pieces into a shard with its trailer and its sidecars."""
    with destination_errors(task.path), Sink(task.path, compressed=False) as sink:
        for piece, checksum in task.pieces:
            crc = 0
            with open(piece, "rb", buffering=0, opener=open_regular) as file:
                while block := file.read(_BUFFER):
                    crc = extend(crc, block)
                    sink.add([block])
                    sink.flush()
                    report(0, 0, [])
            if crc != checksum:
                os.unlink(piece)
                raise RunStopped(
                    f"{piece}: was not as it had been written, and is removed; "
                    "give the same command again to continue"
                )
        sink.add([task.layout.trailer(sink.content)])
        sink.finish()
        sidecars = {}
        if task.layout.has_sidecars:
            sidecars = write_sidecars(task.path, task.layout, task.rows, task.sizes)
        return Written(len(task.rows.ids), sink.bytes, sink.crc32c, [], [], sidecars)


def write_sidecars(
    path: str, layout: Format, rows: Rows, sizes: Sequence[int]
) -> dict[str, tuple[int, int]]:
    """Write the sidecars of a shard beside it, named after it."""
    written = {}
    for suffix, data in layout.sidecars(rows, sizes).items():
        with Sink(path + suffix, compressed=False) as sink:
            sink.add([data])
            sink.finish()
            written[suffix] = (sink.bytes, sink.crc32c)
    return written


class Sink:
    """A file being written front to back, with its size and checksum."""

    def __init__(self, path: str, compressed: bool) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        # wbits=31 is gzip with no time and no name in its header, so the same bytes every time.
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, 31) if compressed else None
        self._parts: list[bytes] = []
        self.content = self.bytes = self.crc32c = self.pending = 0

    def add(self, parts: Sequence[bytes]) -> int:
        """Take bytes to write; returns how many."""
        self._parts += parts
        size = sum(map(len, parts))
        self.pending += size
        self.content += size
        return size

    def flush(self) -> int:
        """Write what is pending; returns how much that was before compression."""
        written, parts = self.pending, self._parts
        self.pending, self._parts = 0, []
        if self._deflate is None and written > len(parts) * _LARGE_PART:
            # A photograph is written from where it was read to, without being copied once more.
            for data in parts:
                self._write(data)
            return written
        data = b"".join(parts)
        self._write(data if self._deflate is None else self._deflate.compress(data))
        return written

    def finish(self) -> int:
        """Write everything; returns as :meth:`flush`."""
        written = self.flush()
        if self._deflate is not None:
            self._write(self._deflate.flush())
        return written

    def _write(self, data: bytes) -> None:
        self.crc32c = extend(self.crc32c, data)
        self.bytes += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def __enter__(self) -> Sink:
        """Return the sink itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; it is whole only if :meth:`finish` was called."""
        os.close(self._fd)

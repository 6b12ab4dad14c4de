"""What a worker does to its share of a plan: write a shard, publish it, leave a receipt.

A *piece* is a run of samples of one shard. Where workers would be idle, a shard is written as
several pieces, which are joined at the end. If the sizes of encoded samples are known, pieces are
written to their places in the file of the shard, and joining copies nothing. Otherwise each piece
has a file of its own.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from time import monotonic
from typing import Any

from google_crc32c import extend

from dsprep.dataset.manifest import FileEntry
from dsprep.errors import BadSample, LeftOut, RunStopped
from dsprep.findings import reject_of
from dsprep.formats.base import Format, path_of
from dsprep.pipeline import Pipeline, make_samples
from dsprep.rows import Rows
from dsprep.run.notes import Target, is_unit
from dsprep.run.receipt import Receipt, two_names
from dsprep.sample import Sample
from dsprep.storage.local import OutputFile, destination_errors, open_regular, sync_path
from dsprep.tuples import NamedTuple
from dsprep.workers.worker import Report

_BUFFER = 1 << 20  # bytes per write: few system calls, and the checksum finds them in the cache
_REPORT_SECONDS = 0.1  # between two reports of progress
_REJECTS = 100  # rejects that are reported one by one, and then together


class ShardTask(NamedTuple):
    """A shard, or a piece of one, to write: of samples, or of pieces to join."""

    target: Target
    name: str
    pipeline: Pipeline
    rows: Rows
    whole: bool  # whether it is all of its shard, which has a trailer and sidecars
    source: str  # what the samples come from, for messages
    # the bytes of the shard's file that a piece may take, or the whole shard if its pieces are
    # there already; None for a file of its own
    place: range | None = None
    # the pieces to join, in order: the file and the place of each, and its receipt
    pieces: Sequence[tuple[str, range | None, Receipt]] = ()
    spared: Collection[str] = ()  # names of files beside the shard that are not written


def write_shard(task: ShardTask, report: Report) -> Receipt:
    """Write a shard or a piece, publish it after its sidecars, and leave its receipt.

    What is done since the last call is reported: samples, bytes, rejects.
    """
    if any(place and part.files[-1].bytes > len(place) for _, place, part in task.pieces):
        # RecordIO cuts images that hold its magic number, which makes them larger than expected.
        task, report = task._replace(place=None, pieces=()), _ignore
    layout = task.pipeline.layout
    with task.target.trying() as target:
        path = target.partial(task.name)
        with destination_errors(path), ExitStack() as stack:
            tree = str(target.tree_of(task.name))
            count = len(task.rows.ids)
            writer = _open_writer(layout, str(path), tree, count, task.whole, task.place)
            stack.callback(writer.close)
            if task.pieces:
                written = _join_pieces(task, writer, report)
            else:
                written = _write_samples(task.pipeline, task.rows, writer, report)
            writer.finish()
        written.raw = writer.raw
        sidecars = _write_sidecars(task, path, written) if task.whole else []
        name = target.listing(task.name) if is_unit(task.name) else task.name
        written.files = [*sidecars, FileEntry(name, writer.bytes, writer.crc32c)]
        if task.whole or task.place is None:
            target.leave(task.name, written)
        return written


def _open_writer(
    layout: Format,
    path: str,
    tree: str,
    samples: int,
    whole: bool = False,
    place: range | None = None,
) -> Any:
    """Begin the file of a shard, or go to a place in it; files of a tree lie below ``tree``."""
    if layout.concatenative:
        return ShardWriter(path, layout, whole, place)
    return layout.open_writer(path, tree, samples)


def _write_sidecars(task: ShardTask, path: Path, written: Receipt) -> list[FileEntry]:
    """Write the files beside a shard that readers of its format need."""
    layout, files = task.pipeline.layout, list[FileEntry]()
    if not layout.sidecar_suffixes:
        return files
    if written.listed:
        ids, labels, names = zip(*written.listed, strict=True)
        kept = Rows(ids, names, (), tuple(0 if label is None else label for label in labels))
    else:
        kept = task.rows.without(set(written.rejected))
    for suffix, data in layout.sidecars(kept, written.sizes or kept.sizes).items():
        beside, name = path.with_suffix(suffix), str(Path(task.name).with_suffix(suffix))
        if name in task.spared:
            continue
        with destination_errors(beside):
            beside.write_bytes(data)
        files.append(FileEntry(name, len(data), extend(0, data)))
    written.sizes, written.listed = [], []
    return files


def try_shard(task: tuple[Pipeline, Rows, str], report: Report) -> None:
    """Write samples as those of a shard to a new directory, and remove it."""
    pipeline, rows, directory = task
    path = os.path.join(directory, "shard")
    with destination_errors(path), ExitStack() as stack:
        os.mkdir(directory)
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        tree = os.path.join(directory, "tree")
        writer = _open_writer(pipeline.layout, path, tree, len(rows.ids))
        stack.callback(writer.close)
        _write_samples(pipeline, rows, writer, report)
        writer.finish()
        sync_path(Path(path))  # flushed like a shard before it is published


def _ignore(*progress: object) -> None:
    """Report nothing, because the same was reported before."""


def _write_samples(pipeline: Pipeline, rows: Rows, writer: Any, report: Report) -> Receipt:
    written = Receipt()
    facts = _Facts(pipeline, written)
    position = samples = pending = told = 0
    last = monotonic()

    def tell() -> None:
        nonlocal samples, pending, told, last
        report(samples, pending, written.rejects[told:])
        samples, pending, told, last = 0, 0, len(written.rejects), monotonic()

    for count, sample in _samples(pipeline, rows):
        try:
            if isinstance(sample, BadSample):
                raise sample
            size = writer.add(sample)
        except LeftOut as error:
            written.effects[str(error)] += 1
            written.rejected.append(position)
        except BadSample as error:
            written.rejects.append(reject_of(rows.paths[position], error))
            written.rejected.append(position)
        else:
            samples += count
            pending += size
            if isinstance(sample, Sample):
                facts.add(sample, size)
        position += count
        # The first rejects are told at once, as a run may stop at them.
        enough = 1 if told < _REJECTS else _REJECTS
        if len(written.rejects) - told >= enough or monotonic() - last > _REPORT_SECONDS:
            tell()
    tell()
    written.samples = position - len(written.rejected)
    return written


def _join_pieces(task: ShardTask, writer: Any, report: Report) -> Receipt:
    joined = Receipt.merged([part for *_, part in task.pieces], task.source)
    for piece, place, part in task.pieces:
        left, expected = part.files[-1].bytes, part.files[-1].crc32c
        if place is not None and place.start == writer.content:
            writer.keep(left, expected)
            continue
        # After rejects, pieces move forward in the file: a block is read before it is replaced.
        crc = 0
        with open(piece, "rb", buffering=0, opener=open_regular) as file:
            file.seek(place.start if place else 0)
            while left and (block := file.read(min(left, _BUFFER))):
                crc, left = extend(crc, block), left - len(block)
                writer.add(block)
                report(0, 0, [])
        if left or crc != expected:
            os.unlink(piece)
            raise RunStopped(
                f"{piece}: its checksum is wrong, so dsprep removed it; "
                "give the same command again to continue"
            )
    return joined


class _Facts:
    """Collects the facts of a receipt while samples are written."""

    def __init__(self, pipeline: Pipeline, written: Receipt) -> None:
        layout = pipeline.layout
        label = layout.schema.label_field if layout.schema else None
        self._label, self._written = pipeline.schema.label, written
        objects = pipeline.schema.objects
        own = layout.schema.objects if layout.schema else None
        self._layout, self._objects = layout if own else None, own.name if own else ""
        # raw samples keep objects in their own fields
        if layout.schema is None and objects is not None:
            self._label = self._label or objects.places[0][0]
        self._class = label.name if label and label.type == "class" and not label.names else None
        self._expected = label.name if label and label.missing else None
        self._has_sidecars = bool(layout.sidecar_suffixes)
        self._is_listed = not pipeline.reads_images or self._layout is not None

    def add(self, sample: Sample, size: int) -> None:
        written = self._written
        if sample.effects:
            written.effects.update(sample.effects)
        if self._layout is not None and (value := sample.fields.get(self._objects)) is not None:
            count = len(value.items)
            written.objects += count
            written.with_objects += count > 0
        if self._expected is not None and self._expected not in sample.fields:
            written.unlabeled += 1
        if self._class is not None and sample.class_name is not None:
            number = sample.fields.get(self._class)
            name = written.class_names.setdefault(str(number), sample.class_name)
            if name != sample.class_name:
                raise two_names(sample.key, number, name, sample.class_name)
        if self._has_sidecars:
            written.sizes.append(size)
            if self._is_listed:
                label = sample.fields.get(self._label) if self._label else None
                label = (label,) if isinstance(label, float) else label
                if self._layout is not None:
                    label = self._layout.listed_label(sample)
                written.listed.append((sample.id, label, path_of(sample)))


def _samples(pipeline: Pipeline, rows: Rows) -> Iterator[tuple[int, Sample | bytes | BadSample]]:
    """Return samples, or blocks of encoded samples, each with the number of its rows."""
    if pipeline.copies:
        return ((count, block) for block, count in pipeline.reader.copy(rows))
    samples = make_samples(pipeline, rows)
    if pipeline.layout.distinct == "key" and not pipeline.reads_images:
        samples = _distinct(samples)
    return zip(repeat(1), samples)


def _distinct(samples: Iterable[Sample | BadSample]) -> Iterator[Sample | BadSample]:
    """Reject samples whose key one before them has."""
    seen: set[str] = set()
    for sample in samples:
        if isinstance(sample, Sample):
            if sample.key in seen:
                sample = same_key(sample.key, "another sample")
            else:
                seen.add(sample.key)
        yield sample


def same_key(key: str, other: str) -> BadSample:
    """Return the error for a sample whose key another one has."""
    return BadSample(f"its key {key!r} is that of {other}; --key index makes new keys")


class ShardWriter(OutputFile):
    """Writes a shard that is one encoded sample after another, and a trailer if it is whole."""

    def __init__(self, path: str, layout: Format, whole: bool, place: range | None = None) -> None:
        """Begin a new file, or write to a place in one, and not beyond."""
        super().__init__(path, None if place is None else place.start)
        self._layout, self._whole, self._place = layout, whole, place
        # wbits=31 is gzip with no time and no name in its header, so the same bytes every time.
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, 31) if layout.compressed else None
        self._parts: list[bytes] = [layout.head] if whole else []
        self.raw = 0  # no index needs it
        self.content = 0  # size of the encoded samples, without trailers
        self._pending = sum(map(len, self._parts))

    def add(self, sample: Any) -> int:
        parts = [sample] if isinstance(sample, bytes) else self._layout.encode(sample)
        self._parts += parts
        size = sum(map(len, parts))
        self.content += size
        self._pending += size
        if self._pending >= _BUFFER:
            self._flush()
        return size

    def keep(self, size: int, crc32c: int) -> None:
        self._flush()
        super().keep(size, crc32c)
        self.content += size

    def _flush(self) -> None:
        size, parts = self._pending, self._parts
        self._pending, self._parts = 0, []
        place = None if self._whole else self._place
        if place is not None and self.bytes + size > len(place):
            # the size then exceeds the place, which shows that there was no room
            self.bytes += size
        elif self._deflate is not None:
            self.write(self._deflate.compress(b"".join(parts)))
        else:
            self.write_parts(parts, size)

    def finish(self) -> None:
        if self._whole:
            self._parts.append(self._layout.trailer(self.content))
        self._flush()
        if self._deflate is not None:
            self.write(self._deflate.flush())
        if self._whole and self._place is not None:
            self.cut()

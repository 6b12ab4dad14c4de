"""Writing a run of samples into a file: what a worker does to its share of a plan.

A *piece* is a run of samples of one shard, in one file. Most shards are one piece; where there are
fewer shards than workers, a shard is several, which are joined at the end.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from google_crc32c import extend

from dsprep.errors import BadSample, RunStopped
from dsprep.formats.base import Format, Row
from dsprep.recipe import Recipe, Rows, make_samples
from dsprep.stores.local import destination_errors

_BUFFER = 1 << 20
"""Bytes per write: fewer system calls, and still in the processor's cache for the checksum."""


class Reject(NamedTuple):
    """A sample that could not be packed: its path and the reason."""

    path: str
    reason: str


Report: TypeAlias = Callable[[int, int, list[Reject]], None]
"""Called with the samples and bytes done, and the rejects met, since the last call."""


class PieceTask(NamedTuple):
    """A piece to write.

    Attributes:
        path: The file to write, under a temporary name.
        recipe: How samples are made.
        rows: The samples.
        whole: Whether the piece is all of its shard, and so gets the trailer and the sidecars.
    """

    path: str
    recipe: Recipe
    rows: Rows
    whole: bool


@dataclass
class Written:
    """What writing a piece, or joining pieces, reported.

    Attributes:
        samples: How many samples it holds.
        bytes: Its size on disk.
        crc32c: Of its bytes on disk.
        rejects: Those of its samples that were not packed.
        sidecars: Size and crc32c of each file beside it, by suffix.
        sizes: The bytes of each sample, where a sidecar will need them.
        rows: The samples that it holds, likewise.
    """

    samples: int
    bytes: int
    crc32c: int
    rejects: list[Reject]
    sidecars: dict[str, tuple[int, int]]
    sizes: Sequence[int] = ()
    rows: Sequence[Row] = ()


def write_piece(task: PieceTask, report: Report) -> Written:
    """Write one piece, and the sidecars if it is a whole shard.

    Raises:
        DestinationError: If it cannot be written.
        RunStopped: At the first reject, if the recipe says so.
    """
    recipe, layout = task.recipe, task.recipe.layout
    has_sidecars = type(layout).sidecars is not Format.sidecars
    rejects: list[Reject] = []
    sizes = array("q")
    kept: list[Row] = []
    samples = reported = refused = 0
    with destination_errors(task.path), Sink(task.path, layout.compressed) as sink:
        for row, sample in make_samples(recipe, task.rows):
            try:
                if isinstance(sample, BadSample):
                    raise sample
                parts = layout.encode(sample)
            except BadSample as error:
                if recipe.fail:
                    raise RunStopped(
                        f"{row.path}: {error}; stopped because of --on-error fail"
                    ) from None
                rejects.append(Reject(row.path, str(error)))
                continue
            samples += 1
            weight = sink.add(parts)
            if has_sidecars:
                sizes.append(weight)
                kept.append(row)
            if sink.pending >= _BUFFER:
                report(samples - reported, sink.flush(), rejects[refused:])
                reported, refused = samples, len(rejects)
        if task.whole:
            sink.add([layout.trailer(sink.content)])
        report(samples - reported, sink.finish(), rejects[refused:])
        sidecars = {}
        if task.whole and has_sidecars:
            sidecars = write_sidecars(task.path, layout, kept, sizes)
            sizes, kept = array("q"), []
        return Written(samples, sink.bytes, sink.crc32c, rejects, sidecars, list(sizes), kept)


class JoinTask(NamedTuple):
    """Pieces to join into a shard.

    Attributes:
        path: The file to write, under a temporary name.
        layout: The format.
        pieces: The pieces' files, in order.
        rows: The samples that they hold, where a sidecar needs them.
        sizes: The bytes of each of those samples.
    """

    path: str
    layout: Format
    pieces: Sequence[str]
    rows: Sequence[Row]
    sizes: Sequence[int]


def join_pieces(task: JoinTask, report: Report) -> Written:
    """Join pieces into a shard with its trailer and its sidecars."""
    with destination_errors(task.path), Sink(task.path, compressed=False) as sink:
        for piece in task.pieces:
            with Path(piece).open("rb", buffering=0) as file:
                while block := file.read(_BUFFER):
                    sink.add([block])
                    sink.flush()
                    report(0, 0, [])
        sink.add([task.layout.trailer(sink.content)])
        sink.finish()
        sidecars = {}
        if task.rows:
            sidecars = write_sidecars(task.path, task.layout, task.rows, task.sizes)
        return Written(0, sink.bytes, sink.crc32c, [], sidecars)


def write_sidecars(
    path: str, layout: Format, rows: Sequence[Row], sizes: Sequence[int]
) -> dict[str, tuple[int, int]]:
    """Write the sidecars of a shard beside it, named after it.

    Returns:
        Size and crc32c of each, by suffix.
    """
    written = {}
    for suffix, data in layout.sidecars(rows, sizes).items():
        with Sink(path + suffix, compressed=False) as sink:
            sink.add([data])
            sink.finish()
            written[suffix] = (sink.bytes, sink.crc32c)
    return written


class Sink:
    """A file being written front to back, with its size and checksum.

    Attributes:
        content: Bytes added, before compression.
        bytes: Bytes on disk.
        crc32c: Of the bytes on disk.
        pending: Bytes added and not yet written.
    """

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
        data = b"".join(self._parts)
        if self._deflate is not None:
            data = self._deflate.compress(data)
        self._write(data)
        written, self.pending, self._parts = self.pending, 0, []
        return written

    def finish(self) -> int:
        """Write everything and see it onto the disk; returns as :meth:`flush`."""
        written = self.flush()
        if self._deflate is not None:
            self._write(self._deflate.flush())
        os.fsync(self._fd)
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

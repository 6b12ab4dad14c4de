"""Reading bytes in files that stay open, some of them requested before they are needed."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from dsprep.errors import DestinationError, SourceError, source_errors
from dsprep.rows import Rows
from dsprep.storage.files import OpenFile, facts, open_file, takes_requests
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from dsprep.formats.stream import ShardStream

T = TypeVar("T")

_BLOCK = 1 << 20
_AHEAD = 64  # scattered runs that are requested before they are read
_MOST_AHEAD = 64 << 20  # bytes that are requested ahead, which take memory if they come from S3
_MOST_OPEN = 256  # a process may have 1024 open files by default, and data sets have more shards


class AdjacentRows(NamedTuple):
    """Rows whose bytes follow one another in one file."""

    first: int  # the position of the first row
    last: int  # the position after the last
    file: int
    start: int  # where the first one's bytes begin
    stop: int  # where the last one's end


def runs(rows: Rows, most: int = sys.maxsize) -> Iterator[AdjacentRows]:
    """Cut rows into runs whose bytes are adjacent; a run ends when it has ``most`` bytes."""
    first, file, start, stop = 0, -1, 0, 0
    spans = zip(rows.files, rows.offsets, rows.stored or rows.sizes, strict=True)
    for position, span in enumerate(spans):
        if span[0] != file or span[1] != stop or stop - start >= most:
            if position:
                yield AdjacentRows(first, position, file, start, stop)
            first, file, start = position, span[0], span[1]
        stop = span[1] + span[2]
    if rows.files:
        yield AdjacentRows(first, len(rows.files), file, start, stop)


class OpenFiles:
    """Files that are opened when they are read from, some of which stay open."""

    # The states are the size of each when it was listed, and when it was last changed, if known.
    def __init__(
        self, paths: tuple[str, ...], states: Sequence[tuple[int, int | None] | None] = ()
    ) -> None:
        self._paths = paths
        self._states = states
        self._open: dict[int, OpenFile] = {}

    def __getitem__(self, number: int) -> OpenFile:
        if number not in self._open:
            if len(self._open) == _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            path = self._paths[number]
            with source_errors(path):
                self._open[number] = open_file(path)
        return self._open[number]

    def same(self, number: int) -> OpenFile:
        """Return a file; refuse one that has changed since it was listed."""
        file, state = self[number], self._states[number]
        if state is not None:
            size, mtime = file.facts()
            if size != state[0] or state[1] not in (None, mtime):
                raise SourceError(
                    f"{self._paths[number]}: has changed; give the same command again"
                )
        return file

    def ahead(self, all_runs: Iterator[AdjacentRows]) -> Iterator[AdjacentRows]:
        """Return the runs, requesting some before they are read."""
        # Bytes that lie scattered over a disk, or on S3, then arrive while others are worked on.

        def ask(run: AdjacentRows) -> int:
            self[run.file].ahead(run.start, run.stop - run.start)
            return run.stop - run.start

        return asked_ahead(all_runs, ask)

    def __enter__(self) -> OpenFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.close()


class Pieces:
    """A file whose pieces are read in any order; where each takes a request, a copy of it.

    The copy is a temporary file of the blocks that one reading of all passes on.
    """

    def __init__(self, path: str) -> None:
        self._copy: Any = None
        self.path, self.state = path, None if takes_requests(path) else facts(path)
        if self.state is None:
            import tempfile  # slow to load

            with temporary_errors():
                self._copy = tempfile.NamedTemporaryFile(prefix="dsprep-")  # noqa: SIM115
            self.path = self._copy.name

    def add(self, block: bytes) -> None:
        if self._copy is not None:
            with temporary_errors():
                self._copy.write(block)

    def belong_to(self, owner: object) -> None:
        """Keep the copy as long as there is an owner."""
        if self._copy is not None:
            with temporary_errors():
                self._copy.flush()
            weakref.finalize(owner, self._copy.close)


@contextmanager
def temporary_errors() -> Iterator[None]:
    """Raise errors of temporary files as those of a destination."""
    try:
        yield
    except OSError as error:
        import tempfile

        raise DestinationError(
            f"{tempfile.gettempdir()}: cannot be written to ({error.strerror}): name a "
            "directory with more room for temporary files by the variable TMPDIR"
        ) from None


def asked_ahead(items: Iterable[T], ask: Callable[[T], int]) -> Iterator[T]:
    """Return the items, calling ``ask``, which returns their bytes, some items ahead."""
    waiting: deque[tuple[T, int]] = deque()
    coming = 0
    for item in items:
        waiting.append((item, ask(item)))
        coming += waiting[-1][1]
        while len(waiting) > _AHEAD or (waiting and coming > _MOST_AHEAD):
            first, size = waiting.popleft()
            coming -= size
            yield first
    for item, _ in waiting:
        yield item


def read_spans(paths: tuple[str, ...], rows: Rows) -> Iterator[bytes]:
    """Read the bytes of each row in some files."""
    with OpenFiles(paths) as files:
        for run in files.ahead(runs(rows)):
            data = read_at(files[run.file], run.stop - run.start, run.start)
            for row in range(run.first, run.last):
                at = rows.offsets[row] - run.start
                yield data[at : at + rows.stored[row]]


def read_at(file: OpenFile, count: int, offset: int) -> bytes:
    """Read ``count`` bytes, or fewer at the end of the file."""
    data = file.pread(count, offset)
    while len(data) < count and (more := file.pread(count - len(data), offset + len(data))):
        data += more
    return data


def unpack(stream: ShardStream, size: int, path: str) -> None:
    """Write the first ``size`` decompressed bytes to a file."""
    with open(path, "wb") as file:
        while stream.offset < size:
            file.write(stream.read(min(_BLOCK, size - stream.offset), "what is compressed"))

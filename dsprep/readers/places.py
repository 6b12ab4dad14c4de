"""Reading bytes at places in files: descriptors that stay open, and bytes fetched ahead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from dsprep.errors import SourceError
from dsprep.rows import Rows

_AHEAD = 64
"""How many scattered places the system is told of before they are read."""

_MOST_OPEN = 256
"""Files that are open at once; a process may have 1024, by default, and data sets more shards."""


class Run(NamedTuple):
    """Rows whose bytes follow one another in one file.

    Attributes:
        first: The position of the first row.
        last: The position after the last.
        file: Their file.
        start: Where the first one's bytes begin.
        stop: Where the last one's end.
    """

    first: int
    last: int
    file: int
    start: int
    stop: int


def runs(rows: Rows) -> Iterator[Run]:
    """Cut rows into runs whose bytes can be read front to back."""
    assert rows.files is not None and rows.offsets is not None
    stored = rows.sizes if rows.stored is None else rows.stored
    first, file, start, stop = 0, -1, 0, 0
    for position, place in enumerate(zip(rows.files, rows.offsets, stored, strict=True)):
        if place[0] != file or place[1] != stop:
            if position:
                yield Run(first, position, file, start, stop)
            first, file, start = position, place[0], place[1]
        stop = place[1] + place[2]
    if rows.files:
        yield Run(first, len(rows.files), file, start, stop)


class Descriptors:
    """Files that are opened when they are read from, some of which stay open."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        """Open nothing yet.

        Args:
            paths: The files.
        """
        self._paths = paths
        self._open: dict[int, int] = {}

    def __getitem__(self, number: int) -> int:
        """The descriptor of a file, good until others are asked for.

        Raises:
            SourceError: If it cannot be opened.
        """
        if number not in self._open:
            if len(self._open) == _MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            path = self._paths[number]
            try:
                self._open[number] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
        return self._open[number]

    def ahead(self, all_runs: Iterator[Run]) -> Iterator[Run]:
        """The runs as they come, the system being told of some before they are read.

        Bytes that lie scattered over a disk are then fetched while others are worked on.
        """
        waiting: list[Run] = []
        for run in all_runs:
            os.posix_fadvise(
                self[run.file], run.start, run.stop - run.start, os.POSIX_FADV_WILLNEED
            )
            waiting.append(run)
            if len(waiting) > _AHEAD:
                yield waiting.pop(0)
        yield from waiting

    def __enter__(self) -> Descriptors:
        """Return the files themselves."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close what was opened."""
        for descriptor in self._open.values():
            os.close(descriptor)


def read_at(descriptor: int, count: int, offset: int) -> bytes:
    """Read so many bytes, or fewer at the end of the file."""
    data = os.pread(descriptor, count, offset)
    while len(data) < count and (
        more := os.pread(descriptor, count - len(data), offset + len(data))
    ):
        data += more
    return data

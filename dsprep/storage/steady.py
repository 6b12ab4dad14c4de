"""A local file that is being sent, and must stay what it is until all has arrived."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

from dsprep.errors import SourceError
from dsprep.storage.checksums import crc32c
from dsprep.storage.local import open_regular

_AT_ONCE = 1 << 20
"""Bytes read and hashed at once: they are still in the processor's cache when they are hashed."""


class SteadyFile:
    """A file open for reading; several threads may read it at once."""

    def __init__(self, path: Path) -> None:
        """Open it."""
        self.path = path
        try:
            self._fd = open_regular(path)
        except OSError as error:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
        self._was = self._facts()
        self.size, self.mtime_ns = self._was[:2]

    def __enter__(self) -> SteadyFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def read_into(self, buffer: memoryview, start: int) -> int:
        """Fill a buffer with the bytes from there on; returns their crc32c."""
        value, done = 0, 0
        while done < len(buffer):
            piece = buffer[done : done + _AT_ONCE]
            try:
                got = os.preadv(self._fd, [piece], start + done)
            except OSError as error:
                raise SourceError(f"{self.path}: cannot be read ({error.strerror})") from None
            if not got:
                raise self._changed()
            value = crc32c(piece[:got], value)
            done += got
        return value

    def crc32c(self) -> int:
        """The crc32c of the whole file, which is read for it."""
        buffer = memoryview(bytearray(_AT_ONCE))
        value = 0
        for start in range(0, self.size, _AT_ONCE):
            piece = buffer[: min(_AT_ONCE, self.size - start)]
            self.read_into(piece, start)
            value = crc32c(piece, value)
        return value

    def check(self) -> None:
        """See that nothing has touched the file."""
        if self._facts() != self._was:
            raise self._changed()
        try:
            there = os.stat(self.path)
        except OSError:
            raise self._changed() from None
        if (there.st_size, there.st_mtime_ns, there.st_ino) != self._was:
            raise self._changed()

    def _facts(self) -> tuple[int, int, int]:
        told = os.fstat(self._fd)
        return told.st_size, told.st_mtime_ns, told.st_ino

    def _changed(self) -> SourceError:
        return SourceError(
            f"{self.path}: changed while it was being sent; give the same command again when "
            "nothing writes to it any more"
        )

"""Where a download lands: a hidden partial file beside its place, and a journal of what is in it.

The journal says which object the bytes are of, so that another run goes on only with these, and the
crc32c of each part that is whole, so that it can see whether the disk has kept it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from dsprep.errors import DestinationError
from dsprep.storage.local import LONGEST_NAME, SCRATCH, destination_errors, open_regular, read_whole
from dsprep.storage.store import Stored


class Landing:
    """A partial file, open for writing; several threads may write to it at once."""

    def __init__(self, final: Path, stored: Stored, part_size: int) -> None:
        """Open what an earlier run has left of this object, or begin."""
        self.final = final
        directory, name = os.path.split(final)
        self._hidden = os.path.join(directory, SCRATCH)
        if len(os.fsencode(name)) + len(".partial") > LONGEST_NAME:
            name = hashlib.sha256(os.fsencode(name)).hexdigest()
        self._partial = os.path.join(self._hidden, f"{name}.partial")
        self._journal = os.path.join(self._hidden, f"{name}.journal")
        content = stored.etag or stored.modified
        self._head = json.dumps([stored.key, content, stored.size, part_size])
        self._size, self._in_parts = stored.size, stored.size > part_size
        self._noting = threading.Lock()
        if os.path.isdir(final):
            raise DestinationError(f"{final}: is a directory, and a file of this name is to come")
        with destination_errors(final):
            self._fd = self._open()
            while not self._lock():
                os.close(self._fd)
                self._fd = self._open()
        self.there = self._read_journal() if self._in_parts else {}
        """The crc32c of each part that should be there, by number."""

    def __enter__(self) -> Landing:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)

    def begin(self) -> None:
        """Forget what is there, and take the room that the file will need."""
        self.there = {}
        with destination_errors(self.final):
            os.ftruncate(self._fd, 0)
            if self._in_parts:
                os.posix_fallocate(self._fd, 0, self._size)
                _remove(self._journal)

    def write(self, data: bytes, start: int) -> None:
        """Write bytes at a place of the file."""
        with destination_errors(self.final):
            view = memoryview(data)
            while view:
                done = os.pwrite(self._fd, view, start)
                view, start = view[done:], start + done

    def read(self, size: int, start: int) -> bytes:
        """Bytes that were written."""
        with destination_errors(self.final):
            return os.pread(self._fd, size, start)

    def note(self, number: int, crc32c: int) -> None:
        """Note that a part is whole."""
        with (
            self._noting,
            destination_errors(self.final),
            open(self._journal, "a", encoding="utf-8") as journal,
        ):
            head = "" if journal.tell() else self._head
            journal.write(f"{head}\n{json.dumps([number, crc32c])}")

    def publish(self, mtime_ns: int) -> None:
        """Give the file its time and its name, once it is on the disk."""
        with destination_errors(self.final):
            os.utime(self._fd, ns=(mtime_ns, mtime_ns))
            os.fsync(self._fd)
            os.replace(self._partial, self.final)
        self._tidy()

    def discard(self) -> None:
        """Leave nothing behind."""
        _remove(self._partial)
        self._tidy()

    def _tidy(self) -> None:
        _remove(self._journal)
        with suppress(OSError):  # other files are on their way
            os.rmdir(self._hidden)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            with suppress(FileNotFoundError):  # whose file was the last there may just tidy up
                return open_regular(self._partial, flags)
            os.makedirs(self._hidden, exist_ok=True)

    def _lock(self) -> bool:
        """Lock the file; returns whether it still is the partial one.

        A run that has just ended gave it its final name, or removed it, before it was locked here.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise DestinationError(
                f"{self.final}: another dsprep run is writing it; wait for it to end"
            ) from None
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(self._partial), os.fstat(self._fd))
        return False

    def _read_journal(self) -> dict[int, int]:
        try:
            head, *lines = read_whole(self._journal).decode("utf-8", "replace").split("\n")
        except OSError:
            return {}
        if head != self._head or os.fstat(self._fd).st_size != self._size:
            return {}
        found = {}
        for line in lines:
            with suppress(ValueError, TypeError):  # a kill has cut it
                number, crc32c = json.loads(line)
                found[int(number)] = int(crc32c)
        return found


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)

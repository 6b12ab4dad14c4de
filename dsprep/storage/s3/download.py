"""One object to one local file: in parts, resumed where an earlier run ended, and proven."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from dsprep.errors import DestinationError, StoreError
from dsprep.storage.local import LONGEST_NAME, SCRATCH, Lock, destination_errors, read_whole
from dsprep.storage.pool import own_buffer
from dsprep.storage.s3.bucket import Bucket
from dsprep.storage.stored import Stored, combine_all, crc32c, said_mtime_ns
from dsprep.storage.transfer import Range, TransferOptions, Transferred, plan_parts

_AT_ONCE = 1 << 20
_TRIES = 2  # how often an object is fetched that is not what the store says it is


def download(
    store: Bucket,
    key: str,
    path: Path,
    options: TransferOptions,
    listed: Stored | None = None,
    crc32c: int | None = None,
) -> Transferred:
    """Download an object, with this crc32c if given. Its file gets its name when it is complete."""
    # A small object that has been listed is not looked up.
    small = listed is not None and len(plan_parts(listed.size, options.part_size)) == 1
    stored = listed if small else store.stat(key)
    if stored is None:
        raise StoreError(f"{store.url(key)}: is not there", "missing")
    if listed is not None and stored.etag != listed.etag:
        raise StoreError(f"{store.url(key)}: has changed since it was listed", "exists")
    plan = plan_parts(stored.size, options.part_size, store.url(key))
    with closing(Landing(path, stored, plan)) as landing:
        try:
            return _Download(store, stored, landing, plan, crc32c, options).run()
        except BaseException:
            if not options.keep:
                landing.discard()
            raise


@dataclass
class _Download:
    store: Bucket
    stored: Stored
    landing: Landing
    plan: Sequence[Range]
    crc32c: int | None  # the one that is expected
    options: TransferOptions

    def __post_init__(self) -> None:
        self.name = self.store.url(self.stored.key)
        self.pace, self.events = self.options.pace, self.options.events

    def run(self) -> Transferred:
        """Fetch the missing parts; all of them again if the file is not what it should be."""
        size, count = self.stored.size, len(self.plan)
        self.events("begin", name=self.name, bytes=size, parts=count)
        there = self.kept()
        for _ in range(_TRIES):
            if not there:
                self.landing.begin()
            missing = [part for part in self.plan if part.number not in there]
            if count == 1:
                with self.pace.slots:
                    got = [self.fetch(part) for part in missing]
            else:
                got = self.pace.each(self.fetch, missing)
            values, there = {**there, **dict(got)}, {}
            value = combine_all((values[part.number], part.size) for part in self.plan)
            if self.crc32c is None:
                proof = self.stored.confirmed_by(value, self.landing.md5)
            else:
                proof = "crc32c" if self.crc32c == value else ""
            if proof:
                mtime = said_mtime_ns(self.stored.metadata)
                self.landing.publish(int(self.stored.modified * 1e9) if mtime is None else mtime)
                self.events("end", name=self.name, bytes=size, proof=proof)
                moved, found = sum(part.size for part in missing), count - len(missing)
                return Transferred(self.stored, value, count, found, moved, proof)
            self.events("moved", name=self.name, bytes=-size)
        self.landing.discard()
        raise StoreError(
            f"{self.name}: what arrives is not what is stored there (crc32c or MD5 differ): it was "
            "damaged on its way, or before it was stored; nothing was kept of it",
            "damaged",
        )

    def kept(self) -> dict[int, int]:
        """Return the crc32c of the parts that an earlier run has left and the disk has kept."""
        there, size = {}, 0
        for part in self.plan:
            noted, value = self.landing.there.get(part.number), 0
            if noted is None:
                continue
            for data in self.landing.read(part.start, part.size):
                self.pace.check()
                value = crc32c(data, value)
            if value == noted:
                there[part.number], size = value, size + part.size
        if there:
            self.events("found", name=self.name, bytes=size, parts=len(there))
        return there

    def fetch(self, part: Range) -> tuple[int, int]:
        is_all = part.size == self.stored.size
        size = None if is_all else part.size
        value = done = 0
        with self.store.open(self.stored.key, part.start, size, self.stored.etag) as reading:
            if reading.stored.size != self.stored.size:
                raise StoreError(f"{self.name}: has changed while it was being read", "exists")
            if is_all:  # a listing has no checksums and metadata
                self.stored = reading.stored
            buffer = own_buffer(_AT_ONCE)
            while got := reading.read_into(buffer):
                self.pace.take(got)
                data = buffer[:got]
                value = crc32c(data, value)
                self.landing.write(data, part.start + done)
                done += got
                self.events("moved", name=self.name, bytes=got)
        if len(self.plan) > 1:
            self.landing.start_writing(part)
            self.landing.note(part.number, value)
        self.events("part", name=self.name, number=part.number)
        return part.number, value


class Landing:
    """A hidden partial file beside its place, and a journal of its complete parts.

    The journal says which object the bytes are of, so that another run resumes only with these, and
    the crc32c of each part that is complete, to detect what the disk has lost. Several threads may
    write at once.
    """

    def __init__(self, final: Path, stored: Stored, plan: Sequence[Range]) -> None:
        """Open what an earlier run has left of this object, or begin."""
        self.final, self._size, self._in_parts = final, stored.size, len(plan) > 1
        self._hidden, name = final.parent / SCRATCH, final.name
        if len(os.fsencode(name)) + len(".partial") > LONGEST_NAME:
            name = hashlib.sha256(os.fsencode(name)).hexdigest()
        self._partial = self._hidden / f"{name}.partial"
        self._journal = self._hidden / f"{name}.journal"
        content = stored.etag or stored.modified
        self._head = json.dumps([stored.key, content, stored.size, plan[0].size])
        self._noting, self._over = threading.Lock(), False
        if os.path.isdir(final):
            raise DestinationError(f"{final}: is a directory, and a file of this name is to come")
        self._lock = Lock(self._partial, final, hidden=True)
        self._fd = self._lock.file.fileno()
        # the crc32c of each part that should be there, by number
        self.there = self._read_journal() if self._in_parts else {}

    def close(self) -> None:
        self._lock.release()

    def begin(self) -> None:
        """Forget what is there, and allocate the file."""
        self.there = {}
        with destination_errors(self.final):
            os.ftruncate(self._fd, 0)
            if self._in_parts:
                os.posix_fallocate(self._fd, 0, self._size)
                self._journal.unlink(missing_ok=True)

    def write(self, view: memoryview, start: int) -> None:
        with destination_errors(self.final):
            while view:
                done = os.pwrite(self._fd, view, start)
                view, start = view[done:], start + done

    def start_writing(self, part: Range) -> None:
        """Begin to write a part to the disk, so that `publish` waits less for it."""
        # Linux starts the write and drops nothing that is not written yet.
        os.posix_fadvise(self._fd, part.start, part.size, os.POSIX_FADV_DONTNEED)

    def read(self, start: int, size: int) -> Iterator[bytes]:
        for offset in range(start, start + size, _AT_ONCE):
            with destination_errors(self.final):
                piece = os.pread(self._fd, min(_AT_ONCE, start + size - offset), offset)
            yield piece

    def md5(self) -> bytes:
        digest = hashlib.md5(usedforsecurity=False)
        for data in self.read(0, self._size):
            digest.update(data)
        return digest.digest()

    def note(self, number: int, crc32c: int) -> None:
        with self._noting, destination_errors(self.final):
            if self._over:
                return
            with open(self._journal, "a", encoding="utf-8") as journal:
                head = "" if journal.tell() else self._head
                journal.write(f"{head}\n{json.dumps([number, crc32c])}")

    def publish(self, mtime_ns: int) -> None:
        """Give the file its time and, when it is on the disk, its name."""
        with destination_errors(self.final):
            os.utime(self._fd, ns=(mtime_ns, mtime_ns))
            os.fsync(self._fd)
            self._partial.replace(self.final)
        self._tidy()

    def discard(self) -> None:
        self._partial.unlink(missing_ok=True)
        self._tidy()

    def _tidy(self) -> None:
        with self._noting:  # after a stop, threads may still add parts to the journal
            self._over = True
            self._journal.unlink(missing_ok=True)
        with suppress(OSError):  # the directory is not empty: other files are being downloaded
            self._hidden.rmdir()

    def _read_journal(self) -> dict[int, int]:
        try:
            head, *lines = read_whole(self._journal).decode("utf-8", "replace").split("\n")
        except OSError:
            return {}
        if head != self._head or os.fstat(self._fd).st_size != self._size:
            return {}
        found = {}
        for line in lines:
            with suppress(ValueError, TypeError):  # a kill may leave an incomplete line
                number, crc32c = json.loads(line)
                found[int(number)] = int(crc32c)
        return found

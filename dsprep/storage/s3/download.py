"""One object to one local file: in parts, resumed where an earlier run ended, and proven."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dsprep.errors import DestinationError, StoreError
from dsprep.storage.checksums import combine_all, confirmed_by, crc32c, said_mtime_ns
from dsprep.storage.local import LONGEST_NAME, SCRATCH, destination_errors, open_regular, read_whole
from dsprep.storage.pool import Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.store import Stored
from dsprep.storage.transfer import Events, PartPlan, Range, plan_parts

_AT_ONCE = 1 << 20
_TRIES = 2
"""How often an object is fetched that is not what the store says it is."""


@dataclass(frozen=True)
class Received:
    """An object that has arrived."""

    path: Path  # the file
    size: int  # in bytes
    crc32c: int  # of its bytes
    etag: str  # the object's
    parts: int  # how many it came in
    found: int  # how many of them were there from an earlier run
    moved: int  # bytes that were received
    # what proves that the file is the object: the `crc32c` that was expected or that is stored, its
    # `md5`, or no more than its `size`
    proof: str


def download(
    store: S3Store,
    key: str,
    path: Path,
    *,
    stored: Stored | None = None,
    crc32c: int | None = None,
    part_size: int = 0,
    pace: Pace | None = None,
    events: Events | None = None,
    keep: bool = True,
) -> Received:
    """Download an object. Its file gets its name when all of it has arrived.

    Several threads may call it with one `Pace`, but not those of `Pace.each`.
    """
    own = pace or Pace()
    try:
        small = stored is not None and len(plan_parts(stored.size, part_size)) == 1
        known = stored if small else store.stat(key)
        if known is None:
            raise StoreError(f"{store.url(key)}: is not there", "missing")
        if stored is not None and known.etag != stored.etag:
            raise StoreError(f"{store.url(key)}: has changed since it was listed", "exists")
        plan = plan_parts(known.size, part_size, store.url(key))
        with Landing(path, known, plan.part_size) as landing:
            try:
                return _Task(store, known, landing, plan, crc32c, own, events or Events()).run()
            except BaseException:
                if not keep:
                    landing.discard()
                raise
    finally:
        if pace is None:
            own.close()


class _Task:
    """The download of one object."""

    def __init__(
        self,
        store: S3Store,
        stored: Stored,
        landing: Landing,
        plan: PartPlan,
        expected: int | None,
        pace: Pace,
        events: Events,
    ) -> None:
        self.store, self.stored, self.landing, self.plan = store, stored, landing, plan
        self.expected, self.pace, self.events = expected, pace, events
        self.name = store.url(stored.key)

    def run(self) -> Received:
        """Fetch the missing parts; all of them again if the file is not what it should be."""
        size, count = self.stored.size, len(self.plan)
        self.events.begin(self.name, size, count)
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
            proof = self.proof(value)
            if proof:
                mtime = said_mtime_ns(self.stored.metadata)
                self.landing.publish(
                    mtime if mtime is not None else int(self.stored.modified * 1e9)
                )
                self.events.end(self.name, size, proof)
                moved, found = sum(part.size for part in missing), count - len(missing)
                final, etag = self.landing.final, self.stored.etag
                return Received(final, size, value, etag, count, found, moved, proof)
            self.events.moved(self.name, -size)
        self.landing.discard()
        raise StoreError(
            f"{self.name}: what arrives is not what is stored there (crc32c or MD5 differ): it was "
            "damaged on its way, or before it was stored; nothing was kept of it",
            "damaged",
        )

    def kept(self) -> dict[int, int]:
        """Return the crc32c of the parts that an earlier run has left and the disk has kept."""
        there = {}
        for part in self.plan:
            value = self.landing.there.get(part.number)
            if value is not None and self.reread(part) == value:
                there[part.number] = value
        if there:
            size = sum(part.size for part in self.plan if part.number in there)
            self.events.found(self.name, size, len(there))
        return there

    def reread(self, part: Range) -> int:
        """Return the crc32c of a part on the disk."""
        value, end = 0, part.start + part.size
        for start in range(part.start, end, _AT_ONCE):
            self.pace.check()
            value = crc32c(self.landing.read(min(_AT_ONCE, end - start), start), value)
        return value

    def fetch(self, part: Range) -> tuple[int, int]:
        """Fetch a part; return its number and crc32c."""
        whole = part.size == self.stored.size
        size = None if whole else part.size
        value = done = 0
        with self.store.open(self.stored.key, part.start, size, self.stored.etag) as reading:
            if reading.stored.size != self.stored.size:
                raise StoreError(f"{self.name}: has changed while it was being read", "exists")
            if whole:  # a listing has no checksums and metadata
                self.stored = reading.stored
            while data := reading.read(_AT_ONCE):
                self.pace.take(len(data))
                self.landing.write(data, part.start + done)
                value, done = crc32c(data, value), done + len(data)
                self.events.moved(self.name, len(data))
        if len(self.plan) > 1:
            self.landing.note(part.number, value)
        self.events.part(self.name, part.number)
        return part.number, value

    def proof(self, value: int) -> str:
        """Return what proves that the file is the object; empty if it is not."""
        if self.expected is not None:
            return "crc32c" if self.expected == value else ""
        return confirmed_by(self.stored, value, self.md5)

    def md5(self) -> bytes:
        """Return the MD5 of what has arrived."""
        digest = hashlib.md5(usedforsecurity=False)
        for start in range(0, self.stored.size, _AT_ONCE):
            digest.update(self.landing.read(min(_AT_ONCE, self.stored.size - start), start))
        return digest.digest()


class Landing:
    """A hidden partial file beside its place, and a journal of its complete parts.

    The journal says which object the bytes are of, so that another run resumes only with these, and
    the crc32c of each part that is complete, to detect what the disk has lost. Several threads may
    write at once.
    """

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
        self._noting, self._over = threading.Lock(), False
        if os.path.isdir(final):
            raise DestinationError(f"{final}: is a directory, and a file of this name is to come")
        with destination_errors(final):
            self._fd = self._open()
            while not self._lock():
                os.close(self._fd)
                self._fd = self._open()
        # the crc32c of each part that should be there, by number
        self.there = self._read_journal() if self._in_parts else {}

    def __enter__(self) -> Landing:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def begin(self) -> None:
        """Forget what is there, and allocate the file."""
        self.there = {}
        with destination_errors(self.final):
            os.ftruncate(self._fd, 0)
            if self._in_parts:
                os.posix_fallocate(self._fd, 0, self._size)
                _remove(self._journal)

    def write(self, data: bytes, start: int) -> None:
        """Write bytes at an offset."""
        with destination_errors(self.final):
            view = memoryview(data)
            while view:
                done = os.pwrite(self._fd, view, start)
                view, start = view[done:], start + done

    def read(self, size: int, start: int) -> bytes:
        """Read bytes that were written."""
        with destination_errors(self.final):
            return os.pread(self._fd, size, start)

    def note(self, number: int, crc32c: int) -> None:
        """Note that a part is complete."""
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
            os.replace(self._partial, self.final)
        self._tidy()

    def discard(self) -> None:
        """Leave nothing behind."""
        _remove(self._partial)
        self._tidy()

    def _tidy(self) -> None:
        with self._noting:  # threads that a stop has not waited for may still note parts
            self._over = True
            _remove(self._journal)
        with suppress(OSError):  # other files are on their way
            os.rmdir(self._hidden)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            with suppress(FileNotFoundError):  # another download may have just removed it
                return open_regular(self._partial, flags)
            os.makedirs(self._hidden, exist_ok=True)

    def _lock(self) -> bool:
        """Lock the file; return whether it still is the partial one.

        A run that has just ended may have renamed or removed it before it was locked here.
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

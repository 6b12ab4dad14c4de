"""One object to one local file: in parts, going on where an earlier run ended, and proven."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from dsprep.errors import StoreError
from dsprep.storage.checksums import combine_all, confirmed_by, crc32c, said_mtime_ns
from dsprep.storage.events import Events
from dsprep.storage.landing import Landing
from dsprep.storage.parts import PartPlan, Range, plan_parts
from dsprep.storage.pool import Pace
from dsprep.storage.store import Store, Stored

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
    store: Store,
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
    """Fetch an object. Until all of it is there, nothing is to be seen under the file's name.

    Not to be called by what `Pace.each` calls. Several threads may call it, with one `Pace`.
    """
    own = pace or Pace()
    try:
        small = stored is not None and len(plan_parts(stored.size, part_size)) == 1
        known = stored if stored is not None and small else store.stat(key)
        if known is None:
            raise StoreError(f"{store.url(key)}: is not there", "missing")
        if stored is not None and known.etag != stored.etag:
            raise StoreError(f"{store.url(key)}: has changed since it was listed", "exists")
        plan = plan_parts(known.size, part_size, store.url(key))
        with Landing(path, known, plan.part_size) as landing:
            task = _Task(store, known, landing, plan, crc32c, own, events or Events())
            return task.run(keep)
    finally:
        if pace is None:
            own.close()


class _Task:
    """The download of one object."""

    def __init__(
        self,
        store: Store,
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

    def run(self, keep: bool) -> Received:
        """Have it arrive, or keep nothing of it."""
        try:
            return self.arrive()
        except BaseException:
            if not keep:
                self.landing.discard()
            raise

    def arrive(self) -> Received:
        """Fetch what is missing; all of it again if it is not what it should be."""
        self.events.begin(self.name, self.stored.size, len(self.plan))
        there = self.kept()
        for _ in range(_TRIES):
            if not there:
                self.landing.begin()
            missing = [part for part in self.plan if part.number not in there]
            if len(self.plan) == 1:
                with self.pace.slots:
                    got = [self.fetch(part) for part in missing]
            else:
                got = self.pace.each(self.fetch, missing)
            found, there = there, {}
            values = {**found, **dict(got)}
            value = combine_all((values[part.number], part.size) for part in self.plan)
            proof = self.proof(value)
            if proof:
                return self.end(value, proof, missing)
            self.events.moved(self.name, -self.stored.size)
        self.landing.discard()
        raise StoreError(
            f"{self.name}: what arrives is not what is stored there (crc32c or MD5 differ): it was "
            "damaged on its way, or before it was stored; nothing was kept of it",
            "damaged",
        )

    def end(self, value: int, proof: str, missing: list[Range]) -> Received:
        """Give the file its name."""
        mtime = said_mtime_ns(self.stored.metadata)
        self.landing.publish(mtime if mtime is not None else int(self.stored.modified * 1e9))
        self.events.end(self.name, self.stored.size, proof)
        return Received(
            self.landing.final,
            self.stored.size,
            value,
            self.stored.etag,
            len(self.plan),
            len(self.plan) - len(missing),
            sum(part.size for part in missing),
            proof,
        )

    def kept(self) -> dict[int, int]:
        """The parts that an earlier run has left, and that the disk has kept."""
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
        """The crc32c of what is on the disk."""
        value, end = 0, part.start + part.size
        for start in range(part.start, end, _AT_ONCE):
            self.pace.check()
            value = crc32c(self.landing.read(min(_AT_ONCE, end - start), start), value)
        return value

    def fetch(self, part: Range) -> tuple[int, int]:
        """Fetch a part."""
        whole = part.size == self.stored.size
        size = None if whole else part.size
        value = done = 0
        with self.store.open(self.stored.key, part.start, size, self.stored.etag) as reading:
            if reading.stored.size != self.stored.size:
                raise StoreError(f"{self.name}: has changed while it was being read", "exists")
            if whole:  # a listing does not tell checksums and metadata
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
        """What proves that the file is the object; empty if it is not."""
        if self.expected is not None:
            return "crc32c" if self.expected == value else ""
        return confirmed_by(self.stored, value, self.md5)

    def md5(self) -> bytes:
        """The MD5 of what has arrived."""
        digest = hashlib.md5(usedforsecurity=False)
        for start in range(0, self.stored.size, _AT_ONCE):
            digest.update(self.landing.read(min(_AT_ONCE, self.stored.size - start), start))
        return digest.digest()

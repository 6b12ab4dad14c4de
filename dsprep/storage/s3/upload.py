"""One local file to one object: in parts, resumed where an earlier run ended, and proven.

What an earlier run has sent is found by asking the server for unfinished uploads of this key and
for their parts. A part is kept if its checksum is that of the bytes that would be sent. So it does
not matter which process or computer began the upload.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dsprep.errors import DsprepError, SourceError, StoreError
from dsprep.storage.checksums import combine_all, crc32c, is_made_of, md5, metadata_of, said_crc32c
from dsprep.storage.local import SCRATCH, open_regular
from dsprep.storage.pool import Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.s3.copy import set_metadata
from dsprep.storage.store import Part, Stored, Upload
from dsprep.storage.transfer import Events, PartPlan, Range, buffer, plan_parts

_AT_ONCE = 1 << 20
"""Bytes read and hashed at once: they are still in the processor's cache when they are hashed."""

_PROBE = f"{SCRATCH}/rights"


@dataclass(frozen=True)
class Sent:
    """A file that has arrived."""

    key: str  # the object
    size: int  # in bytes
    crc32c: int  # of its bytes
    etag: str  # the object's
    parts: int  # how many it was sent in
    found: int  # how many of them were there from an earlier run
    moved: int  # bytes that were sent
    # what proves that the object is the file: the `crc32c` that the server computed, its `md5`, or
    # that each of its `parts` was proven
    proof: str


@dataclass(frozen=True)
class _Found:
    """An unfinished upload that can be resumed."""

    upload: Upload
    # the parts that are there and right, by number, and the crc32c of each
    parts: dict[int, tuple[Part, int]] = field(default_factory=dict)
    ours: bool = False  # whether it was begun just now, rather than found


def upload(
    path: Path,
    store: S3Store,
    key: str,
    *,
    crc32c: int | None = None,
    part_size: int = 0,
    pace: Pace | None = None,
    events: Events | None = None,
    keep: bool = True,
) -> Sent:
    """Upload a file. Its object appears when all of it has arrived.

    Several threads may call it with one `Pace`, but not those of `Pace.each`.
    """
    own = pace or Pace()
    try:
        with _File(path) as file:
            plan = plan_parts(file.size, part_size, str(path))
            task = _Task(file, store, key, plan, crc32c, own, events or Events())
            return task.in_one() if len(plan) == 1 else task.in_parts(keep)
    finally:
        if pace is None:
            own.close()


class _File:
    """A local file that must not change while it is sent; several threads may read it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._fd = open_regular(path)
        except OSError as error:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
        self._was = self._facts(self._fd)
        self.size, self.mtime_ns = self._was[:2]

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read_into(self, data: memoryview, start: int) -> int:
        """Fill a buffer with the bytes from there on; return their crc32c."""
        value, done = 0, 0
        while done < len(data):
            piece = data[done : done + _AT_ONCE]
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
        """Read the whole file and return its crc32c."""
        space, value = memoryview(bytearray(_AT_ONCE)), 0
        for start in range(0, self.size, _AT_ONCE):
            piece = space[: min(_AT_ONCE, self.size - start)]
            self.read_into(piece, start)
            value = crc32c(piece, value)
        return value

    def check(self) -> None:
        """Refuse a file that has been changed or replaced."""
        try:
            same = self._facts(self._fd) == self._was == self._facts(self.path)
        except OSError:
            same = False
        if not same:
            raise self._changed()

    @staticmethod
    def _facts(file: int | Path) -> tuple[int, int, int]:
        told = os.stat(file)
        return told.st_size, told.st_mtime_ns, told.st_ino

    def _changed(self) -> SourceError:
        return SourceError(
            f"{self.path}: changed while it was being sent; give the same command again when "
            "nothing writes to it any more"
        )


class _Task:
    """The upload of one file."""

    def __init__(
        self,
        file: _File,
        store: S3Store,
        key: str,
        plan: PartPlan,
        crc32c: int | None,
        pace: Pace,
        events: Events,
    ) -> None:
        self.file, self.store, self.key, self.plan = file, store, key, plan
        self.crc32c, self.pace, self.events = crc32c, pace, events
        self.name = store.url(key)

    def in_one(self) -> Sent:
        """Send the file in one request, whose answer is the proof."""
        size = self.file.size
        self.events.begin(self.name, size, 1)
        data = buffer(size)
        value = self.file.read_into(data, 0)
        self.file.check()
        self.expect(value)
        metadata = metadata_of(self.file.mtime_ns, value)
        with self.pace.slots:
            stored = self.store.put(
                self.key, data, crc32c=value, metadata=metadata, progress=self.moved
            )
        proof = "md5" if stored.crc32c is None else "crc32c"
        self.events.end(self.name, size, proof)
        return Sent(self.key, size, value, stored.etag, 1, 0, size, proof)

    def in_parts(self, keep: bool) -> Sent:
        """Send the missing parts, then make the parts one object."""
        self.events.begin(self.name, self.file.size, len(self.plan))
        found = self.begin()
        try:
            return self.finish(found)
        except BaseException as error:
            if isinstance(error, SourceError) or not keep:
                with suppress(DsprepError):
                    self.store.abort(found.upload)
            raise

    def begin(self) -> _Found:
        """Find an unfinished upload, or begin one.

        If beginning fails, an upload may have begun nevertheless: it is looked for again.
        """
        failed = 0
        while True:
            found = self.find()
            try:
                return found or _Found(self.create(), ours=True)
            except StoreError as error:
                failed += 1
                self.store.again(error, failed)

    def create(self) -> Upload:
        """Begin an upload. Metadata has the checksum where the server computes none."""
        if self.crc32c is None and self.store.checksums is False:
            self.crc32c = self.file.crc32c()
        metadata = metadata_of(self.file.mtime_ns, self.crc32c)
        upload = self.store.create_upload(self.key, metadata)
        if upload.checksums or self.crc32c is not None:
            return upload
        self.store.abort(upload)
        return self.create()

    def find(self) -> _Found | None:
        """Find the unfinished upload with most parts, whose parts have the planned sizes."""
        best: tuple[Upload, Sequence[Part]] | None = None
        for begun in self.unfinished():
            if begun.storage_class != self.store.storage_class:
                continue
            if begun.checksums < bool(self.store.checksums):
                continue
            there = self.store.parts(begun)
            if there is None or best is not None and len(there) <= len(best[1]):
                continue
            if self.plan.fits((part.number, part.size) for part in there):
                best = begun, there
        if best is None:
            return None
        values = self.pace.each(self.same, best[1])
        pairs = zip(best[1], values, strict=True)
        return _Found(best[0], {part.number: (part, v) for part, v in pairs if v is not None})

    def unfinished(self) -> list[Upload]:
        try:
            pages = self.store.list_uploads(self.key)
            return [begun for page in pages for begun in page if begun.key == self.key]
        except StoreError as error:
            if error.kind not in ("denied", "unsupported"):
                raise
            self.events.fallback(f"{error}; what an earlier run has sent of this is sent again")
            return []

    def same(self, part: Part) -> int | None:
        """Return the crc32c of a part if the server has the bytes that the file has there."""
        place = self.plan[part.number - 1]
        data = buffer(place.size)
        value = self.file.read_into(data, place.start)
        kept = part.checksum
        if kept is not None and kept.algorithm == "crc32c":
            return value if kept.value == value.to_bytes(4, "big") else None
        return value if part.etag == md5(data).hex() else None

    def finish(self, found: _Found) -> Sent:
        """Send the rest of an upload, complete it and compare the object with the file."""
        size, there = self.file.size, found.parts
        missing = [part for part in self.plan if part.number not in there]
        moved = sum(part.size for part in missing)
        if there:
            self.events.found(self.name, size - moved, len(there))
        sent = self.pace.each(lambda part: self.send(found.upload, part), missing)
        whole = sorted([*there.values(), *sent], key=lambda pair: pair[0].number)
        parts = [part for part, _ in whole]
        value = combine_all((value, part.size) for part, value in whole)
        self.file.check()
        self.expect(value)
        stored, proof = self.complete(found.upload, parts, value)
        if not found.ours and not self.is_as_wanted(stored, value):
            metadata = metadata_of(self.file.mtime_ns, value)
            stored = set_metadata(self.store, self.key, metadata, self.pace)
        self.events.end(self.name, size, proof)
        return Sent(self.key, size, value, stored.etag, len(parts), len(there), moved, proof)

    def send(self, upload: Upload, part: Range) -> tuple[Part, int]:
        """Send a part; return it and its crc32c."""
        self.pace.check()
        data = buffer(part.size)
        value = self.file.read_into(data, part.start)
        digest = None if upload.checksums else md5(data)
        stored = self.store.send_part(upload, part.number, data, value, digest, self.moved)
        self.events.part(self.name, part.number)
        return stored, value

    def complete(self, upload: Upload, parts: list[Part], value: int) -> tuple[Stored, str]:
        """Make the parts one object; return it, and what proves that it is the file."""
        etag = ""
        try:
            etag = self.store.complete(upload, parts, self.file.size, value)
        except StoreError as error:
            if error.kind != "gone":  # perhaps it was completed, and the answer was lost
                raise
        stored = self.store.stat(self.key)
        if stored is not None and stored.size == self.file.size:
            if stored.crc32c is not None and stored.crc32c == value:
                return stored, "crc32c"
            if is_made_of(stored, parts):
                return stored, "md5"
            # Encrypted by KMS, say: each part was proven, and this is what they became.
            if stored.crc32c is None and etag and stored.etag == etag:
                return stored, "parts"
        raise StoreError(
            f"{self.name}: is not what was sent: something else has been stored there meanwhile, "
            "or has ended the upload; give the same command again",
            "exists",
        )

    def expect(self, value: int) -> None:
        """Refuse a file that is not the expected one."""
        if self.crc32c not in (None, value):
            raise SourceError(
                f"{self.file.path}: its crc32c is {value:08x}, and {self.crc32c:08x} was expected: "
                "it is not the file that its manifest tells of; look at it with dsprep verify"
            )

    def is_as_wanted(self, stored: Stored, value: int) -> bool:
        """Tell whether the object of an upload that was found has the wanted metadata and keys."""
        config = self.store.config
        if config.tags or config.acl:  # which a HEAD does not report
            return False
        if config.sse not in ("", stored.encryption) or config.kms_key not in stored.kms_key:
            return False
        wanted = {**config.metadata, **metadata_of(self.file.mtime_ns)}
        if stored.crc32c is None or said_crc32c(stored.metadata) is not None:
            wanted |= metadata_of(self.file.mtime_ns, value)
        return all(stored.metadata.get(name.lower()) == text for name, text in wanted.items())

    def moved(self, size: int) -> None:
        """Wait until bytes may go, and report them."""
        self.pace.take(size)
        self.events.moved(self.name, size)


def require_rights(store: S3Store, prefix: str, *, deleting: bool = False) -> None:
    """Check before the first byte goes that objects below a prefix can be stored.

    Probes that killed runs have left behind are aborted, too.
    """
    store.abort(_begin(store, prefix))
    with suppress(StoreError):  # it takes another right, which uploads can do without
        for page in store.list_uploads(prefix + _PROBE):
            for begun in page:
                store.abort(begun)
    if deleting:
        for refused in store.delete([prefix + _PROBE]):  # which is not there
            raise refused.error


def probe(store: S3Store, prefix: str) -> Upload:
    """Begin an upload, return what a listing reports about it, and abort it."""
    begun = _begin(store, prefix)
    try:
        for page in store.list_uploads(begun.key):
            for found in page:
                if found.id == begun.id:
                    return found
    finally:
        store.abort(begun)
    raise StoreError(f"{store.url(prefix)}: the server does not list uploads that are not finished")


def _begin(store: S3Store, prefix: str) -> Upload:
    failed = 0
    while True:
        try:
            return store.create_upload(prefix + _PROBE, {})
        except StoreError as error:
            failed += 1
            with _naming_options(store):
                store.again(error, failed)


@contextmanager
def _naming_options(store: S3Store) -> Iterator[None]:
    """Name the options of new objects, because S3 may have refused one of them."""
    config = store.config
    given = {
        "--storage-class": config.storage_class,
        "--acl": config.acl,
        "--sse": config.sse,
        "--sse-kms-key-id": config.kms_key,
    }
    asked = [f"{option} {value}" for option, value in given.items() if value]
    for option, pairs in (("--tag", config.tags), ("--metadata", config.metadata)):
        asked += [f"{option} {name}={value}" for name, value in pairs.items()]
    try:
        yield
    except StoreError as error:
        if not asked or error.kind not in ("other", "denied", "unsupported"):
            raise
        message = f"{error}; what is refused may be an option: {' '.join(asked)}"
        raise type(error)(message, error.kind) from None

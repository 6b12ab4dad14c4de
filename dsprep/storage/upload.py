"""One local file to one object on S3: in parts, going on where an earlier run ended, and proven.

What an earlier run has sent is found by asking the server for unfinished uploads of this key and
for their parts; a part is taken over if its checksum is that of the bytes which would be sent. So
it does not matter which process or computer began.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dsprep.errors import DsprepError, SourceError, StoreError
from dsprep.storage.buffers import buffer
from dsprep.storage.checksums import combine_all, is_made_of, md5, metadata_of, said_crc32c
from dsprep.storage.copy import set_metadata
from dsprep.storage.events import Events
from dsprep.storage.parts import PartPlan, Range, plan_parts
from dsprep.storage.pool import Pace
from dsprep.storage.resume import Found, find_upload
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.steady import SteadyFile
from dsprep.storage.store import Part, Stored, Upload


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
    """Send a file. Until all of it is there, nothing is to be seen under its key.

    Not to be called by what `Pace.each` calls. Several threads may call it, with one `Pace`.
    """
    own = pace or Pace()
    try:
        with SteadyFile(path) as file:
            plan = plan_parts(file.size, part_size, str(path))
            task = _Task(file, store, key, plan, crc32c, own, events or Events())
            return task.in_one() if len(plan) == 1 else task.in_parts(keep)
    finally:
        if pace is None:
            own.close()


class _Task:
    """The upload of one file."""

    def __init__(
        self,
        file: SteadyFile,
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
        """Send it in one request, whose answer is the proof."""
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
        """Send the parts that are not there yet, then make them one object."""
        self.events.begin(self.name, self.file.size, len(self.plan))
        found = self.begin()
        try:
            return self.finish(found)
        except BaseException as error:
            if isinstance(error, SourceError) or not keep:
                with suppress(DsprepError):
                    self.store.abort(found.upload)
            raise

    def begin(self) -> Found:
        """Find an unfinished upload, or begin one.

        If that fails, an upload may have begun nevertheless: it is looked for again.
        """
        failed = 0
        while True:
            found = find_upload(self.store, self.key, self.file, self.plan, self.pace, self.events)
            try:
                return found or Found(self.create(), ours=True)
            except StoreError as error:
                failed += 1
                self.store.again(error, failed)

    def create(self) -> Upload:
        """Begin an upload. Where the server computes no checksum, metadata has to say it."""
        if self.crc32c is None and self.store.checksums is False:
            self.crc32c = self.file.crc32c()
        metadata = metadata_of(self.file.mtime_ns, self.crc32c)
        upload = self.store.create_upload(self.key, metadata)
        if upload.checksums or self.crc32c is not None:
            return upload
        self.store.abort(upload)
        return self.create()

    def finish(self, found: Found) -> Sent:
        """Send the rest of an upload, complete it and see what is there."""
        upload, there = found.upload, found.parts
        missing = [part for part in self.plan if part.number not in there]
        if there:
            size = self.file.size - sum(part.size for part in missing)
            self.events.found(self.name, size, len(there))
        sent = self.pace.each(lambda part: self.send(upload, part), missing)
        whole = sorted([*there.values(), *sent], key=lambda each: each[0].number)
        parts = [part for part, _ in whole]
        value = combine_all((value, part.size) for part, value in whole)
        self.file.check()
        self.expect(value)
        stored, proof = self.complete(upload, parts, value)
        if not found.ours and not self.is_as_wanted(stored, value):
            metadata = metadata_of(self.file.mtime_ns, value)
            stored = set_metadata(self.store, self.key, metadata, self.pace)
        self.events.end(self.name, self.file.size, proof)
        moved = sum(part.size for part in missing)
        return Sent(
            self.key, self.file.size, value, stored.etag, len(parts), len(there), moved, proof
        )

    def send(self, upload: Upload, part: Range) -> tuple[Part, int]:
        """Send a part; returns it, and its crc32c."""
        self.pace.check()
        data = buffer(part.size)
        value = self.file.read_into(data, part.start)
        digest = None if upload.checksums else md5(data)
        stored = self.store.send_part(upload, part.number, data, value, digest, self.moved)
        self.events.part(self.name, part.number)
        return stored, value

    def complete(self, upload: Upload, parts: list[Part], value: int) -> tuple[Stored, str]:
        """Make the parts one object; returns it, and what proves that it is the file."""
        etag = ""
        try:
            etag = self.store.complete(upload, parts, self.file.size, value)
        except StoreError as error:
            if error.kind != "gone":
                raise
            # Perhaps it was completed, and the answer was lost.
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
        """See that the file is the one that was expected."""
        if self.crc32c not in (None, value):
            raise SourceError(
                f"{self.file.path}: its crc32c is {value:08x}, and {self.crc32c:08x} was expected: "
                "it is not the file that its manifest tells of; look at it with dsprep verify"
            )

    def is_as_wanted(self, stored: Stored, value: int) -> bool:
        """Whether an upload that was begun by somebody else has the metadata, keys and so on."""
        config = self.store.config
        if config.tags or config.acl:  # which a HEAD does not tell
            return False
        if config.sse not in ("", stored.encryption) or config.kms_key not in stored.kms_key:
            return False
        wanted = {**config.metadata, **metadata_of(self.file.mtime_ns)}
        if stored.crc32c is None or said_crc32c(stored.metadata) is not None:
            wanted |= metadata_of(self.file.mtime_ns, value)
        return all(stored.metadata.get(name.lower()) == text for name, text in wanted.items())

    def moved(self, size: int) -> None:
        """Let bytes go when they may."""
        self.pace.take(size)
        self.events.moved(self.name, size)

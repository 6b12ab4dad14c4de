"""One object from a local file, or copied by the server from another: in parts, and proven.

What an earlier run has sent is found by asking the server for unfinished uploads of this key and
for their parts. A part is kept if its checksum is that of the bytes that would be sent. So it does
not matter which process or computer began the upload.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from dsprep.errors import DsprepError, SourceError, StoreError, source_errors
from dsprep.storage.local import SCRATCH, open_regular
from dsprep.storage.pool import Pace, own_buffer
from dsprep.storage.s3.bucket import Bucket
from dsprep.storage.stored import (
    CRC32C,
    Stored,
    Upload,
    UploadPart,
    combine_all,
    crc32c,
    md5,
    metadata_of,
)
from dsprep.storage.transfer import Range, TransferOptions, Transferred, fits, plan_copy, plan_parts

_AT_ONCE = 1 << 20  # bytes read and hashed: they are still in the processor's cache when hashed
_PROBE = f"{SCRATCH}/rights"


def upload(
    path: Path, store: Bucket, key: str, options: TransferOptions, crc32c: int | None = None
) -> Transferred:
    """Upload a file, with this crc32c if given. Its object appears when all of it has arrived."""
    with closing(_Upload(path, store, key, options, crc32c)) as task:
        task.plan = plan_parts(task.size, options.part_size, str(path))
        options.events("begin", name=task.name, bytes=task.size, parts=len(task.plan))
        return task.in_one() if len(task.plan) == 1 else task.in_parts()


class _Upload:
    """A file that must not change while it is sent; several threads may read it at once."""

    plan: Sequence[Range]

    def __init__(
        self, path: Path, store: Bucket, key: str, options: TransferOptions, crc32c: int | None
    ) -> None:
        self.path, self.store, self.key, self.name = path, store, key, store.url(key)
        self.keep, self.pace, self.events = options.keep, options.pace, options.events
        self.resume, self.replaces = options.resume, options.replaces
        self.crc32c = crc32c  # checksum of the whole file, if expected or already computed
        with source_errors(path):
            self._fd = open_regular(path)
        self._was = self._facts(self._fd)
        self.size, self.mtime_ns = self._was[:2]

    def close(self) -> None:
        os.close(self._fd)

    def read_into(self, data: memoryview, start: int, before: int = 0) -> int:
        """Fill a buffer with the bytes from there on; return the crc32c, as `crc32c` does."""
        value, done = before, 0
        while done < len(data):
            piece = data[done : done + _AT_ONCE]
            with source_errors(self.path):
                got = os.preadv(self._fd, [piece], start + done)
            if not got:
                raise self._changed()
            value = crc32c(piece[:got], value)
            done += got
        return value

    def check(self, value: int) -> None:
        """Refuse a file that has been changed or replaced, or is not the expected one."""
        is_same = False
        with suppress(OSError):
            is_same = self._facts(self._fd) == self._was == self._facts(self.path)
        if not is_same:
            raise self._changed()
        if self.crc32c not in (None, value):
            raise SourceError(
                f"{self.path}: its crc32c is {value:08x}, and {self.crc32c:08x} was expected: "
                "it is not the file that its manifest names; check it with dsprep verify"
            )

    @staticmethod
    def _facts(file: int | Path) -> tuple[int, int, int]:
        status = os.stat(file)
        return status.st_size, status.st_mtime_ns, status.st_ino

    def _changed(self) -> SourceError:
        return SourceError(
            f"{self.path}: changed while it was being sent; give the same command again when "
            "nothing writes to it any more"
        )

    def in_one(self) -> Transferred:
        """Send the file in one request, whose answer is the proof."""
        data = own_buffer(self.size)
        value = self.read_into(data, 0)
        self.check(value)
        metadata = metadata_of(self.mtime_ns, value)
        with self.pace.slots:
            stored = self.store.put(
                *(self.key, data),
                replaces=self.replaces,
                crc32c=value,
                metadata=metadata,
                progress=self.moved,
            )
        proof = "md5" if stored.crc32c is None else "crc32c"
        self.events("end", name=self.name, bytes=stored.size, proof=proof)
        return Transferred(stored, value, 1, 0, stored.size, proof)

    def in_parts(self) -> Transferred:
        """Send the missing parts, then make the parts one object."""
        # If beginning fails, an upload may have begun nevertheless: it is looked for again.
        upload, there = self.store.retried(lambda _: self.find() or (self.create(), None))
        try:
            return self.finish(upload, there)
        except BaseException as error:
            if isinstance(error, SourceError) or not self.keep:
                with suppress(DsprepError):
                    self.store.abort(upload)
            raise

    def create(self) -> Upload:
        """Begin an upload. Metadata has the checksum where the server computes none."""
        if self.crc32c is None and self.store.checksums is False:
            space, self.crc32c = memoryview(bytearray(_AT_ONCE)), 0
            for start in range(0, self.size, _AT_ONCE):
                self.crc32c = self.read_into(space[: self.size - start], start, self.crc32c)
        metadata = metadata_of(self.mtime_ns, self.crc32c)
        upload = self.store.create_upload(self.key, metadata)
        if upload.checksums or self.crc32c is not None:
            return upload
        self.store.abort(upload)
        return self.create()

    def find(self) -> tuple[Upload, Mapping[int, tuple[UploadPart, int]]] | None:
        """Find the unfinished upload with most parts, whose parts have the planned sizes."""
        # Return the parts that are there and right, by number, and the crc32c of each.
        if not self.resume:
            return None
        try:
            unfinished = list(self.store.list_uploads(self.key))
        except StoreError as error:
            if error.kind not in ("denied", "unsupported"):
                raise
            text = f"{error}; what an earlier run has sent of this is sent again"
            self.events("fallback", text=text)
            return None
        fitting = [
            (upload, parts)
            for upload in unfinished
            if (upload.key, upload.storage_class) == (self.key, self.store.storage_class)
            and upload.checksums >= bool(self.store.checksums)
            and (parts := self.store.parts(upload)) is not None
            and fits(self.plan, parts)
        ]
        if not fitting:
            return None
        upload, there = max(fitting, key=lambda pair: len(pair[1]))
        pairs = zip(there, self.pace.each(self.same, there), strict=True)
        return upload, {part.number: (part, v) for part, v in pairs if v is not None}

    def same(self, part: UploadPart) -> int | None:
        """Return the crc32c of a part if the server has the bytes that the file has there."""
        place = self.plan[part.number - 1]
        data = own_buffer(place.size)
        value = self.read_into(data, place.start)
        if part.crc32c is not None:
            return value if part.crc32c == value else None
        return value if part.etag == md5(data).hex() else None

    def finish(
        self, upload: Upload, found: Mapping[int, tuple[UploadPart, int]] | None
    ) -> Transferred:
        """Send the rest of an upload, complete it and compare the object with the file."""
        size, there = self.size, found or {}
        missing = [part for part in self.plan if part.number not in there]
        moved = sum(part.size for part in missing)
        if there:
            self.events("found", name=self.name, bytes=size - moved, parts=len(there))
        sent = self.pace.each(lambda part: self.send(upload, part), missing)
        pairs = sorted([*there.values(), *sent], key=lambda pair: pair[0].number)
        value = combine_all((value, part.size) for part, value in pairs)
        self.check(value)
        stored, proof = self.complete(upload, [part for part, _ in pairs], value)
        if found is not None and not self.is_as_wanted(stored, value):
            metadata = metadata_of(self.mtime_ns, value)
            stored = set_metadata(self.store, stored, metadata, self.pace)
        self.events("end", name=self.name, bytes=size, proof=proof)
        return Transferred(stored, value, len(pairs), len(there), moved, proof)

    def send(self, upload: Upload, part: Range) -> tuple[UploadPart, int]:
        self.pace.check()
        data = own_buffer(part.size)
        value = self.read_into(data, part.start)
        stored = self.store.send_part(upload, part.number, data, value, self.moved)
        self.events("part", name=self.name, number=part.number)
        return stored, value

    def complete(
        self, upload: Upload, parts: Sequence[UploadPart], value: int
    ) -> tuple[Stored, str]:
        """Make the parts one object; return it, and what proves that it is the file."""
        if self.replaces is not None:
            before = self.store.stat(self.key)
            if self.replaces != (before.etag if before else ""):
                raise StoreError(f"{self.name}: has been stored meanwhile", "exists")
        etag = self.store.complete(upload, parts, self.size, value)
        stored = self.store.stat(self.key)
        if stored is not None and stored.size == self.size:
            if stored.crc32c == value:
                return stored, "crc32c"
            if stored.is_made_of(parts):
                return stored, "md5"
            # Encrypted by KMS, say: each part was proven, and this is what they became.
            if stored.crc32c is None and etag and stored.etag == etag:
                return stored, "parts"
        raise StoreError(
            f"{self.name}: is not what was sent: something else has been stored there meanwhile; "
            "give the same command again",
            "exists",
        )

    def is_as_wanted(self, stored: Stored, value: int) -> bool:
        """Return whether the object of a resumed upload has the wanted metadata and keys."""
        config = self.store.config
        if config.tags or config.acl:  # a HEAD request does not return tags or ACL
            return False
        if config.sse not in ("", stored.encryption) or config.kms_key not in stored.kms_key:
            return False
        wanted = {**config.metadata, **metadata_of(self.mtime_ns)}
        if stored.crc32c is None or CRC32C in stored.metadata:
            wanted |= metadata_of(self.mtime_ns, value)
        return all(stored.metadata.get(name.lower()) == text for name, text in wanted.items())

    def moved(self, size: int) -> None:
        """Wait until bytes may go, and report them."""
        self.pace.take(size)
        self.events("moved", name=self.name, bytes=size)


def copy(
    source: Bucket,
    stored: Stored,
    target: Bucket,
    new_key: str,
    options: TransferOptions,
    metadata: Mapping[str, str] | None = None,
) -> Transferred:
    """Let the server copy an object as a HEAD has shown it, within a bucket or between two."""
    plan, name = plan_copy(stored.size), target.url(new_key)
    if metadata is None and target.config.metadata:
        metadata = stored.metadata
    options.events("begin", name=name, bytes=stored.size, parts=len(plan))
    if len(plan) == 1:
        with options.pace.slots:
            target.copy(source.bucket, stored, new_key, metadata)
    else:
        _copy_in_parts(source, stored, target, new_key, metadata, options)
    options.events("moved", name=name, bytes=stored.size)
    there = target.stat(new_key)
    proof = _proof(stored, there)
    if there is None or not proof:
        raise StoreError(
            f"{name}: is not the same as {source.url(stored.key)} after copying", "damaged"
        )
    options.events("end", name=name, bytes=stored.size, proof=proof)
    return Transferred(there, there.any_crc32c, len(plan), 0, there.size, proof)


def set_metadata(store: Bucket, stored: Stored, metadata: Mapping[str, str], pace: Pace) -> Stored:
    """Give an object other metadata, its crc32c included: S3 copies it onto itself."""
    try:
        return copy(store, stored, store, stored.key, TransferOptions(pace), metadata).stored
    except StoreError as error:
        # Perhaps it was copied and the answer was lost: an object in parts gets another ETag.
        there = store.stat(stored.key) if error.kind == "exists" else None
        if there is None or there.may_be_wrong or not metadata.items() <= there.metadata.items():
            raise
        return there


def _copy_in_parts(
    source: Bucket,
    stored: Stored,
    target: Bucket,
    key: str,
    metadata: Mapping[str, str] | None,
    options: TransferOptions,
) -> None:
    plan, tags = plan_copy(stored.size), {}
    if not target.config.tags:  # a copy in parts does not copy tags by itself
        try:
            tags = source.tags(stored.key)
        except StoreError as error:
            if error.kind not in ("denied", "unsupported"):
                raise
            options.events("fallback", text=f"{error}; its copy gets no tags")
    # No checksum tells what the parts are that a killed run has left of such a copy.
    with suppress(DsprepError):  # listing uploads takes a right that copying does not need
        for begun in target.list_uploads(key):
            there = target.parts(begun) if begun.key == key else None
            if there is not None and fits(plan, there):
                target.abort(begun)
    said = stored.metadata if metadata is None else metadata
    upload = target.create_upload(key, said, stored.headers, tags)

    def move(part: Range) -> UploadPart:
        options.pace.check()
        return target.copy_part(upload, part.number, source.bucket, stored, part.start, part.size)

    try:
        parts = options.pace.each(move, plan)
        target.complete(upload, parts, stored.size, stored.any_crc32c)
    except BaseException:
        with suppress(DsprepError):
            target.abort(upload)
        raise


def _proof(old: Stored, new: Stored | None) -> str:
    """Return what proves that two objects are the same; empty if they are not."""
    if new is None or new.size != old.size:
        return ""
    if old.crc32c is not None and new.crc32c is not None:
        return "crc32c" if old.crc32c == new.crc32c else ""
    if old.etag and old.etag == new.etag:
        return "md5"
    if old.md5 is not None and new.md5 is not None:
        return ""
    if new.crc32c is not None and old.any_crc32c is not None:
        return "crc32c" if old.any_crc32c == new.crc32c else ""
    return "size"


def require_rights(store: Bucket, prefix: str, *, deleting: bool = False) -> None:
    """Check before the first byte goes that objects below a prefix can be stored."""
    # Probes that killed runs have left behind are aborted, too.
    store.abort(_begin(store, prefix))
    with suppress(StoreError):  # listing uploads takes a right that uploading does not need
        for upload in store.list_uploads(prefix + _PROBE):
            store.abort(upload)
    if deleting:
        # the object does not exist: deleting it tests the right
        for error in store.delete([prefix + _PROBE]).values():
            raise error


def probe(store: Bucket, prefix: str) -> Upload:
    """Begin an upload, return what a listing reports about it, and abort it."""
    begun = _begin(store, prefix)
    try:
        for found in store.list_uploads(begun.key):
            if found.id == begun.id:
                return found
    finally:
        store.abort(begun)
    raise StoreError(f"{store.url(prefix)}: the server does not list uploads that are not finished")


def _begin(store: Bucket, prefix: str) -> Upload:
    """Begin an upload; name the options of new objects if S3 may have refused one of them."""
    try:
        return store.retried(lambda _: store.create_upload(prefix + _PROBE, {}))
    except StoreError as error:
        config = store.config
        options = {
            "--storage-class": [config.storage_class],
            "--acl": [config.acl],
            "--sse": [config.sse],
            "--sse-kms-key-id": [config.kms_key],
            "--tag": [f"{name}={value}" for name, value in config.tags.items()],
            "--metadata": [f"{name}={value}" for name, value in config.metadata.items()],
        }
        given = [f"{name} {text}" for name, texts in options.items() for text in texts if text]
        if not given or error.kind not in ("other", "denied", "unsupported"):
            raise
        message = f"{error}; what is refused may be an option: {' '.join(given)}"
        raise type(error)(message, error.kind) from None

"""One object to another, copied by the server: its bytes do not come through here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dsprep.errors import DsprepError, StoreError
from dsprep.storage.checksums import CRC32C, crc32c_of, is_made_of, said_crc32c
from dsprep.storage.pool import Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.store import Part, Stored, Upload
from dsprep.storage.transfer import Events, PartPlan, Range, plan_copy


@dataclass(frozen=True)
class Copied:
    """An object that was copied."""

    stored: Stored  # the copy
    size: int  # in bytes
    moved: int  # bytes that the server copied
    parts: int  # how many requests it took
    # what proves that it is a copy: its `crc32c`, its `md5`, or that the server said so and the
    # `size` is the same
    proof: str


def copy(
    source: S3Store,
    key: str,
    target: S3Store,
    new_key: str,
    *,
    metadata: Mapping[str, str] | None = None,
    pace: Pace | None = None,
    events: Events | None = None,
) -> Copied:
    """Let the server copy an object, within a bucket or between two that it both has.

    Several threads may call it with one `Pace`, but not those of `Pace.each`.
    """
    own, told = pace or Pace(), events or Events()
    try:
        stored = source.stat(key)
        if stored is None:
            raise StoreError(f"{source.url(key)}: is not there", "missing")
        plan = plan_copy(stored.size)
        if metadata is None and target.config.metadata:
            metadata = stored.metadata
        name = target.url(new_key)
        told.begin(name, stored.size, len(plan))
        if len(plan) == 1:
            with own.slots:
                target.copy(source.bucket, stored, new_key, metadata)
        else:
            said = stored.metadata if metadata is None else metadata
            _take_back(target, new_key, plan)
            tags = {} if target.config.tags else _tags(source, key, told)
            upload = target.create_upload(new_key, said, stored.headers, tags)
            _in_parts(source.bucket, stored, target, upload, plan, own)
        told.moved(name, stored.size)
        there = target.stat(new_key)
        proof = _proof(stored, there)
        if there is None or not proof:
            raise StoreError(
                f"{name}: is not the same as {source.url(key)} after copying", "damaged"
            )
        told.end(name, stored.size, proof)
        return Copied(there, there.size, there.size, len(plan), proof)
    finally:
        if pace is None:
            own.close()


def set_metadata(store: S3Store, key: str, metadata: Mapping[str, str], pace: Pace) -> Stored:
    """Give an object other metadata, its crc32c included: S3 copies it onto itself."""
    try:
        return copy(store, key, store, key, metadata=metadata, pace=pace).stored
    except StoreError as error:
        # Perhaps it was copied and the answer was lost: an object in parts gets another ETag.
        there = store.stat(key) if error.kind == "exists" else None
        if (
            there is None
            or crc32c_of(there) != said_crc32c(metadata)
            or not metadata.items() <= there.metadata.items()
        ):
            raise
        return there


def _tags(store: S3Store, key: str, told: Events) -> dict[str, str]:
    """Return the tags of an object, which a copy in parts does not get by itself."""
    try:
        return store.tags(key)
    except StoreError as error:
        if error.kind not in ("denied", "unsupported"):
            raise
        told.fallback(f"{error}; its copy gets no tags")
        return {}


def _in_parts(
    bucket: str, stored: Stored, target: S3Store, upload: Upload, plan: PartPlan, pace: Pace
) -> None:
    def move(part: Range) -> Part:
        pace.check()
        return target.copy_part(upload, part.number, bucket, stored, part.start, part.size)

    try:
        _complete(target, upload, pace.each(move, plan), stored)
    except BaseException:
        with suppress(DsprepError):
            target.abort(upload)
        raise


def _complete(store: S3Store, upload: Upload, parts: Sequence[Part], stored: Stored) -> None:
    try:
        store.complete(upload, parts, stored.size, crc32c_of(stored))
    except StoreError as error:
        # Perhaps it was completed, and the answer was lost.
        there = store.stat(upload.key) if error.kind == "gone" else None
        same = _proof(stored, there) in ("crc32c", "md5")
        if not same and (there is None or not is_made_of(there, parts)):
            raise


def _take_back(store: S3Store, key: str, plan: PartPlan) -> None:
    """Abort what a killed run has left of such a copy: no checksum tells what its parts are."""
    with suppress(DsprepError):  # it takes rights that copying can do without
        for page in store.list_uploads(key):
            for upload in page:
                parts = store.parts(upload) if upload.key == key else None
                if parts is not None and plan.fits((part.number, part.size) for part in parts):
                    store.abort(upload)


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
    if new.crc32c is not None and CRC32C in old.metadata:
        return "crc32c" if crc32c_of(old) == new.crc32c else ""
    return "size"

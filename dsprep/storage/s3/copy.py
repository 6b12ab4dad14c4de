"""One object to another, copied by the server: its bytes do not come through here."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from dsprep.errors import DsprepError, StoreError
from dsprep.storage.checksums import CRC32C, crc32c_of, is_made_of, said_crc32c
from dsprep.storage.pool import Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.store import Part, Stored
from dsprep.storage.transfer import Events, Range, TransferOptions, Transferred, fits, plan_copy


def copy(
    source: S3Store,
    key: str,
    target: S3Store,
    new_key: str,
    options: TransferOptions,
    metadata: Mapping[str, str] | None = None,
) -> Transferred:
    """Let the server copy an object, within a bucket or between two that it both has."""
    stored = source.stat(key)
    if stored is None:
        raise StoreError(f"{source.url(key)}: is not there", "missing")
    parts, name = len(plan_copy(stored.size)), target.url(new_key)
    if metadata is None and target.config.metadata:
        metadata = stored.metadata
    options.events.begin(name, stored.size, parts)
    if parts == 1:
        with options.pace.slots:
            target.copy(source.bucket, stored, new_key, metadata)
    else:
        said = stored.metadata if metadata is None else metadata
        tags = {} if target.config.tags else _tags(source, key, options.events)
        _in_parts(source.bucket, stored, target, new_key, said, tags, options.pace)
    options.events.moved(name, stored.size)
    there = target.stat(new_key)
    proof = _proof(stored, there)
    if there is None or not proof:
        raise StoreError(f"{name}: is not the same as {source.url(key)} after copying", "damaged")
    options.events.end(name, stored.size, proof)
    return Transferred(there, crc32c_of(there), parts, 0, there.size, proof)


def set_metadata(store: S3Store, key: str, metadata: Mapping[str, str], pace: Pace) -> Stored:
    """Give an object other metadata, its crc32c included: S3 copies it onto itself."""
    try:
        return copy(store, key, store, key, TransferOptions(pace), metadata).stored
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


def _tags(store: S3Store, key: str, events: Events) -> dict[str, str]:
    """Return the tags of an object, which a copy in parts does not get by itself."""
    try:
        return store.tags(key)
    except StoreError as error:
        if error.kind not in ("denied", "unsupported"):
            raise
        events.fallback(f"{error}; its copy gets no tags")
        return {}


def _in_parts(
    bucket: str,
    stored: Stored,
    target: S3Store,
    key: str,
    metadata: Mapping[str, str],
    tags: Mapping[str, str],
    pace: Pace,
) -> None:
    plan = plan_copy(stored.size)
    # No checksum tells what the parts are that a killed run has left of such a copy.
    with suppress(DsprepError):  # it takes rights that copying can do without
        for begun in target.list_uploads(key):
            there = target.parts(begun) if begun.key == key else None
            if there is not None and fits(plan, there):
                target.abort(begun)
    upload = target.create_upload(key, metadata, stored.headers, tags)

    def move(part: Range) -> Part:
        pace.check()
        return target.copy_part(upload, part.number, bucket, stored, part.start, part.size)

    try:
        parts = pace.each(move, plan)
        try:
            target.complete(upload, parts, stored.size, crc32c_of(stored))
        except StoreError as error:
            # Perhaps it was completed, and the answer was lost.
            found = target.stat(key) if error.kind == "gone" else None
            same = _proof(stored, found) in ("crc32c", "md5")
            if not same and (found is None or not is_made_of(found, parts)):
                raise
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
    if new.crc32c is not None and CRC32C in old.metadata:
        return "crc32c" if crc32c_of(old) == new.crc32c else ""
    return "size"

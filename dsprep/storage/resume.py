"""What an earlier run has sent of a file, found on the server and compared with the file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dsprep.errors import StoreError
from dsprep.storage.buffers import buffer
from dsprep.storage.checksums import md5
from dsprep.storage.events import Events
from dsprep.storage.parts import PartPlan, Range
from dsprep.storage.pool import Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.steady import SteadyFile
from dsprep.storage.store import Part, Upload


@dataclass(frozen=True)
class Found:
    """An unfinished upload that can be gone on with."""

    upload: Upload  # the upload
    # the parts that are there and right, by number, and the crc32c of each
    parts: dict[int, tuple[Part, int]] = field(default_factory=dict)
    ours: bool = False  # whether it was begun just now, rather than found


def find_upload(
    store: S3Store, key: str, file: SteadyFile, plan: PartPlan, pace: Pace, events: Events
) -> Found | None:
    """Look for an unfinished upload of a file.

    One is taken if all its parts are as large as ours would be; of several, that with most parts.
    Its parts are read from the file and compared; those that differ are sent again.
    """
    best: tuple[Upload, list[Part]] | None = None
    for upload in _unfinished(store, key, events):
        if upload.storage_class != store.storage_class or upload.checksums < bool(store.checksums):
            continue
        parts = all_parts(store, upload)
        if parts is None or not fits(parts, plan):
            continue
        if best is None or len(parts) > len(best[1]):
            best = upload, parts
    if best is None:
        return None
    upload, parts = best
    values = pace.each(lambda part: _same(part, plan[part.number - 1], file), parts)
    return Found(
        upload,
        {
            part.number: (part, value)
            for part, value in zip(parts, values, strict=True)
            if value is not None
        },
    )


def _unfinished(store: S3Store, key: str, events: Events) -> list[Upload]:
    try:
        return [each for page in store.list_uploads(key) for each in page if each.key == key]
    except StoreError as error:
        if error.kind not in ("denied", "unsupported"):
            raise
        events.fallback(f"{error}; what an earlier run has sent of this is sent again")
        return []


def all_parts(store: S3Store, upload: Upload) -> list[Part] | None:
    """The parts of an upload; None if it has just ended."""
    try:
        return [part for page in store.list_parts(upload) for part in page]
    except StoreError as error:
        if error.kind not in ("gone", "missing"):
            raise
        return None


def fits(parts: Iterable[Part], plan: PartPlan) -> bool:
    """Whether parts are as large as those of a plan."""
    return all(
        1 <= part.number <= len(plan) and part.size == plan[part.number - 1].size for part in parts
    )


def _same(part: Part, place: Range, file: SteadyFile) -> int | None:
    """The crc32c of a part, if the server has the bytes that the file has there."""
    data = buffer(place.size)
    value = file.read_into(data, place.start)
    kept = part.checksum
    if kept is not None and kept.algorithm == "crc32c":
        return value if kept.value == value.to_bytes(4, "big") else None
    return value if part.etag == md5(data).hex() else None

"""Uploads that nobody will finish: found, and aborted, as their parts are billed until then."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dsprep.errors import StoreError
from dsprep.storage.base import Upload
from dsprep.storage.bucket import S3Store
from dsprep.storage.preflight import probe


@dataclass(frozen=True)
class Orphan:
    """An unfinished upload."""

    url: str  # what it would have become
    id: str  # the server's name for it
    seconds: float  # how long ago it was begun
    initiator: str  # who began it; empty if the server does not tell
    parts: int  # how many parts are there
    bytes: int  # their size
    aborted: bool  # whether it was thrown away


def abort_uploads(
    store: S3Store, place: str, older_than: float = 0.0, dry_run: bool = False
) -> list[Orphan]:
    """Abort one's own unfinished uploads; those of others are left alone.

    Whose an upload is, the server tells: it is one's own if it has the initiator that an upload
    begun now has. Where the server does not tell, all below the place are taken for one's own. That
    upload tells the server's time, too, by which ages are reckoned.
    """
    below = place if not place or place.endswith("/") else place + "/"
    mine = None if dry_run else probe(store, below)
    now = time.time() if mine is None else mine.initiated
    found = []
    for page in store.list_uploads(place):
        for upload in page:
            meant = upload.key == place or upload.key.startswith(below)
            own = mine is None or upload.initiator == mine.initiator
            if meant and own and now - upload.initiated >= older_than:
                orphan = _orphan(store, upload, now, aborted=not dry_run)
                if orphan is None:
                    continue
                found.append(orphan)
                if not dry_run:
                    store.abort(upload)
    return found


def _orphan(store: S3Store, upload: Upload, now: float, aborted: bool) -> Orphan | None:
    """Look what an upload has; None if it has ended meanwhile."""
    try:
        parts = [part for page in store.list_parts(upload) for part in page]
    except StoreError as error:
        if error.kind in ("gone", "missing"):
            return None
        raise
    return Orphan(
        url=store.url(upload.key),
        id=upload.id,
        seconds=now - upload.initiated,
        initiator=upload.initiator,
        parts=len(parts),
        bytes=sum(part.size for part in parts),
        aborted=aborted,
    )

"""Uploads that nobody will finish: found, and aborted, as their parts are billed until then."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dsprep.stores.base import Upload
from dsprep.stores.bucket import S3Store
from dsprep.transfers.preflight import probe


@dataclass(frozen=True)
class Orphan:
    """An unfinished upload.

    Attributes:
        url: What it would have become.
        id: The server's name for it.
        seconds: How long ago it was begun.
        parts: How many parts are there.
        bytes: Their size.
        aborted: Whether it was thrown away.
    """

    url: str
    id: str
    seconds: float
    parts: int
    bytes: int
    aborted: bool


def clean_uploads(
    store: S3Store, place: str, older_than: float = 0.0, dry_run: bool = False
) -> list[Orphan]:
    """Abort one's own unfinished uploads; those of others are left alone.

    Whose an upload is, the server tells: it is one's own if it has the initiator that an upload
    begun now has. Where the server does not tell, all below the place are taken for one's own.

    Args:
        store: The bucket.
        place: A key, or what is above others; empty for the whole bucket.
        older_than: Seconds; younger ones are left alone, as they may be under way.
        dry_run: Whether they are only listed.

    Raises:
        StoreError: If they may not be listed, or not be aborted.
    """
    below = place if not place or place.endswith("/") else place + "/"
    mine = probe(store, below).initiator
    now = time.time()
    found = []
    for page in store.list_uploads(place):
        for upload in page:
            age = now - upload.initiated
            meant = upload.key == place or upload.key.startswith(below)
            if meant and upload.initiator == mine and age >= older_than:
                found.append(_orphan(store, upload, age, aborted=not dry_run))
                if not dry_run:
                    store.abort(upload)
    return found


def _orphan(store: S3Store, upload: Upload, age: float, aborted: bool) -> Orphan:
    parts = [part for page in store.list_parts(upload) for part in page]
    size = sum(part.size for part in parts)
    return Orphan(store.url(upload.key), upload.id, age, len(parts), size, aborted)

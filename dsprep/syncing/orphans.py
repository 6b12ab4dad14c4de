"""Unfinished uploads: list and abort them, because their parts are billed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.s3.upload import probe
from dsprep.storage.store import Upload


@dataclass(frozen=True)
class Orphan:
    """An unfinished upload."""

    url: str  # of the object
    id: str  # upload id
    seconds: float  # its age
    initiator: str  # who began it; empty if unknown
    parts: int  # uploaded parts
    bytes: int  # their size
    aborted: bool


def abort_uploads(
    store: S3Store, place: str, older_than: float = 0.0, dry_run: bool = False
) -> list[Orphan]:
    """Abort one's own unfinished uploads; those of others are left alone.

    An upload is one's own if its initiator is that of an upload begun now, which also shows the
    server's time. If the server names no initiators, all uploads below the place are one's own.
    """
    below = place if not place or place.endswith("/") else place + "/"
    mine = None if dry_run else probe(store, below)
    now = time.time() if mine is None else mine.initiated
    found = []
    for upload in store.list_uploads(place):
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
    """Describe an upload; None if it has ended meanwhile."""
    parts = store.parts(upload)
    if parts is None:
        return None
    return Orphan(
        url=store.url(upload.key),
        id=upload.id,
        seconds=now - upload.initiated,
        initiator=upload.initiator,
        parts=len(parts),
        bytes=sum(part.size for part in parts),
        aborted=aborted,
    )

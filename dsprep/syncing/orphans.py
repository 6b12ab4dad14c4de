"""Unfinished uploads: list and abort them, because their parts are billed."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from dsprep.arguments import AnyPath, public
from dsprep.errors import DestinationStoreError
from dsprep.storage.location import parse_url
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.s3.config import S3Config
from dsprep.storage.s3.upload import probe


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


@public
def clean_uploads(
    place: AnyPath, older_than: float = 0.0, dry_run: bool = False, config: S3Config | None = None
) -> list[Orphan]:
    """Abort one's own unfinished uploads; those of others are left alone.

    Args:
        place: ``s3://bucket/prefix``.
        older_than: Seconds.
        dry_run: Whether they are only listed.
        config: How S3 is reached.

    Raises:
        OptionError: If it is not on S3.
        StoreError: If it is refused.
    """
    url = parse_url(place)
    with closing(S3Store(url.bucket, config, role=DestinationStoreError)) as store:
        return abort_uploads(store, url.key, older_than, dry_run)


def abort_uploads(
    store: S3Store, place: str, older_than: float = 0.0, dry_run: bool = False
) -> list[Orphan]:
    """Abort one's own unfinished uploads.

    An upload is one's own if its initiator is that of an upload begun now, which also shows the
    server's time. If the server names no initiators, all uploads below the place are one's own.
    """
    below = place if not place or place.endswith("/") else place + "/"
    mine = None if dry_run else probe(store, below)
    now = time.time() if mine is None else mine.initiated
    found = []
    for upload in store.list_uploads(place):
        is_below = upload.key == place or upload.key.startswith(below)
        is_own = mine is None or upload.initiator == mine.initiator
        age = now - upload.initiated
        if not (is_below and is_own and age >= older_than):
            continue
        parts = store.parts(upload)
        if parts is None:  # it has ended meanwhile
            continue
        size, url = sum(part.size for part in parts), store.url(upload.key)
        found.append(
            Orphan(url, upload.id, age, upload.initiator, len(parts), size, aborted=not dry_run)
        )
        if not dry_run:
            store.abort(upload)
    return found

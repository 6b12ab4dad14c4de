"""A manifest on S3: stored in the place of the one that was seen there, or of none."""

from __future__ import annotations

from dsprep.errors import DestinationError, StoreError
from dsprep.storage.bucket import S3Store


def publish(store: S3Store, key: str, data: bytes, etag: str = "") -> None:
    """Store a manifest, unless somebody else has published one meanwhile."""
    try:
        store.put(key, data, new=not etag, etag=etag)
    except StoreError as error:
        if error.kind != "exists":
            raise
        raise DestinationError(
            f"{store.url(key)}: another run has published a manifest there meanwhile; "
            "look which of the two data sets is to stay, and give the command again"
        ) from None

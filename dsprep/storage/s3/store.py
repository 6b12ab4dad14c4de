"""S3 as a store: a bucket, whose files are moved in parts."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Self

from dsprep.storage.location import parse_url
from dsprep.storage.s3 import download, upload
from dsprep.storage.s3.bucket import Bucket
from dsprep.storage.s3.config import Retries, S3Config, tell_retry
from dsprep.storage.store import Store
from dsprep.storage.stored import Events, Stored
from dsprep.storage.transfer import TransferOptions, Transferred


class S3Store(Bucket):
    """A bucket on S3, as `Store` has it."""

    def hurried(self, seconds: float) -> S3Store:
        """Return a client with connections of its own that gives up soon."""
        config = replace(self.config, read_timeout=seconds)
        return S3Store(self.bucket, config, retries=Retries(attempts=2), role=self._role)

    def for_run(self, wait: Callable[[float], object], events: Events, connections: int) -> Self:
        config = replace(self.config, connections=connections)
        own = type(self)(self.bucket, config, wait=wait, events=events, role=self._role)
        own.connect()
        return own

    def require_rights(self, prefix: str, *, deleting: bool = False) -> None:
        upload.require_rights(self, prefix, deleting=deleting)

    def abort_uploads(self, prefix: str, keys: Collection[str]) -> None:
        for unfinished in self.list_uploads(prefix):
            if unfinished.key in keys:
                self.abort(unfinished)

    def send_file(
        self, path: Path, key: str, options: TransferOptions, crc32c: int | None = None
    ) -> Transferred:
        return upload.upload(path, self, key, options, crc32c)

    def fetch_file(
        self,
        key: str,
        path: Path,
        options: TransferOptions,
        listed: Stored | None = None,
        crc32c: int | None = None,
    ) -> Transferred:
        return download.download(self, key, path, options, listed, crc32c)

    def copy_file(
        self, source: Store, stored: Stored, key: str, options: TransferOptions
    ) -> Transferred:
        """Let the server copy an object; what lies elsewhere is fetched and sent."""
        if isinstance(source, S3Store):
            return upload.copy(source, stored, self, key, options)
        return super().copy_file(source, stored, key, options)


_stores: dict[str, S3Store] = {}
_naming = Lock()


def store_at(url: str) -> tuple[S3Store, str]:
    """Return the bucket of an address, not connected yet, and the key."""
    bucket, key = parse_url(url)
    return bucket_of(bucket), key


def bucket_of(bucket: str) -> S3Store:
    """Return the client of a bucket that all threads of this process share."""
    # A worker connects itself, so its tasks hold no secret.
    with _naming:
        if bucket not in _stores:
            _stores[bucket] = S3Store(bucket, events=tell_retry)
            atexit.register(_stores[bucket].close)
        return _stores[bucket]


def with_config(store: Store, config: S3Config | None) -> Store:
    """Return a bucket on S3 with options of its own; other stores have none of these options."""
    if config is None or not isinstance(store, S3Store):
        return store
    return S3Store(store.bucket, config)

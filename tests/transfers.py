"""What tests of transfers share: stores that lose no time, files, and somebody who listens."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

from dsprep.storage.pool import Pace
from dsprep.storage.s3 import download as downloading
from dsprep.storage.s3 import upload as uploading
from dsprep.storage.s3.config import Retries, S3Config
from dsprep.storage.s3.store import S3Store
from dsprep.storage.stored import Events, Stored, ignore
from dsprep.storage.transfer import TransferOptions, Transferred
from tests.servers.bucket import Bucket

MIB = 1 << 20
PART = 5 * MIB

AT_ONCE = Retries(attempts=4, first=0.01, longest=0.05)


def store_of(bucket: Bucket, endpoint: str = "", events: Events = ignore, **config: Any) -> S3Store:
    """The bucket, perhaps reached by another way."""
    return S3Store(
        bucket.name,
        S3Config(endpoint=endpoint or bucket.endpoint, **config),
        retries=AT_ONCE,
        events=events,
    )


def upload(
    path: Path, store: S3Store, key: str, *, crc32c: int | None = None, **options: Any
) -> Transferred:
    """Upload a file with these options, some threads by default."""
    return uploading.upload(path, store, key, _options(**options), crc32c)


def download(
    store: S3Store,
    key: str,
    path: Path,
    *,
    listed: Stored | None = None,
    crc32c: int | None = None,
    **options: Any,
) -> Transferred:
    """Download an object with these options, some threads by default."""
    return downloading.download(store, key, path, _options(**options), listed, crc32c)


def copy(source: S3Store, key: str, target: S3Store, new_key: str) -> Transferred:
    """Copy an object."""
    stored = source.stat(key)
    assert stored is not None
    return uploading.copy(source, stored, target, new_key, _options())


def _options(pace: Pace | None = None, **options: Any) -> TransferOptions:
    return TransferOptions(pace or Pace(), **options)


def data_of(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def file_of(path: Path, size: int, seed: int = 0) -> bytes:
    """Write a file of random bytes; returns them."""
    data = data_of(size, seed)
    path.write_bytes(data)
    return data


class Listener:
    """Keeps what it hears: ``("part", "s3://…", 3)``."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self._lock = threading.Lock()

    def __call__(self, event: str, **facts: Any) -> None:
        with self._lock:
            self.heard.append((event, *facts.values()))

    def all(self, kind: str) -> list[tuple[Any, ...]]:
        """What was heard of one kind."""
        return [what[1:] for what in self.heard if what[0] == kind]

    def bytes(self) -> int:
        """Bytes that went, without those in vain."""
        return sum(size for _, size in self.all("moved"))

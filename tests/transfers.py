"""What tests of transfers share: stores that lose no time, files, and somebody who listens."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

from dsprep.storage.pool import Pace
from dsprep.storage.s3 import download as downloading
from dsprep.storage.s3 import upload as uploading
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.s3.config import Retries, S3Config
from dsprep.storage.store import Stored
from dsprep.storage.transfer import Events, TransferOptions, Transferred
from tests.servers.bucket import Bucket

MIB = 1 << 20
PART = 5 * MIB

AT_ONCE = Retries(attempts=4, first=0.01, longest=0.05)


def store_of(
    bucket: Bucket, endpoint: str = "", events: Events | None = None, **config: Any
) -> S3Store:
    """The bucket, perhaps reached by another way."""
    told = events or Events()
    return S3Store(
        bucket.name,
        S3Config(endpoint=endpoint or bucket.endpoint, **config),
        retries=AT_ONCE,
        on_retry=told.retry,
        on_fallback=told.fallback,
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
    return uploading.copy(source, key, target, new_key, _options())


def _options(pace: Pace | None = None, **options: Any) -> TransferOptions:
    return TransferOptions(pace or Pace(), **options)


def data_of(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def file_of(path: Path, size: int, seed: int = 0) -> bytes:
    """Write a file of random bytes; returns them."""
    data = data_of(size, seed)
    path.write_bytes(data)
    return data


class Listener(Events):
    """Keeps what it hears: ``("part", "s3://…", 3)``."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self._lock = threading.Lock()

    def _hear(self, *what: Any) -> None:
        with self._lock:
            self.heard.append(what)

    def begin(self, name: str, size: int, parts: int) -> None:
        self._hear("begin", name, size, parts)

    def found(self, name: str, size: int, parts: int) -> None:
        self._hear("found", name, size, parts)

    def moved(self, name: str, size: int) -> None:
        self._hear("moved", name, size)

    def part(self, name: str, number: int) -> None:
        self._hear("part", name, number)

    def end(self, name: str, size: int, proof: str) -> None:
        self._hear("end", name, size, proof)

    def retry(self, error: Exception, delay: float) -> None:
        self._hear("retry", str(error), delay)

    def fallback(self, text: str) -> None:
        self._hear("fallback", text)

    def all(self, kind: str) -> list[tuple[Any, ...]]:
        """What was heard of one kind."""
        return [what[1:] for what in self.heard if what[0] == kind]

    def bytes(self) -> int:
        """Bytes that went, without those in vain."""
        return sum(size for _, size in self.all("moved"))

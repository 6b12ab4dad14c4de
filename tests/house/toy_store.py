"""A store that `test_recipes.py` adds as CONTRIBUTING.md tells: a directory, under ``toy://``."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Self

from dsprep.errors import StoreError
from dsprep.storage.objects import ObjectStore
from dsprep.storage.store import READ_AT_ONCE, Data, StoredBytes
from dsprep.storage.stored import Level, Pages, Progress, Stored, ignore, metadata_of, said_mtime_ns
from dsprep.storage.stored import crc32c as crc32c_of
from dsprep.storage.stored import md5 as md5_of

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class ToyStore(ObjectStore):
    """The files below the directory that TOY_STORE names; the store computes their checksums."""

    name = "a toy store"
    has_etags = True
    longest_key = 1024
    longest_name = 255

    def __init__(self, role: type[StoreError] = StoreError) -> None:
        self._role, self._top = role, Path(os.environ["TOY_STORE"])

    def url(self, key: str) -> str:
        return f"toy://{key}"

    def in_role(self, role: type[StoreError]) -> Self:
        return type(self)(role)

    def stat(self, key: str) -> Stored | None:
        try:
            return self._look(key)[0]
        except _ABSENT:
            return None

    def _look(self, key: str) -> tuple[Stored, bytes]:
        with open(self._top / key, "rb") as file:
            data, status = file.read(), os.fstat(file.fileno())
        value = crc32c_of(data)
        metadata = metadata_of(status.st_mtime_ns, value)
        etag = md5_of(data).hex()
        return Stored(key, len(data), status.st_mtime, etag, value, metadata), data

    def list(self, prefix: str = "") -> Pages:
        paths = (
            os.path.join(above, name) for above, _, names in os.walk(self._top) for name in names
        )
        keys = (os.path.relpath(path, self._top) for path in paths)
        found = sorted((key for key in keys if key.startswith(prefix)), key=os.fsencode)
        yield [stored for stored in map(self.stat, found) if stored is not None]

    def levels(self, prefix: str) -> Iterator[Level]:
        files, deeper = [], dict[str, None]()
        for page in self.list(prefix):
            for stored in page:
                name, slash, _ = stored.key.removeprefix(prefix).partition("/")
                if slash:
                    deeper[f"{prefix}{name}/"] = None
                else:
                    files.append(stored)
        yield Level(files, [*deeper], True)

    def open(
        self, key: str, start: int = 0, size: int | None = None, etag: str = ""
    ) -> closing[ToyBytes]:
        try:
            stored, data = self._look(key)
        except _ABSENT:
            raise self._role(f"{self.url(key)}: is not there", "missing") from None
        if etag not in ("", stored.etag):
            raise self._role(f"{self.url(key)}: has changed", "exists")
        return closing(ToyBytes(stored, data[start : None if size is None else start + size]))

    def put(
        self,
        key: str,
        data: Data,
        *,
        replaces: str | None = None,
        crc32c: int | None = None,
        metadata: Mapping[str, str] | None = None,
        progress: Progress = ignore,
    ) -> Stored:
        final = self._top / key
        descriptor, temporary = tempfile.mkstemp(dir=self._top.parent)
        with open(descriptor, "wb") as file:
            file.write(data)
        mtime_ns = said_mtime_ns(metadata or {})
        if mtime_ns is not None:
            os.utime(temporary, ns=(mtime_ns, mtime_ns))
        with self._alone():
            there = self.stat(key)
            if replaces not in (None, there.etag if there else ""):
                os.unlink(temporary)
                raise self._role(f"{self.url(key)}: is not what was there before", "exists")
            final.parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, final)
            progress(len(data))
            return self._look(key)[0]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        descriptor = os.open(self._top, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def delete(self, keys: Sequence[str]) -> dict[str, StoreError]:
        with self._alone():
            for key in keys:
                path = self._top / key
                with suppress(*_ABSENT):
                    path.unlink()
                with suppress(OSError):  # a directory goes with its last file
                    while (path := path.parent) != self._top:
                        path.rmdir()
        return {}


class ToyBytes(StoredBytes):
    """The bytes of a file, which are in memory."""

    def __init__(self, stored: Stored, data: bytes) -> None:
        self.stored, self._file = stored, BytesIO(data)

    def read(self, size: int = READ_AT_ONCE) -> bytes:
        return self._file.read(min(size, READ_AT_ONCE))

    def read_into(self, buffer: memoryview) -> int:
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()


def store_at(path: str) -> tuple[ToyStore, str]:
    """Return the store of an address, and the key there."""
    return ToyStore(), path.partition("://")[2]

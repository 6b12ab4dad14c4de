"""The disks of this machine as a store. The key of a file is its path.

Methods that one file of fifty thousand passes through make the calls of the system themselves.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import io
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from dsprep.errors import StoreError
from dsprep.opening import GivenPath, began_in, opened
from dsprep.storage.local import (
    LONGEST_NAME,
    advice_on,
    open_regular,
    publish,
    read_expected,
    read_whole,
    sync_path,
)
from dsprep.storage.store import (
    LARGEST,
    READ_AT_ONCE,
    Data,
    DirectoryEntry,
    OpenFile,
    Store,
    StoredBytes,
)
from dsprep.storage.stored import Events, Facts, Level, Pages, Progress, Stored, ignore, metadata_of

if TYPE_CHECKING:
    from dsprep.storage.transfer import TransferOptions, Transferred

_LISTED = 1000  # files of a page of a listing, as S3 has it
_LONGEST_PATH = 4095  # bytes: Linux's PATH_MAX less the zero byte at the end
_KINDS = {
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EROFS: "denied",
}
_Seen: TypeAlias = tuple[int, int]  # the device and the number of a directory


class LocalEntry:
    """What lies in a directory that is opened by another path than the one that was given."""

    def __init__(self, directory: str, entry: os.DirEntry[str]) -> None:
        self.name, self.path = entry.name, os.path.join(directory, entry.name)
        self.is_file, self.is_dir = entry.is_file, entry.is_dir


class LocalFile(io.FileIO, OpenFile):
    """A file on a disk."""

    def __init__(self, path: str) -> None:
        super().__init__(path, opener=open_regular)

    def facts(self) -> Facts:
        status = os.fstat(self.fileno())
        return Facts(status.st_size, status.st_mtime_ns)

    def pread(self, count: int, offset: int) -> bytes:
        return os.pread(self.fileno(), count, offset)

    def ahead(self, offset: int, count: int) -> None:
        """Tell the system that these bytes will be read."""
        os.posix_fadvise(self.fileno(), offset, count, os.POSIX_FADV_WILLNEED)


class LocalStore(Store):
    """The files of this machine, as `Store` has them."""

    name = "a disk"
    takes_requests = False
    is_shared = False
    has_directories = True
    has_rename = True
    has_locks = True
    has_etags = False
    longest_key = _LONGEST_PATH
    longest_name = LONGEST_NAME

    def __init__(self, role: type[StoreError] = StoreError) -> None:
        self._role = role

    def path(self, key: str) -> str | None:
        return opened(key)

    def url(self, key: str) -> str:
        return key

    def canonical(self, key: str) -> str:
        return os.path.realpath(opened(key))

    def in_role(self, role: type[StoreError]) -> Self:
        other = copy(self)
        other._role = role
        return other

    def hurried(self, seconds: float) -> Self:
        return self

    def for_run(self, wait: Callable[[float], object], events: Events, connections: int) -> Self:
        return self

    def close(self) -> None:
        """Release connections: there are none."""

    def stat(self, key: str) -> Stored | None:
        try:
            status = os.stat(opened(key))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unreadable(key, error) from None
        return _looked_up(key, status) if stat.S_ISREG(status.st_mode) else None

    def list(self, prefix: str = "") -> Pages:
        """List all files; links are followed, except in circles and to what is not there."""
        page: list[Stored] = []
        above = set[_Seen]()
        with suppress(OSError):  # `_level` says what is wrong
            status = os.stat(opened(os.path.dirname(prefix) or "."))
            above.add((status.st_dev, status.st_ino))
        for stored in self._walk(prefix, frozenset(above)):
            page.append(stored)
            if len(page) == _LISTED:
                yield page
                page = []
        yield page

    def levels(self, prefix: str) -> Iterator[Level]:
        files, deeper = [], []
        for key, status in self._level(prefix):
            if stat.S_ISDIR(status.st_mode):
                deeper.append(key)
            else:
                files.append(_stored(key, status))
        yield Level(files, deeper, True)

    def _walk(self, prefix: str, above: frozenset[_Seen]) -> Iterator[Stored]:
        for key, status in self._level(prefix):
            seen = (status.st_dev, status.st_ino)
            if not stat.S_ISDIR(status.st_mode):
                yield _stored(key, status)
            elif seen not in above:
                yield from self._walk(key, above | {seen})

    def _level(self, prefix: str) -> Sequence[tuple[str, os.stat_result]]:
        """Return files, and directories with a slash at the end, in the order of a listing."""
        directory, slash, begin = prefix.rpartition("/")
        found = []
        try:
            with os.scandir(opened(directory + slash or ".")) as scanned:
                for entry in scanned:
                    if entry.name.startswith(begin):
                        # the entry is a broken link, or was just deleted
                        with suppress(FileNotFoundError):
                            found.append((entry.name, entry.stat()))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._unreadable(directory, error) from None
        keys = [
            (f"{directory}{slash}{name}{'/' if stat.S_ISDIR(status.st_mode) else ''}", status)
            for name, status in found
            if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
        ]
        return sorted(keys, key=lambda each: os.fsencode(each[0]))

    def open(
        self, key: str, start: int = 0, size: int | None = None, etag: str = ""
    ) -> closing[LocalReading]:
        try:
            reading = LocalReading(key, start, size)
        except OSError as error:
            raise self._unreadable(key, error) from None
        if etag and reading.stored.etag != etag:
            reading.close()
            raise self._role(f"{key}: has changed since it was looked at", "exists")
        return closing(reading)

    def read(self, key: str, limit: int = LARGEST) -> tuple[bytes, Stored]:
        with self.open(key) as reading:
            return reading.read_all(limit), reading.stored

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
        """Store a small file. A disk keeps neither its checksum nor metadata."""
        from dsprep.storage.copying import hidden_beside

        final = GivenPath(key)
        temporary = hidden_beside(final)
        with self._writing(key):
            final.parent.mkdir(parents=True, exist_ok=True)
            try:
                temporary.write_bytes(data)
                sync_path(temporary)
                stored = _stored(key, temporary.stat())
                if replaces is None:
                    temporary.replace(final)
                else:
                    with _locked(final.parent):
                        self._require(key, replaces)
                        temporary.replace(final)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            sync_path(final.parent)
        progress(len(data))
        return stored

    def _require(self, key: str, etag: str) -> None:
        """Refuse a file that is not the one with this ETag; an empty ETag stands for no file."""
        there = self.stat(key)
        if (there.etag if there else "") != etag:
            raise self._role(f"{key}: is not what was there before", "exists")

    def delete(self, keys: Sequence[str]) -> dict[str, StoreError]:
        refused = {}
        for key in keys:
            try:
                os.unlink(opened(key))
            except (FileNotFoundError, NotADirectoryError):
                pass
            except OSError as error:
                refused[key] = self._role(
                    f"{key}: cannot be deleted ({error.strerror})", _kind(error)
                )
        return refused

    def require_rights(self, prefix: str, *, deleting: bool = False) -> None:
        """Refuse nothing now: who may not write finds out with the first file."""

    def abort_uploads(self, prefix: str, keys: Collection[str]) -> None:
        """Abort nothing: there are no uploads in parts."""

    def send_file(
        self, path: Path, key: str, options: TransferOptions, crc32c: int | None = None
    ) -> Transferred:
        return LOCAL.fetch_file(str(path), GivenPath(key), options, None, crc32c)

    def take_file(
        self, path: Path, key: str, options: TransferOptions, crc32c: int | None = None
    ) -> Transferred:
        """Rename a temporary file that lies on the same disk, when its bytes are on the disk."""
        from dsprep.storage.transfer import Transferred

        publish(path, GivenPath(key))
        with self._writing(key):
            stored = _stored(key, os.stat(opened(key)))
        return Transferred(stored, crc32c, 1, 0, stored.size, "size")

    def fetch_file(
        self,
        key: str,
        path: Path,
        options: TransferOptions,
        listed: Stored | None = None,
        crc32c: int | None = None,
    ) -> Transferred:
        from dsprep.storage.copying import fetch_whole

        return fetch_whole(self, key, path, options, listed, crc32c)

    def copy_file(
        self, source: Store, stored: Stored, key: str, options: TransferOptions
    ) -> Transferred:
        return source.fetch_file(stored.key, GivenPath(key), options, stored)

    def exists(self, key: str) -> bool:
        return os.path.lexists(opened(key))

    def is_file(self, key: str) -> bool:
        return os.path.isfile(opened(key))

    def is_dir(self, key: str) -> bool:
        return os.path.isdir(opened(key))

    def facts(self, key: str) -> Facts:
        status = os.stat(opened(key))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", key)
        return Facts(status.st_size, status.st_mtime_ns)

    def entries(self, key: str, below: str) -> Iterator[DirectoryEntry]:
        full = opened(key)
        with os.scandir(full) as scanned:
            if full == below:
                yield from scanned
            else:
                yield from (LocalEntry(below, entry) for entry in scanned)

    def find(self, pattern: str) -> Sequence[str]:
        return sorted(glob.glob(pattern, root_dir=began_in(), recursive=True))

    def read_file(self, key: str, limit: int = LARGEST) -> bytes:
        return read_whole(key, limit)

    def read_sized(self, key: str, size: int) -> bytes | None:
        fd = os.open(opened(key), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            data = read_expected(fd, size)
        finally:
            os.close(fd)
        return data if len(data) == size else None

    def open_file(self, key: str) -> LocalFile:
        return LocalFile(key)

    def _unreadable(self, key: str, error: OSError) -> StoreError:
        return self._role(f"{key}: cannot be read ({error.strerror})", _kind(error))

    @contextmanager
    def _writing(self, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            advice = advice_on(error)
            raise self._role(f"{key}: cannot be written: {advice}", _kind(error)) from None


class LocalReading(StoredBytes):
    """The bytes of a file on a disk, or of a range of it."""

    def __init__(self, key: str, start: int, size: int | None) -> None:
        self._fd = open_regular(key)
        self.stored = _looked_up(key, os.fstat(self._fd))
        total = self.stored.size
        self._left = max(0, (total if size is None else min(start + size, total)) - start)
        os.lseek(self._fd, start, os.SEEK_SET)

    def read(self, size: int = READ_AT_ONCE) -> bytes:
        data = os.read(self._fd, min(size, self._left, READ_AT_ONCE))
        self._took(len(data))
        return data

    def read_into(self, buffer: memoryview) -> int:
        count = os.readv(self._fd, [buffer[: self._left]]) if self._left else 0
        self._took(count)
        return count

    def _took(self, count: int) -> None:
        if self._left and not count:
            raise StoreError(f"{self.stored.key}: became shorter while it was read", "exists")
        self._left -= count

    def close(self) -> None:
        os.close(self._fd)


def _stored(key: str, status: os.stat_result) -> Stored:
    # A disk keeps no ETag; this one changes when the file is replaced, or written in place.
    etag = f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"
    return Stored(key, status.st_size, status.st_mtime, etag)


def _looked_up(key: str, status: os.stat_result) -> Stored:
    """Return a file as a listing does, with its exact time of change in the metadata."""
    return _stored(key, status)._replace(metadata=metadata_of(status.st_mtime_ns))


def _kind(error: OSError) -> str:
    return _KINDS.get(error.errno or 0, "other")


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Let only one process at a time replace files of a directory on a condition."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


LOCAL = LocalStore()


def store_at(path: str) -> tuple[LocalStore, str]:
    """Return the store of a path on a disk, and the path."""
    return LOCAL, path

"""The two sides of a sync: a directory, or the objects under a prefix on S3."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Protocol

from dsprep.errors import SourceError, StoreError
from dsprep.run.lease import LEASE
from dsprep.storage.checksums import crc32c, is_whole, known_crc32c, may_be_wrong
from dsprep.storage.local import (
    LONGEST_NAME,
    SCRATCH,
    is_scratch,
    open_regular,
    read_whole,
)
from dsprep.storage.pool import Pace
from dsprep.storage.s3.bucket import S3Store
from dsprep.storage.s3.read import read_back
from dsprep.storage.store import Stored
from dsprep.syncing.compare import Content

# Bytes read and hashed at once: they are still in the processor's cache when they are hashed.
_BLOCK = 1 << 20
_TRIES = 3  # reads of a small object whose bytes do not match its checksum
ROOT = "."  # the path of a failure to list a side at all
_BROKEN = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # errors of a link whose target is missing


@dataclass(frozen=True)
class Left:
    """Something that is left out."""

    path: str  # where it is, relative to its side
    why: str  # the reason


@dataclass
class Listing:
    """What a side holds."""

    files: dict[str, Stored] = field(default_factory=dict)  # by their path, relative to the side
    left: list[Left] = field(default_factory=list)  # what is left out
    # files that could not be read, and directories (with a slash at the end) that could not be
    # listed: their contents are unknown
    unseen: list[Left] = field(default_factory=list)
    linked: set[str] = field(default_factory=set)  # paths of links to directories
    leases: dict[str, Stored] = field(default_factory=dict)  # of running or killed commands
    unfinished: list[str] = field(default_factory=list)  # state of unfinished runs, left out


def lies_in(path: str, places: Collection[str]) -> bool:
    """Return whether a path is one of some places, or below one."""
    while path and path not in places:
        path = path.rpartition("/")[0]
    return bool(path)


class Side(Protocol):
    """A location that files are synced from or to."""

    def name(self, path: str) -> str:
        """Return a file's name for messages."""

    def list(self) -> Listing:
        """List all files."""

    def why_empty(self) -> str:
        """Return what to say if there are no files."""

    def read(self, path: str) -> bytes:
        """Read a small file."""

    def content(self, file: Stored, crc32c: int | None) -> Content:
        """Return what compares a file's contents; ``crc32c`` is that in a manifest."""


@dataclass(frozen=True)
class Directory:
    """A directory, or one file."""

    root: Path  # the directory
    single: str | None = None  # the only file in it that takes part; None for all
    follow: bool = True  # whether links are followed
    pace: Pace = field(default_factory=Pace)  # stops reading

    def name(self, path: str) -> str:
        """Return its path."""
        return str(self.root / path)

    def path(self, path: str) -> Path:
        """Return its path."""
        return self.root / path

    def list(self) -> Listing:
        """List the files below the directory; none if it does not exist."""
        found = Listing()
        try:
            if self.single is not None:
                found.files[self.single] = _stored(self.single, self.path(self.single).stat())
                return found
            real = self.root.stat()
        except FileNotFoundError:
            return found
        except OSError as error:
            found.unseen.append(Left(ROOT, f"cannot be looked at ({error.strerror})"))
            return found
        self._walk("", found, {(real.st_dev, real.st_ino)})
        return found

    def _walk(self, below: str, found: Listing, above: set[tuple[int, int]]) -> None:
        try:
            with os.scandir(self.root / below) as scanned:
                entries = sorted(scanned, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            path = f"{below}/" if below else ROOT
            found.unseen.append(Left(path, f"cannot be listed ({error.strerror})"))
            return
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if is_scratch(entry.name):
                found.unfinished.append(path)
            elif not _is_text(entry.name):
                found.left.append(Left(path, "its name is not UTF-8, as keys have to be"))
            elif entry.is_symlink() and not self.follow:
                found.left.append(Left(path, "is a link (--no-follow-symlinks)"))
            else:
                self._add(entry, path, found, above)

    def _add(
        self, entry: os.DirEntry[str], path: str, found: Listing, above: set[tuple[int, int]]
    ) -> None:
        try:
            status = entry.stat()
        except OSError as error:
            if entry.is_symlink() and error.errno in _BROKEN:
                found.left.append(Left(path, "is a link to what is not there"))
            elif error.errno == errno.ENOENT:
                found.left.append(Left(path, "was deleted just now"))
            else:
                found.unseen.append(Left(path, f"cannot be looked at ({error.strerror})"))
            return
        if stat.S_ISREG(status.st_mode):
            found.files[path] = _stored(path, status)
        elif not stat.S_ISDIR(status.st_mode):
            found.left.append(Left(path, "is neither a file nor a directory"))
        elif (status.st_dev, status.st_ino) in above:
            found.left.append(Left(path, "is a link to a directory that it is in"))
        else:
            if entry.is_symlink():
                found.linked.add(path)
            self._walk(path, found, above | {(status.st_dev, status.st_ino)})

    def why_empty(self) -> str:
        """Return what to say if there are no files."""
        return "holds nothing"

    def read(self, path: str) -> bytes:
        """Read a small file."""
        try:
            return read_whole(self.path(path))
        except FileNotFoundError:
            raise StoreError(f"{self.path(path)}: is not there", "missing") from None
        except OSError as error:
            raise SourceError(f"{self.path(path)}: cannot be read ({error.strerror})") from None

    def content(self, file: Stored, crc32c: int | None) -> Content:
        """Compare by reading the file."""
        return _ReadContent(self.path(file.key), crc32c, self.pace)


@dataclass(frozen=True)
class Prefix:
    """The objects whose keys begin with a prefix."""

    store: S3Store  # their bucket
    prefix: str  # empty, or ending with a slash
    to_files: bool = False  # whether keys that cannot be file names are left out
    pace: Pace = field(default_factory=Pace)  # the threads that read, and what holds them back

    def name(self, path: str) -> str:
        """Return its URL."""
        return self.store.url(self.key(path))

    def key(self, path: str) -> str:
        """Return its key."""
        return self.prefix + path

    def list(self) -> Listing:
        """List the objects under the prefix."""
        found = Listing()
        for page in self.store.list(self.prefix):
            for stored in page:
                self._add(stored, found)
        return found

    def _add(self, stored: Stored, found: Listing) -> None:
        path = stored.key[len(self.prefix) :]
        why = unfit(path) if self.to_files else ""
        if is_scratch(path):
            if path.endswith(f"{SCRATCH}/{LEASE}"):
                found.leases[path] = stored
            return
        if path.endswith("/") and not stored.size:
            return  # S3 consoles make such objects for directories
        if why or not path:
            found.left.append(Left(path or stored.key, why or "is the prefix itself"))
        else:
            found.files[path] = stored

    def why_empty(self) -> str:
        """Return what to say if there are no files."""
        above, _, name = self.prefix.rstrip("/").rpartition("/")
        if not name or self.store.stat(self.prefix.rstrip("/")) is None:
            return "holds nothing"
        place = self.store.url(above and above + "/")
        return (
            f"is an object; for it alone, sync {place} with --exclude '*' --include {quote(name)}"
        )

    def read(self, path: str) -> bytes:
        """Read a small object, again if the bytes do not match its checksum."""
        for _ in range(_TRIES):
            data, stored = self.store.read(self.key(path))
            if is_whole(data, stored):
                return data
        raise StoreError(
            f"{self.name(path)}: the bytes do not match the crc32c or MD5 that is stored there",
            "damaged",
        )

    def content(self, file: Stored, crc32c: int | None) -> Content:
        """Compare by what S3 keeps about the object."""
        return _AskedContent(file, self.store, self.pace)


def unfit(path: str) -> str:
    """Return why a key cannot be the path of a file; empty if it can."""
    names = path.split("/")
    if path.startswith("/") or ".." in names or "." in names or "" in names:
        return "would not be a path below the directory"
    if "\0" in path:
        return "holds a zero byte"
    if any(len(name.encode()) > LONGEST_NAME for name in names):
        return f"holds a name of more than {LONGEST_NAME} bytes"
    return ""


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stored(path: str, status: os.stat_result) -> Stored:
    return Stored(path, status.st_size, status.st_mtime)


@dataclass(frozen=True)
class _ReadContent:
    path: Path
    told: int | None
    pace: Pace

    is_read = True
    has_md5 = True
    may_be_wrong = False

    def md5(self) -> bytes:
        digest = hashlib.md5(usedforsecurity=False)
        for data in self.pieces():
            digest.update(data)
        return digest.digest()

    def crc32c(self, told: bool = True) -> tuple[int, str] | None:
        if told and self.told is not None:
            return self.told, "checksum"
        return self.read_crc32c(), "checksum"

    def read_crc32c(self) -> int:
        value = 0
        for data in self.pieces():
            value = crc32c(data, value)
        return value

    def pieces(self) -> Iterator[memoryview]:
        """Yield all bytes, in one buffer that is filled again and again."""
        buffer = memoryview(bytearray(_BLOCK))
        try:
            with open(self.path, "rb", buffering=0, opener=open_regular) as file:
                while got := file.readinto(buffer):
                    self.pace.check()
                    yield buffer[:got]
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read ({error.strerror})") from None


@dataclass(frozen=True)
class _AskedContent:
    stored: Stored
    store: S3Store
    pace: Pace

    is_read = False

    @property
    def has_md5(self) -> bool:
        return self.stored.md5 is not None

    def md5(self) -> bytes:
        assert self.stored.md5 is not None
        return self.stored.md5

    @cached_property
    def looked(self) -> Stored | None:
        return self.store.stat(self.stored.key)

    @property
    def may_be_wrong(self) -> bool:
        return self.looked is not None and may_be_wrong(self.looked)

    def crc32c(self, told: bool = True) -> tuple[int, str] | None:
        return None if self.looked is None else known_crc32c(self.looked)

    def read_crc32c(self) -> int:
        (value,) = read_back(self.store, [self.stored], self.pace)
        if isinstance(value, StoreError):
            raise value
        return value

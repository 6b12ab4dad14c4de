"""The two sides of a sync: a directory, and the objects under a prefix. Listed, and looked into."""

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
from dsprep.storage.base import Stored
from dsprep.storage.bucket import S3Store
from dsprep.storage.crc import crc32c, is_whole
from dsprep.storage.local import (
    LONGEST_NAME,
    SCRATCH,
    is_scratch,
    open_regular,
    read_whole,
)
from dsprep.storage.pace import Pace
from dsprep.storage.proof import known_crc32c, may_be_wrong
from dsprep.storage.readback import read_back, read_small
from dsprep.syncing.compare import Content

_AT_ONCE = 1 << 20
"""Bytes read and hashed at once: they are still in the processor's cache when they are hashed."""

_TRIES = 3
"""How often a small object is read that is not what the store says it is."""

ROOT = "."
"""The path of what is listed, where it cannot be."""

_BROKEN = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""What it means that a link leads nowhere, and not that nobody knows what it leads to."""


@dataclass(frozen=True)
class Left:
    """Something that takes no part."""

    path: str  # where it is, relative to its side
    why: str  # in words


@dataclass
class Listing:
    """What a side holds."""

    files: dict[str, Stored] = field(default_factory=dict)  # by their path, relative to the side
    left: list[Left] = field(default_factory=list)  # what cannot take part, or is not to
    # what could not be looked at, or into, if its path ends with a slash: what lies there is not
    # known
    unseen: list[Left] = field(default_factory=list)
    # paths of links to directories, behind which some of the files lie
    linked: set[str] = field(default_factory=set)
    # of other commands that write there, or did until they were killed, by path
    leases: dict[str, Stored] = field(default_factory=dict)
    # what runs keep in a directory until they are done, which takes no part
    unfinished: list[str] = field(default_factory=list)


def lies_in(path: str, places: Collection[str]) -> bool:
    """Whether a path is one of some places, or below one."""
    while path and path not in places:
        path = path.rpartition("/")[0]
    return bool(path)


class Side(Protocol):
    """A place that files are synced from or to."""

    def name(self, path: str) -> str:
        """What users call a file there."""

    def list(self) -> Listing:
        """Everything that is there."""

    def why_empty(self) -> str:
        """What to say if nothing is there."""

    def read(self, path: str) -> bytes:
        """A small file."""

    def content(self, file: Stored, crc32c: int | None) -> Content:
        """How to learn what a file holds."""


@dataclass(frozen=True)
class Directory:
    """A directory, or one file."""

    root: Path  # the directory
    single: str | None = None  # the name of the file in it that is meant; None for all
    follow: bool = True  # whether links are followed
    pace: Pace = field(default_factory=Pace)  # what ends reading

    def name(self, path: str) -> str:
        """The path that users would give."""
        return str(self.root / path)

    def path(self, path: str) -> Path:
        """Where a file is."""
        return self.root / path

    def list(self) -> Listing:
        """Everything below the directory; nothing, if it is not there."""
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
        """What to say if nothing is there."""
        return "holds nothing"

    def read(self, path: str) -> bytes:
        """A small file."""
        try:
            return read_whole(self.path(path))
        except FileNotFoundError:
            raise StoreError(f"{self.path(path)}: is not there", "missing") from None
        except OSError as error:
            raise SourceError(f"{self.path(path)}: cannot be read ({error.strerror})") from None

    def content(self, file: Stored, crc32c: int | None) -> Content:
        """What a file holds, by reading it."""
        return _ReadContent(self.path(file.key), crc32c, self.pace)


@dataclass(frozen=True)
class Prefix:
    """The objects whose keys begin alike."""

    store: S3Store  # their bucket
    prefix: str  # what they begin with; empty, or ending with a slash
    to_files: bool = False  # whether they are to be files: what can be none is left out
    pace: Pace = field(default_factory=Pace)  # the threads that read, and what holds them back

    def name(self, path: str) -> str:
        """The URL of an object."""
        return self.store.url(self.key(path))

    def key(self, path: str) -> str:
        """The key of an object."""
        return self.prefix + path

    def list(self) -> Listing:
        """Everything under the prefix."""
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
            return  # what consoles show as a directory
        if why or not path:
            found.left.append(Left(path or stored.key, why or "is the prefix itself"))
        else:
            found.files[path] = stored

    def why_empty(self) -> str:
        """What to say if nothing is there."""
        above, _, name = self.prefix.rstrip("/").rpartition("/")
        if not name or self.store.stat(self.prefix.rstrip("/")) is None:
            return "holds nothing"
        place = self.store.url(above and above + "/")
        return (
            f"is an object; for it alone, sync {place} with --exclude '*' --include {quote(name)}"
        )

    def read(self, path: str) -> bytes:
        """A small object; again, if what arrives is not what is stored."""
        for _ in range(_TRIES):
            data, stored = read_small(self.store, self.key(path))
            if is_whole(data, stored):
                return data
        raise StoreError(
            f"{self.name(path)}: what arrives is not what is stored there (crc32c or MD5 differ)",
            "damaged",
        )

    def content(self, file: Stored, crc32c: int | None) -> Content:
        """What an object holds, by asking."""
        return _AskedContent(file, self.store, self.pace)


def unfit(path: str) -> str:
    """Why a key cannot be the path of a file; empty if it can."""
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
        """All bytes, in one buffer that is filled again and again."""
        buffer = memoryview(bytearray(_AT_ONCE))
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

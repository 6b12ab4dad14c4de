"""What a store is: a place for files, a disk or a bucket on S3; and which store a path is in.

A file has a key in its store: its path on a disk, the key of its object in a bucket. Code outside
this room gets a store and a key by `store_of`, and asks a store what it can do, never which one it
is.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from dsprep.errors import DestinationError, StoreError
from dsprep.storage.stored import Events, Facts, Level, Pages, Progress, Stored, ignore
from dsprep.units import format_size

if TYPE_CHECKING:
    from dsprep.storage.transfer import TransferOptions, Transferred

Data = bytes | bytearray | memoryview

READ_AT_ONCE = 1 << 20  # bytes of one read: when a connection breaks, at most these are lost
LARGEST = 1 << 28  # maximum size of a file that is read whole; a manifest of a million shards fits

# The modules of the stores by the scheme of their addresses; each has a function `store_at`.
_MODULES = {
    "": "dsprep.storage.disk",  # paths, which have no scheme
    "s3": "dsprep.storage.s3.store",
}


class DirectoryEntry(Protocol):
    """An entry of a directory, like :class:`os.DirEntry`."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    def is_file(self) -> bool: ...
    def is_dir(self) -> bool: ...


class OpenFile(io.RawIOBase):
    """A file that is open for reading at any offset."""

    @abstractmethod
    def facts(self) -> Facts:
        """Return the size of the file, and when it was last changed."""

    @abstractmethod
    def pread(self, count: int, offset: int) -> bytes:
        """Read bytes at an offset; fewer come only at the end of the file."""

    @abstractmethod
    def ahead(self, offset: int, count: int) -> None:
        """Begin to get bytes that will be read."""


class StoredBytes(ABC):
    """The bytes of a file, or of a range of it, read from front to back."""

    stored: Stored  # the whole file

    @abstractmethod
    def read(self, size: int = READ_AT_ONCE) -> bytes:
        """Return the next bytes; none at the end."""

    @abstractmethod
    def read_into(self, buffer: memoryview) -> int:
        """Fill a buffer as far as bytes are left; return how many have come."""

    def read_all(self, limit: int | None = None) -> bytes:
        """Return all bytes that have not been read yet; refuse more than the limit."""
        parts, size = [], 0
        while part := self.read():
            parts.append(part)
            size += len(part)
            if limit is not None and size > limit:
                most = format_size(limit)
                raise StoreError(
                    f"{self.stored.key}: is larger than the {most} that are read of such a file"
                )
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @abstractmethod
    def close(self) -> None:
        """Release what reading takes, such as a connection."""


class Store(Protocol):
    """A place for files. What a key begins with, up to a slash, is a directory.

    The methods that take one file for a program that reads it (from `exists` on) raise an OSError
    for a missing file, as a disk does, and a SourceError for whatever else a store refuses. All
    others raise a StoreError, in the role that `in_role` gave.
    """

    # Facts, the same for all places of a kind
    name: ClassVar[str]  # for messages: "S3"
    # whether each look takes a request over a network: several are made at once, and none to probe
    takes_requests: ClassVar[bool]
    is_shared: ClassVar[bool]  # whether all machines see the same files under the same address
    # whether directories are there without a file in them, and links are
    has_directories: ClassVar[bool]
    # whether a file that is written beside another one takes its name at once; else runs write to
    # a stage on this machine, and files are sent from there
    has_rename: ClassVar[bool]
    # whether locks of the kernel keep other runs out; else leases do
    has_locks: ClassVar[bool]
    # whether an ETag tells the content; else it only tells that a file was replaced. One of 32 hex
    # digits is taken for the MD5 of the bytes.
    has_etags: ClassVar[bool]
    longest_key: ClassVar[int]  # maximum bytes of a key in UTF-8
    longest_name: ClassVar[int]  # maximum bytes of what lies between two slashes of a key

    def path(self, key: str) -> str | None:
        """Return the path by which programs open a file; None if only this store reads it."""

    def url(self, key: str) -> str:
        """Return the address of a file: its path, or a URL."""

    def canonical(self, key: str) -> str:
        """Return the address that is the same for all spellings of a key."""

    def in_role(self, role: type[StoreError]) -> Self:
        """Return this store raising errors of another role."""

    def hurried(self, seconds: float) -> Self:
        """Return a store that gives up if there is no answer for some seconds."""

    def for_run(self, wait: Callable[[float], object], events: Events, connections: int) -> Self:
        """Return a store for a run with many transfers at once, with connections of its own.

        Before it tries again, it waits as the run does, and tells its listener.
        """

    def close(self) -> None:
        """Release connections."""

    # Files as a run, a sync and verify see them

    def stat(self, key: str) -> Stored | None:
        """Return the size, the ETag and more of a file; None if there is none."""

    def list(self, prefix: str = "") -> Pages:
        """List all files whose key begins with a prefix, in the order of their bytes, in pages."""

    def levels(self, prefix: str) -> Iterator[Level]:
        """List the files directly below a prefix, and the prefixes of deeper ones."""

    def open(
        self, key: str, start: int = 0, size: int | None = None, etag: str = ""
    ) -> AbstractContextManager[StoredBytes]:
        """Read a file, or a range of it, that must still have this ETag (kind ``exists``)."""

    def read(self, key: str, limit: int = LARGEST) -> tuple[bytes, Stored]:
        """Read a small file, and what there is to know about it."""

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
        """Store a small file, which appears as a whole.

        With ``replaces``, it is stored only in place of the file with this ETag, or of none if that
        is empty; otherwise the error is of kind ``exists``.
        """

    def delete(self, keys: Sequence[str]) -> dict[str, StoreError]:
        """Delete files, if they are there; return the errors of those that are refused."""

    def require_rights(self, prefix: str, *, deleting: bool = False) -> None:
        """Refuse a prefix below which this user may not write, or delete."""

    def abort_uploads(self, prefix: str, keys: Collection[str]) -> None:
        """Abort unfinished uploads of files, which killed runs have left below a prefix."""

    # Files between a store and this machine

    def send_file(
        self, path: Path, key: str, options: TransferOptions, crc32c: int | None = None
    ) -> Transferred:
        """Send a file of this machine, with this crc32c if given. It appears as a whole."""

    def take_file(
        self, path: Path, key: str, options: TransferOptions, crc32c: int | None = None
    ) -> Transferred:
        """Send a temporary file, or rename it; it is gone from its path then."""

    def fetch_file(
        self,
        key: str,
        path: Path,
        options: TransferOptions,
        listed: Stored | None = None,
        crc32c: int | None = None,
    ) -> Transferred:
        """Fetch a file, with this crc32c if given, to this machine. It appears as a whole."""

    def copy_file(
        self, source: Store, stored: Stored, key: str, options: TransferOptions
    ) -> Transferred:
        """Copy a file of a store to this one."""

    # Files as programs read them

    def exists(self, key: str) -> bool:
        """Return whether anything is there, even a broken link."""

    def is_file(self, key: str) -> bool:
        """Return whether a file is there."""

    def is_dir(self, key: str) -> bool:
        """Return whether a directory is there; the whole store is one."""

    def facts(self, key: str) -> Facts:
        """Return the size of a file, and when it was last changed."""

    def entries(self, key: str, below: str) -> Iterator[DirectoryEntry]:
        """List a directory, in no particular order; paths of entries begin with ``below``."""

    def find(self, pattern: str) -> Sequence[str]:
        """Return the addresses of the files whose keys match, sorted, as :mod:`glob` has it."""

    def read_file(self, key: str, limit: int = LARGEST) -> bytes:
        """Read a file as a whole."""

    def read_sized(self, key: str, size: int) -> bytes | None:
        """Read a file of a known size, with as few calls as possible; None if it has another."""

    def open_file(self, key: str) -> OpenFile:
        """Open a file for reading at any offset."""


def publish_manifest(store: Store, key: str, data: bytes, etag: str = "") -> None:
    """Store a manifest in the place of the one with this ETag, or of none."""
    try:
        store.put(key, data, replaces=etag)
    except StoreError as error:
        if error.kind != "exists":
            raise
        raise DestinationError(
            f"{store.url(key)}: another run has published a manifest there meanwhile; "
            "look which of the two data sets is to stay, and give the command again"
        ) from None


def scheme_of(path: str) -> str:
    """Return the scheme of an address in a store; empty for a path on a disk."""
    if "://" not in path:
        return ""
    scheme = path.partition("://")[0].lower()
    return scheme if scheme in _MODULES else ""


def store_of(path: str) -> tuple[Store, str]:
    """Return the store of a path or an address, and the key there. Nothing is connected yet."""
    return _opener(scheme_of(path))(path)


def store_below(path: str) -> tuple[Store, str]:
    """Return the store of a directory, and what the keys of all files in it begin with."""
    store, key = store_of(path)
    return store, key if not key or key.endswith("/") else f"{key}/"


@cache
def _opener(scheme: str) -> Callable[[str], tuple[Store, str]]:
    # What reaches S3 is slow to load.
    found: Callable[[str], tuple[Store, str]] = import_module(_MODULES[scheme]).store_at
    return found

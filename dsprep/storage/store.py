"""What every place for files has in common: what is stored there, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from dsprep.errors import StoreError
from dsprep.units import format_size


@dataclass(frozen=True, slots=True)
class Checksum:
    """A checksum that a store keeps beside the bytes.

    Attributes:
        algorithm: In lower case: ``crc32c``, ``crc64nvme``, ``sha256``, ``md5``…
        value: The digest, most significant byte first.
        full: Whether it is of all bytes; else it is of the checksums of the parts.
    """

    algorithm: str
    value: bytes
    full: bool = True


@dataclass(frozen=True, slots=True)
class Stored:
    """A file in a store, as far as a listing or a HEAD tells.

    Attributes:
        key: Its name in the store, with slashes.
        size: In bytes.
        modified: When it was stored, in seconds since 1970.
        etag: The store's word for this content, without quotes; empty if it has none.
        checksum: The one that is kept; a listing does not tell it.
        metadata: What was said when it was stored, names in lower case; a listing does not tell it.
        storage_class: As S3 has it; empty for the standard one.
        encryption: As S3 has it: ``AES256``, ``aws:kms``…; empty if a listing says nothing.
        kms_key: The key that it is encrypted with, if it is one of KMS.
        headers: What readers are told of it, ``ContentType`` and its like, in boto3's names; a
            listing does not tell it.
    """

    key: str
    size: int
    modified: float
    etag: str = ""
    checksum: Checksum | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    storage_class: str = ""
    encryption: str = ""
    kms_key: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def crc32c(self) -> int | None:
        """The crc32c of all bytes, if the store itself has computed it."""
        kept = self.checksum
        if kept is None or kept.algorithm != "crc32c" or not kept.full:
            return None
        return int.from_bytes(kept.value, "big")

    @property
    def md5(self) -> bytes | None:
        """The MD5 that the ETag is, unless it is of parts or of what KMS has encrypted."""
        if len(self.etag) != 32 or self.encryption.startswith("aws:kms"):
            return None
        try:
            return bytes.fromhex(self.etag)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an upload, as the store has it.

    Attributes:
        number: From 1.
        size: In bytes.
        etag: Nearly always the MD5 of its bytes, in hex.
        checksum: The one that is kept.
    """

    number: int
    size: int
    etag: str
    checksum: Checksum | None = None


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload in parts that is not finished.

    Attributes:
        key: What it will be stored as.
        id: The store's name for it.
        checksums: Whether the store checks the crc32c of each part and of the whole.
        initiated: When it was begun, in seconds since 1970.
        initiator: Who began it, if the store tells.
        storage_class: As in `Stored`.
    """

    key: str
    id: str
    checksums: bool = False
    initiated: float = 0.0
    initiator: str = ""
    storage_class: str = ""


class Level(NamedTuple):
    """What lies right below a prefix, or a page of it.

    Attributes:
        files: The files there.
        deeper: What all keys that lie deeper begin with, up to a slash.
        is_last: Whether no page follows.
    """

    files: Sequence[Stored]
    deeper: Sequence[str]
    is_last: bool


FATAL = ("denied", "expired")
"""Kinds of failure that all other files would meet, too."""


class Refused(NamedTuple):
    """What a store did not delete, and why."""

    key: str
    error: StoreError


Page = TypeVar("Page")
Pages = Iterator[list[Page]]
"""A listing, as the pages that the store sends it in."""

RefusedKeys = list[Refused]


class Reading(Protocol):
    """The bytes of a file, or a range of them, on their way from a store.

    Where a connection breaks, it goes on behind what has come; so its errors are for good.
    """

    @property
    def stored(self) -> Stored:
        """What the store said about the file; its size is that of the whole file."""

    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none at the end.

        Raises:
            StoreError: If they do not come, or end before the range does.
        """


_AT_ONCE = 1 << 20


def read_all(reading: Reading, limit: int | None = None) -> bytes:
    """All bytes of a small file, or of a range, that have not been read yet.

    Raises:
        StoreError: If there are more than ``limit``.
    """
    parts, size = [], 0
    while part := reading.read(_AT_ONCE):
        parts.append(part)
        size += len(part)
        if limit is not None and size > limit:
            key, most = reading.stored.key, format_size(limit)
            raise StoreError(f"{key}: is larger than the {most} that are read of such a file")
    return parts[0] if len(parts) == 1 else b"".join(parts)


class Store(Protocol):
    """A place for files. Its methods may be called by several threads at once.

    All of them raise `StoreError`, whose message names the file, and whose `kind` tells what a
    caller may want to know.
    """

    def url(self, key: str) -> str:
        """What users call a file of this store."""

    def list(self, prefix: str = "") -> Pages[Stored]:
        """Everything whose key begins so, in order of the keys' UTF-8 bytes, page by page."""

    def stat(self, key: str) -> Stored | None:
        """What is known about a file; None if there is none."""

    def open(
        self, key: str, start: int = 0, size: int | None = None, etag: str = ""
    ) -> AbstractContextManager[Reading]:
        """Read a file, or a range of it.

        Args:
            key: The file.
            start: Where to begin.
            size: How many bytes at most; None for all. Not 0.
            etag: The content that it must still have, if the store knows such a thing.
        """

    def put(self, key: str, data: bytes, *, new: bool = False, etag: str = "") -> Stored:
        """Store a small file as a whole: readers see what was there before, or all of this.

        Args:
            key: The file.
            data: Its content.
            new: Refuse if there is a file of this name.
            etag: Refuse unless the file that is there has this ETag.
        """

    def delete(self, keys: Sequence[str]) -> RefusedKeys:
        """Delete files; those that are not there are no failure."""

    def close(self) -> None:
        """Let go of connections."""


Progress = Callable[[int], None]
"""Called with every number of bytes that was sent or received; it may wait, and may raise."""


def ignore(*_: object) -> None:
    """Listens to nothing."""

"""Transfers of files: up to S3, down from it, or from S3 to S3."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dsprep.errors import DsprepError, StoreError
from dsprep.storage.checksums import crc32c as crc32c_of_bytes
from dsprep.storage.checksums import crc32c_of, may_be_wrong
from dsprep.storage.s3.copy import copy
from dsprep.storage.s3.download import download
from dsprep.storage.s3.upload import require_rights, upload
from dsprep.storage.store import Stored
from dsprep.storage.transfer import TransferOptions, plan_copy, plan_parts
from dsprep.syncing.plan import Pair
from dsprep.syncing.report import Failure, Requests
from dsprep.syncing.sides import Directory, Prefix


class Moved(NamedTuple):
    """A file that has arrived."""

    size: int  # in bytes
    resumed: int  # bytes of it that an earlier run had sent


class Mover(Protocol):
    """Moves files in one direction."""

    def require_rights(self) -> None:
        """Raise unless files can be stored at the destination."""

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """Return whether times say that a file changed since it was stored at the destination."""

    def parts(self, pair: Pair, way: TransferOptions) -> int:
        """Return the number of parts of a file."""

    def requests(self, parts: Sequence[int]) -> Requests:
        """Estimate the requests for files of these numbers of parts."""

    def send(self, pair: Pair, crc32c: int | None, way: TransferOptions) -> Moved:
        """Transfer a file."""

    def publish(self, pair: Pair, data: bytes, new: bool, way: TransferOptions) -> Moved:
        """Publish a manifest that has been read.

        On S3, it replaces only the one that was found there, or none if ``new``.
        """

    def delete(self, paths: Sequence[str]) -> list[Failure]:
        """Delete files at the destination; return those that could not be deleted."""


@dataclass(frozen=True)
class Up:
    """From a directory to S3."""

    source: Directory
    destination: Prefix

    def require_rights(self) -> None:
        """Probe the rights of uploads."""
        require_rights(self.destination.store, self.destination.prefix)

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """Compare the time of the file with that of the object."""
        return source.modified > found.modified

    def parts(self, pair: Pair, way: TransferOptions) -> int:
        """Return the parts of an upload."""
        return len(plan_parts(pair.source.size, way.part_size, pair.path))

    def requests(self, parts: Sequence[int]) -> Requests:
        """Several parts take a search, a beginning and a completion more."""
        several = sum(count > 1 for count in parts)
        return Requests(sum(parts) + 3 * several, several, sum(parts))

    def send(self, pair: Pair, crc32c: int | None, way: TransferOptions) -> Moved:
        """Upload a file."""
        sent = upload(
            self.source.path(pair.path),
            self.destination.store,
            self.destination.key(pair.path),
            way,
            crc32c,
        )
        return Moved(sent.stored.size, sent.stored.size - sent.moved)

    def publish(self, pair: Pair, data: bytes, new: bool, way: TransferOptions) -> Moved:
        """Store a manifest."""
        return _put(self.destination, pair, data, new, way)

    def delete(self, paths: Sequence[str]) -> list[Failure]:
        """Delete objects."""
        return _delete(self.destination, paths)


@dataclass(frozen=True)
class Down:
    """From S3 to a directory."""

    source: Prefix
    destination: Directory

    def require_rights(self) -> None:
        """Nothing to check: the first file makes the directory."""

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """Compare whole seconds: S3 gives no more to a download."""
        return int(source.modified) > found.modified

    def parts(self, pair: Pair, way: TransferOptions) -> int:
        """Return the parts of a download."""
        return len(plan_parts(pair.source.size, way.part_size, pair.path))

    def requests(self, parts: Sequence[int]) -> Requests:
        """Several parts take a HEAD more."""
        return Requests(0, sum(parts) + sum(count > 1 for count in parts), sum(parts))

    def send(self, pair: Pair, crc32c: int | None, way: TransferOptions) -> Moved:
        """Download an object."""
        got = download(
            self.source.store,
            pair.source.key,
            self.destination.path(pair.path),
            way,
            pair.source,
            crc32c,
        )
        return Moved(got.stored.size, got.stored.size - got.moved)

    def publish(self, pair: Pair, data: bytes, new: bool, way: TransferOptions) -> Moved:
        """Download a manifest if it is still the one that was read."""
        return self.send(pair, crc32c_of_bytes(data), way)

    def delete(self, paths: Sequence[str]) -> list[Failure]:
        """Delete local files."""
        failures = []
        for path in paths:
            try:
                os.unlink(self.destination.path(path))
            except OSError as error:
                failures.append(Failure(path, f"cannot be deleted ({error.strerror})"))
        return failures


@dataclass(frozen=True)
class Across:
    """From S3 to S3, copied by the server."""

    source: Prefix
    destination: Prefix

    def require_rights(self) -> None:
        """Probe the rights of uploads."""
        require_rights(self.destination.store, self.destination.prefix)

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """Compare the times when both were stored."""
        return source.modified > found.modified

    def parts(self, pair: Pair, way: TransferOptions) -> int:
        """Return the parts of a copy."""
        return len(plan_copy(pair.source.size))

    def requests(self, parts: Sequence[int]) -> Requests:
        """Each copy takes a HEAD of both objects."""
        several = sum(count > 1 for count in parts)
        return Requests(sum(parts) + 3 * several, 2 * len(parts), sum(parts))

    def send(self, pair: Pair, crc32c: int | None, way: TransferOptions) -> Moved:
        """Copy an object on the server if it is the one listed, with the crc32c in its manifest."""
        name = self.source.name(pair.path)
        stored = self.source.store.stat(pair.source.key)
        if stored is None or stored.etag != pair.source.etag:
            raise StoreError(f"{name}: has changed since it was listed", "exists")
        if crc32c is not None:
            _require(crc32c, self.source, stored, name)
        copied = copy(
            self.source.store,
            pair.source.key,
            self.destination.store,
            self.destination.key(pair.path),
            way,
        )
        if crc32c is not None:
            _require(crc32c, self.destination, copied.stored, name, proven=True)
        return Moved(copied.stored.size, 0)

    def publish(self, pair: Pair, data: bytes, new: bool, way: TransferOptions) -> Moved:
        """Store a manifest."""
        return _put(self.destination, pair, data, new, way)

    def delete(self, paths: Sequence[str]) -> list[Failure]:
        """Delete objects."""
        return _delete(self.destination, paths)


def _require(expected: int, side: Prefix, stored: Stored, name: str, proven: bool = False) -> None:
    """Raise if an object does not have the crc32c in its manifest."""
    known = crc32c_of(stored)
    doubtful = proven if known is None else known != expected and may_be_wrong(stored)
    if doubtful:
        known = side.content(stored, None).read_crc32c()
    if known not in (None, expected):
        raise StoreError(
            f"{name}: is not what its manifest names: its crc32c is {known:08x}, and "
            f"{expected:08x} is right; check it with dsprep verify",
            "damaged",
        )


def _put(place: Prefix, pair: Pair, data: bytes, new: bool, way: TransferOptions) -> Moved:
    """Store a manifest on condition that no other run has replaced it."""
    guard = "" if new or pair.found is None else pair.found.etag
    place.store.publish(place.key(pair.path), data, guard)
    name = place.name(pair.path)
    way.events.moved(name, len(data))
    way.events.end(name, len(data), "md5")
    return Moved(len(data), 0)


def _delete(place: Prefix, paths: Sequence[str]) -> list[Failure]:
    keys = {place.key(path): path for path in paths}
    try:
        refused = place.store.delete(list(keys))
    except DsprepError as error:
        return [Failure(path, str(error)) for path in paths]
    return [Failure(keys[refusal.key], str(refusal.error)) for refusal in refused]

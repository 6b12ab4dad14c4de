"""How files get from one side to the other: up to S3, down from it, or across it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dsprep.errors import DsprepError, StoreError
from dsprep.storage.base import Stored
from dsprep.storage.copy import copy
from dsprep.storage.crc import crc32c as crc32c_of_bytes
from dsprep.storage.download import download
from dsprep.storage.events import Events
from dsprep.storage.pace import Pace
from dsprep.storage.parts import plan_copy, plan_parts
from dsprep.storage.preflight import require_rights
from dsprep.storage.proof import crc32c_of, may_be_wrong
from dsprep.storage.upload import upload
from dsprep.syncing.plan import Pair
from dsprep.syncing.report import Failure, Requests
from dsprep.syncing.sides import Directory, Prefix


class Way(NamedTuple):
    """What all transfers of a run share."""

    pace: Pace  # their threads, and what holds them back
    events: Events  # who wants to know
    part_size: int = 0  # in bytes; 0 for a good one
    keep: bool = True  # whether what is unfinished is kept


class Moved(NamedTuple):
    """A file that has arrived."""

    size: int  # in bytes
    resumed: int  # those of them that were there from an earlier run


class Mover(Protocol):
    """Moves files in one direction."""

    def require_rights(self) -> None:
        """See that files can be stored at the destination."""

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """Whether a file has changed since it was stored at the destination, as times tell."""

    def parts(self, pair: Pair, way: Way) -> int:
        """In how many parts a file would go."""

    def requests(self, parts: Sequence[int]) -> Requests:
        """How many requests files of so many parts each take."""

    def send(self, pair: Pair, crc32c: int | None, way: Way) -> Moved:
        """Make a file be at the destination, whole."""

    def publish(self, pair: Pair, data: bytes, new: bool, way: Way) -> Moved:
        """Make a manifest be at the destination.

        On S3, it takes the place of the one that was seen there, or of none; a local one is
        replaced by the object if that is what was read.
        """

    def delete(self, paths: Sequence[str]) -> list[Failure]:
        """Delete files at the destination; returns those that could not be."""


@dataclass(frozen=True)
class Up:
    """From a directory to S3."""

    source: Directory
    destination: Prefix

    def require_rights(self) -> None:
        """Those of uploads."""
        require_rights(self.destination.store, self.destination.prefix)

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """By when the file was changed, and the object stored."""
        return source.modified > found.modified

    def parts(self, pair: Pair, way: Way) -> int:
        """Those of an upload."""
        return len(plan_parts(pair.source.size, way.part_size, pair.path))

    def requests(self, parts: Sequence[int]) -> Requests:
        """Those of uploads: one of several parts is looked for, begun and completed."""
        several = sum(count > 1 for count in parts)
        return Requests(sum(parts) + 3 * several, several, sum(parts))

    def send(self, pair: Pair, crc32c: int | None, way: Way) -> Moved:
        """Upload a file."""
        sent = upload(
            self.source.path(pair.path),
            self.destination.store,
            self.destination.key(pair.path),
            crc32c=crc32c,
            part_size=way.part_size,
            pace=way.pace,
            events=way.events,
            keep=way.keep,
        )
        return Moved(sent.size, sent.size - sent.moved)

    def publish(self, pair: Pair, data: bytes, new: bool, way: Way) -> Moved:
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
        """None: a directory is made when the first file comes."""

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """By whole seconds, which is how a download is told when its object was stored."""
        return int(source.modified) > found.modified

    def parts(self, pair: Pair, way: Way) -> int:
        """Those of a download."""
        return len(plan_parts(pair.source.size, way.part_size, pair.path))

    def requests(self, parts: Sequence[int]) -> Requests:
        """Those of downloads."""
        return Requests(0, sum(parts) + sum(count > 1 for count in parts), sum(parts))

    def send(self, pair: Pair, crc32c: int | None, way: Way) -> Moved:
        """Download an object."""
        got = download(
            self.source.store,
            pair.source.key,
            self.destination.path(pair.path),
            stored=pair.source,
            crc32c=crc32c,
            part_size=way.part_size,
            pace=way.pace,
            events=way.events,
            keep=way.keep,
        )
        return Moved(got.size, got.size - got.moved)

    def publish(self, pair: Pair, data: bytes, new: bool, way: Way) -> Moved:
        """Download a manifest, if it still is what was read."""
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
        """Those of uploads."""
        require_rights(self.destination.store, self.destination.prefix)

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """By when both were stored."""
        return source.modified > found.modified

    def parts(self, pair: Pair, way: Way) -> int:
        """Those of a copy."""
        return len(plan_copy(pair.source.size))

    def requests(self, parts: Sequence[int]) -> Requests:
        """Those of copies: both objects are looked at."""
        several = sum(count > 1 for count in parts)
        return Requests(sum(parts) + 3 * several, 2 * len(parts), sum(parts))

    def send(self, pair: Pair, crc32c: int | None, way: Way) -> Moved:
        """Let the server copy an object, if it is what was listed and what its manifest tells."""
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
            pace=way.pace,
            events=way.events,
        )
        if crc32c is not None:
            _require(crc32c, self.destination, copied.stored, name, proven=True)
        return Moved(copied.size, 0)

    def publish(self, pair: Pair, data: bytes, new: bool, way: Way) -> Moved:
        """Store a manifest again."""
        return _put(self.destination, pair, data, new, way)

    def delete(self, paths: Sequence[str]) -> list[Failure]:
        """Delete objects."""
        return _delete(self.destination, paths)


def _require(expected: int, side: Prefix, stored: Stored, name: str, proven: bool = False) -> None:
    """Refuse an object that is not what its manifest tells."""
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


def _put(place: Prefix, pair: Pair, data: bytes, new: bool, way: Way) -> Moved:
    """Store a manifest in the place of the one that was seen, or of none."""
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

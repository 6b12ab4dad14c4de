"""Transfers of files: up to S3, down from it, or from S3 to S3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsprep.errors import StoreError
from dsprep.storage.checksums import crc32c as crc32c_of_bytes
from dsprep.storage.checksums import crc32c_of, may_be_wrong
from dsprep.storage.s3.download import download
from dsprep.storage.s3.upload import copy, require_rights, upload
from dsprep.storage.store import Stored
from dsprep.storage.transfer import TransferOptions, plan_copy, plan_parts
from dsprep.syncing.plan import Pair, Requests
from dsprep.syncing.sides import Directory, Prefix, Side


@dataclass(frozen=True)
class Mover:
    """Moves files from one side to the other; at least one of both is on S3."""

    source: Side
    destination: Side
    way: TransferOptions

    def require_rights(self) -> None:
        """Raise unless objects can be stored; the first file makes a local directory."""
        if isinstance(self.destination, Prefix):
            require_rights(self.destination.store, self.destination.prefix)

    def is_newer(self, source: Stored, found: Stored) -> bool:
        """Return whether times say that a file changed since it was stored at the destination."""
        if isinstance(self.destination, Directory):  # S3 gives only seconds to a download
            return int(source.modified) > found.modified
        return source.modified > found.modified

    def parts(self, pair: Pair) -> int:
        if isinstance(self.source, Prefix) and isinstance(self.destination, Prefix):
            return len(plan_copy(pair.source.size))
        return len(plan_parts(pair.source.size, self.way.part_size, pair.path))

    def requests(self, parts: Sequence[int]) -> Requests:
        """Estimate the requests for files of these numbers of parts."""
        total, several = sum(parts), sum(count > 1 for count in parts)
        if isinstance(self.destination, Directory):  # several parts take a HEAD more
            return Requests(0, total + several, total)
        # Several parts take a search, a beginning and a completion; a copy a HEAD of both objects.
        heads = 2 * len(parts) if isinstance(self.source, Prefix) else several
        return Requests(total + 3 * several, heads, total)

    def send(self, pair: Pair, crc32c: int | None) -> int:
        """Transfer a file; return the number of its bytes that an earlier run had sent."""
        # `crc32c` is that in a manifest.
        source, destination = self.source, self.destination
        if isinstance(source, Directory):
            assert isinstance(destination, Prefix)
            key = destination.prefix + pair.path
            done = upload(source.root / pair.path, destination.store, key, self.way, crc32c)
        elif isinstance(destination, Directory):
            path, key = destination.root / pair.path, pair.source.key
            done = download(source.store, key, path, self.way, pair.source, crc32c)
        else:
            self._copy(source, destination, pair, crc32c)
            return 0
        return done.stored.size - done.moved

    def _copy(self, source: Prefix, destination: Prefix, pair: Pair, crc32c: int | None) -> None:
        """Let the server copy the object that was listed, with the crc32c in its manifest."""
        name, key = source.name(pair.path), pair.source.key
        stored = source.store.stat(key)
        if stored is None or stored.etag != pair.source.etag:
            raise StoreError(f"{name}: has changed since it was listed", "exists")
        if crc32c is not None:
            _require(crc32c, source, stored, name)
        new_key = destination.prefix + pair.path
        copied = copy(source.store, key, destination.store, new_key, self.way)
        if crc32c is not None:
            _require(crc32c, destination, copied.stored, name, proven=True)

    def publish(self, pair: Pair, data: bytes, new: bool) -> None:
        """Publish a manifest that has been read."""
        # On S3, it replaces only the one that was found there, or none if `new`.
        if isinstance(self.destination, Directory):
            self.send(pair, crc32c_of_bytes(data))
            return
        guard = "" if new or pair.found is None else pair.found.etag
        self.destination.store.publish(self.destination.prefix + pair.path, data, guard)
        name = self.destination.name(pair.path)
        self.way.events.moved(name, len(data))
        self.way.events.end(name, len(data), "md5")


def _require(expected: int, side: Prefix, stored: Stored, name: str, proven: bool = False) -> None:
    """Raise if an object does not have the crc32c in its manifest."""
    known = crc32c_of(stored)
    doubtful = proven if known is None else known != expected and may_be_wrong(stored)
    if doubtful:
        known = side.content(stored).read_crc32c()
    if known not in (None, expected):
        raise StoreError(
            f"{name}: is not what its manifest names: its crc32c is {known:08x}, and "
            f"{expected:08x} is right; check it with dsprep verify",
            "damaged",
        )

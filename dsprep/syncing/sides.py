"""The two sides of a sync: a directory on a disk, or what is below a prefix in another store."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os.path import splitext
from pathlib import Path
from shlex import quote
from typing import TypeAlias

from dsprep.errors import DestinationError, DsprepError, SourceError, StoreError, source_errors
from dsprep.frozen import Frozen
from dsprep.printable import utf8_text
from dsprep.storage.lease import DEAD_AFTER, LONG_AGO
from dsprep.storage.local import LONGEST_NAME, SCRATCH, is_scratch, open_regular, read_whole
from dsprep.storage.objects import read_back
from dsprep.storage.pool import Pace
from dsprep.storage.store import Store
from dsprep.storage.stored import Stored, crc32c
from dsprep.storage.transfer import TransferOptions
from dsprep.syncing.checksums import Checksums, Sums, look
from dsprep.syncing.report import Failure, LeftOutFile

# Bytes read and hashed at once: they are still in the processor's cache when they are hashed.
_BLOCK = 1 << 20
_LOOK_EVERY = 2.0  # seconds between two looks at a lease
_TRIES = 3  # reads of a small object whose bytes do not match its checksum
ROOT = "."  # the path of a failure to list a side at all
_BROKEN = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # errors of a link whose target is missing


@dataclass
class Listing:
    """The files of one side of a sync."""

    files: dict[str, Stored] = field(default_factory=dict)  # by their path, relative to the side
    left: list[LeftOutFile] = field(default_factory=list)  # what is left out
    # files that could not be read, and directories (with a slash at the end) that could not be
    # listed: their contents are unknown
    unseen: list[LeftOutFile] = field(default_factory=list)
    linked: set[str] = field(default_factory=set)  # paths of links to directories
    # lease objects of running or killed commands
    leases: dict[str, Stored] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)  # state of unfinished runs, left out


class Directory(Frozen):
    """A directory, or one file."""

    root: Path  # the directory
    single: str | None = None  # the only file in it that takes part; None for all
    follow: bool = True  # whether links are followed
    pace: Pace = field(default_factory=Pace)  # stops reading
    checksums: Checksums = field(default_factory=Checksums)  # what is known of its files

    has_etags = True  # the MD5s that `checksums` knows

    def name(self, path: str) -> str:
        return str(self.root / path)

    @cached_property
    def _prefix(self) -> str:
        """What the paths of all files begin with: `Path` takes longer than a look at the file."""
        return "" if self.root == Path() else os.path.join(self.root, "")

    def list(self) -> Listing:
        found = Listing()
        try:
            status = os.stat(self.root / (self.single or ""))
        except FileNotFoundError:
            return found
        except OSError as error:
            found.unseen.append(LeftOutFile(ROOT, f"cannot be looked at ({error.strerror})"))
            return found
        if self.single is None:
            self._walk("", found, {(status.st_dev, status.st_ino)})
        else:
            found.files[self.single] = self._stored(self.single, status)
        return found

    def _walk(self, below: str, found: Listing, above: set[tuple[int, int]]) -> None:
        try:
            with os.scandir(self.root / below) as scanned:
                entries = sorted(scanned, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            path = f"{below}/" if below else ROOT
            found.unseen.append(LeftOutFile(path, f"cannot be listed ({error.strerror})"))
            return
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if is_scratch(entry.name):
                found.unfinished.append(path)
            elif why := self._add(entry, path, found, above):
                found.left.append(LeftOutFile(utf8_text(path), why))

    def _add(
        self, entry: os.DirEntry[str], path: str, found: Listing, above: set[tuple[int, int]]
    ) -> str:
        """Add an entry, or all below it; return why it is left out."""
        if entry.name.encode(errors="ignore").decode() != entry.name:
            return "its name is not UTF-8, as keys have to be"
        if entry.is_symlink() and not self.follow:
            return "is a link (--no-follow-symlinks)"
        try:
            status = entry.stat()
        except OSError as error:
            if entry.is_symlink() and error.errno in _BROKEN:
                return "is a link to what is not there"
            if error.errno == errno.ENOENT:
                return "was deleted just now"
            found.unseen.append(LeftOutFile(path, f"cannot be looked at ({error.strerror})"))
            return ""
        place = (status.st_dev, status.st_ino)
        if stat.S_ISREG(status.st_mode):
            found.files[path] = self._stored(path, status)
            return ""
        if not stat.S_ISDIR(status.st_mode):
            return "is neither a file nor a directory"
        if place in above:
            return "is a link to a directory that it is in"
        if entry.is_symlink():
            found.linked.add(path)
        self._walk(path, found, above | {place})
        return ""

    def _stored(self, path: str, status: os.stat_result) -> Stored:
        """Return a file of the listing, with the MD5 of its bytes as its ETag if that is known."""
        known = self.checksums.see(status)
        etag = known.md5.hex() if known is not None and known.md5 is not None else ""
        return Stored(path, status.st_size, status.st_mtime, etag)

    def read(self, path: str) -> bytes:
        try:
            return read_whole(self.root / path)
        except FileNotFoundError:
            raise StoreError(f"{self.name(path)}: is not there", "missing") from None
        except OSError as error:
            raise SourceError(f"{self.name(path)}: cannot be read ({error.strerror})") from None

    def content(self, file: Stored, crc32c: int | None = None) -> Content:
        return _FileContent(self._prefix + file.key, crc32c, self.pace, self.checksums)

    def delete(self, paths: Sequence[str]) -> Sequence[Failure]:
        failures = []
        for path in paths:
            try:
                os.unlink(self.root / path)
            except OSError as error:
                failures.append(Failure(path, f"cannot be deleted ({error.strerror})"))
        return failures


class Prefix(Frozen):
    """The files of a store whose keys begin with a prefix."""

    store: Store
    prefix: str  # empty, or ending with a slash
    to_files: bool = False  # whether keys that cannot be file names are left out
    pace: Pace = field(default_factory=Pace)  # the threads that read, and what holds them back

    @property
    def has_etags(self) -> bool:
        return self.store.has_etags

    def name(self, path: str) -> str:
        return self.store.url(self.prefix + path)

    def list(self) -> Listing:
        found = Listing()
        for page in self.store.list(self.prefix):
            for stored in page:
                path = stored.key[len(self.prefix) :]
                if is_scratch(path):
                    if f"{SCRATCH}/lease" in path:  # lease.json, or one of the parts in leases/
                        found.leases[path] = stored
                    place = path.partition(f"{SCRATCH}/")[0] + SCRATCH
                    if place not in found.unfinished[-1:]:
                        found.unfinished.append(place)
                elif path.endswith("/") and not stored.size:
                    pass  # S3 consoles create empty objects named like directories
                elif self.to_files and (why := unfit(path)):
                    found.left.append(LeftOutFile(path or stored.key, why))
                elif not path:
                    found.left.append(LeftOutFile(stored.key, "is the prefix itself"))
                else:
                    found.files[path] = stored
        return found

    def why_empty(self) -> str:
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
            data, stored = self.store.read(self.prefix + path)
            if stored.is_whole(data):
                return data
        raise StoreError(
            f"{self.name(path)}: the bytes do not match the crc32c or MD5 that is stored there",
            "damaged",
        )

    def content(self, file: Stored, crc32c: int | None = None) -> Content:
        return _ObjectContent(file, self.store, self.pace)

    def delete(self, paths: Sequence[str]) -> Sequence[Failure]:
        keys = {self.prefix + path: path for path in paths}
        try:
            refused = self.store.delete([*keys])
        except DsprepError as error:
            return [Failure(path, str(error)) for path in paths]
        return [Failure(keys[key], str(error)) for key, error in refused.items()]


Side: TypeAlias = Directory | Prefix  # a location that files are synced from or to


def require_idle(
    destination: Side, leases: Mapping[str, Stored], paths: Collection[str], way: TransferOptions
) -> None:
    """Raise if another command is writing files that this one would write."""
    for lease, stored in leases.items():
        above, _, name = f"/{lease}".partition(f"{SCRATCH}/")[0].rpartition("/")
        stem, _ = splitext(name.removeprefix("."))
        # The lease protects paths with this prefix: train.idx stands beside train.rec.
        before = f"{above}/{stem}".removeprefix("/")
        if time.time() - stored.modified > LONG_AGO:
            continue
        if not any(path.startswith(before) for path in paths):
            continue
        # A killed run may have left it. A live run renews it.
        place = f"{destination.name(before)}: another dsprep command"
        try:
            first, began = destination.read(lease), time.monotonic()
            patience = f"waiting for up to {DEAD_AFTER:.0f} s to see whether it still is"
            way.events("waiting", text=f"{place} was writing there; {patience}")
            while time.monotonic() - began <= DEAD_AFTER:
                way.pace.wait(_LOOK_EVERY)
                if destination.read(lease) != first:
                    raise DestinationError(f"{place} is writing there; wait for it to end")
        except StoreError as error:
            if error.kind != "missing":
                raise
            raise DestinationError(
                f"{place} has just ended there; give the same command again"
            ) from None


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


# one for each file, and an object of a `Frozen` class takes longer to make
@dataclass(frozen=True)
class _FileContent:
    """The contents of a file, read when they are asked for and not known."""

    path: str
    noted: int | None  # the crc32c in a manifest
    pace: Pace
    checksums: Checksums

    is_read = True  # whether this reads all bytes; such a side is asked last
    may_be_wrong = False  # whether a different crc32c does not prove different bytes

    def md5(self) -> bytes | None:
        return self._sums(hashlib.md5(usedforsecurity=False)).md5

    def crc32c(self, with_noted: bool = True) -> tuple[int, str] | None:
        """Return the crc32c and its origin, ``checksum`` or ``metadata``; None if unknown."""
        if with_noted and self.noted is not None:
            return self.noted, "checksum"
        return self.read_crc32c(), "checksum"

    def read_crc32c(self) -> int:
        return self._sums().crc32c

    def _sums(self, md5: hashlib._Hash | None = None) -> Sums:
        """Return the checksums of the file; with the MD5 if a hash is given for it."""
        with source_errors(self.path):
            sight = look(self.path)
            known = self.checksums.get(sight)
            if known is not None and (md5 is None or known.md5 is not None):
                return known
            value = 0
            for data in self.pieces():
                value = crc32c(data, value)
                if md5 is not None:
                    md5.update(data)
            sums = Sums(value, None if md5 is None else md5.digest())
            self.checksums.note(self.path, sight, sums)
        return sums

    def pieces(self) -> Iterator[memoryview]:
        """Yield all bytes, in one buffer that is filled again and again."""
        buffer = memoryview(bytearray(_BLOCK))
        with source_errors(self.path), open(self.path, "rb", 0, opener=open_regular) as file:
            while got := file.readinto(buffer):
                self.pace.check()
                yield buffer[:got]


@dataclass(frozen=True)
class _ObjectContent:
    """The contents of an object: its ETag in a listing, then a HEAD, then its bytes."""

    stored: Stored
    store: Store
    pace: Pace

    is_read = False

    def md5(self) -> bytes | None:
        return self.stored.md5

    @cached_property
    def looked(self) -> Stored:
        return self.store.stat(self.stored.key) or self.stored

    @property
    def may_be_wrong(self) -> bool:
        return self.looked.may_be_wrong

    def crc32c(self, with_noted: bool = True) -> tuple[int, str] | None:
        return self.looked.known_crc32c

    def read_crc32c(self) -> int:
        (value,) = read_back(self.store, [self.stored], self.pace)
        if isinstance(value, StoreError):
            raise value
        return value


Content: TypeAlias = _FileContent | _ObjectContent
"""The contents of a file on either side, found out only as far as needed."""

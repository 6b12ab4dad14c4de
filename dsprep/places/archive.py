"""Archives: which one a path names, what it holds, and how workers read its members.

Nothing here needs polars, which is imported meanwhile.
"""

from __future__ import annotations

import os
import posixpath
import sys
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, TypeAlias

from dsprep.errors import BadSample, DamagedShard, SourceError, source_errors
from dsprep.findings import Finding
from dsprep.formats import tar
from dsprep.formats.stream import ShardStream, is_bomb
from dsprep.places.prefetch import OpenFiles, asked_ahead, read_at, temporary_errors, unpack
from dsprep.places.zip import BESIDE, NOT_UTF8, find_end, list_members, overlapping, read_member
from dsprep.rows import Input, Reader, Rows
from dsprep.storage.files import OpenFile, exists, facts, is_file, open_file
from dsprep.tuples import NamedTuple

KINDS = "zip, tar, tar.gz, tar.bz2, tar.xz"
Place: TypeAlias = tuple[int, int, int]
"""The offset of a member as its reader wants it, its bytes in the archive, and when extracted."""

_FIRST = 1 << 24  # decompressed bytes of a tar that are read for the names of its first files
_IN_MEMORY = 1 << 26  # bytes of members of a compressed tar before a temporary file takes them


class Link(NamedTuple):
    """A link in an archive."""

    name: str
    target: str  # the path in the archive, which is not normal
    position: int  # how many files come before it


@dataclass
class Archive:
    """An archive with its members, in its order, without directories."""

    reader: ArchiveReader
    below: str = ""  # the directory in it that the user named; empty for all of it
    # the files that can be read: names as the archive has them, offsets as its reader wants them
    names: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    stored: array[int] = field(default_factory=lambda: array("q"))  # bytes in the archive
    links: list[Link] = field(default_factory=list)
    # files that cannot be read, devices and pipes, and names that are not UTF-8, printable
    odd: list[Finding] = field(default_factory=list)
    stems: set[str] = field(default_factory=set)  # names of the tars in a tar, without `.tar`
    damage: list[Finding] = field(default_factory=list)  # what is wrong with the archive

    def add(self, name: str, place: Place) -> None:
        """Add a file that can be read."""
        self.names.append(name)
        self.offsets.append(place[0])
        self.stored.append(place[1])
        self.sizes.append(place[2])

    def refuse(self, positions: Collection[int], reason: str) -> None:
        """Move files to those that cannot be read."""
        self.odd += [Finding("unreadable", self.names[at], reason) for at in sorted(positions)]
        kept = [at for at in range(len(self.names)) if at not in positions]
        self.names = [self.names[at] for at in kept]
        self.sizes, self.offsets, self.stored = (
            array("q", [column[at] for at in kept])
            for column in (self.sizes, self.offsets, self.stored)
        )

    @property
    def path(self) -> str:
        return self.reader.path

    def place(self, position: int) -> Place:
        """Return where one of the files lies."""
        return self.offsets[position], self.stored[position], self.sizes[position]


class ArchiveReader(Reader):
    """Reads members of an archive that has them as they are, as a tar does."""

    beside: ClassVar[int] = 0  # bytes that are read besides a member's own
    may_be_shard: ClassVar[bool] = True  # whether members of one stem may be a sample of WebDataset

    path: str
    size: int  # bytes of the archive when it was listed
    mtime: int | None  # when it was last changed before that, in ns since 1970; None if unknown

    def opened(self) -> OpenFiles:
        """Open the archive, which must be as it was when it was listed."""
        return OpenFiles((self.path,), ((self.size, self.mtime),))

    def inputs(self, samples: Iterable[tuple[str, int, int]]) -> Iterator[Input]:
        yield Input(self.path)

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        return self.members(zip(rows.offsets, rows.stored, rows.sizes, strict=True))

    def members(self, places: Iterable[Place]) -> Iterator[bytes | BadSample]:
        """Read the members at some places."""
        with self.opened() as files:
            file = files.same(0)

            def ask(place: Place) -> int:
                file.ahead(place[0], place[1] + self.beside)
                return place[1]

            for place in asked_ahead(places, ask):
                try:
                    member: bytes | BadSample = self.member(file, *place)
                except BadSample as error:
                    member = error
                except OSError as error:
                    member = BadSample(f"cannot be read ({error.strerror})")
                yield member

    def member(self, file: OpenFile, offset: int, stored: int, size: int) -> bytes:
        """Read the member at an offset: its bytes in the archive, and when extracted."""
        data = read_at(file, size, offset)
        if len(data) != size:
            raise BadSample("the archive was cut off in it")
        return data


class CompressedTarReader(ArchiveReader):
    """Reads members of a compressed tar, which can only be read from front to back."""

    unpacked: int  # the bytes of the tar, or of as much of it as can be decompressed

    def members(self, places: Iterable[Place]) -> Iterator[bytes]:
        """Decompress the archive up to the last of the members."""
        # If the places are not in the order of the archive, this is done before the first is
        # yielded, and a temporary file keeps the members meanwhile. So this is for a few members,
        # or for all in their order; a shuffled run reads from spools.
        wanted = list(places)
        ordered = sorted(set(wanted))
        if wanted == ordered:
            yield from self._in_order(ordered)
            return
        import tempfile  # slow to load

        kept: dict[Place, int] = {}
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
            for place, content in zip(ordered, self._in_order(ordered), strict=True):
                kept[place] = file.tell()
                with temporary_errors():
                    file.write(content)
            for place in wanted:
                file.seek(kept[place])
                yield file.read(place[2])

    def _in_order(self, places: Iterable[Place]) -> Iterator[bytes]:
        with self._decompressed() as tar:
            for offset, _, size in places:
                tar.skip(offset - tar.offset, "what precedes a member")
                yield tar.read(size, "a member")

    @contextmanager
    def _decompressed(self) -> Iterator[ShardStream]:
        with self.opened() as files:
            files.same(0)
            with ShardStream(self.path, is_shard=False, headers=True) as tar:
                try:
                    yield tar
                except DamagedShard as error:
                    advice = "it has changed: give the same command again"
                    raise SourceError(f"{error}; {advice}") from None
            files.same(0)

    def spools(self) -> Sequence[int]:
        return (self.unpacked,)

    def write_spool(self, number: int, path: str) -> None:
        with self._decompressed() as tar:
            unpack(tar, self.unpacked, path)

    def spooled(self, directory: str) -> Reader:
        return ArchiveReader(os.path.join(directory, "0"), self.unpacked, None)


class ZipReader(ArchiveReader):
    """Reads members of a zip; a row's offset is that of the member's local header."""

    beside: ClassVar[int] = BESIDE
    may_be_shard: ClassVar[bool] = False

    def member(self, file: OpenFile, offset: int, stored: int, size: int) -> bytes:
        return read_member(file, offset, stored, size)


# Which archive


def split_path(path: str) -> tuple[str, str]:
    """Split a path into what exists of it, such as ``data.zip``, and the rest: ``train``."""
    there = path.rstrip("/") or path
    while there not in ("", "/") and not exists(there):
        there = there.rpartition("/")[0]
    below = path[len(there) :].strip("/")
    return there, posixpath.normpath(below) if below else ""


def archive_kind(path: str) -> str | None:
    """Return which archive a file is: ``zip``, ``tar``, ``compressed tar``, or None."""
    name = os.path.basename(path).lower()
    try:
        with ShardStream(path, is_shard=False, headers=True) as stream:
            head, compressed = stream.peek(tar.BLOCK), stream.compressed
        if not compressed:
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                return "zip"
            if name.endswith((".zip", ".exe")):  # a self-extracting zip begins with a program
                with open_file(path) as file:
                    if find_end(file) is not None:
                        return "zip"
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    except DamagedShard:
        return None
    # A tar without members is nothing but zeros, so its name has to say what it is.
    if not tar.is_tar(head) or not (any(head) or ".tar" in name):
        return None
    return "compressed tar" if compressed else "tar"


def is_archive(path: str) -> bool:
    """Return whether a path is that of an archive, or of a directory in one."""
    file, _ = split_path(path)
    return is_file(file) and archive_kind(file) is not None


def require_file(path: str) -> tuple[str, str]:
    """Split a path like :func:`split_path`, and refuse one that leads to no file."""
    file, below = split_path(path)
    if not is_file(file):
        what = "is not a regular file" if exists(path) else "does not exist"
        raise SourceError(f"{path}: {what}; give a directory or an archive of images, or shards")
    return file, below


# Listing


def open_archive(path: str, most: int = sys.maxsize) -> Archive:
    """List an archive, or the first of its members."""
    file, below = require_file(path)
    kind = archive_kind(file)
    if kind is None:
        raise SourceError(
            f"{file}: is not a directory, nor an archive that dsprep knows ({KINDS}); "
            "give a directory or an archive of images, shards, or, with --from csv, a table whose "
            "rows are samples"
        )
    with source_errors(file):
        state = facts(file)
        archive = Archive((ZipReader if kind == "zip" else ArchiveReader)(file, *state), below)
        if kind == "zip":
            _list_zip(archive, most)
            return archive
        with ShardStream(file, is_shard=False, headers=True) as stream:
            _list_tar(stream, archive, most)
    if stream.compressed:
        archive.reader = CompressedTarReader(file, *state, stream.offset)
    return archive


def first_names(path: str, most: int) -> list[str]:
    """Return the names of the first files in an archive; empty for other files and damaged ones."""
    try:
        archive = open_archive(path, most)
    except SourceError:  # reading the whole archive raises the error again
        return []
    return [*archive.names, *(odd.path for odd in archive.odd if odd.kind == "unreadable")]


def _list_zip(archive: Archive, most: int) -> None:
    """List a zip, or the first of its members."""
    links: list[tuple[str, Place, int]] = []  # names, places, and how many files come before
    reader = archive.reader
    with reader.opened() as files:
        for found in islice(list_members(files.same(0), reader.path), most):
            if isinstance(found, Finding):
                (archive.damage if found.kind == "damaged" else archive.odd).append(found)
                continue
            name, place, is_link = found
            if is_link:
                links.append((name, place, len(archive.names)))
            else:
                archive.add(name, place)
    targets = reader.members(place for _, place, _ in links) if links else ()
    for (name, _, position), target in zip(links, targets, strict=True):
        if isinstance(target, bytes):
            start, text = posixpath.dirname(name), target.decode(errors="backslashreplace")
            archive.links.append(Link(name, posixpath.join(start, text), position))
        else:
            archive.odd.append(Finding("unreadable", name, str(target)))
    if shared := overlapping(archive.offsets, archive.stored):
        archive.refuse(shared, "it shares its bytes with another member")


def _list_tar(
    stream: ShardStream, archive: Archive, most: int, directory: str = "", stop: int | None = None
) -> None:
    """List a tar, and the tars in it, as ImageNet's has one for each class."""
    packed = archive.reader.size
    limit = sys.maxsize if most == sys.maxsize else _FIRST
    end = -1  # end of the bytes of the file that was listed last
    try:
        for entry in tar.entries(stream, stop):
            kind, end = entry.kind, -1
            try:
                path, target = directory + entry.name.decode(), entry.target.decode()
            except UnicodeDecodeError:
                path = directory + entry.name.decode(errors="backslashreplace")
                archive.odd.append(Finding("bad-name", path, NOT_UTF8))
                continue
            if kind == b"5" or (kind in tar.REGULAR and path.endswith("/")) or kind in b"VD":
                continue  # a directory, or GNU's name of a volume or list of a directory
            if kind in b"12":
                start = posixpath.dirname(path)
                target = directory + target if kind == b"1" else posixpath.join(start, target)
                archive.links.append(Link(path, target, len(archive.names)))
            elif kind in tar.WITHOUT_DATA:
                archive.odd.append(Finding("not-an-image", path, "not a regular file"))
            elif entry.sparse:
                archive.odd.append(Finding("unreadable", path, "a sparse file"))
            elif kind not in tar.REGULAR:
                reason = f"a member of the type {kind.decode('latin-1')!r}"
                archive.odd.append(Finding("unreadable", path, reason))
            elif (
                not directory
                and path.lower().endswith(".tar")
                and tar.is_tar(stream.peek(min(entry.size, tar.BLOCK)))
            ):
                stem = path[: -len(".tar")]
                archive.stems.add(stem)
                _list_tar(stream, archive, most, stem + "/", entry.start + entry.size)
            elif stream.compressed and is_bomb(entry.size, packed):
                reason = f"a bomb, in a file of {packed} bytes"
                archive.odd.append(Finding("unreadable", path, reason))
            else:
                archive.add(path, (entry.start, entry.size, entry.size))
                end = entry.start + entry.size
            if len(archive.names) >= most or entry.start + entry.size > limit:
                return
        if not directory and stream.compressed:
            # reading to the end checks the checksum of the compressed data, too
            stream.rest_is_zero()
    except DamagedShard as damage:
        if end > (stream.offset if stop is None else min(stop, stream.offset)):
            archive.refuse([len(archive.names) - 1], "the archive was cut off in it")
        name = directory + os.path.basename(stream.path)
        where = f"at byte {damage.offset}{', decompressed' * stream.compressed}"
        archive.damage.append(Finding("damaged", name, f"{where}: {damage.problem}"))

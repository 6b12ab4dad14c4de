"""Archives: which one a path names, and what a zip or a tar holds, by its directory or headers.

Nothing here needs polars, which is imported meanwhile.
"""

from __future__ import annotations

import os
import posixpath
import stat
import struct
import sys
from array import array
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import add, lt
from typing import NamedTuple

from dsprep.errors import DamagedShard, SourceError
from dsprep.findings import Finding
from dsprep.formats import tar
from dsprep.formats.stream import ShardStream, is_bomb
from dsprep.rows import Rows
from dsprep.sources.archive_reader import (
    LOCAL_HEADER,
    ArchiveReader,
    CompressedTarReader,
    TarReader,
    ZipReader,
)
from dsprep.sources.prefetch import read_at
from dsprep.storage.files import OpenFile, exists, facts, is_dir, is_file, open_file

KINDS = "zip, tar, tar.gz, tar.bz2, tar.xz"

_FIRST = 1 << 24
"""Decompressed bytes of a tar that are read for the names of its first files."""


class Link(NamedTuple):
    """A link in an archive."""

    name: str
    # for a hard link, a member; for a symbolic one, a path from the directory of the link
    target: str
    symbolic: bool
    position: int  # how many files come before it


@dataclass
class Listing:
    """The members of an archive, in its order, without directories."""

    # the files that can be read: names as the archive has them, offsets as its reader wants them
    names: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))
    stored: array[int] = field(default_factory=lambda: array("q"))  # bytes in the archive
    links: list[Link] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)  # names, and why
    special: list[str] = field(default_factory=list)  # names of devices and pipes
    nameless: list[str] = field(default_factory=list)  # names that are not UTF-8, printable
    stems: set[str] = field(default_factory=set)  # names of the tars in a tar, without `.tar`
    damage: list[Finding] = field(default_factory=list)  # of the archive as a whole

    def add(self, name: str, size: int, offset: int, stored: int) -> None:
        """Add a file that can be read."""
        self.names.append(name)
        self.sizes.append(size)
        self.offsets.append(offset)
        self.stored.append(stored)

    def remove(self, positions: Collection[int], reason: str | None = None) -> None:
        """Take files out; with a reason, they are noted as unreadable."""
        gone = set(positions)
        if not gone:
            return
        if reason is not None:
            self.unreadable += [(self.names[at], reason) for at in sorted(gone)]
        kept = [at for at in range(len(self.names)) if at not in gone]
        self.names = [self.names[at] for at in kept]
        self.sizes = array("q", [self.sizes[at] for at in kept])
        self.offsets = array("q", [self.offsets[at] for at in kept])
        self.stored = array("q", [self.stored[at] for at in kept])

    def rows(self, positions: Sequence[int]) -> Rows:
        """Return some of the files as rows for the archive's reader."""
        names = [self.names[at] for at in positions]
        columns = (self.sizes, self.offsets, self.stored)
        sizes, offsets, stored = ([column[at] for at in positions] for column in columns)
        return Rows([*positions], names, sizes, None, None, offsets, stored)


class Archive(NamedTuple):
    """An archive, listed."""

    path: str
    below: str  # the directory in it that the user named; empty for all of it
    listing: Listing
    reader: ArchiveReader


# Which archive


def split_path(path: str) -> tuple[str, str] | None:
    """Split a path into a file and the path in it: ``data.zip`` and ``train``."""
    file, below = path.rstrip("/") or "/", ""
    while file not in ("", "/") and not exists(file):
        file, _, name = file.rpartition("/")
        below = posixpath.join(name, below) if below else name
    return (file, posixpath.normpath(below) if below else "") if is_file(file) else None


def archive_kind(path: str) -> str | None:
    """Return which archive a file is: ``zip``, ``tar``, ``compressed tar``, or None."""
    name = os.path.basename(path).lower()
    try:
        with ShardStream.of_headers(path, is_shard=False) as stream:
            head, compressed = stream.peek(tar.BLOCK), stream.compressed
        if not compressed:
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                return "zip"
            if name.endswith((".zip", ".exe")):  # a program that unpacks it may precede a zip
                with open_file(path) as file:
                    if _find_end(file) is not None:
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
    found = split_path(path)
    return found is not None and archive_kind(found[0]) is not None


def require_there(path: str) -> None:
    """Refuse a source that does not exist."""
    if not is_dir(path):
        _require_file(path)


def _require_file(path: str) -> tuple[str, str]:
    found = split_path(path)
    if found is None:
        what = "is not a regular file" if exists(path) else "does not exist"
        raise SourceError(f"{path}: {what}; give a directory or an archive of images, or shards")
    return found


# Listing


def open_archive(path: str) -> Archive:
    """List an archive."""
    file, below = _require_file(path)
    kind = archive_kind(file)
    if kind is None:
        raise SourceError(
            f"{file}: is not a directory, nor an archive that dsprep knows ({KINDS}); "
            "give a directory or an archive of images, or shards"
        )
    return _list(file, below, kind)


def first_names(path: str, most: int) -> list[str]:
    """Return the names of the first files in an archive; empty for other files and damaged ones."""
    found = split_path(path)
    try:
        kind = archive_kind(found[0]) if found else None
        if found is None or kind is None:
            return []
        listing = _list(*found, kind, most).listing
    except SourceError:  # the error comes again when all of it is read
        return []
    return [*listing.names, *(name for name, _ in listing.unreadable)]


def _list(path: str, below: str, kind: str, most: int = sys.maxsize) -> Archive:
    listing = Listing()
    reader: ArchiveReader
    try:
        size, mtime = facts(path)
        if kind == "zip":
            reader = ZipReader(path, size, mtime)
            with reader.open() as file:
                _list_zip(file, listing, reader, most)
        else:
            with ShardStream.of_headers(path, is_shard=False) as stream:
                list_tar(stream, listing, most)
                unpacked = stream.offset
            reader = TarReader(path, size, mtime)
            if kind == "compressed tar":
                reader = CompressedTarReader(path, size, mtime, unpacked)
                bombs = [at for at, length in enumerate(listing.sizes) if is_bomb(length, size)]
                listing.remove(bombs, f"a bomb, in a file of {size} bytes")
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    return Archive(path, below, listing, reader)


# Tar


def list_tar(
    stream: ShardStream,
    listing: Listing,
    most: int = sys.maxsize,
    directory: str = "",
    stop: int | None = None,
) -> None:
    """List a tar, and the tars in it, as ImageNet's has one for each class."""
    limit = sys.maxsize if most == sys.maxsize else _FIRST
    end = -1  # where the bytes of the file that was listed last end
    try:
        for entry in tar.entries(stream, stop):
            kind, end = entry.kind, -1
            try:
                path, target = directory + entry.name.decode(), entry.target.decode()
            except UnicodeDecodeError:
                path = directory + entry.name.decode(errors="backslashreplace")
                listing.nameless.append(path)
                continue
            if kind == b"5" or (kind in tar.REGULAR and path.endswith("/")) or kind in b"VD":
                continue  # a directory, or GNU's name of a volume or list of a directory
            if kind in b"12":
                target = target if kind == b"2" else directory + target
                listing.links.append(Link(path, target, kind == b"2", len(listing.names)))
            elif kind in tar.WITHOUT_DATA:
                listing.special.append(path)
            elif entry.sparse:
                listing.unreadable.append((path, "a sparse file"))
            elif kind not in tar.REGULAR:
                reason = f"a member of the type {kind.decode('latin-1')!r}"
                listing.unreadable.append((path, reason))
            elif (
                not directory
                and path.lower().endswith(".tar")
                and tar.is_tar(stream.peek(min(entry.size, tar.BLOCK)))
            ):
                stem = path[: -len(".tar")]
                listing.stems.add(stem)
                list_tar(stream, listing, most, stem + "/", entry.at + entry.size)
            else:
                listing.add(path, entry.size, entry.at, entry.size)
                end = entry.at + entry.size
            if len(listing.names) >= most or entry.at + entry.size > limit:
                return
        if not directory and stream.compressed:
            stream.rest_is_zero()  # and so the checksum of the compressed data
    except DamagedShard as damage:
        if end > (stream.offset if stop is None else min(stop, stream.offset)):
            listing.remove([len(listing.names) - 1], "the archive was cut off in it")
        name = directory + os.path.basename(stream.path)
        where = f"at byte {damage.offset}{', decompressed' * stream.compressed}"
        listing.damage.append(Finding("damaged", name, f"{where}: {damage.problem}"))


# Zip: PKWARE's APPNOTE 6.3.10. Not `zipfile`, which takes twice the time and the memory, and takes
# names that a Mac or Info-ZIP wrote in UTF-8, without the flag that says so, for cp437.

_END = struct.Struct("<4s4H2LH")  # 4.3.16
_END64_LOCATOR = struct.Struct("<4sLQL")  # 4.3.15
_END64 = struct.Struct("<4sQ2H2L4Q")  # 4.3.14
_ENTRY = struct.Struct("<4s6H3L5H2L")  # 4.3.12
_EXTRA = struct.Struct("<HH")  # 4.5.1

_LONGEST_COMMENT = 0xFFFF
_LARGE = 0xFFFFFFFF
"""A number that says that the true one is in the zip64 field."""

_ENCRYPTED, _UTF8 = 1, 1 << 11  # 4.4.4
_METHODS = {0: "stored", 8: "deflated"}  # 4.4.5
_WINDOWS, _UNIX = (0, 10, 11, 14), (3, 19)  # 4.4.2
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075  # 4.5.3, 4.6.9
_MOST_INFLATED = 1032
"""Bytes that deflate makes of one at most (zlib, Technical Details: Maximum Compression Factor)."""

_LONGEST_TARGET = 4096


def _list_zip(file: OpenFile, listing: Listing, reader: ZipReader, most: int) -> None:
    start, length, shift, count = _find_directory(file, reader.path)
    directory = read_at(file, length, start)
    links: list[int] = []
    position = seen = 0
    while seen < most and position + _ENTRY.size <= length:
        entry = _ENTRY.unpack_from(directory, position)
        after = position + _ENTRY.size + sum(entry[10:13])
        if entry[0] != b"PK\x01\x02" or after > length:
            break
        _add_zipped(listing, entry, directory[position + _ENTRY.size : after], shift, start, links)
        position = after
        seen += 1
    if seen < most and (position < length or seen != count):
        detail = f"the directory of the zip breaks off after {seen} of {count} members"
        detail = f"at byte {start + position}: {detail}"
        listing.damage.append(Finding("damaged", os.path.basename(reader.path), detail))
    _resolve_links(listing, links, reader)
    _refuse_overlaps(listing)


def _find_end(file: OpenFile) -> tuple[int, tuple[int, ...]] | None:
    """Return the offset of the end record, and its fields without the signature."""
    size = file.facts().size
    start = max(size - _END.size - _LONGEST_COMMENT, 0)
    tail = read_at(file, size - start, start)
    at = len(tail)
    while (at := tail.rfind(b"PK\x05\x06", 0, at + 3)) >= 0:
        if at + _END.size <= len(tail):
            fields = _END.unpack_from(tail, at)
            if at + _END.size + fields[7] <= len(tail):
                return start + at, fields[1:]
    return None


def _find_directory(file: OpenFile, path: str) -> tuple[int, int, int, int]:
    """Return where the central directory is, its bytes, how much precedes the zip, its members."""
    found = _find_end(file)
    if found is None:
        raise SourceError(
            f"{path}: the zip has no end: it was cut off, perhaps by an incomplete "
            "download; get it again"
        )
    end, (disk, first_disk, _, count, length, offset, _) = found
    at = end - _END64_LOCATOR.size
    locator = file.pread(_END64_LOCATOR.size, at) if at >= 0 else b""
    if locator.startswith(b"PK\x06\x07") and len(locator) == _END64_LOCATOR.size:
        # The record stands before its locator, wherever that says: something may precede all.
        for end in (at - _END64.size, _END64_LOCATOR.unpack(locator)[2]):
            record = file.pread(_END64.size, end) if 0 <= end < file.facts().size else b""
            if record.startswith(b"PK\x06\x06") and len(record) == _END64.size:
                disk, first_disk, _, count, length, offset = _END64.unpack(record)[4:]
                break
        else:
            raise SourceError(f"{path}: the zip's end is damaged; get it again")
    if disk or first_disk:
        raise SourceError(
            f"{path}: is the last part of a split zip; join the parts first: "
            "zip -s 0 LAST.zip --out WHOLE.zip"
        )
    start = end - length
    if start < 0 or start < offset:
        raise SourceError(f"{path}: the zip's end is damaged, or its beginning is missing")
    return start, length, start - offset, count


def _add_zipped(
    listing: Listing,
    entry: tuple[int, ...],
    variable: bytes,
    shift: int,
    end: int,
    links: list[int],
) -> None:
    """Note a member of a zip: a record of the central directory, with its name and extra fields."""
    _, made, _, flags, method, _, _, _, stored, size, name_length, extra_length = entry[:12]
    attributes, offset = entry[15:]
    raw = variable[:name_length]
    extra = variable[name_length : name_length + extra_length]
    system = made >> 8
    name = _zipped_name(raw, flags, system, extra)
    if name is None:
        listing.nameless.append(raw.decode(errors="backslashreplace"))
        return
    kind = stat.S_IFMT(attributes >> 16) if system in _UNIX else 0
    if name.endswith("/") or kind == stat.S_IFDIR:
        return
    if _LARGE in (stored, size, offset):  # the true numbers are in the zip64 field, in this order
        numbers, given, at = [size, stored, offset], _extra_field(extra, _ZIP64), 0
        for place, number in enumerate(numbers):
            if number == _LARGE and at + 8 <= len(given):
                numbers[place] = int.from_bytes(given[at : at + 8], "little")
                at += 8
        size, stored, offset = numbers
    offset += shift
    if kind not in (0, stat.S_IFREG, stat.S_IFLNK):
        listing.special.append(name)
        return
    problem = None
    if flags & _ENCRYPTED:
        problem = "encrypted"
    elif method not in _METHODS:
        problem = f"compressed by method {method}; dsprep reads stored and deflated members"
    elif offset + LOCAL_HEADER.size + stored > end:
        problem = "its bytes are not in the zip"
    elif size > stored * (_MOST_INFLATED if method else 1) or (method == 0 and size != stored):
        problem = f"says that it has {size} bytes, but {stored} bytes in the zip cannot be so many"
    elif is_bomb(size, stored):
        problem = f"{size} bytes, compressed to {stored}: a bomb"
    if problem:
        listing.unreadable.append((name, problem))
        return
    if kind == stat.S_IFLNK:
        links.append(len(listing.names))
    listing.add(name, size, offset, stored)


def _zipped_name(raw: bytes, flags: int, system: int, extra: bytes) -> str | None:
    """Return a member's name; None if it is not the UTF-8 that it should be."""
    if raw.isascii():
        name = raw.decode("ascii")
    elif flags & _UTF8:
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            return None
    else:
        # Info-ZIP adds the name in UTF-8: after a version of 1 and the name's crc32.
        field = _extra_field(extra, _UNICODE_PATH)
        name = field[5:].decode(errors="ignore") if field[:1] == b"\1" else ""
        if not name and system in _UNIX:  # as unzip does
            with suppress(UnicodeDecodeError):
                name = raw.decode()
        name = name or raw.decode("cp437")
    return name.replace("\\", "/") if system in _WINDOWS and "\\" in name else name


def _extra_field(extra: bytes, wanted: int) -> bytes:
    at = 0
    while at + _EXTRA.size <= len(extra):
        kind, length = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        if kind == wanted:
            return extra[at : at + length]
        at += length
    return b""


def _resolve_links(listing: Listing, links: list[int], reader: ZipReader) -> None:
    """Make links of the members whose content is what they link to."""
    if not links:
        return
    short = [at for at in links if listing.sizes[at] <= _LONGEST_TARGET]
    rows = listing.rows(short)
    positions = {at: at - before for before, at in enumerate(links)}
    for at, name, target in zip(short, rows.paths, reader.read(rows), strict=True):
        if isinstance(target, bytes):
            text = target.decode(errors="backslashreplace")
            listing.links.append(Link(name, text, True, positions[at]))
        else:
            listing.unreadable.append((name, str(target)))
    reason = f"a link of more than {_LONGEST_TARGET} bytes"
    listing.unreadable += [(listing.names[at], reason) for at in sorted({*links}.difference(short))]
    listing.remove(links)


def _refuse_overlaps(listing: Listing) -> None:
    """Set aside members that share their bytes with others: a bomb multiplies itself like that."""
    offsets = listing.offsets
    ends = array("q", map(add, offsets, listing.stored))
    if all(map(lt, ends, offsets[1:])):  # in order and apart, as nearly always
        return
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    shared = set()
    end, last = -1, -1
    for at in order:
        if offsets[at] < end:
            shared |= {last, at}
        if ends[at] + LOCAL_HEADER.size > end:
            end, last = ends[at] + LOCAL_HEADER.size, at
    listing.remove(shared, "it shares its bytes with another member")

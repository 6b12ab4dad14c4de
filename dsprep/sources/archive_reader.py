"""What archives hold, and how workers read members of zips and of tars, also of compressed ones."""

from __future__ import annotations

import os
import stat
import struct
import tempfile
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import add, lt
from typing import ClassVar, NamedTuple, TypeAlias

from dsprep.errors import BadSample, DamagedShard, DestinationError, SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import ShardStream, is_bomb
from dsprep.rows import Reader, Rows
from dsprep.sources.prefetch import OpenFiles, asked_ahead, read_at, unpack
from dsprep.storage.files import OpenFile

Place: TypeAlias = tuple[int, int, int]
"""The offset of a member as its reader wants it, its bytes in the archive, and when extracted."""

NOT_UTF8 = "the name is not UTF-8"
_IN_MEMORY = 1 << 26  # bytes of members of a compressed tar before a temporary file takes them


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
    # devices and pipes, and names that are not UTF-8, printable
    odd: list[Finding] = field(default_factory=list)
    stems: set[str] = field(default_factory=set)  # names of the tars in a tar, without `.tar`
    damage: list[Finding] = field(default_factory=list)  # what is wrong with the archive

    def add(self, name: str, size: int, offset: int, stored: int) -> None:
        """Add a file that can be read."""
        self.names.append(name)
        self.sizes.append(size)
        self.offsets.append(offset)
        self.stored.append(stored)

    def refuse(self, positions: Collection[int], reason: str) -> None:
        """Move files to those that cannot be read."""
        self.unreadable += [(self.names[at], reason) for at in sorted(positions)]
        kept = [at for at in range(len(self.names)) if at not in positions]
        self.names = [self.names[at] for at in kept]
        self.sizes, self.offsets, self.stored = (
            array("q", [column[at] for at in kept])
            for column in (self.sizes, self.offsets, self.stored)
        )

    def places(self, positions: Iterable[int]) -> list[Place]:
        """Return where some of the files lie."""
        return [(self.offsets[at], self.stored[at], self.sizes[at]) for at in positions]


@dataclass(frozen=True)
class ArchiveReader(Reader):
    """Reads members of an archive that has them as they are, as a tar does."""

    beside: ClassVar[int] = 0  # bytes that are read besides a member's own

    path: str
    size: int  # bytes of the archive when it was listed
    mtime: int | None  # when it was last changed before that, in ns since 1970; None if unknown

    def opened(self) -> OpenFiles:
        """Open the archive, which must be as it was when it was listed."""
        return OpenFiles((self.path,), ((self.size, self.mtime),))

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        assert rows.offsets is not None and rows.stored is not None
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


@dataclass(frozen=True)
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
        found = self._in_order(ordered)
        yield from found if wanted == ordered else _reordered(found, ordered, wanted)

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


class ArchiveMember(NamedTuple):
    """A file in an archive."""

    archive: ArchiveReader
    offset: int  # where it lies, as rows of the archive have it
    stored: int  # how many bytes it takes there
    size: int


def read_members(members: Sequence[ArchiveMember]) -> Iterator[bytes]:
    """Read members of one archive, in the order of their offsets."""
    archive = members[0].archive
    for data in archive.members(sorted(member[1:] for member in members)):
        if not isinstance(data, bytes):
            raise SourceError(f"{archive.path}: a file in it cannot be read: {data}")
        yield data


def _reordered(
    found: Iterable[bytes], places: Iterable[Place], wanted: Iterable[Place]
) -> Iterator[bytes]:
    """Keep members that come in one order, in memory or in a file, and yield them in another."""
    kept: dict[Place, int] = {}
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        for place, content in zip(places, found, strict=True):
            kept[place] = file.tell()
            try:
                file.write(content)
            except OSError as error:
                raise DestinationError(
                    f"{tempfile.gettempdir()}: cannot be written to ({error.strerror}): name a "
                    "directory with more room for temporary files by the variable TMPDIR"
                ) from None
        for place in wanted:
            file.seek(kept[place])
            yield file.read(place[2])


# Zip

# By PKWARE's APPNOTE 6.3.10. Not by `zipfile`, which takes twice the time and the memory, and takes
# names that a Mac or Info-ZIP wrote in UTF-8, without the flag that says so, for cp437.

_END = struct.Struct("<4s4H2LH")  # 4.3.16
_END64_LOCATOR = struct.Struct("<4sLQL")  # 4.3.15
_END64 = struct.Struct("<4sQ2H2L4Q")  # 4.3.14
_LOCAL = struct.Struct("<4s5H3L2H")  # 4.3.7; its name and an extra field follow
_DESCRIPTOR = struct.Struct("<4sL")  # 4.3.9
_ENTRY = struct.Struct("<4s6H3L5H2L")  # 4.3.12
_EXTRA = struct.Struct("<HH")  # 4.5.1

_LONGEST_COMMENT = 0xFFFF
_LARGE = 0xFFFFFFFF  # a number that says that the true one is in the zip64 field
_ENCRYPTED, _DESCRIBED_AFTER, _UTF8 = 1, 1 << 3, 1 << 11  # 4.4.4
_STORED, _DEFLATED = 0, 8  # 4.4.5
_METHODS = "dsprep reads stored and deflated members"
_WINDOWS, _UNIX = (0, 10, 11, 14), (3, 19)  # 4.4.2
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075  # 4.5.3, 4.6.9
_MOST_INFLATED = 1032
"""Bytes that deflate makes of one at most (zlib, Technical Details: Maximum Compression Factor)."""

_LONGEST_TARGET = 4096


def list_zip(reader: ZipReader, most: int) -> Listing:
    """List the first members of a zip by its central directory."""
    listing, links = Listing(), Listing()
    before: list[int] = []  # how many files come before each link
    with reader.opened() as files:
        file = files.same(0)
        start, length, shift, count = _find_directory(file, reader.path)
        directory = read_at(file, length, start)
    position = seen = 0
    while seen < most and position + _ENTRY.size <= length:
        entry = _ENTRY.unpack_from(directory, position)
        after = position + _ENTRY.size + sum(entry[10:13])
        if entry[0] != b"PK\x01\x02" or after > length:
            break
        variable = directory[position + _ENTRY.size : after]
        if _add(listing, links, entry, variable, shift, start):
            before.append(len(listing.names))
        position = after
        seen += 1
    if seen < most and (position < length or seen != count):
        detail = f"the directory of the zip breaks off after {seen} of {count} members"
        detail = f"at byte {start + position}: {detail}"
        listing.damage.append(Finding("damaged", os.path.basename(reader.path), detail))
    # The content of a link is what it leads to.
    reason = f"a link of more than {_LONGEST_TARGET} bytes"
    too_long = [at for at, size in enumerate(links.sizes) if size > _LONGEST_TARGET]
    listing.unreadable += [(links.names[at], reason) for at in too_long]
    short = sorted({*range(len(before))}.difference(too_long))
    targets = reader.members(links.places(short)) if short else ()
    for at, target in zip(short, targets, strict=True):
        if isinstance(target, bytes):
            text = target.decode(errors="backslashreplace")
            listing.links.append(Link(links.names[at], text, True, before[at]))
        else:
            listing.unreadable.append((links.names[at], str(target)))
    _refuse_overlaps(listing)
    return listing


def find_end(file: OpenFile) -> tuple[int, tuple[int, ...]] | None:
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
    found = find_end(file)
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


def _add(
    listing: Listing, links: Listing, entry: tuple[int, ...], variable: bytes, shift: int, end: int
) -> bool:
    """Add a member, by its record in the central directory; return whether it is a link."""
    _, made, _, flags, method, _, _, _, stored, size, name_length, extra_length = entry[:12]
    attributes, offset = entry[15:]
    raw = variable[:name_length]
    extra = variable[name_length : name_length + extra_length]
    system = made >> 8
    name = _zipped_name(raw, flags, system, extra)
    if name is None:
        shown = raw.decode(errors="backslashreplace")
        listing.odd.append(Finding("bad-name", shown, NOT_UTF8))
        return False
    kind = stat.S_IFMT(attributes >> 16) if system in _UNIX else 0
    if name.endswith("/") or kind == stat.S_IFDIR:
        return False
    if _LARGE in (stored, size, offset):  # the true numbers are in the zip64 field, in this order
        numbers, given, at = [size, stored, offset], _extra_field(extra, _ZIP64), 0
        for place, number in enumerate(numbers):
            if number == _LARGE and at + 8 <= len(given):
                numbers[place] = int.from_bytes(given[at : at + 8], "little")
                at += 8
        size, stored, offset = numbers
    offset += shift
    if kind not in (0, stat.S_IFREG, stat.S_IFLNK):
        listing.odd.append(Finding("not-an-image", name, "not a regular file"))
        return False
    problem = None
    if flags & _ENCRYPTED:
        problem = "encrypted"
    elif method not in (_STORED, _DEFLATED):
        problem = f"compressed by method {method}; {_METHODS}"
    elif offset + _LOCAL.size + stored > end:
        problem = "its bytes are not in the zip"
    elif size > stored * (_MOST_INFLATED if method else 1) or (not method and size != stored):
        problem = f"says that it has {size} bytes, but {stored} bytes in the zip cannot be so many"
    elif is_bomb(size, stored):
        problem = f"{size} bytes, compressed to {stored}: a bomb"
    if problem:
        listing.unreadable.append((name, problem))
        return False
    is_link = kind == stat.S_IFLNK
    (links if is_link else listing).add(name, size, offset, stored)
    return is_link


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
        if ends[at] + _LOCAL.size > end:
            end, last = ends[at] + _LOCAL.size, at
    listing.refuse(shared, "it shares its bytes with another member")


@dataclass(frozen=True)
class ZipReader(ArchiveReader):
    """Reads members of a zip; a row's offset is that of the member's local header."""

    beside: ClassVar[int] = _LOCAL.size + 512  # the header and the name nearly always fit in

    def member(self, file: OpenFile, offset: int, stored: int, size: int) -> bytes:
        head = read_at(file, self.beside + stored, offset)
        if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            raise BadSample("no member begins at the offset in the directory of the zip")
        _, _, flags, method, _, _, crc, packed, plain, name, extra = _LOCAL.unpack_from(head)
        begin = _LOCAL.size + name + extra
        if len(head) < begin + stored + _DESCRIPTOR.size:
            head, begin = read_at(file, stored + _DESCRIPTOR.size, offset + begin), 0
        data = head[begin : begin + stored]
        if len(data) < stored:
            raise BadSample("the archive was cut off in it")
        if flags & _ENCRYPTED:
            raise BadSample("encrypted")
        if method not in (_STORED, _DEFLATED):
            raise BadSample(f"compressed by method {method}; {_METHODS}")
        content = _inflate(data, size) if method == _DEFLATED else data
        if len(content) != size:
            raise BadSample(f"does not have the {size} bytes of the directory of the zip")
        found = zlib.crc32(content)
        if not flags & _DESCRIBED_AFTER:
            if (packed, plain) != (stored, size) and _LARGE not in (packed, plain):
                raise BadSample("its header and the directory of the zip give different sizes")
            if found != crc:
                raise BadSample(f"its crc32 is {found:08x}, not {crc:08x}: it is damaged")
        elif found not in (crc, *_crcs_after(head, begin + stored)):  # some tell it before, as well
            raise BadSample(f"its crc32 is not {found:08x}: it is damaged")
        return content


def _inflate(data: bytes, size: int) -> bytes:
    """Decompress, at most one byte more than there should be."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = inflate.decompress(data, size + 1)
    except zlib.error as error:
        raise BadSample(f"bad deflated data ({error})") from None
    if len(content) == size and not inflate.eof:
        raise BadSample("its deflated data is cut short")
    return content


def _crcs_after(head: bytes, at: int) -> tuple[int, ...]:
    """Return what the data descriptor after a member says: its signature may be left out."""
    if len(head) < at + _DESCRIPTOR.size:
        return ()
    signature, crc = _DESCRIPTOR.unpack_from(head, at)
    first = int.from_bytes(signature, "little")
    return (first, crc) if signature == b"PK\x07\x08" else (first,)

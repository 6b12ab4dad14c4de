"""The members of a zip, from its central directory.

PKWARE's APPNOTE 6.3.10. Not :mod:`zipfile`, which takes twice the time and the memory, and
takes names that a Mac or Info-ZIP wrote in UTF-8, without the flag that says so, for cp437.
"""

from __future__ import annotations

import os
import stat
import struct
import sys
from array import array
from operator import add, lt

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import is_bomb
from dsprep.sources.archive_reader import LOCAL_HEADER, ZipReader
from dsprep.sources.members import Link, Listing
from dsprep.sources.prefetch import read_at
from dsprep.storage.opened import OpenFile

_END = struct.Struct("<4s4H2LH")  # 4.3.16
_END64_LOCATOR = struct.Struct("<4sLQL")  # 4.3.15
_END64 = struct.Struct("<4sQ2H2L4Q")  # 4.3.14
_ENTRY = struct.Struct("<4s6H3L5H2L")  # 4.3.12
_EXTRA = struct.Struct("<HH")  # 4.5.1

_LONGEST_COMMENT = 0xFFFF
_LARGE = 0xFFFFFFFF
"""A number that says that the true one stands in the zip64 field."""

_ENCRYPTED, _UTF8 = 1, 1 << 11  # 4.4.4
_METHODS = {0: "stored", 8: "deflated"}  # 4.4.5
_WINDOWS, _UNIX = (0, 10, 11, 14), (3, 19)  # 4.4.2
_ZIP64, _UNICODE_PATH = 0x0001, 0x7075  # 4.5.3, 4.6.9
_MOST_INFLATED = 1032
"""Bytes that deflate makes of one at most (zlib, Technical Details: Maximum Compression Factor)."""

_LONGEST_TARGET = 4096


def has_directory(file: OpenFile) -> bool:
    """Whether a file ends as a zip does."""
    return _find_end(file, file.facts().size) is not None


def list_zip(file: OpenFile, path: str, reader: ZipReader, most: int = sys.maxsize) -> Listing:
    """List the members of a zip."""
    size = file.facts().size
    start, length, shift, count = _find_directory(file, size, path)
    directory = read_at(file, length, start)
    listing = Listing()
    links: list[int] = []
    position = seen = 0
    while position < length and seen < most:
        try:
            entry = _ENTRY.unpack_from(directory, position)
        except struct.error:
            break
        if entry[0] != b"PK\x01\x02":
            break
        after = position + _ENTRY.size + sum(entry[10:13])
        if after > length:
            break
        _add(directory, position, entry, shift, start, listing, links)
        position = after
        seen += 1
    if seen < most and (position < length or seen != count):
        listing.damage.append(
            Finding(
                "damaged",
                os.path.basename(path),
                f"at byte {start + position}: the directory of the zip breaks off after {seen} of "
                f"{count} members",
            )
        )
    _resolve_links(listing, links, reader)
    _refuse_overlaps(listing)
    return listing


def _find_end(file: OpenFile, size: int) -> tuple[int, tuple[int, ...]] | None:
    """The end record: where it begins, and its fields without the signature."""
    start = max(size - _END.size - _LONGEST_COMMENT, 0)
    tail = read_at(file, size - start, start)
    at = len(tail)
    while (at := tail.rfind(b"PK\x05\x06", 0, at + 3)) >= 0:
        if at + _END.size <= len(tail):
            fields = _END.unpack_from(tail, at)
            if at + _END.size + fields[7] <= len(tail):
                return start + at, fields[1:]
    return None


def _find_directory(file: OpenFile, size: int, path: str) -> tuple[int, int, int, int]:
    """Where the central directory is."""
    found = _find_end(file, size)
    if found is None:
        raise SourceError(
            f"{path}: the zip has no end: it was cut off, by a download perhaps that did not "
            "finish; get it again"
        )
    end, (disk, first_disk, _, count, length, offset, _) = found
    at = end - _END64_LOCATOR.size
    locator = file.pread(_END64_LOCATOR.size, at) if at >= 0 else b""
    if locator.startswith(b"PK\x06\x07") and len(locator) == _END64_LOCATOR.size:
        # The record stands before its locator, wherever that says: something may precede all.
        for end in (at - _END64.size, _END64_LOCATOR.unpack(locator)[2]):
            record = file.pread(_END64.size, end) if 0 <= end < size else b""
            if record.startswith(b"PK\x06\x06") and len(record) == _END64.size:
                disk, first_disk, _, count, length, offset = _END64.unpack(record)[4:]
                break
        else:
            raise SourceError(f"{path}: the zip's end is damaged: get it again")
    if disk or first_disk:
        raise SourceError(
            f"{path}: is the last part of a zip in several: join them first, "
            "zip -s 0 LAST.zip --out WHOLE.zip"
        )
    start = end - length
    if start < 0 or start < offset:
        raise SourceError(f"{path}: the zip's end is damaged, or its beginning is missing")
    return start, length, start - offset, count


def _add(
    directory: bytes,
    position: int,
    entry: tuple[int, ...],
    shift: int,
    end: int,
    listing: Listing,
    links: list[int],
) -> None:
    """Note a member."""
    _, made, _, flags, method, _, _, _, stored, size, name_length, extra_length = entry[:12]
    attributes, offset = entry[15:]
    at = position + _ENTRY.size
    raw = directory[at : at + name_length]
    system = made >> 8
    extra = b""
    if _LARGE in (stored, size, offset) or not (flags & _UTF8 or raw.isascii()):
        extra = directory[at + name_length : at + name_length + extra_length]
    name = _name(raw, flags, system, extra)
    if name is None:
        listing.nameless.append(raw.decode(errors="backslashreplace"))
        return
    kind = stat.S_IFMT(attributes >> 16) if system in _UNIX else 0
    if name.endswith("/") or kind == stat.S_IFDIR:
        return
    if _LARGE in (stored, size, offset):
        size, stored, offset = _large(size, stored, offset, extra)
    offset += shift
    if kind not in (0, stat.S_IFREG, stat.S_IFLNK):
        listing.special.append(name)
        return
    reason = _why_unreadable(flags, method, size, stored, offset, end)
    if reason:
        listing.unreadable.append((name, reason))
        return
    if kind == stat.S_IFLNK:
        links.append(len(listing.names))
    listing.add(name, size, offset, stored)


def _name(raw: bytes, flags: int, system: int, extra: bytes) -> str | None:
    """A member's name; None if it is not the UTF-8 that it should be."""
    if flags & _UTF8:
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            return None
    elif raw.isascii():
        name = raw.decode("ascii")
    else:
        name = _unicode_path(extra) or _unflagged(raw, system)
    return name.replace("\\", "/") if system in _WINDOWS and "\\" in name else name


def _unflagged(raw: bytes, system: int) -> str:
    """A name without the flag: as unzip does, as it is if a Unix wrote it, else from cp437."""
    if system in _UNIX:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            pass
    return raw.decode("cp437")


def _field(extra: bytes, wanted: int) -> bytes:
    """One of the extra fields, or nothing."""
    at = 0
    while at + _EXTRA.size <= len(extra):
        kind, length = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        if kind == wanted:
            return extra[at : at + length]
        at += length
    return b""


def _unicode_path(extra: bytes) -> str:
    """The name in UTF-8 that Info-ZIP adds: after a version of 1 and the name's crc32."""
    field = _field(extra, _UNICODE_PATH)
    return field[5:].decode(errors="ignore") if field[:1] == b"\1" else ""


def _large(size: int, stored: int, offset: int, extra: bytes) -> tuple[int, int, int]:
    """What the zip64 field says instead of those that are all ones."""
    field = _field(extra, _ZIP64)
    numbers = [size, stored, offset]
    at = 0
    for place, number in enumerate(numbers):
        if number == _LARGE and at + 8 <= len(field):
            numbers[place] = int.from_bytes(field[at : at + 8], "little")
            at += 8
    return numbers[0], numbers[1], numbers[2]


def _why_unreadable(
    flags: int, method: int, size: int, stored: int, offset: int, end: int
) -> str | None:
    if flags & _ENCRYPTED:
        return "encrypted"
    if method not in _METHODS:
        return f"compressed by method {method}; dsprep reads what is stored or deflated"
    if offset + LOCAL_HEADER.size + stored > end:
        return "its bytes are not in the zip"
    if size > stored * (_MOST_INFLATED if method else 1) or (method == 0 and size != stored):
        return f"says that it is {size} bytes, which the {stored} in the zip cannot be"
    if is_bomb(size, stored):
        return f"{size} bytes, compressed to {stored}: a bomb"
    return None


def _resolve_links(listing: Listing, links: list[int], reader: ZipReader) -> None:
    """Make links of the members whose content is what they link to."""
    if not links:
        return
    short = [each for each in links if listing.sizes[each] <= _LONGEST_TARGET]
    rows = listing.rows(short)
    places = {each: each - before for before, each in enumerate(links)}
    for each, name, target in zip(short, rows.paths, reader.read(rows), strict=True):
        if isinstance(target, bytes):
            text = target.decode(errors="backslashreplace")
            listing.links.append(Link(name, text, True, places[each]))
        else:
            listing.unreadable.append((name, str(target)))
    reason = f"a link of more than {_LONGEST_TARGET} bytes"
    long = sorted(set(links).difference(short))
    listing.unreadable += [(listing.names[each], reason) for each in long]
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
    for each in order:
        if offsets[each] < end:
            shared |= {last, each}
        if ends[each] + LOCAL_HEADER.size > end:
            end, last = ends[each] + LOCAL_HEADER.size, each
    if shared:
        listing.refuse(shared, "its bytes are those of another member, too")

"""Zip: the parser of its central directory, and how a member is read.

By PKWARE's APPNOTE 6.3.10. Not by `zipfile`, which takes twice the time and the memory, and takes
names that a Mac or Info-ZIP wrote in UTF-8, without the flag that says so, for cp437.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress
from operator import add, lt
from typing import TypeAlias

from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import is_bomb
from dsprep.places.prefetch import read_at
from dsprep.storage.files import OpenFile
from dsprep.tuples import NamedTuple

_END = struct.Struct("<4s4H2LH")  # 4.3.16
_END64_LOCATOR = struct.Struct("<4sLQL")  # 4.3.15
_END64 = struct.Struct("<4sQ2H2L4Q")  # 4.3.14
_LOCAL = struct.Struct("<4s5H3L2H")  # 4.3.7; its name and an extra field follow
_ENTRY = struct.Struct("<4s6H3L5H2L")  # 4.3.12
_EXTRA = struct.Struct("<HH")  # 4.5.1

_DESCRIPTOR = 8  # bytes of a crc32 after a member, and of its signature; 4.3.9
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
BESIDE = _LOCAL.size + 512  # a member's header and name nearly always fit in
NOT_UTF8 = "the name is not UTF-8"


Member: TypeAlias = tuple[str, tuple[int, int, int], bool]
"""The name; the offset of the local header, the packed and the plain size; whether it is a link."""


def list_members(file: OpenFile, path: str) -> Iterator[Member | Finding]:
    """Read the central directory, without directories; the content of a link is its target."""
    start, length, shift, count = _find_directory(file, path)
    directory = read_at(file, length, start)
    position = seen = 0
    while position + _ENTRY.size <= length:
        entry = _ENTRY.unpack_from(directory, position)
        after = position + _ENTRY.size + sum(entry[10:13])
        if entry[0] != b"PK\x01\x02" or after > length:
            break
        found = _parse_entry(entry, directory[position + _ENTRY.size : after], shift, start)
        if found is not None:
            yield found
        position = after
        seen += 1
    if position < length or seen != count:
        detail = f"the directory of the zip breaks off after {seen} of {count} members"
        yield Finding("damaged", os.path.basename(path), f"at byte {start + position}: {detail}")


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


def _parse_entry(
    entry: tuple[int, ...], variable: bytes, shift: int, end: int
) -> Member | Finding | None:
    """Parse a record of the central directory; return None for a directory."""
    _, made, _, flags, method, _, _, _, stored, size, name_length, extra_length = entry[:12]
    attributes, offset = entry[15:]
    raw = variable[:name_length]
    extra = variable[name_length : name_length + extra_length]
    system = made >> 8
    name = _zipped_name(raw, flags, system, extra)
    if name is None:
        return Finding("bad-name", raw.decode(errors="backslashreplace"), NOT_UTF8)
    kind = stat.S_IFMT(attributes >> 16) if system in _UNIX else 0
    if name.endswith("/") or kind == stat.S_IFDIR:
        return None
    # a field of all ones: the number is in the zip64 field, in the order of the fields
    if _LARGE in (stored, size, offset):
        numbers, given, at = [size, stored, offset], _extra_field(extra, _ZIP64), 0
        for place, number in enumerate(numbers):
            if number == _LARGE and at + 8 <= len(given):
                numbers[place] = int.from_bytes(given[at : at + 8], "little")
                at += 8
        size, stored, offset = numbers
    offset += shift
    if kind not in (0, stat.S_IFREG, stat.S_IFLNK):
        return Finding("not-an-image", name, "not a regular file")
    problem, is_link = None, kind == stat.S_IFLNK
    if flags & _ENCRYPTED:
        problem = "encrypted"
    elif method not in (_STORED, _DEFLATED):
        problem = f"compressed by method {method}; {_METHODS}"
    elif offset + _LOCAL.size + stored > end:
        problem = "its bytes are not in the zip"
    elif size > stored * (_MOST_INFLATED if method else 1) or (not method and size != stored):
        problem = f"says that it has {size} bytes, but {stored} bytes in the zip cannot be so many"
    elif method and is_bomb(size, stored):
        problem = f"{size} bytes, compressed to {stored}: a bomb"
    elif is_link and size > _LONGEST_TARGET:
        problem = f"a link of more than {_LONGEST_TARGET} bytes"
    if problem:
        return Finding("unreadable", name, problem)
    return name, (offset, stored, size), is_link


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
        if not name and system in _UNIX:  # unzip decodes such names as UTF-8, too
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


def overlapping(offsets: array[int], stored: array[int]) -> set[int]:
    """Find members that share their bytes with others: a bomb multiplies itself like that."""
    ends = array("q", map(add, offsets, stored))
    shared = set[int]()
    # the fast path: members nearly always lie in order and do not overlap
    if all(map(lt, ends, offsets[1:])):
        return shared
    end, last = -1, -1
    for at in sorted(range(len(offsets)), key=offsets.__getitem__):
        if offsets[at] < end:
            shared |= {last, at}
        if ends[at] + _LOCAL.size > end:
            end, last = ends[at] + _LOCAL.size, at
    return shared


class Packed(NamedTuple):
    """Where the data of a member lies."""

    start: int
    size: int
    is_deflated: bool
    crcs: tuple[int, ...]  # the checksum of the member is one of these


def locate(file: OpenFile, offset: int, stored: int) -> Packed:
    """Find the data of the member whose local header is at an offset."""
    head = read_at(file, _LOCAL.size, offset)
    if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
        raise BadSample("no member begins at the offset in the directory of the zip")
    _, _, flags, method, _, _, crc, _, _, name, extra = _LOCAL.unpack(head)
    start = offset + _LOCAL.size + name + extra
    crcs: tuple[int, ...] = (crc,)
    if flags & _DESCRIBED_AFTER:
        after = read_at(file, _DESCRIPTOR, start + stored).ljust(_DESCRIPTOR, b"\0")
        # a signature may stand before the CRC; writers may omit it
        crcs += struct.unpack("<2I", after)
    return Packed(start, stored, method == _DEFLATED, crcs)


def read_member(file: OpenFile, offset: int, stored: int, size: int) -> bytes:
    """Read the member whose local header is at an offset."""
    head = read_at(file, BESIDE + stored, offset)
    if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
        raise BadSample("no member begins at the offset in the directory of the zip")
    _, _, flags, method, _, _, crc, packed, plain, name, extra = _LOCAL.unpack_from(head)
    begin = _LOCAL.size + name + extra
    if len(head) < begin + stored + _DESCRIPTOR:
        head, begin = read_at(file, stored + _DESCRIPTOR, offset + begin), 0
    data, after = head[begin : begin + stored], head[begin + stored :][:_DESCRIPTOR]
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
    # Some tell it before, as well. Its signature may be left out after the member.
    elif found != crc and found.to_bytes(4, "little") not in (
        after[:4],
        after.removeprefix(b"PK\x07\x08")[:4],
    ):
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

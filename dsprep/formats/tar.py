"""Tar: members as webdataset, wids and DALI all read them, and the parser of any tar's headers.

dsprep writes the subset that every reader takes: POSIX ustar, the name in the name field (100
bytes), owner and time zero. A longer name gets a PAX header (POSIX.1-2001 pax, "Extended Header"),
which webdataset reads and wids and DALI do not. It also reads GNU long names, ustar prefixes,
base-256 sizes and PAX headers, as GNU tar and Python's tarfile write them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias
from zlib import adler32

from dsprep.errors import BadSample, DamagedShard
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from dsprep.formats.stream import ShardStream

BLOCK = 512
RECORD = 10240  # a tar is padded to a multiple of this, as GNU tar and tarfile do

_ZEROS = bytes(BLOCK)
END = 2 * _ZEROS
MAX_NAME = 100
MAX_SIZE = 0o77777777777
_MAX_META = 1 << 20  # a PAX header or long name beyond this is an attack, not a name

_OCTAL = re.compile(rb" *([0-7]*) *(?:\0.*)?", re.DOTALL)
_DECIMAL = re.compile(rb"[0-9]{1,20}")

# the name, size, checksum and type in a header, and the first byte of its prefix
_header_at = struct.Struct("100s 24x 12s 12x 8s c 188x c").unpack_from

REGULAR = frozenset({b"0", b"\0", b"7"})
# Links, devices, directories and pipes have a size at times, and no bytes.
WITHOUT_DATA = frozenset({b"1", b"2", b"3", b"4", b"5", b"6"})
_LARGEST = 1 << 62  # a larger number is no size; this one still fits a signed 64-bit column

_OWNER = b"%07o\0%07o\0%07o\0" % (0o644, 0, 0)
_TIME = b"\0%011o\0" % 0


def _blank(kind: bytes) -> tuple[bytes, int]:
    """Return a header from its checksum's end on, and the sum of its fixed bytes."""
    rest = b"\0 " + kind + bytes(100) + b"ustar\x0000" + bytes(247)
    # For the sum, the checksum itself counts as eight blanks.
    fixed = sum(_OWNER) + sum(_TIME) + sum(rest) - sum(b"\0 ") + sum(b" " * 8)
    return rest, fixed


_FILE_REST, _FILE_SUM = _blank(b"0")
_PAX_REST, _PAX_SUM = _blank(b"x")


def member(name: bytes, size: int) -> bytes:
    """Return the header of a regular file, with a PAX header before it if the name is long."""
    if size > MAX_SIZE:
        raise BadSample(f"{size} bytes, but a tar member holds {MAX_SIZE}")
    if len(name) <= MAX_NAME:
        return _header(name, size, _FILE_REST, _FILE_SUM)
    record = _pax_record(b"path", name)
    pax = _header(b"././@PaxHeader", len(record), _PAX_REST, _PAX_SUM) + record
    return pax + padding(len(record)) + _header(name[:MAX_NAME], size, _FILE_REST, _FILE_SUM)


def padding(size: int) -> bytes:
    """Return the bytes that fill up a member's last block."""
    return _ZEROS[: -size % BLOCK]


def ending(size: int) -> bytes:
    """Return the end blocks after ``size`` bytes of members, padded to a full record."""
    return bytes(len(END) + -(size + len(END)) % RECORD)


def _header(name: bytes, size: int, rest: bytes, fixed: int) -> bytes:
    fields, field_sum = _fields(size)
    # Adler-32 begins with 1 plus the sum of the bytes, which `sum` finds more slowly.
    checksum = _digits(fixed + field_sum + (adler32(name) & 0xFFFF) - 1)
    return b"".join((name, _ZEROS[: MAX_NAME - len(name)], fields, checksum, rest))


@lru_cache(maxsize=4096)
def _digits(checksum: int) -> bytes:
    return b"%06o" % checksum


@lru_cache(maxsize=4096)
def _fields(size: int) -> tuple[bytes, int]:
    """Return a header from the owner to the time, and the sum of its digits of the size."""
    digits = b"%011o" % size
    return _OWNER + digits + _TIME, sum(digits)


def _pax_record(key: bytes, value: bytes) -> bytes:
    r"""``LENGTH KEY=VALUE\n``, whose length counts its own digits."""
    size = len(key) + len(value) + 3
    total = size + len(str(size))
    total = size + len(str(total))
    return b"%d %s=%s\n" % (total, key, value)


class BadHeader(Exception):
    """A block that is no header; the message says why."""


class TarEntry(NamedTuple):
    """Anything in a tar that has a name."""

    offset: int  # where its first header begins, PAX and long-name headers included
    kind: bytes  # its type flag
    name: bytes
    target: bytes  # what it links to
    start: int  # where its bytes begin
    size: int  # size in bytes; links and directories have no bytes, whatever the header says
    sparse: bool  # whether its bytes are those of a sparse file


# those of an entry: `members` makes no NamedTuple of them, which takes as long as half of parsing
# a header does
_Fields: TypeAlias = tuple[int, bytes, bytes, bytes, int, int, bool]


class Member(NamedTuple):
    """A regular file in a tar."""

    offset: int  # where its first header begins, PAX and long-name headers included
    name: str
    start: int  # where its bytes begin
    size: int  # number of its bytes
    stop: int  # where its padding ends
    data: bytes  # its bytes; empty if they were skipped


# the fields of `Member` in their order: a bare tuple is faster to make
MemberFields: TypeAlias = tuple[int, str, int, int, int, bytes]


def members(stream: ShardStream, with_data: bool = True) -> Iterator[MemberFields]:
    """Read the regular files of an undamaged tar; skip directories, links and devices.

    The stream may still be at one of the members before the one that is yielded.
    """
    yield from _held_members(stream, with_data)
    while (entry := _next_entry(stream, None)) is not None:
        start, kind, raw, _, at, size, sparse = entry
        if kind in REGULAR:
            if sparse:
                raise stream.damaged("a sparse file, which dsprep does not read", start)
            name = raw.decode(errors="backslashreplace")
            data = b""
            if with_data:
                data = stream.read(size, name)
                stream.skip(-size % BLOCK, "the padding of a member")
            else:
                # In one call: with small members, calls take most of the time.
                try:
                    stream.skip(size + -size % BLOCK, name)
                except DamagedShard:
                    # skip again in two steps, for the error of the right one
                    if stream.offset == at:
                        stream.skip(size, name)
                        stream.skip(-size % BLOCK, "the padding of a member")
                    raise
            yield start, name, at, size, stream.offset, data
            yield from _held_members(stream, with_data)
        elif kind not in WITHOUT_DATA:
            problem = f"a tar member of type {kind!r}, which dsprep does not read"
            raise stream.damaged(problem, start)
    offset = stream.offset
    if not stream.rest_is_zero():
        raise stream.damaged("something follows the end blocks of the tar", offset)


def _held_members(stream: ShardStream, with_data: bool) -> Iterator[MemberFields]:
    """Read the plain files that the stream holds already.

    Nearly all small files are such, so this calls as little as it can for each. It stops before
    any other entry and before damage, which `_next_entry` reads.
    """
    block, at = stream.held()
    before, begin = stream.offset - at, at
    view = memoryview(block)
    while (start := at + BLOCK) <= len(block):
        name, digits, checksum, kind, prefix = _header_at(block, at)
        if kind != b"0" or prefix != b"\0":
            break
        try:
            size = _parse_number(digits)
            stop = start + size + -size % BLOCK
            # that of a large file is left to `_next_entry` alone
            if stop > len(block) or adler32(view[at:start]) & 0xFFFF != _parse_checksum(checksum):
                break
        except BadHeader:
            break
        text = name.partition(b"\0")[0].decode(errors="backslashreplace")
        data = block[start : start + size] if with_data else b""
        yield before + at, text, before + start, size, before + stop, data
        at = stop
    stream.skip(at - begin, "members")


def entries(stream: ShardStream, stop: int | None = None) -> Iterator[TarEntry]:
    """Read the headers of a tar, or of a tar in a tar that ends at ``stop``."""
    # The stream is at the bytes of an entry when it is yielded. The caller may read any of them.
    while (fields := _next_entry(stream, stop)) is not None:
        yield TarEntry(*fields)
        _, kind, name, _, at, size, _ = fields
        if kind not in WITHOUT_DATA:
            end = at + size
            if stop is not None and end > stop:
                raise stream.damaged("the tar ends without its end blocks: it was cut off")
            if stream.offset < end:
                stream.skip(end - stream.offset, name.decode(errors="backslashreplace"))
            end += -size % BLOCK
            if stream.offset < end:
                stream.skip(end - stream.offset, "the padding of a member")


def _next_entry(stream: ShardStream, stop: int | None) -> _Fields | None:
    """Read the headers of the next entry; None at the end of the tar."""
    start = stream.offset
    pax: dict[bytes, bytes] = {}
    while True:
        offset = stream.offset
        if stop is not None or stream.at_end():
            if stream.is_part and start == offset and stream.at_end():
                return None
            _require(stream, stop, BLOCK)
        block = stream.read(BLOCK, "a tar header")
        if block == _ZEROS:
            _require(stream, stop, BLOCK, missing := "the tar's second end block is missing")
            if stream.read(BLOCK, "the second end block") != _ZEROS:
                raise stream.damaged(missing)
            return None
        try:
            kind, name, size = parse_header(block)
            if kind == b"0" and not pax:  # nearly all entries are plain files
                return start, kind, name, b"", offset + BLOCK, size, False
            if b"size" in pax:
                size = _pax_size(pax[b"size"])
            if kind in {b"x", b"g", b"L", b"K", b"X"}:
                if size > _MAX_META:
                    raise BadHeader(f"a header of {size} bytes is too large for a name")
                _require(stream, stop, size + -size % BLOCK)
                meta = stream.read(size, "a long name")
                stream.read(-size % BLOCK, "the padding of a header")
                if kind in b"xX":
                    pax |= _parse_pax(meta)
                    _pax_size(pax.get(b"size", b"0"))
                elif kind != b"g":
                    pax[b"path" if kind == b"L" else b"linkpath"] = meta.split(b"\0", 1)[0]
                continue
        except BadHeader as problem:
            raise stream.damaged(str(problem), offset) from None
        sparse, target = kind == b"S", b""
        more = sparse and block[482]
        while more:  # GNU tar's struct sparse_header: blocks between the header and the content
            _require(stream, stop, BLOCK)
            more = stream.read(BLOCK, "a header of a sparse file")[504]
        if kind in {b"1", b"2"}:
            target = pax.get(b"linkpath") or block[157:257].split(b"\0", 1)[0]
        if pax:
            name = pax.get(b"GNU.sparse.name") or pax.get(b"path") or name
            sparse = sparse or any(key.startswith(b"GNU.sparse") for key in pax)
        return start, kind, name, target, stream.offset, size, sparse


def _require(
    stream: ShardStream,
    stop: int | None,
    count: int,
    problem: str = "the tar ends without its end blocks",
) -> None:
    if stream.at_end() or (stop is not None and stream.offset + count > stop):
        raise stream.damaged(f"{problem}: it was cut off")


def is_tar(block: bytes) -> bool:
    """Return whether a tar begins with this block: a header, or the end blocks."""
    try:
        return len(block) == BLOCK and (not any(block) or bool(parse_header(block)))
    except BadHeader:
        return False


def parse_header(block: bytes) -> tuple[bytes, bytes, int]:
    """Return the type, the name and the size in a header."""
    if adler32(block) & 0xFFFF != _parse_checksum(block[148:156]):
        raise BadHeader("a tar header has a wrong checksum, or it is not a tar header")
    name = block[:100].split(b"\0", 1)[0]
    if block[257:263] == b"ustar\0" and block[345]:
        name = block[345:500].split(b"\0", 1)[0] + b"/" + name
    return block[156:157], name, _parse_number(block[124:136])


@lru_cache(maxsize=8192)
def _parse_checksum(field: bytes) -> int:
    """Return the lower half of the Adler-32 of a header that has this checksum."""
    # It is 1 plus the sum of the bytes, modulo 65521; the checksum counts itself as blanks.
    return (1 + _parse_number(field) + sum(field) - sum(b" " * len(field))) % 65521


# Headers have sizes and checksums in common: those of class numbers are all alike.
@lru_cache(maxsize=8192)
def _parse_number(field: bytes) -> int:
    if field[0] == 0x80:  # GNU's base-256, for what octal digits cannot hold
        number = int.from_bytes(field[1:], "big")
    elif match := _OCTAL.fullmatch(field):
        number = int(match[1] or b"0", 8)
    else:
        raise BadHeader(f"{field!r} in a tar header is not a number")
    if number > _LARGEST:
        raise BadHeader(f"{number} in a tar header is too large for a size")
    return number


def _pax_size(value: bytes) -> int:
    if not _DECIMAL.fullmatch(value) or int(value) > _LARGEST:
        raise BadHeader(f"a PAX header whose size is not a number: {value[:24]!r}")
    return int(value)


def _parse_pax(data: bytes) -> dict[bytes, bytes]:
    r"""Read the records ``LENGTH KEY=VALUE\n``, whose length counts its own digits."""
    found = {}
    at = 0
    while at < len(data):
        digits, blank, _ = data[at : at + 20].partition(b" ")
        length = int(digits) if blank and digits.isdigit() else 0
        key, equals, value = data[at + len(digits) + 1 : at + length].partition(b"=")
        if not equals or not value.endswith(b"\n") or at + length > len(data):
            raise BadHeader("a PAX header that does not consist of records")
        found[key] = value[:-1]
        at += length
    return found

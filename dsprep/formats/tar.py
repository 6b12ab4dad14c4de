"""Tar: members as webdataset, wids and DALI all read them, and a strict reader of any tar.

Written is the subset that every reader takes: POSIX ustar, the name in the name field (100 bytes),
owner and time zero. A longer name gets a PAX header (POSIX.1-2001 pax, "Extended Header"), which
webdataset reads and wids and DALI do not. Read are also GNU long names, ustar prefixes, base-256
sizes and PAX headers, as GNU tar and Python's tarfile write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from zlib import adler32

from dsprep.errors import BadSample, DamagedShard

if TYPE_CHECKING:
    from dsprep.formats.stream import ShardStream

BLOCK = 512
RECORD = 10240
"""A tar is padded to a multiple of this, as GNU tar and tarfile do."""

END = bytes(2 * BLOCK)
MAX_NAME = 100
MAX_SIZE = 0o77777777777
_MAX_META = 1 << 20
"""A PAX header or long name beyond this is an attack, not a name."""

_ADLER = 65521
_OCTAL = re.compile(rb" *([0-7]*) *(?:\0.*)?", re.DOTALL)
_DECIMAL = re.compile(r"[0-9]{1,20}")

_OWNER = b"%07o\0%07o\0%07o\0" % (0o644, 0, 0)
_TIME = b"\0%011o\0" % 0
_TAIL = b"ustar\x0000" + bytes(247)


def _blank(kind: bytes) -> tuple[bytes, int]:
    """All of a header after its checksum, and the sum of all of its fixed bytes."""
    rest = b"\0 " + kind + bytes(100) + _TAIL
    # For the sum, the checksum itself counts as eight blanks.
    fixed = sum(_OWNER) + sum(_TIME) + sum(rest) - sum(b"\0 ") + sum(b" " * 8)
    return rest, fixed


_FILE_REST, _FILE_SUM = _blank(b"0")
_PAX_REST, _PAX_SUM = _blank(b"x")


def member(name: bytes, size: int) -> bytes:
    """The header of a regular file, with a PAX header before it if the name is long."""
    if size > MAX_SIZE:
        raise BadSample(f"{size} bytes, but a tar member holds {MAX_SIZE}")
    if len(name) <= MAX_NAME:
        return _header(name, size, _FILE_REST, _FILE_SUM)
    record = _pax_record(b"path", name)
    return b"".join(
        (
            _header(b"././@PaxHeader", len(record), _PAX_REST, _PAX_SUM),
            record,
            padding(len(record)),
            _header(name[:MAX_NAME], size, _FILE_REST, _FILE_SUM),
        )
    )


def padding(size: int) -> bytes:
    """What fills up a member's last block."""
    return bytes(-size % BLOCK)


def ending(size: int) -> bytes:
    """The end blocks after ``size`` bytes of members, padded to a whole record."""
    return bytes(len(END) + -(size + len(END)) % RECORD)


def _header(name: bytes, size: int, rest: bytes, fixed: int) -> bytes:
    digits, digit_sum = _octal(size)
    checksum = fixed + sum(name) + digit_sum
    return b"".join((name.ljust(100, b"\0"), _OWNER, digits, _TIME, b"%06o" % checksum, rest))


@lru_cache(maxsize=4096)
def _octal(size: int) -> tuple[bytes, int]:
    digits = b"%011o" % size
    return digits, sum(digits)


def _pax_record(key: bytes, value: bytes) -> bytes:
    r"""``LENGTH KEY=VALUE\n``, whose length counts its own digits."""
    size = len(key) + len(value) + 3
    total = size + len(str(size))
    total = size + len(str(total))
    return b"%d %s=%s\n" % (total, key, value)


class Member(NamedTuple):
    """A regular file in a tar."""

    offset: int  # where its first header begins, PAX and long-name headers included
    name: str  # its whole name
    at: int  # where its bytes begin
    size: int  # how many they are
    data: bytes  # its bytes; none if they are passed over


def members(stream: ShardStream, with_data: bool = True) -> Iterator[Member]:
    """Read the regular files of a tar; directories, links and devices are passed over."""
    start: int | None = None
    long_name: str | None = None
    long_size: int | None = None
    while True:
        offset = stream.offset
        if start is None:
            start = offset
        if stream.at_end():
            if stream.is_part and start == offset:
                return
            raise stream.damaged("the tar ends without its end blocks: it was cut off")
        block = stream.read(BLOCK, "a tar header")
        if not any(block):
            _check_ending(stream)
            return
        kind, name, size = _parse(block, stream, offset)
        if kind in b"xgLK":
            meta = _read_meta(stream, size, offset)
            if kind == b"x":
                pax = _parse_pax(meta, stream, offset)
                if any(key.startswith("GNU.sparse") for key in pax):
                    raise stream.damaged("a sparse file, which dsprep does not read", offset)
                long_name = pax.get("path", long_name)
                if "size" in pax:
                    if not _DECIMAL.fullmatch(pax["size"]):
                        raise stream.damaged("a PAX header whose size is no number", offset)
                    long_size = int(pax["size"])
            elif kind == b"L":
                long_name = meta.split(b"\0", 1)[0].decode(errors="backslashreplace")
            continue
        size = size if long_size is None else long_size
        if kind in (b"0", b"\0", b"7"):
            name = long_name or name
            at = stream.offset
            if with_data:
                data = stream.read(size, name)
                stream.skip(-size % BLOCK, "the padding of a member")
            else:
                data = b""
                stream.skip(size + -size % BLOCK, name)
            yield Member(start, name, at, size, data)
        elif kind not in b"123456":
            raise stream.damaged(
                f"a tar member of type {kind!r}, which dsprep does not read", offset
            )
        start = long_name = long_size = None


def _check_ending(stream: ShardStream) -> None:
    if stream.at_end() or any(stream.read(BLOCK, "the second end block")):
        raise stream.damaged("the tar's second end block is missing")
    offset = stream.offset
    if not stream.rest_is_zero():
        raise stream.damaged("something follows the end blocks of the tar", offset)


def _read_meta(stream: ShardStream, size: int, offset: int) -> bytes:
    if size > _MAX_META:
        raise stream.damaged(f"a header of {size} bytes is no name", offset)
    data = stream.read(size, "a long name")
    stream.read(-size % BLOCK, "the padding of a header")
    return data


def _parse(block: bytes, stream: ShardStream, offset: int) -> tuple[bytes, str, int]:
    """The type, the name and the size in a header."""
    # Adler-32 begins with the sum of the bytes, modulo 65521: many times as fast as sum() is.
    found = _parse_checksum(block[148:156])
    if found is None:
        raise _no_number(block[148:156], stream, offset)
    stored, blanks = found
    if ((adler32(block) & 0xFFFF) - 1 - blanks - stored) % _ADLER:
        raise stream.damaged("a tar header's checksum is wrong, or it is no tar header", offset)
    name = block[:100].split(b"\0", 1)[0]
    if block[257:263] == b"ustar\0" and block[345]:
        name = block[345:500].split(b"\0", 1)[0] + b"/" + name
    field = block[124:136]
    size = _parse_number(field)
    if size is None:
        raise _no_number(field, stream, offset)
    return block[156:157], name.decode(errors="backslashreplace"), size


def _no_number(field: bytes, stream: ShardStream, offset: int) -> DamagedShard:
    return stream.damaged(f"{field!r} in a tar header is not a number", offset)


@lru_cache(maxsize=8192)
def _parse_checksum(field: bytes) -> tuple[int, int] | None:
    """The checksum in a header, and by how much its own bytes exceed the blanks it counts."""
    number = _parse_number(field)
    return None if number is None else (number, sum(field) - sum(b" " * len(field)))


# Headers have sizes and checksums in common: those of class numbers are all alike.
@lru_cache(maxsize=8192)
def _parse_number(field: bytes) -> int | None:
    if field[0] == 0x80:  # GNU's base-256, for what octal digits cannot hold
        return int.from_bytes(field[1:], "big")
    match = _OCTAL.fullmatch(field)
    return int(match[1] or b"0", 8) if match else None


def _parse_pax(data: bytes, stream: ShardStream, offset: int) -> dict[str, str]:
    found = {}
    at = 0
    while at < len(data):
        digits, blank, _ = data[at : at + 20].partition(b" ")
        length = int(digits) if blank and digits.isdigit() else 0
        record = data[at + len(digits) + 1 : at + length]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n") or at + length > len(data):
            raise stream.damaged("a PAX header that is not made of records", offset)
        found[key.decode(errors="replace")] = value[:-1].decode(errors="backslashreplace")
        at += length
    return found

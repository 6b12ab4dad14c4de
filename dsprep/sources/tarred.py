"""The members of a tar, from header to header, whatever lies between them passed over.

POSIX.1-2001 ("ustar Interchange Format", "pax Interchange Format") and what GNU tar adds: long
names, base-256 numbers. A tar in the tar, as ImageNet's has one for each class, is looked into.
"""

from __future__ import annotations

import io
import re
import sys
from typing import NamedTuple, Protocol
from zlib import adler32

from dsprep.errors import DamagedShard
from dsprep.findings import Finding
from dsprep.formats.tar import BLOCK
from dsprep.sources.members import Link, Listing
from dsprep.storage.opened import OpenFile

_MOST_META = 1 << 20
"""A PAX header or a long name beyond this is an attack, not a name."""

_LARGEST = 1 << 62
"""Beyond this a size is none."""

_AHEAD = 1 << 18
"""Bytes read at once where headers lie close to each other."""

_FAR = 1 << 15

_MOST_PADDING = 1 << 20
"""Bytes after the end blocks that are read; tar pads to 10240, or to the blocks of a tape."""

_OCTAL = re.compile(rb" *([0-7]*)[ \0]*(?:\0.*)?", re.DOTALL)
_DECIMAL = re.compile(rb"[0-9]{1,20}")

_REGULAR = b"0\0" + b"7"
_HARD_LINK, _SYMBOLIC_LINK, _DIRECTORY = b"1", b"2", b"5"
_SPECIAL = b"346"
_LABELS = b"V" + b"D"
"""GNU's name of a volume, and its lists of what was in a directory."""


class Tar(Protocol):
    """The bytes of a tar, read at places that never go back by more than what was read last."""

    def read(self, count: int, offset: int) -> bytes:
        """Read so many bytes, or fewer where the tar ends."""

    def size(self) -> int:
        """The bytes of all of it, once its end was read."""


class PlainTar:
    """A tar that can be read at any place."""

    def __init__(self, file: OpenFile) -> None:
        """Read from a file that is open."""
        self._file = file
        self._size = file.facts().size
        self._start = self._next = 0
        self._window = b""

    def read(self, count: int, offset: int) -> bytes:
        """Read so many bytes, or fewer where the tar ends."""
        at = offset - self._start
        if at < 0 or at + count > len(self._window):
            # Where members are large, what follows a header is an image and not the next header.
            near = offset - self._next < _FAR
            self._window = self._file.pread(max(count, _AHEAD if near else BLOCK), offset)
            self._start, at = offset, 0
        self._next = offset + count
        return self._window[at : at + count]

    def size(self) -> int:
        """The bytes of all of it."""
        return self._size


class StreamedTar:
    """A tar that is being decompressed, from front to back."""

    def __init__(self, file: io.BufferedIOBase, most: int = sys.maxsize) -> None:
        """Read from a file that is at its beginning, and end after ``most`` bytes of it."""
        self._file = file
        self._most = most
        self._offset = 0
        self._last = b""
        self.damage: DamagedShard | None = None

    def read(self, count: int, offset: int) -> bytes:
        """Read so many bytes, or fewer where the tar ends."""
        if offset < self._offset:  # what was read last is read again
            start = offset - (self._offset - len(self._last))
            self._last = self._last[start:] + self._take(count - (self._offset - offset))
            return self._last[:count]
        while self._offset < offset:
            if not self._take(min(offset - self._offset, 4 * _AHEAD)):
                return b""
        self._last = self._take(count)
        return self._last

    def _take(self, count: int) -> bytes:
        data = b""
        count = min(count, self._most - self._offset)
        try:
            while len(data) < count and (more := self._file.read1(count - len(data))):
                data += more
                self._offset += len(more)
        except DamagedShard as error:
            self.damage = error
        return data

    def read_padding(self) -> None:
        """Read what follows the end blocks, and so the checksum of the compressed data."""
        self._take(_MOST_PADDING)

    def size(self) -> int:
        """The bytes that were read."""
        return self._offset


class _Header(NamedTuple):
    """A member's header."""

    kind: bytes  # its type flag
    name: bytes  # its name
    target: bytes  # what it links to
    size: int  # the bytes that follow it


class _Bad(Exception):
    """A header that is none; the message says why."""


def is_tar(block: bytes) -> bool:
    """Whether a tar begins with this block of 512 bytes, or more: a header, or the end blocks."""
    if len(block) < BLOCK:
        return False
    try:
        _parse(block[:BLOCK])
    except _Bad:
        return False
    return True


def list_tar(tar: Tar, name: str, most: int = sys.maxsize) -> Listing:
    """List the members of a tar, and of the tars in it."""
    listing = Listing()
    _walk(tar, name, 0, None, "", listing, most)
    return listing


def _walk(
    tar: Tar, name: str, start: int, stop: int | None, directory: str, listing: Listing, most: int
) -> None:
    """List a tar that lies between two places of a file; ``stop`` is None for the file's end."""
    at = start
    pax: dict[bytes, bytes] = {}
    kept = len(listing.names)
    try:
        while len(listing.names) < most:
            block = tar.read(BLOCK, at)
            if len(block) < BLOCK or (stop is not None and at + BLOCK > stop):
                end = tar.size() if stop is None else min(stop, tar.size())
                _forget_cut(listing, kept, end)
                raise _Bad("the tar ends without its end blocks: it was cut off")
            if not any(block):
                if tar.read(BLOCK, at + BLOCK) != bytes(BLOCK):
                    raise _Bad("the tar's second end block is missing: it was cut off")
                return
            header = _parse(block)
            header = header._replace(size=_size(pax, header.size))
            data, at = at + BLOCK, at + BLOCK + header.size + -header.size % BLOCK
            if header.kind in b"xgLKX":
                meta = _read_meta(tar, header.size, data)
                if header.kind in b"xX":
                    pax |= _parse_pax(meta)
                elif header.kind == b"L":
                    pax[b"path"] = meta.split(b"\0", 1)[0]
                elif header.kind == b"K":
                    pax[b"linkpath"] = meta.split(b"\0", 1)[0]
                continue
            if header.kind in b"123456":  # these have a size at times, and no bytes
                at = data
            elif header.kind == b"S":
                at += _extensions(tar, block, data)
            header = header._replace(
                name=pax.get(b"GNU.sparse.name") or pax.get(b"path", header.name),
                target=pax.get(b"linkpath", header.target),
            )
            if stop is not None and at > stop:
                at = stop  # the member is cut; what follows is the next of the outer tar
            inner = _add(tar, name, header, data, directory, listing, pax)
            if inner is not None:
                _walk(tar, name, data, data + header.size, inner, listing, most)
                kept = len(listing.names)
            pax = {}
    except _Bad as problem:
        listing.damage.append(Finding("damaged", directory + name, f"at byte {at}: {problem}"))


def _add(
    tar: Tar,
    name: str,
    header: _Header,
    data: int,
    directory: str,
    listing: Listing,
    pax: dict[bytes, bytes],
) -> str | None:
    """Note a member. Returns the directory to list it under, if it is a tar to look into."""
    try:
        path = directory + header.name.decode()
        target = header.target.decode()
    except UnicodeDecodeError:
        listing.nameless.append(directory + header.name.decode(errors="backslashreplace"))
        return None
    kind = header.kind
    if kind == _DIRECTORY or (kind in _REGULAR and path.endswith("/")) or kind in _LABELS:
        return None
    if kind in (_HARD_LINK, _SYMBOLIC_LINK):
        symbolic = kind == _SYMBOLIC_LINK
        target = target if symbolic else directory + target
        listing.links.append(Link(path, target, symbolic, len(listing.names)))
    elif kind in _SPECIAL:
        listing.special.append(path)
    elif kind == b"S" or any(key.startswith(b"GNU.sparse") for key in pax):
        listing.unreadable.append((path, "a sparse file"))
    elif kind not in _REGULAR:
        listing.unreadable.append((path, f"a member of the type {kind.decode('latin-1')!r}"))
    elif (
        not directory
        and path.lower().endswith(".tar")
        and is_tar(tar.read(min(header.size, BLOCK), data))
    ):
        stem = path[: -len(".tar")]
        listing.stems.add(stem)
        return stem + "/"
    else:
        listing.add(path, header.size, data, header.size)
    return None


def _forget_cut(listing: Listing, kept: int, end: int) -> None:
    """Take back the last member if it is not whole; those before it are."""
    if len(listing.names) > kept and listing.offsets[-1] + listing.sizes[-1] > end:
        listing.remove_last("the archive was cut off in it")


def _read_meta(tar: Tar, size: int, offset: int) -> bytes:
    if size > _MOST_META:
        raise _Bad(f"a header of {size} bytes is no name")
    data = tar.read(size, offset)
    if len(data) < size:
        raise _Bad("the tar was cut off in a header")
    return data


def _extensions(tar: Tar, block: bytes, offset: int) -> int:
    """The bytes of the blocks that tell more of a sparse file (GNU tar, ``struct sparse_header``).

    They lie between its header and its content.
    """
    size, more = 0, block[482]
    while more:
        block = tar.read(BLOCK, offset + size)
        if len(block) < BLOCK:
            raise _Bad("the tar was cut off in a header")
        size, more = size + BLOCK, block[504]
    return size


def _parse(block: bytes) -> _Header:
    # The lower half of Adler-32, from 0 on, is the sum of the bytes modulo 65521. The checksum's
    # own eight bytes count as blanks.
    summed = (adler32(block, 0) & 0xFFFF) - sum(block[148:156]) + sum(b" " * 8)
    if (summed - _number(block[148:156])) % 65521 and any(block):
        raise _Bad("this is no header of a tar: its checksum is wrong")
    name = block[:100].split(b"\0", 1)[0]
    if block[257:263] == b"ustar\0" and block[345]:
        name = block[345:500].split(b"\0", 1)[0] + b"/" + name
    target = block[157:257].split(b"\0", 1)[0]
    return _Header(block[156:157], name, target, _number(block[124:136]))


def _number(field: bytes) -> int:
    if field[0] == 0x80:  # GNU's base-256, for what octal digits cannot hold
        number = int.from_bytes(field[1:], "big")
    elif match := _OCTAL.fullmatch(field):
        number = int(match[1] or b"0", 8)
    else:
        raise _Bad(f"{field!r} in a tar header is not a number")
    if number > _LARGEST:
        raise _Bad(f"a tar header says {number}, which is no size")
    return number


def _size(pax: dict[bytes, bytes], size: int) -> int:
    if b"size" not in pax:
        return size
    if not _DECIMAL.fullmatch(pax[b"size"]) or int(pax[b"size"]) > _LARGEST:
        raise _Bad(f"a PAX header whose size is {pax[b'size'][:20]!r}")
    return int(pax[b"size"])


def _parse_pax(data: bytes) -> dict[bytes, bytes]:
    r"""The records ``LENGTH KEY=VALUE\n``, whose length counts its own digits."""
    found = {}
    at = 0
    while at < len(data):
        digits, blank, _ = data[at : at + 20].partition(b" ")
        length = int(digits) if blank and digits.isdigit() else 0
        key, equals, value = data[at + len(digits) + 1 : at + length].partition(b"=")
        if not equals or not value.endswith(b"\n") or at + length > len(data):
            raise _Bad("a PAX header that is not made of records")
        found[key] = value[:-1]
        at += length
    return found

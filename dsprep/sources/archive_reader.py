"""How workers read members of archives: zip, tar, and tar that is compressed as a whole."""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dsprep.errors import BadSample, DamagedShard, DestinationError, SourceError
from dsprep.formats.stream import ShardStream
from dsprep.rows import Reader, Rows
from dsprep.sources.prefetch import asked_ahead, read_at
from dsprep.storage.files import OpenFile, open_file

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
"""The header of a member of a zip (APPNOTE 6.3.10, 4.3.7); its name and an extra field follow."""

_DESCRIPTOR = struct.Struct("<4sL")
_ENCRYPTED, _DESCRIBED_AFTER = 1, 1 << 3  # flags (4.4.4)
_STORED, _DEFLATED = 0, 8  # methods (4.4.5)
_LARGE = 0xFFFFFFFF
_BLOCK = 1 << 20
_IN_MEMORY = 1 << 26  # bytes of members of a compressed tar before a temporary file takes them


@dataclass(frozen=True)
class ArchiveReader(Reader):
    """Reads members of an archive."""

    beside: ClassVar[int] = 0
    """Bytes that are read besides a member's own."""

    path: str
    size: int  # bytes of the archive when it was listed
    mtime: int | None  # when it was last changed before that, in ns since 1970; None if unknown

    @contextmanager
    def open(self) -> Iterator[OpenFile]:
        """Open the archive, which must be as it was when it was listed."""
        try:
            file = open_file(self.path)
        except OSError as error:
            raise SourceError(f"{self.path}: cannot be read ({error.strerror})") from None
        with file:
            self.require_same(file)
            yield file

    def require_same(self, file: OpenFile) -> None:
        """Refuse an archive that has changed."""
        size, mtime = file.facts()
        if size != self.size or self.mtime not in (None, mtime):
            raise SourceError(f"{self.path}: has changed; give the same command again")

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        """Read members in the order of the rows, some of them ahead."""
        assert rows.offsets is not None and rows.stored is not None
        with self.open() as file:

            def ask(place: tuple[int, int, int]) -> int:
                file.ahead(place[0], place[1] + self.beside)
                return place[1]

            for place in asked_ahead(zip(rows.offsets, rows.stored, rows.sizes, strict=True), ask):
                try:
                    member: bytes | BadSample = self.member(file, *place)
                except BadSample as error:
                    member = error
                except OSError as error:
                    member = BadSample(f"cannot be read ({error.strerror})")
                yield member

    def member(self, file: OpenFile, offset: int, stored: int, size: int) -> bytes:
        """Read the member at an offset: its bytes in the archive, and when extracted."""
        raise NotImplementedError


@dataclass(frozen=True)
class TarReader(ArchiveReader):
    """Reads members of a tar; a row's offset is that of the member's first byte."""

    def member(self, file: OpenFile, offset: int, stored: int, size: int) -> bytes:
        """Read a member."""
        data = read_at(file, size, offset)
        if len(data) != size:
            raise BadSample("the archive was cut off in it")
        return data


@dataclass(frozen=True)
class ZipReader(ArchiveReader):
    """Reads members of a zip; a row's offset is that of the member's local header."""

    beside: ClassVar[int] = LOCAL_HEADER.size + 512  # the header and the name nearly always fit in

    def member(self, file: OpenFile, offset: int, stored: int, size: int) -> bytes:
        """Read a member, which has to be what the directory of the zip says."""
        head = read_at(file, self.beside + stored, offset)
        if len(head) < LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
            raise BadSample("no member begins at the offset in the directory of the zip")
        _, _, flags, method, _, _, crc, packed, plain, name, extra = LOCAL_HEADER.unpack_from(head)
        begin = LOCAL_HEADER.size + name + extra
        if len(head) < begin + stored + _DESCRIPTOR.size:
            head, begin = read_at(file, stored + _DESCRIPTOR.size, offset + begin), 0
        data = head[begin : begin + stored]
        if len(data) < stored:
            raise BadSample("the archive was cut off in it")
        if flags & _ENCRYPTED:
            raise BadSample("encrypted")
        if method not in (_STORED, _DEFLATED):
            problem = f"compressed by method {method}; dsprep reads stored and deflated members"
            raise BadSample(problem)
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


@dataclass(frozen=True)
class CompressedTarReader(ArchiveReader):
    """Reads members of a compressed tar, which can only be read from front to back."""

    unpacked: int  # the bytes of the tar, or of as much of it as can be decompressed

    def read(self, rows: Rows) -> Iterator[bytes]:
        """Decompress the archive up to the last of the members.

        If the rows are not in the order of the archive, this is done before the first is yielded,
        and a temporary file keeps the members meanwhile. So this is for a few members, or for all
        in their order; a shuffled run reads from spools.
        """
        assert rows.offsets is not None
        places = list(zip(rows.offsets, rows.sizes, strict=True))
        wanted = sorted(set(places))
        found = self._members(wanted)
        yield from found if places == wanted else _reordered(found, wanted, places)

    def _members(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        with self._decompressed() as tar:
            for offset, size in places:
                tar.skip(offset - tar.offset, "what precedes a member")
                yield tar.read(size, "a member")

    @contextmanager
    def _decompressed(self) -> Iterator[ShardStream]:
        with self.open() as file, ShardStream.of_headers(self.path, is_shard=False) as tar:
            try:
                yield tar
            except DamagedShard as error:
                raise SourceError(f"{error}; it has changed: give the same command again") from None
            self.require_same(file)

    def spools(self) -> Sequence[int]:
        """The size of the tar."""
        return (self.unpacked,)

    def write_spool(self, number: int, path: str) -> None:
        """Decompress the tar."""
        with self._decompressed() as tar, open(path, "wb") as spool:
            while tar.offset < self.unpacked:
                spool.write(tar.read(min(_BLOCK, self.unpacked - tar.offset), "the tar"))

    def spooled(self, directory: str) -> Reader:
        """The reader of the decompressed tar."""
        return TarReader(os.path.join(directory, "0"), self.unpacked, None)


class ArchiveMember(NamedTuple):
    """A file in an archive."""

    archive: ArchiveReader
    offset: int  # where it lies, as rows of the archive have it
    stored: int  # how many bytes it takes there
    size: int


def read_members(members: Sequence[ArchiveMember]) -> Iterator[bytes]:
    """Read members of one archive whole, in the order of their offsets."""
    archives, offsets, stored, sizes = zip(
        *sorted(members, key=lambda member: member.offset), strict=True
    )
    rows = Rows([0] * len(sizes), [""] * len(sizes), sizes, None, None, offsets, stored)
    for data in archives[0].read(rows):
        if not isinstance(data, bytes):
            raise SourceError(f"{archives[0].path}: a file in it cannot be read: {data}")
        yield data


def _reordered(
    found: Iterable[bytes], places: Iterable[tuple[int, int]], wanted: Iterable[tuple[int, int]]
) -> Iterator[bytes]:
    """Keep members that come in one order, in memory or in a file, and yield them in another."""
    kept: dict[tuple[int, int], int] = {}
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
            yield file.read(place[1])

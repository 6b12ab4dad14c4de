"""What archives hold, and how workers read members of tars, also of compressed ones."""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from dsprep.errors import BadSample, DamagedShard, DestinationError, SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import ShardStream
from dsprep.rows import Reader, Rows
from dsprep.sources.prefetch import OpenFiles, asked_ahead, read_at, unpack
from dsprep.storage.files import OpenFile

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

    def rows(self, positions: Sequence[int]) -> Rows:
        """Return some of the files as rows for the archive's reader."""
        names = [self.names[at] for at in positions]
        columns = (self.sizes, self.offsets, self.stored)
        sizes, offsets, stored = ([column[at] for at in positions] for column in columns)
        return Rows([*positions], names, sizes, None, None, offsets, stored)


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
        with self.opened() as files:
            file = files.same(0)

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
        data = read_at(file, size, offset)
        if len(data) != size:
            raise BadSample("the archive was cut off in it")
        return data


@dataclass(frozen=True)
class CompressedTarReader(ArchiveReader):
    """Reads members of a compressed tar, which can only be read from front to back."""

    unpacked: int  # the bytes of the tar, or of as much of it as can be decompressed

    def read(self, rows: Rows) -> Iterator[bytes]:
        """Decompress the archive up to the last of the members."""
        # If the rows are not in the order of the archive, this is done before the first is yielded,
        # and a temporary file keeps the members meanwhile. So this is for a few members, or for all
        # in their order; a shuffled run reads from spools.
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
        with self.opened() as files:
            files.same(0)
            with ShardStream.of_headers(self.path, is_shard=False) as tar:
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

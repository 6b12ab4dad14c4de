"""Files of known data sets, in a directory or in an archive, and reading them whole."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from dsprep.errors import DamagedShard, SourceError
from dsprep.sources.archive import open_archive
from dsprep.sources.archive_reader import CompressedTarReader, ZipReader
from dsprep.sources.compressed import compression_of, open_compressed
from dsprep.sources.pixel_reader import Member, PixelFile, read_members
from dsprep.sources.prefetch import read_at
from dsprep.storage.opened import OpenFile, open_file
from dsprep.storage.paths import entries, facts

_LARGEST = 1 << 30
"""Bytes of the largest file that is read; CIFAR-100's training images are 155 million."""

_BLOCK = 1 << 20

_MOST_FILES = 1000
"""Files in a directory that may still be a known data set."""


class Held(NamedTuple):
    """A file, or a member of an archive."""

    name: str  # its name without a directory
    directory: str  # the directory in the archive that it lies in; empty for a file
    path: str  # the file, or the archive
    size: int  # its bytes
    mtime: int  # when the file was last changed, in nanoseconds since 1970
    member: Member | None = None  # where it lies in the archive; None for a file

    def __str__(self) -> str:
        return self.path if self.path.endswith(self.name) else f"{self.path}: {self.name}"

    def pixel_file(self, stop: int, mode: str, width: int, height: int) -> tuple[PixelFile, int]:
        """Return the file that holds its pixels, and where its bytes begin there."""
        image = mode, width, height
        if self.member is None:
            return PixelFile(self.path, False, self.size, *image), 0
        if isinstance(self.member.archive, ZipReader):
            return PixelFile(self.path, False, self.size, *image, member=self.member), 0
        is_compressed = isinstance(self.member.archive, CompressedTarReader)
        return PixelFile(self.path, is_compressed, stop, *image), self.member.offset

    def first_bytes(self, count: int) -> bytes:
        """Return its first bytes."""
        try:
            with self._open() as file:
                return file.read(count) or b""
        except OSError as error:
            raise SourceError(f"{self}: cannot be read ({error.strerror})") from None

    def open(self) -> BinaryIO | OpenFile:
        """Open it from front to back, decompressed if it is compressed."""
        is_packed = is_compressed(self)
        file = self._open()
        return open_compressed(str(self), file) if is_packed else file

    def _open(self) -> BinaryIO | OpenFile:
        if self.member is None:
            return open_file(self.path)
        self.require_usual_size()
        return io.BytesIO(next(read_members([self.member])))

    def require_usual_size(self) -> None:
        """Refuse a file that is too large to be read whole."""
        if self.size > _LARGEST:
            raise SourceError(f"{self}: has {self.size} bytes, far more than any of such files")


def files_in(directory: str, wanted: Callable[[str], bool]) -> list[Held]:
    """Return some of the files in a directory; none if it holds too many for a known data set."""
    found: list[Held] = []
    try:
        for number, entry in enumerate(entries(directory)):
            if number >= _MOST_FILES:
                return []
            if wanted(entry.name) and entry.is_file():
                path = os.path.join(directory, entry.name)
                found.append(Held(entry.name, "", path, *facts(path)))
    except OSError:
        return []  # whoever reads it next will say so
    return sorted(found)


def members_in(path: str, wanted: Callable[[str], bool]) -> list[Held]:
    """Return some of the files in an archive."""
    _, _, listing, archive = open_archive(path)
    for damage in listing.damage:
        raise SourceError(f"{path}: {damage.detail}: download it again")
    for name, reason in listing.unreadable:
        if wanted(os.path.basename(name)):
            raise SourceError(f"{path}: {name} cannot be read ({reason})")
    found: dict[tuple[str, str], Held] = {}
    for at, full_name in enumerate(listing.names):
        directory, name = os.path.split(os.path.normpath(full_name))
        if not wanted(name):
            continue
        if (directory, name) in found:
            raise SourceError(f"{path}: holds two files called {name}")
        member = Member(archive, listing.offsets[at], listing.stored[at], listing.sizes[at])
        found[directory, name] = Held(
            name, directory, path, listing.sizes[at], archive.mtime or 0, member
        )
    return sorted(found.values(), key=lambda each: (each.directory, each.name))


def read_contents(held: Sequence[Held]) -> Iterator[tuple[Held, bytes]]:
    """Read files whole, those of an archive in the order in which they lie there."""
    for each in held:
        each.require_usual_size()
    members = [each.member for each in held if each.member is not None]
    if members:
        ordered = sorted(held, key=lambda each: each.member.offset if each.member else 0)
        yield from zip(ordered, read_members(members), strict=True)
        return
    for each in held:
        try:
            with open_file(each.path) as file:
                yield each, read_at(file, each.size, 0)
        except OSError as error:
            raise SourceError(f"{each}: cannot be read ({error.strerror})") from None


def is_compressed(held: Held) -> bool:
    """Whether a file is compressed, by its first bytes."""
    return compression_of(held.first_bytes(6)) is not None


def blocks_of(held: Held) -> Iterator[bytes]:
    """Read the (decompressed) bytes of a file from front to back."""
    try:
        with held.open() as file:
            while block := file.read(_BLOCK):
                yield block
    except DamagedShard as damage:
        raise SourceError(f"{damage}: download it again") from None
    except OSError as error:
        raise SourceError(f"{held}: cannot be read ({error.strerror})") from None

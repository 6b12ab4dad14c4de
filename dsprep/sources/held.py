"""Files that are read whole: those in a directory, or the members of an archive."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from dsprep.errors import DamagedShard, SourceError
from dsprep.formats.stream import ShardStream
from dsprep.formats.tar import members
from dsprep.readers.compressed import compression_of, open_compressed
from dsprep.readers.places import read_at
from dsprep.stores.opened import open_file
from dsprep.stores.paths import facts

_LARGEST = 1 << 30
"""Bytes of the largest file that is read; CIFAR-100's training images are 155 million."""

_BLOCK = 1 << 20


class Held(NamedTuple):
    """A file, or a member of an archive.

    Attributes:
        name: Its name without a directory.
        path: The file, or the archive.
        compressed: Whether that is compressed.
        start: Where its bytes begin in the (decompressed) archive.
        size: How many they are.
        mtime: When the file was last changed, in nanoseconds since 1970.
    """

    name: str
    path: str
    compressed: bool
    start: int
    size: int
    mtime: int

    def __str__(self) -> str:
        return self.path if self.path.endswith(self.name) else f"{self.path}: {self.name}"


def is_compressed(path: str) -> bool:
    """Whether a file is compressed, by its first bytes.

    Raises:
        OSError: If it cannot be read.
    """
    with open_file(path) as file:
        return compression_of(read_at(file, 6, 0)) is not None


def open_any(path: str) -> BinaryIO:
    """Open a file from front to back, decompressing it if it is compressed.

    Raises:
        OSError: If it cannot be read.
    """
    return open_compressed(path) if is_compressed(path) else io.BufferedReader(open_file(path))


def first_bytes(path: str, count: int) -> bytes:
    """The first (decompressed) bytes of a file; none if it is damaged there.

    Raises:
        SourceError: If it cannot be read.
    """
    try:
        with open_any(path) as file:
            return file.read(count)
    except DamagedShard:
        return b""
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None


def members_of(path: str, wanted: Callable[[str], bool]) -> list[Held]:
    """Some of the files in a tar, plain or gzip.

    Args:
        path: The tar.
        wanted: Whether to take one, by its name without a directory.

    Raises:
        SourceError: If it is damaged, or two of those have one name.
    """
    found: dict[str, Held] = {}
    try:
        mtime = facts(path).mtime_ns
        compressed = is_compressed(path)
        with ShardStream.of_headers(path) as stream:
            for member in members(stream, with_data=False):
                name = os.path.basename(member.name)
                if wanted(name):
                    if name in found:
                        raise SourceError(f"{path}: holds two files called {name}")
                    found[name] = Held(name, path, compressed, member.at, member.size, mtime)
    except DamagedShard as damage:
        raise SourceError(f"{damage}: download it again") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    return list(found.values())


def read_whole(held: Sequence[Held]) -> Iterator[tuple[Held, bytes]]:
    """The bytes of files, or of members of one archive, in the order in which they lie there.

    Raises:
        SourceError: If one cannot be read, or is beyond all measure.
    """
    for each in held:
        if each.size > _LARGEST:
            raise SourceError(f"{each}: has {each.size} bytes, far more than any of CIFAR's files")
    if held and held[0].compressed:
        yield from _read_compressed(sorted(held, key=lambda each: each.start))
        return
    for each in held:
        try:
            with open_file(each.path) as file:
                yield each, read_at(file, each.size, each.start)
        except OSError as error:
            raise SourceError(f"{each}: cannot be read ({error.strerror})") from None


def _read_compressed(held: Sequence[Held]) -> Iterator[tuple[Held, bytes]]:
    try:
        with open_compressed(held[0].path) as file:
            at = 0
            for each in held:
                while at < each.start and (block := file.read(min(_BLOCK, each.start - at))):
                    at += len(block)
                data = file.read(each.size)
                at += len(data)
                yield each, data
    except DamagedShard as damage:
        raise SourceError(f"{damage}: download it again") from None
    except OSError as error:
        raise SourceError(f"{held[0].path}: cannot be read ({error.strerror})") from None

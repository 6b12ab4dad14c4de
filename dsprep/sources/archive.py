"""Archives: which one a path names, and what a tar holds, by its headers.

Nothing here needs polars, which is imported meanwhile.
"""

from __future__ import annotations

import os
import posixpath
import sys
from typing import NamedTuple

from dsprep.errors import DamagedShard, SourceError, source_errors
from dsprep.findings import Finding
from dsprep.formats import tar
from dsprep.formats.stream import ShardStream, is_bomb
from dsprep.sources.archive_reader import (
    NOT_UTF8,
    ArchiveReader,
    CompressedTarReader,
    Link,
    Listing,
    ZipReader,
    find_end,
    list_zip,
)
from dsprep.storage.files import exists, facts, is_file, open_file

KINDS = "zip, tar, tar.gz, tar.bz2, tar.xz"

_FIRST = 1 << 24  # decompressed bytes of a tar that are read for the names of its first files


class Archive(NamedTuple):
    """An archive, listed."""

    path: str
    below: str  # the directory in it that the user named; empty for all of it
    listing: Listing
    reader: ArchiveReader


# Which archive


def split_path(path: str) -> tuple[str, str] | None:
    """Split a path into a file and the path in it: ``data.zip`` and ``train``."""
    file, below = path.rstrip("/") or "/", ""
    while file not in ("", "/") and not exists(file):
        file, _, name = file.rpartition("/")
        below = posixpath.join(name, below) if below else name
    return (file, posixpath.normpath(below) if below else "") if is_file(file) else None


def archive_kind(path: str) -> str | None:
    """Return which archive a file is: ``zip``, ``tar``, ``compressed tar``, or None."""
    name = os.path.basename(path).lower()
    try:
        with ShardStream(path, is_shard=False, headers=True) as stream:
            head, compressed = stream.peek(tar.BLOCK), stream.compressed
        if not compressed:
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                return "zip"
            if name.endswith((".zip", ".exe")):  # a program that unpacks it may precede a zip
                with open_file(path) as file:
                    if find_end(file) is not None:
                        return "zip"
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    except DamagedShard:
        return None
    # A tar without members is nothing but zeros, so its name has to say what it is.
    if not tar.is_tar(head) or not (any(head) or ".tar" in name):
        return None
    return "compressed tar" if compressed else "tar"


def is_archive(path: str) -> bool:
    """Return whether a path is that of an archive, or of a directory in one."""
    found = split_path(path)
    return found is not None and archive_kind(found[0]) is not None


def require_file(path: str) -> tuple[str, str]:
    """Split a path like :func:`split_path`, and refuse one that leads to no file."""
    found = split_path(path)
    if found is None:
        what = "is not a regular file" if exists(path) else "does not exist"
        raise SourceError(f"{path}: {what}; give a directory or an archive of images, or shards")
    return found


# Listing


def open_archive(path: str, most: int = sys.maxsize) -> Archive:
    """List an archive, or the first of its members."""
    file, below = require_file(path)
    kind = archive_kind(file)
    if kind is None:
        raise SourceError(
            f"{file}: is not a directory, nor an archive that dsprep knows ({KINDS}); "
            "give a directory or an archive of images, or shards"
        )
    with source_errors(file):
        state = facts(file)
        if kind == "zip":
            reader = ZipReader(file, *state)
            return Archive(file, below, list_zip(reader, most), reader)
        listing = Listing()
        with ShardStream(file, is_shard=False, headers=True) as stream:
            _list_tar(stream, listing, state.size, most)
    if kind == "compressed tar":
        return Archive(file, below, listing, CompressedTarReader(file, *state, stream.offset))
    return Archive(file, below, listing, ArchiveReader(file, *state))


def first_names(path: str, most: int) -> list[str]:
    """Return the names of the first files in an archive; empty for other files and damaged ones."""
    try:
        listing = open_archive(path, most).listing
    except SourceError:  # the error comes again when all of it is read
        return []
    return [*listing.names, *(name for name, _ in listing.unreadable)]


# Tar


def _list_tar(
    stream: ShardStream,
    listing: Listing,
    packed: int,
    most: int,
    directory: str = "",
    stop: int | None = None,
) -> None:
    """List a tar, and the tars in it, as ImageNet's has one for each class."""
    limit = sys.maxsize if most == sys.maxsize else _FIRST
    end = -1  # where the bytes of the file that was listed last end
    try:
        for entry in tar.entries(stream, stop):
            kind, end = entry.kind, -1
            try:
                path, target = directory + entry.name.decode(), entry.target.decode()
            except UnicodeDecodeError:
                path = directory + entry.name.decode(errors="backslashreplace")
                listing.odd.append(Finding("bad-name", path, NOT_UTF8))
                continue
            if kind == b"5" or (kind in tar.REGULAR and path.endswith("/")) or kind in b"VD":
                continue  # a directory, or GNU's name of a volume or list of a directory
            if kind in b"12":
                target = target if kind == b"2" else directory + target
                listing.links.append(Link(path, target, kind == b"2", len(listing.names)))
            elif kind in tar.WITHOUT_DATA:
                listing.odd.append(Finding("not-an-image", path, "not a regular file"))
            elif entry.sparse:
                listing.unreadable.append((path, "a sparse file"))
            elif kind not in tar.REGULAR:
                reason = f"a member of the type {kind.decode('latin-1')!r}"
                listing.unreadable.append((path, reason))
            elif (
                not directory
                and path.lower().endswith(".tar")
                and tar.is_tar(stream.peek(min(entry.size, tar.BLOCK)))
            ):
                stem = path[: -len(".tar")]
                listing.stems.add(stem)
                _list_tar(stream, listing, packed, most, stem + "/", entry.at + entry.size)
            elif stream.compressed and is_bomb(entry.size, packed):
                listing.unreadable.append((path, f"a bomb, in a file of {packed} bytes"))
            else:
                listing.add(path, entry.size, entry.at, entry.size)
                end = entry.at + entry.size
            if len(listing.names) >= most or entry.at + entry.size > limit:
                return
        if not directory and stream.compressed:
            stream.rest_is_zero()  # and so the checksum of the compressed data
    except DamagedShard as damage:
        if end > (stream.offset if stop is None else min(stop, stream.offset)):
            listing.refuse([len(listing.names) - 1], "the archive was cut off in it")
        name = directory + os.path.basename(stream.path)
        where = f"at byte {damage.offset}{', decompressed' * stream.compressed}"
        listing.damage.append(Finding("damaged", name, f"{where}: {damage.problem}"))

"""A zip or a tar as a source: a tree of images that need not be unpacked."""

from __future__ import annotations

import os
import posixpath
import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dsprep.errors import DamagedShard, SourceError
from dsprep.findings import Finding
from dsprep.formats.stream import is_bomb
from dsprep.sources.archive_reader import ArchiveReader, CompressedTarReader, TarReader, ZipReader
from dsprep.sources.compressed import compression_of, open_compressed
from dsprep.sources.members import Listing
from dsprep.sources.prefetch import read_at
from dsprep.sources.scan import importing_polars
from dsprep.sources.tarred import PlainTar, StreamedTar, is_tar, list_tar
from dsprep.sources.zipped import has_directory, list_zip
from dsprep.storage.opened import open_file
from dsprep.storage.paths import exists, facts, is_dir, is_file

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.sources.files import Files
    from dsprep.sources.reading import Source

KINDS = "zip, tar, tar.gz, tar.bz2, tar.xz"
"""What archives there are, in words."""

_PARTS = ("cls", "json", "txt")
"""Extensions of what a WebDataset has beside images."""

_BLOCK = 512
_FIRST = 1 << 24
"""Decompressed bytes of a tar that are read for the names of its first files."""

_MOST_TEXT = 1 << 30
"""Bytes of a list or a table that is read out of an archive."""


class Archive(NamedTuple):
    """An archive, listed."""

    path: str  # the file
    below: str  # the directory in it that the user named; empty for all of it
    listing: Listing  # what it holds
    reader: ArchiveReader  # reads it


def split_path(path: str) -> tuple[str, str] | None:
    """Tell the file in a path from what is named in it: ``data.zip`` and ``train``."""
    file, below = path.rstrip("/") or "/", ""
    while file not in ("", "/") and not exists(file):
        file, _, name = file.rpartition("/")
        below = posixpath.join(name, below) if below else name
    return (file, posixpath.normpath(below) if below else "") if is_file(file) else None


def archive_kind(path: str) -> str | None:
    """Which archive a file is: ``zip``, ``tar``, ``compressed tar``, or None."""
    name = os.path.basename(path).lower()
    try:
        with open_file(path) as opened:
            head = read_at(opened, _BLOCK, 0)
            if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                return "zip"
            # A program that unpacks it may precede a zip.
            if name.endswith((".zip", ".exe")) and has_directory(opened):
                return "zip"
        if _begins_tar(head, name):
            return "tar"
        if compression_of(head) is not None:
            with open_compressed(path) as file:
                return "compressed tar" if _begins_tar(file.read(_BLOCK), name) else None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
    except DamagedShard:
        pass
    return None


def _begins_tar(head: bytes, name: str) -> bool:
    """Whether a tar begins like this; one without members is known by its name alone."""
    return is_tar(head) and (any(head) or ".tar" in name)


def is_archive(path: str) -> bool:
    """Whether a path is that of an archive, or of a directory in one."""
    found = split_path(path)
    return found is not None and archive_kind(found[0]) is not None


def open_archive(path: str) -> Archive:
    """List an archive."""
    file, below = _require_archive(path)
    kind = archive_kind(file)
    if kind is None:
        raise SourceError(
            f"{file}: is not a directory, nor an archive that dsprep knows ({KINDS}); "
            "give a directory or an archive of images, or shards"
        )
    return _listed(file, below, kind)


def first_names(path: str, most: int) -> list[str]:
    """Return the names of the first files in an archive; none if it is none or is damaged."""
    found = split_path(path)
    try:
        kind = archive_kind(found[0]) if found else None
        if found is None or kind is None:
            return []
        listing = _listed(*found, kind, most).listing
    except SourceError:  # whoever reads all of it says why
        return []
    return [*listing.names, *(name for name, _ in listing.unreadable)]


def _listed(file: str, below: str, kind: str, most: int = sys.maxsize) -> Archive:
    try:
        return _list(file, below, kind, most)
    except OSError as error:
        raise SourceError(f"{file}: cannot be read ({error.strerror})") from None


def require_there(path: str) -> None:
    """Refuse a source that does not exist."""
    if not is_dir(path):
        _require_archive(path)


def _require_archive(path: str) -> tuple[str, str]:
    """The file that a path leads to, and where it goes on in it."""
    found = split_path(path)
    if found is None:
        what = "is no regular file" if exists(path) else "does not exist"
        raise SourceError(f"{path}: {what}; give a directory or an archive of images, or shards")
    return found


def _list(file: str, below: str, kind: str, most: int) -> Archive:
    size, mtime = facts(file)
    known = (file, size, mtime)
    if kind == "zip":
        zip_reader = ZipReader(*known)
        with zip_reader.open() as opened:
            listing = list_zip(opened, file, zip_reader, most)
        return Archive(file, below, listing, zip_reader)
    if kind == "tar":
        tar_reader = TarReader(*known)
        with tar_reader.open() as opened:
            listing = list_tar(PlainTar(opened), os.path.basename(file), most)
        return Archive(file, below, listing, tar_reader)
    with open_compressed(file) as stream:
        tar = StreamedTar(stream, sys.maxsize if most == sys.maxsize else _FIRST)
        listing = list_tar(tar, os.path.basename(file), most)
        tar.read_padding()
    if tar.damage is not None:
        where = f"at byte {tar.damage.offset}, decompressed: {tar.damage.problem}"
        listing.damage[:] = [Finding("damaged", os.path.basename(file), where)]
    bombs = [at for at, unpacked in enumerate(listing.sizes) if is_bomb(unpacked, size)]
    if bombs:
        listing.refuse(bombs, f"a bomb, in a file of {size} bytes")
    return Archive(file, below, listing, CompressedTarReader(*known, tar.size()))


def read_archive(source: Source) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of the images in an archive."""
    with importing_polars():
        archive = open_archive(source.root)
    from dsprep.sources.archived import files_of
    from dsprep.sources.tree import read_tree

    files = files_of(archive, source.extensions)
    if files.table.is_empty() and archive.listing.damage:
        raise SourceError(f"{archive.path}: {archive.listing.damage[0].detail}")
    is_tar = archive_kind(archive.path) != "zip"
    if source.kind is None and not source.chooses and is_tar and _has_parts(files):
        raise SourceError(
            f"{source.root}: its images have files of the same names, which are not adjacent to "
            "them: give --from parts to take those of one name for one sample, or --from images "
            "to take the images alone"
        )
    return read_tree(source, files=files, text_of=partial(read_text_of, archive))


def _has_parts(files: Files) -> bool:
    """Whether at least half of the images of a tar have labels or texts in files beside them."""
    import polars as pl

    assert files.others is not None
    stem, extension = (pl.col("path").str.extract(each) for each in (r"^(.*)\.", r"\.([^./]*)$"))
    known = files.others.filter(extension.is_in(_PARTS)).select(stem=stem).unique()
    together = files.table.select(stem=stem).join(known, on="stem", how="semi").height
    return together > 0 and 2 * together >= files.table.height


def read_text_beside(root: str, path: str) -> str:
    """Read a list or a table that goes with a source: from the disk, or out of its archive."""
    from dsprep.text import read_text

    if exists(path) or is_dir(root) or not is_archive(root):
        return read_text(path)
    return read_text_of(open_archive(root), path)


def read_text_of(archive: Archive, path: str) -> str:
    """Read a list or a table: the file of that path, or else the member of an archive."""
    from dsprep.text import decode_text, read_text

    if exists(path):
        return read_text(path)
    listing = archive.listing
    wanted = posixpath.normpath(path)
    exact = {wanted, posixpath.join(archive.below, wanted)}
    members = [(posixpath.normpath(name), at) for at, name in enumerate(listing.names)]
    found = [at for name, at in members if name in exact]
    found = found or [at for name, at in members if name.endswith("/" + wanted)]
    if len({listing.names[at] for at in found}) > 1:
        named = " or ".join(repr(listing.names[at]) for at in found[:2])
        raise SourceError(f"{path}: may be {named} of {archive.path}")
    if not found:
        raise SourceError(f"{path}: does not exist, neither on the disk nor in {archive.path}")
    if listing.sizes[found[-1]] > _MOST_TEXT:
        raise SourceError(f"{path}: has {listing.sizes[found[-1]]} bytes, which is no list")
    (data,) = archive.reader.read(listing.rows(found[-1:]))
    if not isinstance(data, bytes):
        raise SourceError(f"{archive.path}: {path}: {data}")
    return decode_text(data, path)

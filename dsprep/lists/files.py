"""The files that lists name: which are missing, and which are equal."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from stat import S_ISREG

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.check import Fault
from dsprep.storage.local import open_regular
from dsprep.storage.location import is_s3
from dsprep.storage.pool import Flag
from dsprep.storage.s3.read import object_sizes

_THREADS = 16
"""How many files are looked up at once where that is slow, as on a network."""

_LOCAL = 0.05
"""Seconds in which a disk of this machine answers for as many files; threads slow that down."""

_FILES_PER_CALL = 1000
_DIGEST_BYTES = 16


def find_missing(root: str, rows: pl.DataFrame) -> Generator[Fault, None, None]:
    """Find the rows whose files are missing or empty."""
    rows = rows.select("line", pl.col("path").cast(pl.Binary))
    if is_s3(root):
        yield from _find_missing_objects(root, rows)
        return
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SourceError(f"{root}: cannot be read as a directory: {error.strerror}") from None
    over = Flag()
    try:
        pieces = rows.iter_slices(_FILES_PER_CALL)
        began = time.perf_counter()
        for piece in islice(pieces, 1):
            yield from _stat_all(descriptor, piece, over)
        waits = time.perf_counter() - began > _LOCAL
        with ThreadPoolExecutor(_THREADS if waits else 1) as threads:
            try:
                for faults in threads.map(lambda piece: _stat_all(descriptor, piece, over), pieces):
                    yield from faults
            finally:
                over.set()  # a caller that stops early does not wait for all files
    finally:
        os.close(descriptor)


def _find_missing_objects(root: str, rows: pl.DataFrame) -> Iterator[Fault]:
    """Compare with one listing of the objects."""
    sizes = object_sizes(root)
    for line, path in rows.iter_rows():
        size = sizes.get(os.path.normpath(path.decode()))
        if size is None:
            yield Fault(line, "missing", f"{path.decode()!r}: there is no such object")
        elif not size:
            yield Fault(line, "empty", f"{path.decode()!r} has no bytes")


def _stat_all(descriptor: int, rows: pl.DataFrame, over: Flag) -> list[Fault]:
    faults = []
    for line, path in rows.iter_rows():
        if over.is_set:
            break
        try:
            status = os.stat(path, dir_fd=descriptor)
        except OSError as error:
            faults.append(Fault(line, "missing", f"{path.decode()!r}: {error.strerror}"))
            continue
        if not S_ISREG(status.st_mode):
            faults.append(Fault(line, "not-a-file", f"{path.decode()!r} is not a regular file"))
        elif not status.st_size:
            faults.append(Fault(line, "empty", f"{path.decode()!r} has no bytes"))
    return faults


def compare_contents(
    paths: pl.Series, other_paths: pl.Series, root: str, other_root: str
) -> tuple[pl.Series, pl.Series]:
    """Return texts that are equal where the contents of files are; null for files not readable.

    Only files whose size occurs in both lists are read.
    """
    files = [
        [Path(root, path) for path in paths.to_list()],
        [Path(other_root, path) for path in other_paths.to_list()],
    ]
    with ThreadPoolExecutor(_THREADS) as threads:
        sizes = [list(threads.map(_size, some)) for some in files]
        common = set(sizes[0]) & set(sizes[1]) - {None}
        contents = [
            list(threads.map(lambda file, size: _content(file, size, size in common), *some))
            for some in zip(files, sizes, strict=True)
        ]
    return pl.Series(contents[0], dtype=pl.String), pl.Series(contents[1], dtype=pl.String)


def _size(path: Path) -> int | None:
    """Return the size of a regular file that is not empty."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size if S_ISREG(status.st_mode) and status.st_size else None


def _content(path: Path, size: int | None, read: bool) -> str | None:
    if size is None or not read:
        return None if size is None else str(size)
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    try:
        with open(path, "rb", opener=open_regular) as file:
            while block := file.read(1 << 20):
                hashed.update(block)
    except OSError:
        return None
    return f"{size} {hashed.hexdigest()}"

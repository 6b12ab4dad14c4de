"""The files that lists name: which are missing, and which are equal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from hashlib import file_digest
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

_THREADS = 16  # how many files are looked up at once where that is slow, as on a network

_LOCAL = 0.05
"""Seconds in which a disk of this machine answers for as many files; threads slow that down."""


def find_missing(root: str, rows: pl.DataFrame) -> Generator[Fault, None, None]:
    """Find the rows whose files are missing or empty; of objects, with one listing."""
    over = Flag()
    with ExitStack() as stack:
        if is_s3(root):
            sizes = object_sizes(root)

            def size_of(path: bytes) -> int:
                size = sizes.get(os.path.normpath(path.decode()))
                if size is None:
                    raise FileNotFoundError(None, "there is no such object")
                return size

        else:
            try:
                directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                raise SourceError(
                    f"{root}: cannot be read as a directory: {error.strerror}"
                ) from None
            stack.callback(os.close, directory)

            def size_of(path: bytes) -> int:
                if over.is_set:
                    raise InterruptedError
                status = os.stat(path, dir_fd=directory)
                if not S_ISREG(status.st_mode):
                    raise IsADirectoryError
                return status.st_size

        pieces = rows.select("line", pl.col("path").cast(pl.Binary)).iter_slices(1000)
        began = time.perf_counter()
        for piece in islice(pieces, 1):
            yield from _look_up(size_of, piece)
        waits = time.perf_counter() - began > _LOCAL
        threads = ThreadPoolExecutor(_THREADS if waits else 1)
        stack.callback(threads.shutdown, cancel_futures=True)
        stack.callback(over.set)  # a caller that stops early does not wait for all files
        for faults in threads.map(partial(_look_up, size_of), pieces):
            yield from faults


def _look_up(size_of: Callable[[bytes], int], rows: pl.DataFrame) -> list[Fault]:
    faults = []
    for line, path in rows.iter_rows():
        try:
            if not size_of(path):
                faults.append(Fault(line, "empty", f"{path.decode()!r} has no bytes"))
        except IsADirectoryError:
            faults.append(Fault(line, "not-a-file", f"{path.decode()!r} is not a regular file"))
        except OSError as error:
            faults.append(Fault(line, "missing", f"{path.decode()!r}: {error.strerror}"))
    return faults


def compare_contents(
    paths: pl.Series, other_paths: pl.Series, root: str, other_root: str
) -> tuple[pl.Series, pl.Series]:
    """Return texts that are equal where the contents of files are; null for files not readable."""
    # Only files whose size occurs in both lists are read.
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
    try:
        with open(path, "rb", opener=open_regular) as file:
            return f"{size} {file_digest(file, 'blake2b').hexdigest()}"
    except OSError:
        return None

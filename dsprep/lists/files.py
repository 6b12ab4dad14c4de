"""The files that lists name: which are missing, and which are equal."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from functools import partial
from hashlib import file_digest
from itertools import islice
from pathlib import Path
from stat import S_ISREG

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.check import Fault
from dsprep.opening import opened
from dsprep.storage.files import system_path
from dsprep.storage.local import open_regular
from dsprep.storage.objects import object_sizes
from dsprep.storage.pool import ahead

# the kinds of faults: a file is not there, and the file system cannot tell whether it is
MISSING, UNKNOWN = "missing", "unknown-file"

# What the system says where no file is. Other errors do not tell: a right is missing, a disk fails.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})

_LOCAL = 0.05
"""Seconds in which a disk of this machine answers for 1,000 files; threads slow that down."""


def find_missing(root: str, rows: pl.DataFrame) -> Generator[Fault, None, None]:
    """Find the rows whose files are missing or empty; of objects, with one listing."""
    with ExitStack() as stack:
        if (top := system_path(root)) is None:
            sizes = object_sizes(root)

            def size_of(path: bytes) -> int:
                size = sizes.get(os.path.normpath(path.decode()))
                if size is None:
                    raise FileNotFoundError(errno.ENOENT, "there is no such object")
                return size

        else:
            try:
                directory = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
            except OSError as error:
                raise SourceError(
                    f"{root}: cannot be read as a directory: {error.strerror}"
                ) from None
            stack.callback(os.close, directory)

            def size_of(path: bytes) -> int:
                status = os.stat(path, dir_fd=directory)
                if not S_ISREG(status.st_mode):
                    raise IsADirectoryError
                return status.st_size

        pieces = rows.select("line", pl.col("path").cast(pl.Binary)).iter_slices(1000)
        looks = (partial(_look_up, size_of, piece) for piece in pieces)
        began = time.perf_counter()
        for look in islice(looks, 1):
            yield from look()
        if time.perf_counter() - began <= _LOCAL:
            for look in looks:
                yield from look()
        else:
            # closed: a caller that stops early waits for none of the files
            found = stack.enter_context(closing(ahead((0, look) for look in looks)))
            for faults in found:
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
            kind = MISSING if error.errno in _ABSENT else UNKNOWN
            faults.append(Fault(line, kind, f"{path.decode()!r}: {error.strerror}"))
    return faults


def compare_contents(
    paths: pl.Series, other_paths: pl.Series, root: str, other_root: str
) -> tuple[pl.Series, pl.Series]:
    """Return texts that are equal where the contents of files are; null for files not readable."""
    # resolve relative paths here: the working directory is known only in this thread
    root, other_root = opened(root), opened(other_root)
    files = [Path(root, path) for path in paths] + [Path(other_root, path) for path in other_paths]
    sizes = list(ahead((0, partial(_size, file)) for file in files))
    # Only files whose size occurs in both lists are read.
    in_both = set(sizes[: len(paths)]) & set(sizes[len(paths) :])
    calls = (
        (0, partial(_content, file, size, size in in_both))
        for file, size in zip(files, sizes, strict=True)
    )
    texts = pl.Series(list(ahead(calls)), dtype=pl.String)
    return texts[: len(paths)], texts[len(paths) :]


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

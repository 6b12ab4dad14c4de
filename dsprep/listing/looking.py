"""Which files, or samples, of a list are there, on a disk or on S3."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from stat import S_ISREG

import polars as pl

from dsprep.errors import SourceError
from dsprep.lists.editing import plain_paths
from dsprep.lists.faults import Fault
from dsprep.lists.rows import leads_outside
from dsprep.sources.files import Files
from dsprep.sources.kinds import detect, holds_images
from dsprep.sources.match import find_samples
from dsprep.sources.reading import make_source
from dsprep.storage.flag import Flag
from dsprep.storage.objects import object_sizes
from dsprep.storage.paths import is_dir
from dsprep.storage.urls import is_s3

_THREADS = 16
"""How many files are asked for at once where each takes its time, as on a network."""

_LOCAL = 0.05
"""Seconds in which a disk of this machine answers for as many files; threads slow that down."""

_FILES_PER_CALL = 1000


def look_up(root: str, rows: pl.DataFrame, source: str) -> Generator[Fault, None, None]:
    """Ask for every file whose path leads nowhere else; or for every sample, if these are whole."""
    rows = rows.filter(~leads_outside(pl.col("path")))
    samples = None
    if not (is_dir(root) and holds_images(root)):
        samples = detect(make_source(root, whole=True))
    if samples is not None:
        yield from _look_up_samples(root, rows, Files.of(*samples), source)
        return
    rows = rows.select("line", pl.col("path").cast(pl.Binary))
    if is_s3(root):
        yield from _look_up_objects(root, rows)
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
                over.set()  # who stops early does not wait for all files
    finally:
        os.close(descriptor)


def _look_up_samples(root: str, rows: pl.DataFrame, files: Files, source: str) -> Iterator[Fault]:
    """Ask for every sample by its name."""
    assert files.samples is not None
    rows = rows.select("line", "path", plain_paths(rows["path"]).alias("file"))
    names = find_samples(rows, files, files.samples, source)
    missing = rows.filter(~names.is_in(files.table["path"].implode()))
    for line, path in missing.select("line", "path").iter_rows():
        yield Fault(line, "missing", f"{path!r}: {root} has no such sample")


def _look_up_objects(root: str, rows: pl.DataFrame) -> Iterator[Fault]:
    """Ask for every object, by one listing."""
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
            fault = Fault(line, "missing", f"{path.decode()!r}: {error.strerror}")
        else:
            if S_ISREG(status.st_mode) and status.st_size:
                continue
            if S_ISREG(status.st_mode):
                fault = Fault(line, "empty", f"{path.decode()!r} has no bytes")
            else:
                fault = Fault(line, "not-a-file", f"{path.decode()!r} is not a regular file")
        faults.append(fault)
    return faults

"""Whether a side holds what it should: by what a HEAD tells of each file, or by reading it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dsprep.errors import DsprepError
from dsprep.stores.base import Stored
from dsprep.stores.bucket import S3Store
from dsprep.syncing.compare import Content, known_crc32c
from dsprep.syncing.report import Failure
from dsprep.syncing.run import Sync
from dsprep.syncing.sides import Directory, Prefix, Side
from dsprep.transfers.checksums import crc32c

LEVELS = ("heads", "download")
"""How a file can be proven."""

_AT_ONCE = 1 << 20


def prove(run: Sync, remote: Prefix, other: Side, level: str) -> list[Failure]:
    """Compare all files of a run on both sides.

    Args:
        run: The run, which is done.
        remote: The side on S3; of two, the destination.
        other: The other side.
        level: ``heads`` or ``download``.

    Returns:
        What is wrong.
    """

    def look(path: str) -> str:
        key = remote.key(path)
        read = partial(crc32c_read, remote.store, key) if level == "download" else None
        there = (
            replace(run.files[path], key=path) if isinstance(other, Directory) else run.files[path]
        )
        try:
            content = other.content(there, run.checksums.get(path))
            return problem_with(content, remote.store.stat(key), read)
        except DsprepError as error:
            return str(error)

    paths = sorted(run.files)
    return [Failure(path, problem) for path, problem in run.each(look, paths) if problem]


def problem_with(source: Content, stored: Stored | None, read: Callable[[], int] | None) -> str:
    """What is wrong with an object; empty if it is what it should be.

    Args:
        source: What it should be.
        stored: What a HEAD tells of it; None if it is not there.
        read: Reads it and returns its crc32c; None to go by the HEAD alone.
    """
    if stored is None:
        return "is not there"
    told = known_crc32c(stored)
    if read is not None:
        theirs: int | None = read()
    elif told is not None:
        theirs = told[0]
    elif stored.md5 is not None and source.has_md5:
        return "" if stored.md5 == source.md5() else "has another ETag"
    else:
        return "cannot be proven without reading it: --verify=download does"
    ours = source.crc32c()
    if ours is None:
        return "cannot be proven, as nothing tells the checksum of its source"
    if theirs != ours[0]:
        return f"has the crc32c {theirs:08x}, and {ours[0]:08x} is right"
    return ""


def crc32c_read(store: S3Store, key: str) -> int:
    """The crc32c of an object, by reading it.

    Raises:
        StoreError: If it cannot be read.
    """
    value = 0
    with store.open(key) as reading:
        while data := reading.read(_AT_ONCE):
            value = crc32c(data, value)
    return value

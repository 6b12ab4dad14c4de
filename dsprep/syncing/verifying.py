"""Whether a side holds what it should: by what a HEAD tells of each file, or by reading it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from dsprep.errors import DsprepError
from dsprep.stores.base import Stored
from dsprep.stores.bucket import S3Store
from dsprep.syncing.compare import Content, known_crc32c
from dsprep.syncing.run import Sync
from dsprep.syncing.sides import Directory, Prefix, Side
from dsprep.transfers.checksums import crc32c

LEVELS = ("heads", "download")
"""How a file can be proven."""

_AT_ONCE = 1 << 20


class Proof(NamedTuple):
    """What became of looking at one file.

    Attributes:
        by: What proves it: ``checksum``, ``metadata``, ``etag`` or ``download``; empty if nothing.
        problem: What is wrong; empty if nothing is.
    """

    by: str
    problem: str = ""


def prove(run: Sync, remote: Prefix, other: Side, level: str) -> dict[str, Proof]:
    """Compare all files of a run on both sides.

    Args:
        run: The run, which is done.
        remote: The side on S3; of two, the destination.
        other: The other side.
        level: ``heads`` or ``download``.

    Returns:
        What was found, by path.
    """

    def look(path: str) -> Proof:
        key = remote.key(path)
        read = partial(crc32c_read, remote.store, key) if level == "download" else None
        there = (
            replace(run.files[path], key=path) if isinstance(other, Directory) else run.files[path]
        )
        try:
            content = other.content(there, run.checksums.get(path))
            return prove_one(content, remote.store.stat(key), read)
        except DsprepError as error:
            return Proof("", str(error))

    return dict(run.each(look, sorted(run.files)))


def prove_one(source: Content, stored: Stored | None, read: Callable[[], int] | None) -> Proof:
    """Prove that an object is what it should be.

    Args:
        source: What it should be.
        stored: What a HEAD tells of it; None if it is not there.
        read: Reads it and returns its crc32c; None to go by the HEAD alone.
    """
    if stored is None:
        return Proof("", "is not there")
    told = known_crc32c(stored)
    if read is not None:
        theirs, by = read(), "download"
    elif told is not None:
        theirs, by = told
    elif stored.md5 is not None and source.has_md5:
        return Proof("etag", "" if stored.md5 == source.md5() else "has another ETag")
    else:
        return Proof("", "cannot be proven without reading it: --verify=download does")
    ours = source.crc32c()
    if ours is None:
        return Proof("", "cannot be proven, as nothing tells the checksum of its source")
    if theirs != ours[0]:
        return Proof(by, f"has the crc32c {theirs:08x}, and {ours[0]:08x} is right")
    return Proof(by)


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

"""Whether a side holds what it should: by what a HEAD tells of each file, or by reading it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from dsprep.errors import DsprepError, StoreError
from dsprep.stores.base import Stored
from dsprep.stores.bucket import S3Store
from dsprep.syncing.compare import Content
from dsprep.syncing.run import Sync
from dsprep.syncing.sides import Directory, Prefix, Side
from dsprep.transfers.pace import Pace
from dsprep.transfers.proof import known_crc32c
from dsprep.transfers.readback import read_back

LEVELS = ("heads", "download")
"""How a file can be proven."""


class Proof(NamedTuple):
    """What became of looking at one file.

    Attributes:
        by: What proves it: ``checksum``, ``metadata``, ``etag`` or ``download``; empty if nothing.
        problem: What is wrong; empty if nothing is.
    """

    by: str
    problem: str = ""


def prove(run: Sync, remote: Prefix, other: Side, level: str, pace: Pace) -> dict[str, Proof]:
    """Compare all files of a run on both sides.

    Args:
        run: The run, which is done.
        remote: The side on S3; of two, the destination.
        other: The other side.
        level: ``heads`` or ``download``.
        pace: The threads that read.

    Returns:
        What was found, by path.
    """

    def look(path: str) -> Proof:
        read = partial(_read, remote.store, pace) if level == "download" else None
        there = (
            replace(run.files[path], key=path) if isinstance(other, Directory) else run.files[path]
        )
        try:
            content = other.content(there, run.checksums.get(path))
            return prove_one(content, remote.store.stat(remote.key(path)), read)
        except DsprepError as error:
            return Proof("", str(error))

    return dict(run.each(look, sorted(run.files)))


def prove_one(
    source: Content, stored: Stored | None, read: Callable[[Stored], int] | None
) -> Proof:
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
        theirs, by = read(stored), "download"
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


def _read(store: S3Store, pace: Pace, stored: Stored) -> int:
    """The crc32c of an object, by reading it.

    Raises:
        StoreError: If it cannot be read.
    """
    (value,) = read_back(store, [stored], pace)
    if isinstance(value, StoreError):
        raise value
    return value

"""Whether a side holds what it should: by what a HEAD tells of each file, or by reading it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from dsprep.errors import DsprepError
from dsprep.storage.base import Stored
from dsprep.storage.proof import known_crc32c, may_be_wrong
from dsprep.syncing.compare import Content
from dsprep.syncing.run import Outcome, stops_all
from dsprep.syncing.sides import Directory, Prefix, Side
from dsprep.syncing.threads import each

LEVELS = ("heads", "download")
"""How a file can be proven."""


class Proof(NamedTuple):
    """What became of looking at one file."""

    by: str  # what proves it: `checksum`, `metadata`, `etag` or `download`; empty if nothing
    problem: str = ""  # what is wrong; empty if nothing is


def prove(run: Outcome, source: Side, destination: Side, level: str) -> dict[str, Proof]:
    """Compare all files of a run on both sides."""
    remote, other = (
        (destination, source) if isinstance(destination, Prefix) else (source, destination)
    )
    assert isinstance(remote, Prefix)
    # What the source's manifests tell is no proof of what has come down.
    told = run.checksums if other is source else {}

    def read(stored: Stored) -> int:
        return remote.content(stored, None).read_crc32c()

    def look(path: str) -> Proof:
        file = run.files[path]
        there = replace(file, key=path) if isinstance(other, Directory) else file
        try:
            content = other.content(there, told.get(path))
            return prove_one(
                content,
                remote.store.stat(remote.key(path)),
                read,
                level,
            )
        except DsprepError as error:
            if stops_all(error):
                raise
            return Proof("", str(error))

    return dict(sorted(each(look, sorted(run.files), remote.pace.concurrency, remote.pace)))


def prove_one(
    source: Content, stored: Stored | None, read: Callable[[Stored], int], level: str
) -> Proof:
    """Prove that an object is what it should be."""
    if stored is None:
        return Proof("", "is not there")
    told = known_crc32c(stored)
    if level == "download":
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
    if theirs != ours[0] and by == "checksum" and may_be_wrong(stored):
        theirs, by = read(stored), "download"
    if theirs != ours[0]:
        return Proof(by, f"has the crc32c {theirs:08x}, and {ours[0]:08x} is right")
    return Proof(by)

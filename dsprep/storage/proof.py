"""What proves that an object is a file: the metadata that dsprep writes, and how it is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dsprep.storage.base import Part, Stored
from dsprep.storage.checksums import etag_of_parts
from dsprep.storage.crc import CRC32C, said_crc32c

MTIME = "dsprep-mtime"
"""The metadata that says when the file was last changed, in seconds since 1970."""


def metadata_of(mtime_ns: int, crc32c: int | None = None) -> dict[str, str]:
    """The metadata of a file, its crc32c if it is known."""
    told = {MTIME: f"{mtime_ns // 10**9}.{mtime_ns % 10**9:09d}"}
    return told if crc32c is None else {**told, CRC32C: f"{crc32c:08x}"}


def said_mtime_ns(metadata: Mapping[str, str]) -> int | None:
    """The time of the file that metadata says, in nanoseconds since 1970."""
    text = metadata.get(MTIME, "")
    whole, _, rest = text.partition(".")
    if not (text.isascii() and whole.isdigit() and (rest + "0").isdigit() and len(whole) < 12):
        return None
    return int(whole) * 10**9 + int(rest[:9].ljust(9, "0"))


def known_crc32c(stored: Stored) -> tuple[int, str] | None:
    """The crc32c of an object's bytes as a HEAD tells it; None if nothing tells it."""
    if stored.crc32c is not None:
        return stored.crc32c, "checksum"
    said = said_crc32c(stored.metadata)
    return None if said is None else (said, "metadata")


def crc32c_of(stored: Stored) -> int | None:
    """The crc32c of an object's bytes, whatever tells it; None if nothing does."""
    known = known_crc32c(stored)
    return None if known is None else known[0]


def may_be_wrong(stored: Stored) -> bool:
    """Whether only the server tells an object's crc32c, and dsprep has not noted the same.

    Some servers compute a wrong one for objects in parts. What they tell proves that two objects
    are the same, but not that they differ: their bytes do.
    """
    return stored.crc32c is not None and said_crc32c(stored.metadata) != stored.crc32c


def is_made_of(stored: Stored, parts: Iterable[Part]) -> bool:
    """Whether an object is what these parts become, as its ETag tells if it is not of KMS."""
    try:
        return stored.etag == etag_of_parts(bytes.fromhex(part.etag) for part in parts)
    except ValueError:
        return False

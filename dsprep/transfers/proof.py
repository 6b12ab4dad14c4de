"""What proves that an object is a file: the metadata that dsprep writes, and how it is read."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping

from dsprep.stores.base import Part, Stored
from dsprep.transfers.checksums import etag_of_parts

CRC32C = "dsprep-crc32c"
"""The metadata that says the crc32c of an object's bytes, in eight hex digits."""

MTIME = "dsprep-mtime"
"""The metadata that says when the file was last changed, in seconds since 1970."""


def metadata_of(mtime_ns: int, crc32c: int | None = None) -> dict[str, str]:
    """The metadata of a file, its crc32c if it is known."""
    told = {MTIME: f"{mtime_ns // 10**9}.{mtime_ns % 10**9:09d}"}
    return told if crc32c is None else {**told, CRC32C: f"{crc32c:08x}"}


def said_crc32c(metadata: Mapping[str, str]) -> int | None:
    """The crc32c that metadata says."""
    text = metadata.get(CRC32C, "")
    return int(text, 16) if len(text) == 8 and set(text) <= set(string.hexdigits) else None


def said_mtime_ns(metadata: Mapping[str, str]) -> int | None:
    """The time of the file that metadata says, in nanoseconds since 1970."""
    text = metadata.get(MTIME, "")
    whole, _, rest = text.partition(".")
    if not (text.isascii() and whole.isdigit() and (rest + "0").isdigit() and len(whole) < 12):
        return None
    return int(whole) * 10**9 + int(rest[:9].ljust(9, "0"))


def known_crc32c(stored: Stored) -> tuple[int, str] | None:
    """The crc32c of an object's bytes as a HEAD tells it; None if nothing tells it.

    Returns:
        It, and what told it: the ``checksum`` that the server has computed, else the ``metadata``
        that dsprep has written.
    """
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


def confirmed_by(stored: Stored, crc32c: int, md5: Callable[[], bytes]) -> str:
    """Tell what confirms that bytes are those of an object.

    Args:
        stored: The object.
        crc32c: Of the bytes.
        md5: Computes theirs.

    Returns:
        ``crc32c``, ``md5``, or ``size`` if nothing tells more; empty if they are others.
    """
    said = said_crc32c(stored.metadata)
    if crc32c in (stored.crc32c, said):
        return "crc32c"
    if said is not None:
        return ""
    if stored.md5 is not None:
        return "md5" if stored.md5 == md5() else ""
    return "size" if stored.crc32c is None else ""


def is_made_of(stored: Stored, parts: Iterable[Part]) -> bool:
    """Whether an object is what these parts become, as its ETag tells if it is not of KMS."""
    try:
        return stored.etag == etag_of_parts(bytes.fromhex(part.etag) for part in parts)
    except ValueError:
        return False

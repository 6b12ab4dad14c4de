"""Is a file at the destination already? Compared by contents as far as they are known.

=======================================  ==============================================
what is known                            what decides
=======================================  ==============================================
no such file at the destination          it is sent: ``missing``
other sizes                              it is sent: ``size``
``--size-only``                          it is not sent: ``size``
equal ETags of two objects               it is not sent: ``etag``
an ETag that is the other's MD5          it is not sent: ``etag``
a full checksum that S3 keeps            the crc32c of the other: ``checksum``; its bytes, if they
                                         differ and dsprep has not noted the same: ``download``
the crc32c that dsprep noted with it     the crc32c of the other: ``metadata``
an ETag that looks like an MD5           it is sent: ``etag``
none of these                           sent if the source is the newer one: ``time``
=======================================  ==============================================

ETags come with a listing: 2,000 small files take two requests. The rows below the ETags take one
request per object, which is little beside the transfer of a large one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from dsprep.storage.store import Stored

# What can decide. "withdrawn": a manifest is removed while the files that it names are replaced.
BY = ("missing", "size", "etag", "checksum", "metadata", "download", "time", "withdrawn")

BY_CHECKSUM = ("checksum", "metadata", "download")
BY_CONTENT = ("etag", *BY_CHECKSUM)  # what proves equal contents; sizes and times do not


class Verdict(NamedTuple):
    """Whether a file is to be sent."""

    send: bool  # whether it is
    by: str  # what decided; one of `BY`


class Content(Protocol):
    """The contents of a file, found out only as far as needed."""

    @property
    def is_read(self) -> bool:
        """Whether this reads all bytes; such a side is asked last."""

    @property
    def has_md5(self) -> bool:
        """Whether the MD5 is available."""

    @property
    def may_be_wrong(self) -> bool:
        """Whether a different crc32c does not prove different bytes."""

    def md5(self) -> bytes:
        """Return the MD5 of all bytes."""

    def crc32c(self, told: bool = True) -> tuple[int, str] | None:
        """Return the crc32c and its origin, ``checksum`` or ``metadata``; None if unknown."""

    def read_crc32c(self) -> int:
        """Read all bytes and return their crc32c."""


def by_listing(source: Stored, found: Stored | None, size_only: bool = False) -> Verdict | None:
    """Decide by the listings; None if the contents must be compared."""
    if found is None:
        return Verdict(True, "missing")
    if found.size != source.size:
        return Verdict(True, "size")
    if size_only or not source.size:
        return Verdict(False, "size")
    if source.etag and source.etag == found.etag:
        return Verdict(False, "etag")
    return None


def by_content(source: Content, found: Content, newer: bool) -> Verdict:
    """Decide by contents."""
    if not (source.has_md5 and found.has_md5):
        return _by_checksum(source, found, told=True) or Verdict(newer, "time")
    if source.md5() == found.md5():
        return Verdict(False, "etag")
    # The files may still be equal: the ETag of an object that KMS encrypted is not an MD5, and a
    # listing does not show which objects these are. One more request is cheaper than an upload.
    return _by_checksum(source, found, told=False) or Verdict(True, "etag")


def has_crc32c(crc32c: int, contents: Iterable[Content]) -> bool:
    """Return whether a file has the crc32c in a manifest; the file is read last."""
    cheapest, *others = sorted(contents, key=lambda content: content.is_read)
    for content in (cheapest, *others):
        known = content.crc32c()
        if known is not None:
            is_same = known[0] == crc32c
            return is_same or (content.may_be_wrong and content.read_crc32c() == crc32c)
    return cheapest.read_crc32c() == crc32c


def _by_checksum(source: Content, found: Content, told: bool) -> Verdict | None:
    """Decide by checksums; None if one is unknown."""
    first, last = sorted((source, found), key=lambda content: content.is_read)
    one = first.crc32c(told)
    other = last.crc32c(told) if one else None
    if not one or not other:
        return None
    # If the MD5s differ as well, the checksum of the server is believed.
    if told and one[0] != other[0] and (first.may_be_wrong or last.may_be_wrong):
        values = [
            content.read_crc32c() if content.may_be_wrong else known[0]
            for content, known in ((first, one), (last, other))
        ]
        return Verdict(values[0] != values[1], "download")
    by = "metadata" if "metadata" in (one[1], other[1]) else "checksum"
    return Verdict(one[0] != other[0], by)

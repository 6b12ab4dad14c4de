"""Is a file at the destination already? Compared by contents as far as they are known.

=======================================  ==============================================
what is known                            what decides
=======================================  ==============================================
no such file at the destination          it is sent: ``missing``
other sizes                              it is sent: ``size``
``--size-only``                          it is not sent: ``size``
equal ETags (a file's is its known MD5)  it is not sent: ``etag``
an ETag that is the other's MD5          it is not sent: ``etag``
a full checksum that S3 keeps            the crc32c of the other: ``checksum``; its bytes, if they
                                         differ and dsprep has not noted the same: ``download``
the crc32c that dsprep noted with it     the crc32c of the other: ``metadata``
an ETag that looks like an MD5           it is sent: ``etag``
none of these                           sent if the source is the newer one: ``time``
=======================================  ==============================================

ETags come with a listing: 2,000 small files take two requests. The rows below the ETags take one
request per object, which is little beside the transfer of a large one. A manifest that is removed
while the files that it names are replaced is sent, too: ``withdrawn``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from dsprep.storage.stored import Stored
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from dsprep.syncing.sides import Content

# What proves equal contents; sizes and times do not.
BY_CONTENT = ("etag", "checksum", "metadata", "download")


class Verdict(NamedTuple):
    """Whether to send a file."""

    send: bool  # whether it is
    by: str  # what decided


def by_listing(
    source: Stored, found: Stored | None, size_only: bool = False, etags: bool = True
) -> Verdict | None:
    """Decide by the listings; None if the contents must be compared."""
    # `etags` says whether the ETags of both sides tell the content.
    if found is None:
        return Verdict(True, "missing")
    if found.size != source.size:
        return Verdict(True, "size")
    if size_only or not source.size:
        return Verdict(False, "size")
    if etags and source.etag and source.etag == found.etag:
        return Verdict(False, "etag")
    return None


def by_content(source: Content, found: Content, newer: bool) -> Verdict:
    """Decide by contents."""
    first, last = sorted((source, found), key=attrgetter("is_read"))
    md5 = first.md5()
    other = last.md5() if md5 else None
    if not md5 or not other:
        return _by_checksum(first, last, with_noted=True) or Verdict(newer, "time")
    if md5 == other:
        return Verdict(False, "etag")
    # The files may still be equal: the ETag of an object that KMS encrypted is not an MD5, and a
    # listing does not show which objects these are. One more request is cheaper than an upload.
    return _by_checksum(first, last, with_noted=False) or Verdict(True, "etag")


def _by_checksum(first: Content, last: Content, with_noted: bool) -> Verdict | None:
    """Decide by checksums; None if one is unknown."""
    one = first.crc32c(with_noted)
    other = last.crc32c(with_noted) if one else None
    if not one or not other:
        return None
    # If the MD5s differ as well, the checksum of the server is believed.
    if with_noted and one[0] != other[0] and (first.may_be_wrong or last.may_be_wrong):
        values = [
            content.read_crc32c() if content.may_be_wrong else known[0]
            for content, known in ((first, one), (last, other))
        ]
        return Verdict(values[0] != values[1], "download")
    by = "metadata" if "metadata" in (one[1], other[1]) else "checksum"
    return Verdict(one[0] != other[0], by)


def has_crc32c(crc32c: int, contents: Iterable[Content]) -> bool:
    """Return whether a file has the crc32c in a manifest; the file is read last."""
    ordered = sorted(contents, key=attrgetter("is_read"))
    for content in ordered:
        known = content.crc32c()
        if known is not None:
            is_same = known[0] == crc32c
            return is_same or (content.may_be_wrong and content.read_crc32c() == crc32c)
    return ordered[0].read_crc32c() == crc32c


def prove(
    source: Content, stored: Stored | None, read: Callable[[Stored], int], store: str = "S3"
) -> tuple[str, str]:
    """Return what proves an object, and what is wrong with it; ``read`` returns its crc32c."""
    if stored is None:
        return "", "is not there"
    known = stored.known_crc32c
    if known is None:
        md5 = stored.md5 and source.md5()
        if not md5:
            return "", f"cannot be proven: {store} keeps neither its crc32c nor its MD5"
        return "etag", "" if stored.md5 == md5 else "has another ETag"
    theirs, by = known
    ours = source.crc32c()
    if ours is None:
        return "", "cannot be proven: the checksum of its source is not known"
    # Some servers keep wrong checksums: the bytes decide.
    if theirs != ours[0] and by == "checksum" and stored.may_be_wrong:
        theirs, by = read(stored), "download"
    if theirs != ours[0]:
        return by, f"has the crc32c {theirs:08x}, and {ours[0]:08x} is right"
    return by, ""

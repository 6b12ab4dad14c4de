"""Checksums: computed, combined, kept in metadata, and what they prove. A file is read once."""

from __future__ import annotations

import ctypes
import hashlib
import string
from collections.abc import Callable, Iterable, Mapping

import google_crc32c

from dsprep.storage.store import Part, Stored

# Metadata of an object: the crc32c of its bytes in eight hex digits, and the time when its file
# was last changed in seconds since 1970.
CRC32C = "dsprep-crc32c"
MTIME = "dsprep-mtime"

_POLYNOMIAL = 0x82F63B78  # CRC-32C's (RFC 3720, Castagnoli) with reversed bits


def crc32c(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """Return the crc32c of bytes, going on from that of the bytes before."""
    if isinstance(data, bytes):
        return int(google_crc32c.extend(before, data))
    view = memoryview(data)
    # The extension refuses mutable memory, but not a ctypes array over it.
    mutable = not view.readonly and view.nbytes
    array = (ctypes.c_char * view.nbytes).from_buffer(view) if mutable else bytes(view)
    return int(google_crc32c.extend(before, array))


def md5(data: bytes | bytearray | memoryview) -> bytes:
    """Return the MD5 of bytes, used as a checksum only."""
    return hashlib.md5(data, usedforsecurity=False).digest()


def combine_all(runs: Iterable[tuple[int, int]]) -> int:
    """Return the crc32c of runs of bytes, given as their crc32c and size."""
    # A crc is a remainder of polynomials over GF(2). To append a run is to multiply the crc of the
    # bytes before by x to the power of its bits; the rest cancels out.
    combined = 0
    for value, size in runs:
        bits, power = 8 * size, 1 << 30  # x, squared for each further bit of the exponent
        while combined and bits:
            if bits & 1:
                combined = _multiply(power, combined)
            power = _multiply(power, power)
            bits >>= 1
        combined ^= value
    return combined


def _multiply(a: int, b: int) -> int:
    """Multiply polynomials modulo CRC-32C's; the highest bit is x to the power of 0."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def metadata_of(mtime_ns: int, crc32c: int | None = None) -> dict[str, str]:
    """Return the metadata of a file."""
    metadata = {MTIME: f"{mtime_ns // 10**9}.{mtime_ns % 10**9:09d}"}
    return metadata if crc32c is None else {**metadata, CRC32C: f"{crc32c:08x}"}


def said_mtime_ns(metadata: Mapping[str, str]) -> int | None:
    """Return the time in metadata, in nanoseconds since 1970."""
    text = metadata.get(MTIME, "")
    seconds, _, rest = text.partition(".")
    if not (text.isascii() and seconds.isdigit() and (rest + "0").isdigit() and len(seconds) < 12):
        return None
    return int(seconds) * 10**9 + int(rest[:9].ljust(9, "0"))


def said_crc32c(metadata: Mapping[str, str]) -> int | None:
    """Return the crc32c in metadata."""
    text = metadata.get(CRC32C, "")
    return int(text, 16) if len(text) == 8 and set(text) <= set(string.hexdigits) else None


def known_crc32c(stored: Stored) -> tuple[int, str] | None:
    """Return the crc32c of an object as a HEAD reports it, and by which field; None if unknown."""
    if stored.crc32c is not None:
        return stored.crc32c, "checksum"
    said = said_crc32c(stored.metadata)
    return None if said is None else (said, "metadata")


def crc32c_of(stored: Stored) -> int | None:
    """Return the crc32c of an object as a HEAD reports it; None if it is unknown."""
    return said_crc32c(stored.metadata) if stored.crc32c is None else stored.crc32c


def may_be_wrong(stored: Stored) -> bool:
    """Return whether only the server reports an object's crc32c, and dsprep has not noted the same.

    Some servers compute a wrong one for objects in parts. It proves that two objects are the same,
    but not that they differ: their bytes do.
    """
    return stored.crc32c is not None and said_crc32c(stored.metadata) != stored.crc32c


def confirmed_by(stored: Stored, crc32c: int, md5: Callable[[], bytes]) -> str:
    """Return which checksum confirms that bytes are those of an object; empty if one differs."""
    said = said_crc32c(stored.metadata)
    if crc32c in (stored.crc32c, said):
        return "crc32c"
    if said is not None:
        return ""
    if stored.md5 is not None:
        return "md5" if stored.md5 == md5() else ""
    return "size" if stored.crc32c is None else ""


def is_whole(data: bytes, stored: Stored) -> bool:
    """Return whether bytes are those of an object, as far as S3 reports."""
    return bool(confirmed_by(stored, crc32c(data), lambda: md5(data)))


def is_made_of(stored: Stored, parts: Iterable[Part]) -> bool:
    """Return whether an object's ETag is that of these parts; with KMS, it is another one."""
    try:
        digests = [bytes.fromhex(part.etag) for part in parts]
    except ValueError:
        return False
    return stored.etag == f"{md5(b''.join(digests)).hex()}-{len(digests)}"

"""The checksum of bytes that files, manifests and S3 have in common, and what it proves."""

from __future__ import annotations

import ctypes
import hashlib
import string
from collections.abc import Callable, Mapping

import google_crc32c

from dsprep.storage.base import Stored

CRC32C = "dsprep-crc32c"
"""The metadata that says the crc32c of an object's bytes, in eight hex digits."""


def crc32c(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """The crc32c of bytes."""
    if isinstance(data, bytes):
        return int(google_crc32c.extend(before, data))
    view = memoryview(data)
    if not view.readonly and view.nbytes:
        # The extension refuses what might change under it; a ctypes array is not asked.
        return int(google_crc32c.extend(before, (ctypes.c_char * view.nbytes).from_buffer(view)))
    return int(google_crc32c.extend(before, bytes(view)))


def md5(data: bytes | bytearray | memoryview) -> bytes:
    """The MD5 of bytes, as a checksum and nothing more."""
    return hashlib.md5(data, usedforsecurity=False).digest()


def said_crc32c(metadata: Mapping[str, str]) -> int | None:
    """The crc32c that metadata says."""
    text = metadata.get(CRC32C, "")
    return int(text, 16) if len(text) == 8 and set(text) <= set(string.hexdigits) else None


def confirmed_by(stored: Stored, crc32c: int, md5: Callable[[], bytes]) -> str:
    """Tell what confirms that bytes are those of an object."""
    said = said_crc32c(stored.metadata)
    if crc32c in (stored.crc32c, said):
        return "crc32c"
    if said is not None:
        return ""
    if stored.md5 is not None:
        return "md5" if stored.md5 == md5() else ""
    return "size" if stored.crc32c is None else ""


def is_whole(data: bytes, stored: Stored) -> bool:
    """Whether bytes are those of an object, as far as S3 tells."""
    return bool(confirmed_by(stored, crc32c(data), lambda: md5(data)))

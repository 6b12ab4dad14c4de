"""The checksum of bytes that files, manifests and S3 have in common."""

from __future__ import annotations

import ctypes

import google_crc32c


def crc32c(data: bytes | bytearray | memoryview, before: int = 0) -> int:
    """The crc32c of bytes.

    Args:
        data: The bytes; of buffers, one that can be written to is not copied.
        before: The crc32c of what comes before them.
    """
    if isinstance(data, bytes):
        return int(google_crc32c.extend(before, data))
    view = memoryview(data)
    if not view.readonly and view.nbytes:
        # The extension refuses what might change under it; a ctypes array is not asked.
        return int(google_crc32c.extend(before, (ctypes.c_char * view.nbytes).from_buffer(view)))
    return int(google_crc32c.extend(before, bytes(view)))

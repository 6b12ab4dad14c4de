"""Checksums made right again in bytes that a fuzzer has changed, so that more than these is tested.

Whatever else is wrong stays wrong. What cannot be followed is left as it is.
"""

from __future__ import annotations

import struct

from google_crc32c import value as crc32c

_BLOCK = 512
_MAGIC = b"\x0a\x23\xd7\xce"


def repair_tar(data: bytes) -> bytes:
    """Give every header of a tar, as far as their sizes lead, the checksum that it should have."""
    fixed = bytearray(data)
    at = 0
    while at + _BLOCK <= len(fixed):
        block = fixed[at : at + _BLOCK]
        if any(block):
            block[148:156] = b" " * 8
            fixed[at + 148 : at + 156] = b"%06o\0 " % (sum(block) & 0o777777)
        try:
            size = int(bytes(block[124:136]).strip(b"\0 ") or b"0", 8)
        except ValueError:
            size = 0
        at += _BLOCK + max(size, 0) + -size % _BLOCK
    return bytes(fixed)


def repair_tfrecord(data: bytes) -> bytes:
    """Give every record, as far as their lengths lead, the checksums that it should have."""
    fixed = bytearray(data)
    at = 0
    while at + 12 <= len(fixed):
        fixed[at + 8 : at + 12] = _masked(fixed[at : at + 8])
        (size,) = struct.unpack_from("<Q", fixed, at)
        at += 12
        if at + size + 4 > len(fixed):
            break
        fixed[at + size : at + size + 4] = _masked(fixed[at : at + size])
        at += size + 4
    return bytes(fixed)


def repair_recordio(data: bytes) -> bytes:
    """Give every part of a record, as far as their lengths lead, its magic number."""
    fixed = bytearray(data)
    at = 0
    while at + 8 <= len(fixed):
        fixed[at : at + 4] = _MAGIC
        size = struct.unpack_from("<I", fixed, at + 4)[0] & (1 << 29) - 1
        at += 8 + size + -size % 4
    return bytes(fixed)


def _masked(data: bytearray) -> bytes:
    crc = crc32c(bytes(data))
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF)

"""Checksums of parts, and what they say about the whole. A file is read once."""

from __future__ import annotations

from collections.abc import Iterable

from dsprep.storage.crc import md5

_POLYNOMIAL = 0x82F63B78
"""CRC-32C's (RFC 3720, Castagnoli), its bits reversed, as the register holds them."""


def combine(first: int, second: int, size: int) -> int:
    """The crc32c of two runs of bytes, one after the other.

    A crc is a remainder of polynomials over GF(2). To append the second run is to multiply the
    first's by x to the power of its bits; the rest cancels out.
    """
    return _multiply(_power(8 * size), first) ^ second


def combine_all(runs: Iterable[tuple[int, int]]) -> int:
    """The crc32c of runs of bytes, each given as its crc32c and its size."""
    whole = 0
    for value, size in runs:
        whole = combine(whole, value, size) if whole else value
    return whole


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials modulo CRC-32C's; the highest bit is x to the power of 0."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def _power(bits: int) -> int:
    """Raise x to this power, by squaring."""
    result, square = 1 << 31, 1 << 30
    while bits:
        if bits & 1:
            result = _multiply(result, square)
        square = _multiply(square, square)
        bits >>= 1
    return result


def etag_of_parts(parts: Iterable[bytes]) -> str:
    """The ETag of an object in parts: the MD5 of their MD5s, and how many they are."""
    digests = list(parts)
    return f"{md5(b''.join(digests)).hex()}-{len(digests)}"

"""Stable random numbers: one for each text, from which samples and sides of splits are drawn.

Outputs depend on these numbers, so how they are made is fixed here for good, and rests on nothing
that a library may change: BLAKE2b is RFC 7693's.
"""

from __future__ import annotations

from hashlib import blake2b

import polars as pl

from dsprep.errors import OptionError

_DIGEST_BYTES = 8
_UNUSED_BITS = 11


def hash_unit(texts: pl.Series, seed: int, purpose: str = "") -> pl.Series:
    """Give each text a number that depends on it, the seed and the purpose alone.

    It is made of the text's UTF-8 bytes by unkeyed, sequential BLAKE2b with a digest of 8 bytes,
    the seed as its salt (16 bytes, two's complement, little-endian) and the purpose as its
    personalization (UTF-8, zeros up to 16 bytes). The digest is read as a little-endian unsigned
    number; its upper 53 bits, divided by 2^53, are the result, exactly.
    """
    try:
        salt = seed.to_bytes(blake2b.SALT_SIZE, "little", signed=True)
    except OverflowError:
        raise OptionError(f"the seed {seed} is too large: use one of at most 38 digits") from None
    begun = blake2b(digest_size=_DIGEST_BYTES, salt=salt, person=purpose.encode())

    def digest(text: bytes) -> bytes:
        hashed = begun.copy()  # twice as fast as a new hash
        hashed.update(text)
        return hashed.digest()

    found = pl.Series(texts.name, map(digest, texts.cast(pl.Binary).to_list()), pl.Binary)
    numbers = found.bin.reinterpret(dtype=pl.UInt64, endianness="little")
    units: pl.Series = (numbers // 2**_UNUSED_BITS).cast(pl.Float64) / 2**53
    return units

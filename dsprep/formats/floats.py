"""Numbers as 32-bit floats, the only ones that some formats have for labels."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from dsprep.errors import BadSample

INT64 = range(-(1 << 63), 1 << 63)
"""The whole numbers that formats hold."""

IDS = range(1 << 64)
"""The numbers that RecordIO has for samples."""


def as_floats(values: Sequence[float], what: str) -> tuple[float, ...]:
    """Return numbers as 32-bit floats hold them.

    They hold all whole numbers up to 2^24 and ever fewer above. Fractions may be rounded; a whole
    number that changed would be another class or id.
    """
    layout = f"<{len(values)}f"
    try:
        held: tuple[float, ...] = struct.unpack(layout, struct.pack(layout, *values))
    except OverflowError:
        raise BadSample(f"{what} is {values!r:.60}, which is beyond 32-bit floats") from None
    for number, as_float in zip(values, held, strict=True):
        if number != as_float and number % 1 == 0:
            raise BadSample(f"{what} is {number:.0f}, which 32-bit floats do not hold exactly")
    return held

"""Labels as 32-bit floats, the only numbers that some formats have for them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from dsprep.errors import BadSample
from dsprep.sample import Blobs, Floats, Ints

INT64 = range(-(1 << 63), 1 << 63)
"""The whole numbers that formats hold."""

IDS = range(1 << 64)
"""The numbers that RecordIO has for samples."""


def require_exact(label: Sequence[float]) -> None:
    """Refuse whole numbers that 32-bit floats cannot hold, as a class or an id would be another.

    They hold all up to 2^24 and ever fewer above. Fractions may be rounded.

    Raises:
        BadSample: If a whole number would change.
        OverflowError: If a number is beyond 32-bit floats.
    """
    layout = f"<{len(label)}f"
    held = struct.unpack(layout, struct.pack(layout, *label))
    for number, as_float in zip(label, held, strict=True):
        if number != as_float and number % 1 == 0:
            raise BadSample(f"the label {number:.0f} cannot be held exactly by 32-bit floats")


def as_floats(label: Sequence[float]) -> tuple[float, ...]:
    """A label as 32-bit floats hold it.

    Raises:
        BadSample: If a number is beyond them.
    """
    layout = f"<{len(label)}f"
    try:
        return struct.unpack(layout, struct.pack(layout, *label))
    except OverflowError:
        raise BadSample(f"a label of {label!r} is beyond 32-bit floats") from None


def require_held(values: Ints | Floats | Blobs) -> None:
    """Refuse a list of numbers that are not those that its type holds.

    Raises:
        BadSample: If one is not.
    """
    if isinstance(values, Ints):
        for number in values:
            if number not in INT64:
                raise BadSample(f"{number} is no 64-bit integer")
    elif isinstance(values, Floats):
        for value, held in zip(values, as_floats(values), strict=True):
            if value != held and value == value:
                raise BadSample(f"{value!r} is no 32-bit float")

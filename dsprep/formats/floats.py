"""Labels as 32-bit floats, the only numbers that some formats have for them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from dsprep.errors import BadSample


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

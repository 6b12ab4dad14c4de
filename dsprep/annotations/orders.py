"""The orders of the four numbers of a box, where no name tells which one it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsprep.errors import OptionError
from dsprep.tuples import NamedTuple

KINDS = {
    "xywh": "x, y, width and height",
    "xyxy": "two corners",
    "cxcywh": "center, width and height",
}
"""The orders that users name, with what messages call them."""

_SHARES = "normalized"


class Order(NamedTuple):
    """What the four numbers of a box are.

    Attributes:
        kind: One of `KINDS`.
        shares: Whether they are shares of the size of the image, and not pixels.
    """

    kind: str
    shares: bool = False

    @classmethod
    def of(cls, option: str) -> Order:
        """Return the order that ``--box`` names."""
        kind, _, unit = option.partition(":")
        if kind not in KINDS or unit not in ("", _SHARES):
            raise OptionError(
                f"--box {option}: it can be xywh, xyxy or cxcywh, also with :{_SHARES}"
            )
        return cls(kind, bool(unit))

    @property
    def option(self) -> str:
        """What ``--box`` calls it."""
        return f"{self.kind}:{_SHARES}" if self.shares else self.kind

    @property
    def words(self) -> str:
        """What messages call it."""
        return f"{KINDS[self.kind]}{' as shares' if self.shares else ''}"

    def corners(self, a: Any, b: Any, c: Any, d: Any) -> Sequence[Any]:
        """Return x0, y0, x1 and y1 of four numbers, or of four columns."""
        if self.kind == "xywh":
            return a, b, a + c, b + d
        if self.kind == "cxcywh":
            return a - c / 2, b - d / 2, a + c / 2, b + d / 2
        return a, b, c, d


ORDERS = tuple(Order(kind, shares) for shares in (False, True) for kind in KINDS)

"""The sides of a split, and what share of the samples each is to have."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dsprep.errors import OptionError

_SHARE = re.compile(r"[0-9]{0,9}\.?[0-9]{0,20}(?:e-[0-9]{1,2})?|[0-9]{1,9}/[0-9]{1,9}")
"""Less than :class:`Fraction` takes: 1e-999999999 would fill the memory."""

_CLOSE = Fraction(1, 10**9)
_LONGEST_NAME = 200
_TAKEN = ("classes.txt",)


@dataclass(frozen=True)
class Ratios:
    """The sides of a split with their shares, exactly."""

    names: tuple[str, ...]  # what the sides are called, in their order
    parts: tuple[int, ...]  # the share of each, as a whole number of equal parts

    @property
    def whole(self) -> int:
        """How many parts there are in all."""
        return sum(self.parts)

    def bounds(self) -> list[float]:
        """Where one side ends and the next begins, when the sides are laid out from 0 to 1."""
        return [sum(self.parts[: side + 1]) / self.whole for side in range(len(self.parts) - 1)]


def parse_ratios(text: str) -> dict[str, str]:
    """Read ``train=0.8,val=0.1,test=0.1``: the share of each side, as it was written."""
    shares: dict[str, str] = {}
    for part in text.split(","):
        name, equals, share = (each.strip() for each in part.partition("="))
        if not equals:
            raise OptionError(f"--ratio {text}: write it as train=0.8,val=0.1,test=0.1")
        if name in shares:
            raise OptionError(f"--ratio {text}: {name!r} is given twice")
        shares[name] = share
    return shares


def make_ratios(shares: Mapping[str, str | float]) -> Ratios:
    """Make sides of shares, which may be written as ``0.8`` or ``4/5``."""
    require_side_names(shares)
    fractions = [_fraction(name, share) for name, share in shares.items()]
    total = sum(fractions, Fraction(0))
    if abs(total - 1) > _CLOSE:
        raise OptionError(
            f"--ratio: {' + '.join(map(str, shares.values()))} is {float(total):.9g}, not 1: every "
            "sample goes somewhere"
        )
    unit = math.lcm(*(each.denominator for each in fractions))
    return Ratios(tuple(shares), tuple(int(each * unit) for each in fractions))


def equal_ratios(names: Sequence[str]) -> Ratios:
    """Sides of equal shares."""
    return Ratios(tuple(names), (1,) * len(names))


def require_side_names(names: Iterable[str]) -> None:
    """Accept what sides are called: lists and directories get these names."""
    seen: dict[str, str] = {}
    for name in names:
        if not name or not name.isprintable() or "/" in name or name != name.strip():
            raise OptionError(f"{name!r} cannot be the name of a side, as no file is called so")
        if name.startswith(".") or name.endswith(".lst") or name in _TAKEN:
            raise OptionError(f"{name!r} cannot be the name of a side: choose another")
        if len(name.encode()) > _LONGEST_NAME:
            raise OptionError(f"the name of a side is longer than {_LONGEST_NAME} bytes: {name!r}")
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise OptionError(f"{other!r} and {name!r} are one file on some disks: rename a side")


def _fraction(name: str, share: str | float) -> Fraction:
    text = str(share)
    try:
        value = Fraction(text) if _SHARE.fullmatch(text) else Fraction(0)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not 0 < value <= 1:
        raise OptionError(
            f"--ratio {name}={text[:40]}: a share is above 0 and at most 1, as 0.8 or 4/5"
        )
    return value

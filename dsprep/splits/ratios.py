"""The sides of a split with their shares, and counts that come as near to them as possible.

A table of counts has a row for each class and a column for each side. :func:`apportion` rounds the
exact shares so that every cell is its share rounded up or down, the rows keep their sums, and the
sums of the columns are rounded up or down, too. Such a rounding always exists (L. H. Cox, "A
Constructive Procedure for Unbiased Controlled Rounding", 1987): it is a flow in a network whose
capacities are whole numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from dsprep.errors import OptionError
from dsprep.frozen import Frozen

Table = list[list[int]]  # counts: a row for each class, a column for each side

_SHARE = re.compile(r"[0-9]{0,9}\.?[0-9]{0,20}(?:e-[0-9]{1,2})?|[0-9]{1,9}/[0-9]{1,9}")
"""Less than :class:`Fraction` takes: 1e-999999999 would fill the memory."""

_CLOSE = Fraction(1, 10**9)
_LONGEST_NAME = 200


class Ratios(Frozen):
    """The sides of a split with their exact shares."""

    names: tuple[str, ...]  # in the order of the sides
    parts: tuple[int, ...]  # the share of each, as a number of equal parts

    @property
    def whole(self) -> int:
        """The number of parts of all sides."""
        return sum(self.parts)

    def bounds(self) -> list[float]:
        """Return where one side ends and the next begins, with the sides laid out from 0 to 1."""
        return [sum(self.parts[: side + 1]) / self.whole for side in range(len(self.parts) - 1)]


def parse_ratios(text: str) -> dict[str, str]:
    """Parse ``train=0.8,val=0.1,test=0.1`` into the share of each side, as written."""
    shares: dict[str, str] = {}
    for part in text.split(","):
        name, equals, share = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise OptionError(f"--ratio {text}: write it as train=0.8,val=0.1,test=0.1")
        if name in shares:
            raise OptionError(f"--ratio {text}: {name!r} is given twice")
        shares[name] = share
    return shares


def make_ratios(shares: Mapping[str, str | float]) -> Ratios:
    """Make the sides of shares that are written as ``0.8`` or ``4/5``."""
    require_side_names(shares)
    fractions = []
    for name, share in shares.items():
        try:
            value = Fraction(str(share) if _SHARE.fullmatch(str(share)) else 0)
        except (ValueError, ZeroDivisionError):
            value = Fraction(0)
        if not 0 < value <= 1:
            raise OptionError(
                f"--ratio {name}={share!s:.40}: a share is above 0 and at most 1, such as 0.8 or "
                "4/5"
            )
        fractions.append(value)
    total = sum(fractions, Fraction(0))
    if abs(total - 1) > _CLOSE:
        sums = f"{' + '.join(map(str, shares.values()))} is {float(total):.9g}"
        raise OptionError(f"--ratio: {sums}, not 1: the shares must sum to 1")
    unit = math.lcm(*(fraction.denominator for fraction in fractions))
    return Ratios(tuple(shares), tuple(int(fraction * unit) for fraction in fractions))


def require_side_names(names: Iterable[str]) -> None:
    """Refuse names of sides that cannot be names of lists and directories."""
    seen: dict[str, str] = {}
    for name in names:
        if not name or not name.isprintable() or "/" in name or name != name.strip():
            raise OptionError(f"{name!r} cannot be the name of a side: it is not a file name")
        if name.startswith(".") or name.endswith(".lst") or name == "classes.txt":
            raise OptionError(f"{name!r} cannot be the name of a side: choose another")
        if len(name.encode()) > _LONGEST_NAME:
            raise OptionError(f"the name of a side is longer than {_LONGEST_NAME} bytes: {name!r}")
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise OptionError(f"{other!r} and {name!r} are one file on some disks: rename a side")


def apportion(shares: Sequence[Sequence[int]], unit: int) -> Table:
    """Round a table of shares, which are given as multiples of 1 / ``unit``."""
    if not shares:
        return []
    rests = [[share % unit for share in row] for row in shares]
    # Row by row, the cells of the sides that are owed most are rounded up; _repair moves some.
    due = [0] * len(rests[0])
    extra = []
    for row in rests:
        due = [owed + rest for owed, rest in zip(due, row, strict=True)]
        open_sides = [side for side, rest in enumerate(row) if rest]
        added = set(sorted(open_sides, key=lambda side: (-due[side], side))[: sum(row) // unit])
        for side in added:
            due[side] -= unit
        extra.append(added)
    totals = [sum(column) for column in zip(*rests, strict=True)]
    _repair(extra, rests, [total // unit for total in totals], [-(-t // unit) for t in totals])
    best = largest_remainder(totals, unit)
    _repair(extra, rests, best, best)
    return [
        [share // unit + (side in added) for side, share in enumerate(row)]
        for row, added in zip(shares, extra, strict=True)
    ]


def largest_remainder(shares: Sequence[int], unit: int) -> list[int]:
    """Round shares that sum to whole samples: those with the largest rests up, the others down."""
    counts = [share // unit for share in shares]
    left = sum(shares) // unit - sum(counts)
    by_rest = sorted(range(len(shares)), key=lambda side: (-(shares[side] % unit), side))
    for side in by_rest[:left]:
        counts[side] += 1
    return counts


def _repair(
    extra: list[set[int]], rests: Sequence[Sequence[int]], low: Sequence[int], high: Sequence[int]
) -> None:
    """Move cells that were rounded up to other sides of their rows until all sides fit a range."""
    sides = range(len(low))
    counts = [sum(side in added for added in extra) for side in sides]
    while True:
        givers = [side for side in sides if counts[side] > high[side]]
        takers = {side for side in sides if counts[side] < (high if givers else low)[side]}
        givers = givers or [side for side in sides if counts[side] > low[side]]
        path = _find_path(extra, rests, givers, takers) if takers else []
        if not path:
            return
        for row, giver, taker in path:
            extra[row].remove(giver)
            extra[row].add(taker)
            counts[giver] -= 1
            counts[taker] += 1


def _find_path(
    extra: Sequence[set[int]],
    rests: Sequence[Sequence[int]],
    starts: Sequence[int],
    ends: Collection[int],
) -> list[tuple[int, int, int]]:
    """Find the shortest way to take one from a side and give one to another."""
    came: dict[int, tuple[int, int, int] | None] = dict.fromkeys(starts)
    queue = list(starts)
    for giver in queue:
        for row, added in enumerate(extra):
            if giver not in added:
                continue
            for taker, rest in enumerate(rests[row]):
                if not rest or taker in added or taker in came:
                    continue
                came[taker] = (row, giver, taker)
                queue.append(taker)
                if taker in ends:
                    path = []
                    while (move := came[taker]) is not None:
                        path.append(move)
                        taker = move[1]
                    return path
    return []

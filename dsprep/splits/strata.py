"""Counts that are as near to their exact shares as whole numbers can be, in each class and in all.

The table of exact shares, a row a class and a column a side, is rounded so that every cell is its
share rounded up or down, the rows keep their sums, and the sums of the columns are rounded up or
down, too. Such a rounding always exists (L. H. Cox, "A Constructive Procedure for Unbiased
Controlled Rounding", 1987): it is a flow in a network of whole capacities.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Table = list[list[int]]


def apportion(shares: Sequence[Sequence[int]], unit: int) -> Table:
    """Round a table of shares."""
    if not shares:
        return []
    rests = [[share % unit for share in row] for row in shares]
    extra = _round_in_turn(rests, unit)
    totals = [sum(column) for column in zip(*rests, strict=True)]
    low = [total // unit for total in totals]
    high = [-(-total // unit) for total in totals]
    best = largest_remainder(totals, unit)
    _repair(extra, rests, low, high)
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


def _round_in_turn(rests: Sequence[Sequence[int]], unit: int) -> list[set[int]]:
    """Which cells are rounded up: row by row, those of the sides to which most is due."""
    due = [0] * len(rests[0])
    extra = []
    for row in rests:
        up = sum(row) // unit
        due = [owed + rest for owed, rest in zip(due, row, strict=True)]
        open_sides = [side for side, rest in enumerate(row) if rest]
        added = set(sorted(open_sides, key=lambda side: (-due[side], side))[:up])
        for side in added:
            due[side] -= unit
        extra.append(added)
    return extra


def _repair(
    extra: list[set[int]],
    rests: Sequence[Sequence[int]],
    low: Sequence[int],
    high: Sequence[int],
) -> None:
    """Move what was rounded up between sides, inside rows, until each side is within its bounds."""
    sides = range(len(low))
    counts = [sum(side in added for added in extra) for side in sides]
    while True:
        above = [side for side in sides if counts[side] > high[side]]
        below = [side for side in sides if counts[side] < low[side]]
        if above:
            path = _find_path(extra, rests, above, {s for s in sides if counts[s] < high[s]})
        elif below:
            path = _find_path(extra, rests, [s for s in sides if counts[s] > low[s]], set(below))
        else:
            return
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
    """The shortest way to take one from a side and give one to another."""
    came: dict[int, tuple[int, int, int] | None] = dict.fromkeys(starts)
    queue = list(starts)
    for giver in queue:
        for row, added in enumerate(extra):
            if giver not in added:
                continue
            for taker, rest in enumerate(rests[row]):
                if rest and taker not in added and taker not in came:
                    came[taker] = (row, giver, taker)
                    queue.append(taker)
                    if taker in ends:
                        return _trace(came, taker)
    return []


def _trace(came: dict[int, tuple[int, int, int] | None], end: int) -> list[tuple[int, int, int]]:
    path = []
    move = came[end]
    while move is not None:
        path.append(move)
        move = came[move[1]]
    return path

"""Pairs of 64-bit hashes that differ in few bits, without comparing each with each.

If two hashes differ in at most ``d`` bits and are cut into ``d + 2`` bands, then at least two bands
are the same in both. So only hashes that agree in some two bands are compared: of a million random
ones, some millions of pairs instead of half a trillion.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import polars as pl

BITS = 64

_PAIRS_AT_ONCE = 4_000_000


def close_pairs(hashes: pl.Series, distance: int) -> pl.DataFrame:
    """Find the pairs of hashes that differ in few bits.

    Args:
        hashes: Hashes, no two of them equal, as UInt64.
        distance: How many bits may differ, less than half of them.

    Returns:
        The columns ``left`` and ``right``, positions of the hashes, ``left`` being the lower; each
        pair once, sorted.
    """
    table = pl.DataFrame({"hash": hashes}).with_row_index("place")
    found = [pl.DataFrame(schema={"left": pl.UInt32, "right": pl.UInt32})]
    for first, second in combinations(_bands(distance + 2), 2):
        mask = pl.lit(first | second, dtype=pl.UInt64)
        for pairs in _same(table.with_columns(key=pl.col("hash") & mask)):
            differ = (pl.col("hash") ^ pl.col("hash_right")).bitwise_count_ones()
            close = pairs.filter(differ <= distance)
            found.append(close.select(left="place", right="place_right"))
    return pl.concat(found).unique().sort("left", "right")


def _bands(count: int) -> list[int]:
    """Masks that cut a hash into bands of about equal width."""
    edges = [band * BITS // count for band in range(count + 1)]
    return [
        ((1 << stop) - 1) ^ ((1 << start) - 1)
        for start, stop in zip(edges, edges[1:], strict=False)
    ]


def _same(table: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Pairs of rows that have the same key, some millions at a time."""
    rows = table.filter(pl.col("key").is_duplicated())
    ends = rows.select(pl.len().cast(pl.Int64).over("key").cum_sum()).to_series()
    start = 0
    while start < rows.height:
        reached = ends[start - 1] if start else 0
        stop = max(int(ends.search_sorted(reached + _PAIRS_AT_ONCE, side="right")), start + 1)
        part = rows.slice(start, stop - start)
        pairs = part.join(rows, on="key")
        yield pairs.filter(pl.col("place") < pl.col("place_right"))
        start = stop

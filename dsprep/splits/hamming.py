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

_PAIRS_AT_ONCE = 1_000_000


def close_pairs(hashes: pl.Series, distance: int) -> Iterator[pl.DataFrame]:
    """Find the pairs of hashes that differ in few bits."""
    table = pl.DataFrame({"hash": hashes}).with_row_index("place")
    differ = (pl.col("hash") ^ pl.col("hash_right")).bitwise_count_ones()
    for first, second in combinations(_bands(distance + 2), 2):
        mask = pl.lit(first | second, dtype=pl.UInt64)
        for pairs in _same(table.with_columns(key=pl.col("hash") & mask)):
            yield pairs.filter(differ <= distance).select(left="place", right="place_right")


def clusters(hashes: pl.Series, distance: int) -> pl.Series:
    """Join hashes that differ in few bits, and those that differ in few bits from these.

    Pairs are forgotten as soon as they are joined: the frames of a video make any number of them.
    """
    first = pl.int_range(len(hashes), eager=True, dtype=pl.UInt32)
    for pairs in close_pairs(hashes, distance):
        ends = [first.gather(pairs[name]).alias(name) for name in ("left", "right")]
        apart = pl.DataFrame(ends).filter(pl.col("left") != pl.col("right")).unique()
        if apart.height:
            joined = _join(apart)
            first = first.replace(list(joined), list(joined.values()))
    return first


def _join(pairs: pl.DataFrame) -> dict[int, int]:
    """What becomes of numbers of which pairs are joined: the least that each is joined with."""
    least: dict[int, int] = {}

    def root(number: int) -> int:
        while (above := least.setdefault(number, number)) != number:
            least[number] = least[above]
            number = above
        return number

    for left, right in pairs.iter_rows():
        low, high = sorted((root(left), root(right)))
        least[high] = low
    return {number: root(number) for number in list(least)}


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

"""Copies of one image under several names, which must not lie on two sides of a split.

Alike images have perceptual hashes that differ in few of 64 bits. If two hashes differ in at most
``d`` bits and are cut into ``d + s`` bands, at least ``s`` bands are the same in both. So only
hashes that agree in some ``s`` bands are compared: of a million random ones, some millions of pairs
instead of half a trillion. The more bands agree, the fewer pairs, but the more choices of bands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any, TypeVar

import polars as pl

from dsprep.frozen import Frozen
from dsprep.printable import json_values
from dsprep.progress import Progress
from dsprep.splits.dealing import join_sets
from dsprep.splits.hashes import digest_files, hash_images
from dsprep.units import format_count, format_some
from dsprep.workers.executor import Executor

F = TypeVar("F")
H = TypeVar("H")

Copies = tuple[str, list[int]]
"""Samples that show the same: the kind, as in :class:`Leak`, and their rows."""

_AT_ONCE = 64  # files a task
_PAIRS_AT_ONCE = 1_000_000


class Leak(Frozen):
    """Samples on different sides that show the same."""

    kind: str  # `same` (equal bytes) or `near` (alike, or equal bytes and others alike)
    samples: Sequence[tuple[str, str]]  # the side and the path of each

    def to_json(self) -> dict[str, Any]:
        return json_values({"kind": self.kind, "samples": self.samples})


def find_copies(
    root: str, files: pl.DataFrame, distance: int | None, pool: Executor, progress: Progress
) -> tuple[list[Copies], list[str]]:
    """Find samples that show the same, and say which could not be compared."""
    # Images that look alike count if a distance is given: the bits that their hashes may differ in.
    same, near = find_same(root, files, pool, progress), []
    notes = []
    empty = files.filter(pl.col("size") == 0)["path"]
    if len(empty):
        what = format_count(len(empty), "empty file")
        notes.append(f"{what}, not compared: {format_some(empty.head(4).to_list())}")
    if distance is not None:
        paths = files["path"].to_list()
        with progress.running("looking for images that are alike", len(paths)):
            hashes = _in_workers(hash_images, root, paths, pool, progress)
        near = find_near(hashes, distance)
        blind = [path for path, found in zip(paths, hashes, strict=True) if found is None]
        if blind:
            what = format_count(len(blind), "image")
            notes.append(f"{what} flat or damaged, compared by bytes alone: {format_some(blind)}")
    return join_copies(same, near), notes


def find_same(
    root: str, files: pl.DataFrame, pool: Executor, progress: Progress
) -> list[list[int]]:
    """Find samples whose files have the same content. Only files of equal size are read."""
    # Empty files do not count: they show nothing.
    different = files.select("path", "size").unique("path", maintain_order=True)
    read = different.filter(pl.col("size").is_duplicated() & (pl.col("size") > 0))
    with progress.running("looking for copies", read.height, int(read["size"].sum())):
        digests = _in_workers(digest_files, root, read.rows(), pool, progress)
    rows = files.select("path").with_row_index("row")
    of_files = read.select("path", pl.Series("digest", digests, pl.Binary))
    rows = rows.join(of_files, on="path", how="left", maintain_order="left")
    own = pl.when(pl.col("digest").is_null()).then("path").alias("own")
    return _sets(rows.group_by("digest", own).agg("row")["row"])


def _in_workers(
    function: Callable[[tuple[str, Sequence[F]], Callable[..., None]], list[H]],
    root: str,
    files: Sequence[F],
    pool: Executor,
    progress: Progress,
) -> list[H]:
    """Hash files in worker processes, some at a time."""
    starts = range(0, len(files), _AT_ONCE)
    tasks = [(root, files[start : start + _AT_ONCE]) for start in starts]
    return [found for some in pool.map(function, tasks, progress.advance) for found in some]


def find_near(hashes: Sequence[int | None], distance: int) -> list[list[int]]:
    """Find samples that look alike: what is alike is joined, and what is alike to that."""
    rows = pl.DataFrame({"hash": hashes}, schema={"hash": pl.UInt64}).with_row_index("row")
    equal = rows.drop_nulls().group_by("hash").agg("row").sort("hash")
    alike = equal.with_columns(cluster=clusters(equal["hash"], distance))
    return _sets(alike.group_by("cluster").agg(pl.col("row").explode())["row"])


def join_copies(same: Sequence[Sequence[int]], near: Sequence[Sequence[int]]) -> list[Copies]:
    """Join sets of rows that have rows in common."""
    first = join_sets((*same, *near))
    joined: dict[int, list[int]] = {}
    for row in sorted(first):
        joined.setdefault(first[row], []).append(row)
    exact = {tuple(sorted(rows)) for rows in same}
    return [("same" if tuple(rows) in exact else "near", rows) for rows in joined.values()]


def find_leaks(copies: Sequence[Copies], sides: pl.Series, paths: pl.Series) -> list[Leak]:
    """Find copies that lie on different sides."""
    return [
        Leak(kind, list(zip(places, paths.gather(rows).to_list(), strict=True)))
        for kind, rows in copies
        if len(set(places := sides.gather(rows).to_list())) > 1
    ]


def clusters(hashes: pl.Series, distance: int) -> pl.Series:
    """Join hashes that differ in few bits, and those that differ in few bits from these."""
    # Pairs are forgotten as soon as they are joined: the frames of a video make any number of them.
    first = pl.int_range(len(hashes), eager=True, dtype=pl.UInt32)
    for pairs in close_pairs(hashes, distance):
        ends = [first.gather(pairs[name]).alias(name) for name in ("left", "right")]
        apart = pl.DataFrame(ends).filter(pl.col("left") != pl.col("right")).unique()
        if apart.height:
            joined = join_sets(apart.iter_rows())
            first = first.replace(list(joined), list(joined.values()))
    return first


def close_pairs(hashes: pl.Series, distance: int) -> Iterator[pl.DataFrame]:
    """Find the pairs of hashes that differ in few bits."""
    table = pl.DataFrame({"hash": hashes}).with_row_index("place")
    differ = (pl.col("hash") ^ pl.col("hash_right")).bitwise_count_ones()
    for masked in _choices(len(hashes), distance):
        mask = pl.lit(masked, dtype=pl.UInt64)
        for pairs in _same_keys(table.with_columns(key=pl.col("hash") & mask)):
            yield pairs.filter(differ <= distance).select(left="place", right="place_right")


def _choices(hashes: int, distance: int) -> list[int]:
    """Return the bits of each choice of bands, as many bands as make this many hashes fast."""

    def cost(same: int) -> float:  # a comparison takes about a quarter of sorting a row
        pairs = hashes * math.pow(2, -2 - 64 * same / (distance + same))
        return math.comb(distance + same, same) * (1 + pairs)

    same = min(range(1, 5), key=cost)
    edges = [band * 64 // (distance + same) for band in range(distance + same + 1)]
    bands = [(1 << stop) - (1 << start) for start, stop in pairwise(edges)]
    return list(map(sum, combinations(bands, same)))


def _same_keys(table: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Pair the rows that have the same key, some millions at a time."""
    rows = table.filter(pl.col("key").is_duplicated())
    ends = rows.select(pl.len().cast(pl.Int64).over("key").cum_sum()).to_series()
    start = 0
    while start < rows.height:
        reached = ends[start - 1] if start else 0
        stop = max(int(ends.search_sorted(reached + _PAIRS_AT_ONCE, side="right")), start + 1)
        pairs = rows.slice(start, stop - start).join(rows, on="key")
        yield pairs.filter(pl.col("place") < pl.col("place_right"))
        start = stop


def _sets(rows: pl.Series) -> list[list[int]]:
    return sorted(sorted(found) for found in rows.filter(rows.list.len() > 1).to_list())

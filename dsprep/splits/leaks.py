"""Copies of one image under several names, which must not lie on two sides of a split.

Alike images have perceptual hashes that differ in few of 64 bits. If two hashes differ in at most
``d`` bits and are cut into ``d + 2`` bands, at least two bands are the same in both. So only hashes
that agree in some two bands are compared: of a million random ones, some millions of pairs instead
of half a trillion.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import combinations, pairwise

import polars as pl

from dsprep.errors import SourceError
from dsprep.progress import Progress
from dsprep.splits.near import hash_images
from dsprep.splits.sides import join_sets
from dsprep.storage.local import open_regular
from dsprep.storage.location import is_s3
from dsprep.storage.pool import ahead
from dsprep.storage.s3.read import read_object
from dsprep.units import format_count, format_some
from dsprep.workers.pool import Pool

_AT_ONCE = 64  # files and images a call
_BLOCK = 1 << 20
_PAIRS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class Leak:
    """Samples on different sides that show the same."""

    kind: str  # `same` (equal bytes) or `near` (alike, or equal bytes and others alike)
    samples: Sequence[tuple[str, str]]  # the side and the path of each


@dataclass(frozen=True, eq=False)
class Copies:
    """Samples that show the same."""

    kind: str  # as in `Leak`
    rows: list[int]  # their rows


def find_copies(
    root: str, files: pl.DataFrame, distance: int | None, workers: int, progress: Progress
) -> tuple[list[Copies], list[str]]:
    """Find samples that show the same, and say which could not be compared."""
    # Images that look alike count if a distance is given: the bits that their hashes may differ in.
    same, near = find_same(root, files, progress), []
    notes = []
    empty = files.filter(pl.col("size") == 0)["path"]
    if len(empty):
        what = format_count(len(empty), "empty file")
        notes.append(f"{what}, not compared: {format_some(empty.head(4).to_list())}")
    if distance is not None:
        paths = files["path"].to_list()
        starts = range(0, len(paths), _AT_ONCE)
        tasks = [(root, paths[start : start + _AT_ONCE]) for start in starts]
        about = "looking for images that are alike"
        with progress.task(about, len(paths)), Pool(workers) as pool:
            done = dict(pool.run(hash_images, tasks, progress.advance))
        hashes = [found for task in range(len(tasks)) for found in done[task]]
        near = find_near(hashes, distance)
        blind = [path for path, found in zip(paths, hashes, strict=True) if found is None]
        if blind:
            what = format_count(len(blind), "image")
            notes.append(f"{what} not decoded, so only compared by bytes: {format_some(blind)}")
    return join_copies(same, near), notes


def find_same(root: str, files: pl.DataFrame, progress: Progress) -> list[list[int]]:
    """Find samples whose files have the same content. Only files of equal size are read."""
    # Empty files do not count: they show nothing.
    different = files.select("path", "size").unique("path", maintain_order=True)
    read = different.filter(pl.col("size").is_duplicated() & (pl.col("size") > 0))
    pairs = list(read.iter_rows())
    digests: list[bytes] = []
    total = sum(size for _, size in pairs)
    # A small file takes less time than a call. An object is in memory as a whole.
    count = 1 if is_s3(root) else _AT_ONCE
    batches = [pairs[at : at + count] for at in range(0, len(pairs), count)]
    calls = ((b[0][1] if is_s3(root) else 0, partial(_digests, root, b)) for b in batches)
    # closed: a caller that stops early waits for none of the files
    with progress.task("looking for copies", len(pairs), total), closing(ahead(calls)) as found:
        for batch, some in zip(batches, found, strict=True):
            digests += some
            progress.advance(len(batch), sum(size for _, size in batch))
    rows = files.select("path").with_row_index("row")
    of_files = read.select("path", pl.Series("digest", digests, pl.Binary))
    rows = rows.join(of_files, on="path", how="left", maintain_order="left")
    own = pl.when(pl.col("digest").is_null()).then("path").alias("own")
    return _sets(rows.group_by("digest", own).agg("row")["row"])


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
    return [Copies("same" if tuple(rows) in exact else "near", rows) for rows in joined.values()]


def find_leaks(copies: Sequence[Copies], sides: pl.Series, paths: pl.Series) -> list[Leak]:
    """Find copies that lie on different sides."""
    return [
        Leak(copy.kind, list(zip(places, paths.gather(copy.rows).to_list(), strict=True)))
        for copy in copies
        if len(set(places := sides.gather(copy.rows).to_list())) > 1
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
    edges = [band * 64 // (distance + 2) for band in range(distance + 3)]
    bands = [(1 << stop) - (1 << start) for start, stop in pairwise(edges)]
    for first, second in combinations(bands, 2):
        mask = pl.lit(first | second, dtype=pl.UInt64)
        for pairs in _same_keys(table.with_columns(key=pl.col("hash") & mask)):
            yield pairs.filter(differ <= distance).select(left="place", right="place_right")


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


def _digests(root: str, pairs: Sequence[tuple[str, int]]) -> list[bytes]:
    return [_digest(os.path.join(root, path), size) for path, size in pairs]


def _digest(path: str, size: int) -> bytes:
    """Return the BLAKE2b of a file's content."""
    hashed = blake2b(digest_size=16)
    try:
        if is_s3(path):
            data = read_object(path, size)
            hashed.update(data or b"")
            is_whole = data is not None
        else:
            with open(path, "rb", buffering=0, opener=open_regular) as file:
                is_whole = os.fstat(file.fileno()).st_size == size
                while is_whole and (block := file.read(_BLOCK)):
                    hashed.update(block)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    if not is_whole:
        raise SourceError(f"{path}: has changed; give the same command again")
    return hashed.digest()

"""Copies of one image under several names: what must not lie on two sides of a split."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import polars as pl

from dsprep.errors import SourceError
from dsprep.progress import Progress
from dsprep.splits.hamming import clusters
from dsprep.storage.ahead import ahead
from dsprep.storage.flag import Flag
from dsprep.storage.local import open_regular
from dsprep.storage.objects import read_object
from dsprep.storage.urls import is_s3

_DIGEST_BYTES = 16
_FILES_AT_ONCE = 64
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Leak:
    """Samples on different sides that show the same."""

    kind: str  # `same` (equal bytes) or `near` (alike, or equal bytes and others alike)
    samples: Sequence[tuple[str, str]]  # the side and the path of each


@dataclass(frozen=True, eq=False)
class Copies:
    """Samples that show the same."""

    kind: str  # as in :class:`Leak`
    rows: list[int]  # their rows


def find_same(root: str, files: pl.DataFrame, threads: int, progress: Progress) -> list[list[int]]:
    """Find samples whose files have the same content. Only files of equal size are read.

    Empty files do not count: they show nothing.
    """
    different = files.select("path", "size").unique("path", maintain_order=True)
    read = different.filter(pl.col("size").is_duplicated() & (pl.col("size") > 0))
    pairs = list(read.iter_rows())
    digests: list[bytes] = []
    progress.begin("looking for copies", len(pairs), sum(size for _, size in pairs))
    try:
        with closing(_digests(root, pairs, threads)) as found:
            for (_, size), each in zip(pairs, found, strict=True):
                digests.append(each)
                progress.advance(1, size)
    finally:
        progress.end()
    digest = pl.Series("digest", digests, pl.Binary)
    rows = files.select("path").with_row_index("row")
    rows = rows.join(read.select("path", digest), on="path", how="left", maintain_order="left")
    own = pl.when(pl.col("digest").is_null()).then("path").alias("own")
    return _sets(rows.group_by("digest", own).agg("row")["row"])


def find_near(hashes: Sequence[int | None], distance: int) -> list[list[int]]:
    """Find samples that look alike: what is alike is joined, and what is alike to that."""
    rows = pl.DataFrame({"hash": hashes}, schema={"hash": pl.UInt64}).with_row_index("row")
    equal = rows.drop_nulls().group_by("hash").agg("row").sort("hash")
    alike = equal.with_columns(cluster=clusters(equal["hash"], distance))
    return _sets(alike.group_by("cluster").agg(pl.col("row").explode())["row"])


def join_sets(same: Sequence[Sequence[int]], near: Sequence[Sequence[int]]) -> list[Copies]:
    """Join sets of rows that have rows in common."""
    above: dict[int, int] = {}

    def root(row: int) -> int:
        while (parent := above.setdefault(row, row)) != row:
            above[row] = above[parent]
            row = parent
        return row

    for rows in (*same, *near):
        first = root(rows[0])
        for row in rows[1:]:
            above[root(row)] = first
    joined: dict[int, list[int]] = {}
    for row in sorted(above):
        joined.setdefault(root(row), []).append(row)
    exact = {tuple(sorted(rows)) for rows in same}
    return [Copies("same" if tuple(rows) in exact else "near", rows) for rows in joined.values()]


def find_leaks(copies: Sequence[Copies], sides: pl.Series, paths: pl.Series) -> list[Leak]:
    """Find copies that lie on different sides."""
    leaks = []
    for each in copies:
        places = sides.gather(each.rows).to_list()
        if len(set(places)) > 1:
            named = zip(places, paths.gather(each.rows).to_list(), strict=True)
            leaks.append(Leak(each.kind, list(named)))
    return leaks


def _sets(rows: pl.Series) -> list[list[int]]:
    return sorted(sorted(each) for each in rows.filter(rows.list.len() > 1).to_list())


def _digests(
    root: str, pairs: Sequence[tuple[str, int]], threads: int
) -> Generator[bytes, None, None]:
    """The digests of files; who stops early waits for those that a disk is reading."""
    if is_s3(root):
        yield from ahead(
            (size, partial(_digest, os.path.join(root, path), size)) for path, size in pairs
        )
        return
    over = Flag()

    def digests_of(batch: Sequence[tuple[str, int]]) -> list[bytes]:
        return [_digest(os.path.join(root, path), size) for path, size in batch if not over.is_set]

    pool = ThreadPoolExecutor(threads)
    try:
        batches = range(0, len(pairs), _FILES_AT_ONCE)
        for done in pool.map(digests_of, [pairs[at : at + _FILES_AT_ONCE] for at in batches]):
            yield from done
    finally:
        over.set()
        pool.shutdown(cancel_futures=True)


def _digest(path: str, size: int) -> bytes:
    """The BLAKE2b of a file's content."""
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    try:
        if is_s3(path):
            data = read_object(path, size)
            if data is None:
                raise SourceError(f"{path}: has changed; give the same command again")
            return blake2b(data, digest_size=_DIGEST_BYTES).digest()
        with open(path, "rb", buffering=0, opener=open_regular) as file:
            if os.fstat(file.fileno()).st_size != size:
                raise SourceError(f"{path}: has changed; give the same command again")
            while block := file.read(_BLOCK):
                hashed.update(block)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    return hashed.digest()

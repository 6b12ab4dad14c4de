"""Which path a name means: the name of a file or of a sample, as lists and annotations write it."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

import polars as pl

from dsprep.text import refuse

_HEAD = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*/|[^?]*\?d=", re.IGNORECASE)
_UPLOADED = re.compile(r"^[0-9a-f]{8}-")  # what Label Studio puts before the names of files


def more_than_names(files: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Return the names of files without extension, without directories, and without both."""
    path = pl.col("path")
    bare = path.str.replace(r"\.[^./]*$", "")
    for name in (bare, path.str.split("/").list.last(), bare.str.split("/").list.last()):
        yield files.select(path, name=name)


def find_spelled(
    named: pl.DataFrame,
    paths: pl.Series,
    spellings: Iterable[pl.DataFrame],
    source: str,
    root: str = "",
) -> pl.Series:
    """Find the path that each name means: the name itself, or by the first spelling that has it."""
    # Names that mean no path get null.
    is_path = named["name"].is_in(paths.implode())
    left = named.filter(~is_path).select("line", "name")
    left = left.unique("name", keep="first", maintain_order=True)
    found = [pl.DataFrame(schema={"name": pl.String, "path": pl.String})]
    for spelled in spellings:
        if left.is_empty():
            break
        hits = left.join(spelled, on="name")
        if hits["name"].n_unique() < hits.height:
            hits = hits.sort("line", "path")
            refuse(
                source,
                hits.with_columns(other=pl.col("path").last().over("name")),
                pl.col("name").is_duplicated(),
                lambda row: (
                    f"{row['name']!r} may mean {row['path']!r} or {row['other']!r}"
                    f"{_which(row['path'], row['other'], root)}"
                ),
            )
        found.append(hits.select("name", "path"))
        left = left.join(hits, on="name", how="anti", maintain_order="left")
    joined = named.join(pl.concat(found), on="name", how="left", maintain_order="left")
    return joined.select(pl.when(is_path).then("name").otherwise("path").alias("path")).to_series()


def _which(one: str, other: str, root: str) -> str:
    """Return what a message adds on the choice between two paths."""
    tops = [path.rpartition("/")[0] for path in (one, other)]
    if not root or tops[0] == tops[1]:
        return ": write its extension into the table" if root else ""
    named = (os.path.join(root, top) for top in sorted(tops, reverse=True))
    return (
        f": give the directory with the images of the table as SOURCE, {' or '.join(named)}; if it "
        "names images of several directories, write these into it"
    )


class ImageFinder:
    """Finds images by what annotations call them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._by_base: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for path in paths:
            base = path.rpartition("/")[2]
            self._by_base.setdefault(base, []).append(path)
            self._by_stem.setdefault(base.rpartition(".")[0], []).append(path)

    def find(self, name: str) -> Sequence[str]:
        """Return the image that a name means; several, if it may mean any of them.

        Of the images with its base name, or with this as a stem, these are the ones that have the
        most directories at the end of their paths in common with it.
        """
        directory, _, base = name.rpartition("/")
        names = (base, _UPLOADED.sub("", base, count=1))
        own = (self._by_base.get(name) for name in names)
        found = next(filter(None, own), self._by_stem.get(base, []))
        if len(found) < 2:
            return found
        shared = [_shared(directory, path.rpartition("/")[0]) for path in found]
        return [path for path, count in zip(found, shared, strict=True) if count == max(shared)]


def _shared(one: str, two: str) -> int:
    """Return how many directories at the ends of two paths are the same."""
    pairs = zip(reversed(one.split("/")), reversed(two.split("/")), strict=False)
    return next((at for at, pair in enumerate(pairs) if pair[0] != pair[1]), 1_000_000)


def plain_name(name: str) -> str:
    """Return what annotations call an image as a path."""
    path, head = name, _HEAD.match(name)  # a search takes the square of a long name's length
    if head is not None:  # a URL
        path = unquote(name[head.end() :].partition("?")[0])
    return posixpath.normpath(path.replace("\\", "/")).lstrip("/")

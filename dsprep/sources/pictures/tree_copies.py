"""Directories that lie there twice, as in some of Kaggle's archives: ``x/cat`` and ``x/x/cat``."""

from __future__ import annotations

import posixpath
import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.sources.mask_pixels import Pictures
from dsprep.tuples import NamedTuple
from dsprep.units import format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.places.files import Files

_LOOKED_AT = 64  # images: a tree that has this part of all is found
_MOST_OF_A_NAME = 16  # paths: more are no copies, but images that have one name
_TRIED = 4  # pairs of directories


class _Copies(NamedTuple):
    """Directories of the same names and images below two others, by their paths from there."""

    above: str
    below: str  # lies in the other
    tops: Sequence[str]
    images: pl.Series
    are_all: bool  # whether no other directories are below the second

    def high(self) -> list[str]:
        return [posixpath.join(self.above, top) for top in self.tops]

    def deep(self) -> list[str]:
        if self.are_all and len(self.tops) > 1:
            return [self.below]
        return [posixpath.join(self.below, top) for top in self.tops]


def require_one_tree(root: str, files: Files) -> None:
    """Refuse images that lie there twice, in directories and in such of their names further below.

    Some images, evenly from all, show where that may be.
    """
    table = files.table.select("path", "size").sort("path")
    for above, below in _likely(table):
        copies = _copies(table, above, below)
        if not copies.tops or not _begin_alike(root, files, copies):
            continue
        high, deep = ([f"{path}/" for path in own] for own in (copies.high(), copies.deep()))
        said = f"{root}: {format_some(high)} and {format_some(deep)} hold the same images"
        unpack = "unpack it, and " if files.archive is not None else ""
        if 2 * len(copies.images) < table.height:
            raise SourceError(f"{said}: {unpack}move {format_some(deep)} to another place")
        where = posixpath.join(root, *copies.deep())
        named = f"name {deep[0]} as the source" if unpack else f"dsprep pack {shlex.quote(where)}"
        raise SourceError(f"{said}: to have them once, {unpack}{named}")


def _likely(table: pl.DataFrame) -> list[tuple[str, str]]:
    """Return pairs of directories that may hold the same; the second lies in the first.

    Some images have the same path below both, and the same size.
    """
    import polars as pl

    depths = table["path"].str.count_matches("/", literal=True)
    if depths.min() == depths.max():
        return []  # of two images with the same path below both, the second one lies deeper
    keys = pl.col("path").str.extract("([^/]+/[^/]+)$").alias("end"), pl.col("size")
    some = table.gather_every(max(1, table.height // _LOOKED_AT))
    alike = table.filter(table["size"].is_in(some["size"].unique().implode()))
    alike = alike.select("path", *keys).join(some.select(*keys), on=["end", "size"], how="semi")
    by_name = alike.group_by("end", "size", maintain_order=True).agg("path")
    are_few = pl.col("path").list.len().is_between(2, _MOST_OF_A_NAME)
    found = Counter(
        pair
        for paths in by_name.filter(are_few)["path"]
        for one, other in combinations(sorted(paths, key=_depth), 2)
        if (pair := _parents(one, other))
    )
    return [pair for pair, _ in found.most_common(_TRIED)]


def _depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _parents(high: str, deep: str) -> tuple[str, str] | None:
    """Return the directories below which two paths are the same; None if there are none.

    The second one lies in the first one, and both hold a directory with the image.
    """
    left, right = high.split("/"), deep.split("/")
    alike = 0
    while alike < len(left) and left[-1 - alike] == right[-1 - alike]:
        alike += 1
    above, below = left[: len(left) - alike], right[: len(right) - alike]
    if alike < 2 or len(above) == len(below) or above != below[: len(above)]:  # noqa: PLR2004
        return None
    return "/".join(above), "/".join(below)


def _copies(table: pl.DataFrame, above: str, below: str) -> _Copies:
    """Find the directories that hold images of the same paths and sizes below two others."""
    import polars as pl

    high, deep = _within(table, above), _within(table, below)
    # `x/x` is a copy of `x`, and lies in it
    copies = pl.concat_str(pl.lit(f"{below}/"), "top", pl.lit("/"))
    high = high.filter(~pl.col("path").str.starts_with(copies))
    on = ["own", "size"]
    others = (one.join(other, on=on, how="anti") for one, other in ((high, deep), (deep, high)))
    different = {top for each in others for top in each["top"]}
    known = set(deep["top"])
    tops = sorted(known.intersection(high["top"]) - different)
    images = high.filter(pl.col("top").is_in(tops))["own"]
    return _Copies(above, below, tops, images, known == {*tops})


def _within(table: pl.DataFrame, directory: str) -> pl.DataFrame:
    """Return the images in directories of a directory, with their paths and tops from there."""
    import polars as pl

    begin = f"{directory}/" if directory else ""
    own = table.filter(table["path"].str.starts_with(begin))
    own = own.with_columns(own=pl.col("path").str.slice(len(begin)))
    own = own.with_columns(top=pl.col("own").str.extract("^([^/]+)/"))
    return own.filter(pl.col("top").is_not_null())


def _begin_alike(root: str, files: Files, copies: _Copies) -> bool:
    """Return whether the first and the last image and their copies begin with the same bytes."""
    some = [copies.images[at] for at in (0, -1)]
    one, other = (
        [posixpath.join(top, path) for path in some] for top in (copies.above, copies.below)
    )
    heads = Pictures(root, files).heads([*one, *other])
    return all(heads.get(path) == heads.get(copy) for path, copy in zip(one, other, strict=True))

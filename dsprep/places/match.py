"""Which path a name means: the one place where names of lists, tables and annotations meet paths.

A name means the path that it is. Otherwise, callers say by which `Spelling` they are compared, the
surest first: a path without its extension, the base name, the stem. A name means what the first
spelling has for it. If that is several paths, nothing is guessed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple
from urllib.parse import unquote

import polars as pl

from dsprep.errors import SourceError
from dsprep.text import also
from dsprep.units import format_some

_HEAD = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*/|[^?]*\?d=", re.IGNORECASE)
_PREFIX = r"^[0-9a-f]{8}-"  # what Label Studio puts before the names of files
_ODD = r"\\|://|\?d=|(?:^|/)\.{0,2}(?:/|$)"  # of names that are no plain paths
_HALF = re.compile("[\ud800-\udfff]")
_UPLOADED = re.compile(r"^[0-9a-f]{8}-")  # what Label Studio puts before the names of files


# Spellings


class Spelling(NamedTuple):
    """What a name and the path that it means have in common.

    Attributes:
        of_name: An expression on the column ``name``.
        of_path: An expression on the column ``path``, or a value for each path.
    """

    of_name: pl.Expr
    of_path: pl.Expr | pl.Series


def bare(path: str) -> pl.Expr:
    """Return a column of paths without their extensions."""
    return pl.col(path).str.replace(r"\.[^./]*$", "")


def base(path: str) -> pl.Expr:
    """Return a column of paths without their directories."""
    return pl.col(path).str.split("/").list.last()


def stem(path: str) -> pl.Expr:
    """Return a column of paths without directories and extensions."""
    return bare(path).str.split("/").list.last()


MORE_THAN_NAMES = tuple(Spelling(pl.col("name"), form("path")) for form in (bare, base, stem))
"""A name may lack the extension and the directories of its path."""

WRITTEN_ELSEWHERE = (
    Spelling(base("name"), base("path")),
    Spelling(base("name").str.replace(_PREFIX, ""), base("path")),
    Spelling(base("name"), stem("path")),
)
"""A name has directories of another machine, or lacks its extension; the nearest path counts."""


# Matches


_HITS = {"name": pl.String, "one": pl.String, "other": pl.String}


class Matches(NamedTuple):
    """The paths that names mean.

    Attributes:
        names: The names.
        paths: What each of them means; null if that is no path, or may be several.
        several: The names that may mean several paths, with the first and the last of these.
    """

    names: pl.Series
    paths: pl.Series
    several: pl.DataFrame

    @property
    def missing(self) -> pl.Series:
        """The names that mean no path."""
        means_none = self.paths.is_null() & ~self.names.is_in(self.several["name"].implode())
        return self.names.filter(means_none)

    def refuse_several(
        self,
        where: str,
        advice: Callable[[str, str], str] = lambda one, other: "",
        lines: pl.Series | None = None,
    ) -> None:
        """Raise an error about the first name that may mean several paths, if there is one.

        Args:
            where: The file with the names.
            advice: What to do, given two of the paths.
            lines: The line of each name in that file, if it has lines.
        """
        if self.several.is_empty():
            return
        unclear = self.names.is_in(self.several["name"].implode())
        names = self.names.filter(unclear)
        ((one, other),) = self.several.filter(name=names[0]).select("one", "other").iter_rows()
        if lines is None:
            others = names.unique(maintain_order=True)[1:]
            more = f" ({len(others):,} more like this: {format_some(others.to_list())})"
            more = "" if others.is_empty() else more
        else:
            where, more = f"{where}:{lines.filter(unclear)[0]}", also(lines.filter(unclear))
        said = f"{names[0]!r} may mean {one!r} or {other!r}{advice(one, other)}"
        raise SourceError(f"{where}: {said}{more}")


def match(
    names: pl.Series, paths: pl.Series, spellings: Iterable[Spelling], *, nearest: bool = False
) -> Matches:
    """Find the path that each name means.

    Args:
        names: What paths are called.
        paths: All paths, each once.
        spellings: How names and paths are compared, the surest first.
        nearest: Whether several paths of one spelling are told apart by their directories: the name
            means the one with the most directories at the end in common with it.
    """
    is_path = names.is_in(paths.implode())
    left = names.filter(~is_path).unique(maintain_order=True).to_frame("name")
    found, several = [pl.DataFrame(schema=_HITS)], [pl.DataFrame(schema=_HITS)]
    for spelling in spellings:
        if left.is_empty():
            break
        own = left.select("name", key=spelling.of_name)
        known = pl.DataFrame({"path": paths}).select("path", key=spelling.of_path)
        hits = _hits(own, known, ["key"])
        left = left.join(hits, on="name", how="anti", maintain_order="left")
        unclear = hits.filter(pl.col("one") != pl.col("other"))
        if unclear.is_empty():
            found.append(hits)
            continue
        found.append(hits.filter(pl.col("one") == pl.col("other")))
        if nearest:
            near, unclear = _nearest(own, known, unclear)
            found.append(near)
        several.append(unclear)
    meant = pl.concat(found).select("name", path="one")
    joined = names.to_frame("name").join(meant, on="name", how="left", maintain_order="left")
    result = joined.select(pl.when(is_path).then("name").otherwise("path").alias("path"))
    return Matches(names, result.to_series(), pl.concat(several))


def _hits(own: pl.DataFrame, known: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    """Return the names that have a path, with the first and the last of their paths."""
    ends = {"one": pl.col("path").min(), "other": pl.col("path").max()}
    if own.select(on).n_unique() < own.height:  # else each path has one name at most
        known = known.join(own.select(on), on=on, how="semi").group_by(on).agg(**ends)
        return own.join(known, on=on).select(*_HITS)
    hits = own.join(known, on=on)
    if hits["name"].n_unique() == hits.height:
        return hits.select("name", one="path", other="path")
    return hits.group_by("name").agg(**ends)


def _nearest(
    own: pl.DataFrame, known: pl.DataFrame, unclear: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tell paths of one spelling apart by the directories at their ends.

    Best is a path that is the end of the name as a whole, or the other way round. Return the names
    that mean one path, and those that may still mean several.
    """
    names = own.join(unclear, on="name", how="semi", maintain_order="left")
    known = known.join(names, on="key", how="semi")
    names = names.with_columns(above=_directories("name"))
    known = known.with_columns(above=_directories("path"))
    depth = min(int(str(each["above"].list.len().max())) for each in (names, known))
    counts = range(depth, 0, -1)
    near, several = [pl.DataFrame(schema=_HITS)], [pl.DataFrame(schema=_HITS)]
    for is_whole, count in product((True, False), counts):
        if names.is_empty():
            break
        end = pl.col("above").list.tail(count).list.join("/").alias("end")
        length = pl.col("above").list.len()
        few, some = (each.filter(length >= count).with_columns(end) for each in (names, known))
        if is_whole:
            hits = pl.concat(
                (
                    _hits(few.filter(length == count), some, ["key", "end"]),
                    _hits(few.filter(length > count), some.filter(length == count), ["key", "end"]),
                )
            )
        else:
            hits = _hits(few, some, ["key", "end"])
        names = names.join(hits, on="name", how="anti", maintain_order="left")
        near.append(hits.filter(pl.col("one") == pl.col("other")))
        several.append(hits.filter(pl.col("one") != pl.col("other")))
    several.append(unclear.join(names, on="name", how="semi", maintain_order="left"))
    return pl.concat(near), pl.concat(several)


def _directories(path: str) -> pl.Expr:
    """Return the directories of each path, from the top; an empty name for those that have none."""
    return pl.col(path).str.replace(r"/?[^/]*$", "").str.split("/")


# Names as annotations write them


def texts(names: Iterable[str]) -> pl.Series:
    """Return names as a column; half a character, as JSON may have it, is in no path."""
    names = list(names)
    try:
        return pl.Series("name", names, dtype=pl.String)
    except UnicodeEncodeError:
        return pl.Series("name", [_HALF.sub("\0", name) for name in names], dtype=pl.String)


def plain_names(names: pl.Series) -> pl.Series:
    """Return what annotations call images, as paths."""
    odd = names.str.contains(_ODD)
    if not odd.any():
        return names
    plain = texts(map(plain_name, names.filter(odd)))
    return names.clone().scatter(odd.arg_true(), plain)  # which changes a series in its place


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

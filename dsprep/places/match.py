"""Which path a name means: the one place where names of lists, tables and annotations meet paths.

A name means the path that it is. Otherwise, callers say by which `Spelling` they are compared, the
surest first: a path without its extension, the base name, the stem. A name means what the first
spelling has for it. If that is several paths, nothing is guessed. Texts that Unicode calls the same
count as such where they are not found as they are.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product
from urllib.parse import unquote

import polars as pl

from dsprep.errors import SourceError
from dsprep.text import also
from dsprep.tuples import NamedTuple
from dsprep.units import format_some, quoted

_HEAD = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*/|[^?]*\?d=", re.IGNORECASE)
_UPLOADED = r"^[0-9a-f]{8}-"  # what Label Studio puts before the names of files
_ODD = r"\\|://|\?d=|(?:^|/)\.{0,2}(?:/|$)"  # of names that are no plain paths
NOT_ASCII = r"[^\x00-\x7f]"  # of texts that may have another normal form
_MOST_LEVELS = 64  # directories at the ends of paths that tell them apart
_SHOWN = 200  # characters of a path in a message
_HALF = re.compile("[\ud800-\udfff]")


# Spellings

NAME, PATH = pl.col("name"), pl.col("path")


class Spelling(NamedTuple):
    """What a name and the path that it means have in common.

    Attributes:
        of_name: An expression on `NAME`.
        of_path: An expression on `PATH`, or a value for each path. A list of texts spells the path
            in several ways.
    """

    of_name: pl.Expr
    of_path: pl.Expr | pl.Series


def bare(path: pl.Expr) -> pl.Expr:
    """Return paths without their extensions."""
    return path.str.replace(r"\.[^./]*$", "")


def base(path: pl.Expr) -> pl.Expr:
    """Return paths without their directories."""
    return path.str.split("/").list.last()


def stem(path: pl.Expr) -> pl.Expr:
    """Return paths without directories and extensions."""
    return base(bare(path))


def beside(path: pl.Expr, directory: str) -> pl.Expr:
    """Return the paths of the same base names in a directory beside those of the paths."""
    above = path.str.extract("(?s)^(.*/)[^/]*/[^/]*$").fill_null("")
    return above + f"{directory}/" + base(path)


MORE_THAN_NAMES = tuple(Spelling(NAME, form(PATH)) for form in (bare, base, stem))
"""A name may lack the extension and the directories of its path."""


def _plain(name: pl.Expr) -> pl.Expr:
    return name.str.replace(r"0*(\d+)$", "$1")


_ALONE = pl.when(~NAME.str.contains("/", literal=True)).then(NAME)
WITHOUT_ZEROS = (
    Spelling(_plain(bare(NAME)), _plain(bare(PATH))),
    Spelling(_plain(stem(_ALONE)), _plain(stem(PATH))),
)
"""A number at the end of a name lacks the zeros before it, as spreadsheets leave them out."""

WRITTEN_ELSEWHERE = (
    Spelling(base(NAME), base(PATH)),
    Spelling(base(NAME).str.replace(_UPLOADED, ""), base(PATH)),
    Spelling(base(NAME), stem(PATH)),
)
"""A name has directories of another machine, or lacks its extension; the nearest path counts."""


# Matches


_ENDS = ("first", "last")
_HITS = {"name": pl.String, **dict.fromkeys(_ENDS, pl.String)}
_SEVERAL = pl.col("first") != pl.col("last")


class Matches(NamedTuple):
    """The paths that names mean, each a column with a value for each name.

    Attributes:
        names: The names.
        are_paths: Whether each name is a path itself.
        first: The path that each name means, or the first of several; null if it means none.
        last: The same, or the last of several.
    """

    names: pl.Series
    are_paths: pl.Series
    first: pl.Series
    last: pl.Series

    @property
    def paths(self) -> pl.Series:
        """The paths that names mean; null for none, and for several."""
        if self.last is self.first:
            return self.first
        return pl.select(path=pl.when(self.first == self.last).then(self.first)).to_series()

    @property
    def missing(self) -> pl.Series:
        """The names that mean no path."""
        return self.names.filter(self.first.is_null())

    def refuse_several(
        self,
        where: str,
        advice: Callable[[str, str], str] = lambda one, other: "",
        lines: pl.Series | None = None,
        says: str = "{} may mean",
    ) -> None:
        """Raise an error about the first name that may mean several paths, if there is one.

        Args:
            where: The file with the names.
            advice: What to do, given two of the paths.
            lines: The line of each name in that file, if it has lines.
            says: How a message begins, with the name.
        """
        if self.last is self.first:
            return
        unclear = self.first != self.last
        if not unclear.any():
            return
        names, one, other = (each.filter(unclear) for each in (self.names, self.first, self.last))
        if lines is None:
            others = names.unique(maintain_order=True)[1:]
            more = f" ({len(others):,} more like this: {format_some(others.to_list())})"
            more = "" if others.is_empty() else more
        else:
            where, more = f"{where}:{lines.filter(unclear)[0]}", also(lines.filter(unclear))
        paths = f"{quoted(one[0], _SHOWN)} or {quoted(other[0], _SHOWN)}"
        said = f"{says.format(quoted(names[0]))} {paths}{advice(one[0], other[0])}"
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
    found = [pl.DataFrame(schema=_HITS)]
    spellings = tuple(spellings)
    for spelling, is_normal in chain(
        [(Spelling(NAME, PATH), True)],
        ((each, False) for each in spellings),
        ((each, True) for each in spellings),
    ):
        # Names that macOS has written have their accents as characters of their own.
        few = left.filter(NAME.str.contains(NOT_ASCII)) if is_normal else left
        if few.is_empty():
            continue
        own = few.select("name", key=spelling.of_name)
        known = pl.DataFrame({"path": paths}).select("path", key=spelling.of_path)
        if isinstance(known.schema["key"], pl.List):
            known = known.explode("key")
        if is_normal:
            own, known = (
                each.with_columns(pl.col("key").str.normalize("NFC")) for each in (own, known)
            )
        are_unique = spelling.of_name is NAME and not is_normal
        hits = _hits(own, known, ["key"], are_unique=are_unique)
        left = left.join(hits, on="name", how="anti", maintain_order="left")
        unclear = hits.filter(_SEVERAL)
        if nearest and not unclear.is_empty():
            hits = pl.concat((hits.filter(~_SEVERAL), *_nearest(own, known, unclear)))
        found.append(hits)
    meant = pl.concat(found)
    if meant.is_empty():
        paths = pl.select(pl.when(is_path).then(names).alias("path")).to_series()
        return Matches(names, is_path, paths, paths)
    ends = _ENDS if meant.select(_SEVERAL.any()).item() else _ENDS[:1]
    joined = names.to_frame("name").join(
        meant.select("name", *ends), on="name", how="left", maintain_order="left"
    )
    means = [pl.when(is_path).then("name").otherwise(end).alias(end) for end in ends]
    first, *last = joined.select(means)
    return Matches(names, is_path, first, *(last or [first]))


def _hits(
    own: pl.DataFrame, known: pl.DataFrame, on: Sequence[str], are_unique: bool = False
) -> pl.DataFrame:
    """Return the names that have a path, with the first and the last of their paths."""
    ends = {"first": pl.col("path").min(), "last": pl.col("path").max()}
    if not are_unique and own.select(on).n_unique() < own.height:  # a path may have several names
        known = known.join(own.select(on), on=on, how="semi").group_by(on).agg(**ends)
        return own.join(known, on=on).select(*_HITS)
    hits = own.join(known, on=on)
    if hits["name"].n_unique() == hits.height:
        return hits.select("name", first="path", last="path")
    return hits.group_by("name").agg(**ends)


def _nearest(
    own: pl.DataFrame, known: pl.DataFrame, unclear: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    """Tell paths of one spelling apart by the directories at their ends.

    Best is a path that is the end of a name as a whole, or the other way round.
    """
    names = own.join(unclear, on="name", how="semi", maintain_order="left")
    known = known.join(names, on="key", how="semi")
    names = names.with_columns(above=_directories("name"))
    known = known.with_columns(above=_directories("path"))
    length = pl.col("above").list.len()
    depth = min(_MOST_LEVELS, *(each.select(length.max()).item() for each in (names, known)))
    for is_whole, count in product((True, False), range(depth, 0, -1)):
        end = pl.col("above").list.tail(count).list.join("/").alias("end")
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
        yield hits
    yield unclear.join(names, on="name", how="semi", maintain_order="left")


def _directories(path: str) -> pl.Expr:
    """Return the directories of each path, from the top; an empty name for those that have none."""
    return pl.col(path).str.replace(r"/?[^/]*$", "").str.normalize("NFC").str.split("/")


# Names as annotations write them


def find_elsewhere(names: Iterable[str], paths: Iterable[str]) -> Matches:
    """Find the paths that names mean which were written on another machine, or by a web tool."""
    written, known = texts(names), texts(paths)
    is_path = written.is_in(known.implode())
    plain = written if is_path.all() else written.zip_with(is_path, plain_names(written))
    found = match(plain, known, WRITTEN_ELSEWHERE, nearest=True)
    return _without_strangers(plain, found)._replace(names=written)


def _without_strangers(names: pl.Series, found: Matches) -> Matches:
    """Leave out paths of another directory than the name's, if other names mean that directory.

    With `a/1.jpg` on the disk, `b/2.jpg` is not `a/2.jpg`: it is missing.
    """
    if found.are_paths.all() or not names.str.contains("/", literal=True).any():
        return found
    table = pl.DataFrame({"name": names, "path": found.first})
    above, last = r"^(.*)/[^/]*$", r"([^/]*)/[^/]*$"
    table = table.with_columns(
        pl.col("path").str.extract(above).alias("above"),
        parent=NAME.str.extract(last),
        is_whole=(pl.lit("/") + PATH).str.ends_with(pl.lit("/") + NAME),
    )
    meant = table.filter(pl.col("is_whole") & pl.col("parent").is_not_null())["above"].unique()
    is_stranger = (
        ~pl.col("is_whole")
        & (pl.col("parent") != PATH.str.extract(last))
        & pl.col("above").is_in(meant.implode())
    ).fill_null(value=False)
    strangers = table.select(is_stranger).to_series()
    if not strangers.any():
        return found
    first, others = (
        pl.select(path=pl.when(~strangers).then(each)).to_series()
        for each in (found.first, found.last)
    )
    return found._replace(first=first, last=first if found.last is found.first else others)


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


def plain_name(name: str) -> str:
    """Return what annotations call an image as a path."""
    path, head = name, _HEAD.match(name)  # a search takes the square of a long name's length
    if head is not None:  # the name is a URL
        path = unquote(name[head.end() :].partition("?")[0])
    return posixpath.normpath(path.replace("\\", "/")).lstrip("/")

"""The members of an archive as the table of files that a scan of a directory would give."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources.archive import Archive, Listing, is_archive, open_archive
from dsprep.sources.archive_reader import ZipReader
from dsprep.sources.files import Files
from dsprep.sources.scan import LEFT_BEHIND
from dsprep.sources.tree import read_tree
from dsprep.storage.paths import exists, is_dir
from dsprep.text import decode_text, read_text

if TYPE_CHECKING:
    from dsprep.sources.reading import Source

_PARTS = ("cls", "json", "txt")
"""Extensions of what a WebDataset has beside images."""

_MOST_TEXT = 1 << 30
"""Maximum size of a list or a table in an archive."""

_DRIVE = re.compile(r"[A-Za-z]:")
_LEFT = "|".join(map(re.escape, sorted(LEFT_BEHIND)))
_ODD = rf"^$|\x00|^[A-Za-z]:|(?:^|/)(?:\.|/|$|(?:{_LEFT})(?:/|$))"
"""Names that are hidden, not normal, or lead outside: few, so looked at one by one."""

_EXTENSION = r"[^/]\.([^./]*)$"
_MOST_LINKS = 40
"""As many links may follow one another, as on a disk."""


def read_archive(source: Source, archive: Archive) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of the images in an archive."""
    files = files_of(archive, source.extensions)
    if files.table.is_empty() and archive.listing.damage:
        raise SourceError(f"{archive.path}: {archive.listing.damage[0].detail}")
    is_tar = not isinstance(archive.reader, ZipReader)
    if source.kind is None and not source.chooses and is_tar and _has_parts(files):
        raise SourceError(
            f"{source.root}: its images have files of the same names, which are not adjacent to "
            "them: give --from parts to take those of one name for one sample, or --from images "
            "to take the images alone"
        )
    return read_tree(source, files=files, text_of=partial(read_text_of, archive))


def _has_parts(files: Files) -> bool:
    """Whether at least half of the images of a tar have labels or texts in files beside them."""
    assert files.others is not None
    stem, extension = (pl.col("path").str.extract(each) for each in (r"^(.*)\.", r"\.([^./]*)$"))
    known = files.others.filter(extension.is_in(_PARTS)).select(stem=stem).unique()
    together = files.table.select(stem=stem).join(known, on="stem", how="semi").height
    return together > 0 and 2 * together >= files.table.height


def read_text_beside(root: str, path: str) -> str:
    """Read a list or a table that goes with a source: from the disk, or out of its archive."""
    if exists(path) or is_dir(root) or not is_archive(root):
        return read_text(path)
    return read_text_of(open_archive(root), path)


def read_text_of(archive: Archive, path: str) -> str:
    """Read a list or a table: the file of that path, or else the member of an archive."""
    if exists(path):
        return read_text(path)
    listing = archive.listing
    wanted = posixpath.normpath(path)
    exact = {wanted, posixpath.join(archive.below, wanted)}
    members = [(posixpath.normpath(name), at) for at, name in enumerate(listing.names)]
    found = [at for name, at in members if name in exact]
    found = found or [at for name, at in members if name.endswith("/" + wanted)]
    if len({listing.names[at] for at in found}) > 1:
        named = " or ".join(repr(listing.names[at]) for at in found[:2])
        raise SourceError(f"{path}: may be {named} of {archive.path}")
    if not found:
        raise SourceError(f"{path}: does not exist, neither on the disk nor in {archive.path}")
    if listing.sizes[found[-1]] > _MOST_TEXT:
        raise SourceError(f"{path}: has {listing.sizes[found[-1]]} bytes, which is no list")
    (data,) = archive.reader.read(listing.rows(found[-1:]))
    if not isinstance(data, bytes):
        raise SourceError(f"{archive.path}: {path}: {data}")
    return decode_text(data, path)


class _Place(NamedTuple):
    """What a member's name means."""

    path: str | None  # the path in the archive, plainly written; None if it leads outside
    hidden: str = ""  # what is hidden, or left behind, in that path: its path, or the empty string


def files_of(archive: Archive, extensions: frozenset[str]) -> Files:
    """Put what lies in an archive into a table, as unpacking would lay it out."""
    listing, reader = archive.listing, archive.reader
    findings = list(_set_aside(listing, extensions))
    members = _members(listing, reader.mtime or 0)
    odd = members.filter(pl.col("path").str.contains(_ODD))
    if not odd.is_empty():
        members = members.join(odd.select("row"), on="row", how="anti")
        placed = [_place(name) for name in odd["path"].to_list()]
        findings += [
            _finding("bad-name", name, extensions, "leads out of the archive")
            for name, place in zip(odd["path"].to_list(), placed, strict=True)
            if place.path is None
        ]
        odd = odd.with_columns(
            pl.Series("path", [place.path for place in placed], pl.String),
            pl.Series("hidden", [place.hidden for place in placed], pl.String),
        ).drop_nulls("path")
        members = pl.concat([members, odd])
    if listing.links:
        linked, lost = _links(listing, members, extensions)
        members = pl.concat([members, linked])
        findings += lost
    is_image = pl.col("path").str.extract(_EXTENSION).str.to_lowercase().is_in(extensions)
    members = members.with_columns(image=is_image.fill_null(False) & (pl.col("hidden") == ""))
    repeated = members.filter(pl.col("path").is_duplicated())
    if not repeated.is_empty():
        findings += _duplicates(repeated)
        members = members.sort("row").unique("path", keep="last", maintain_order=True)
    hidden = members.filter(pl.col("hidden") != "")["hidden"].unique()
    findings += [Finding("hidden", path) for path in hidden.to_list()]
    plain = members.filter(~pl.col("image") & (pl.col("hidden") == ""))["path"]
    findings += [Finding("not-an-image", path) for path in plain.to_list()]
    members, findings = _below(archive, members, findings)
    members_are = members["image"]
    table = members.drop("row", "hidden", "image")
    images = table.filter(members_are)
    top = "" if archive.below else _top(images["path"], listing)
    findings = sorted(findings, key=lambda finding: finding.path)
    return Files(images, [*listing.damage, *findings], [], table.filter(~members_are), reader, top)


def _members(listing: Listing, mtime: int) -> pl.DataFrame:
    columns = [
        pl.Series("path", listing.names, pl.String),
        pl.Series("size", listing.sizes, pl.Int64),
        pl.Series("offset", listing.offsets, pl.Int64),
        pl.Series("stored", listing.stored, pl.Int64),
    ]
    return pl.DataFrame(columns).select(
        "path",
        "size",
        pl.lit(mtime, pl.Int64).alias("mtime"),
        pl.lit(0, pl.Int64).alias("file"),
        "offset",
        "stored",
        (2 * pl.int_range(pl.len()) + 1).alias("row"),  # links come between them
        pl.lit("").alias("hidden"),
    )


def _place(name: str) -> _Place:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or "\0" in name or ".." in parts or _DRIVE.match(name) or not parts:
        return _Place(None)
    for depth, part in enumerate(parts, 1):
        if part.startswith(".") or part in LEFT_BEHIND:
            hidden = "/".join(parts[:depth]) + "/" * (depth < len(parts))
            return _Place("/".join(parts), hidden)
    return _Place("/".join(parts))


def _is_image(name: str, extensions: frozenset[str]) -> bool:
    found = re.search(_EXTENSION, name)
    return found is not None and found[1].lower() in extensions


def _finding(kind: str, name: str, extensions: frozenset[str], detail: str) -> Finding:
    """A finding about a file; what is no image by its name was never a sample."""
    kind = kind if _is_image(name, extensions) else "not-an-image"
    return Finding(kind, name.replace("\0", "\\x00"), detail)


def _set_aside(listing: Listing, extensions: frozenset[str]) -> Iterator[Finding]:
    """What the listing itself says of members that cannot be read."""
    sets = [
        *(("unreadable", name, reason) for name, reason in listing.unreadable),
        *(("not-an-image", name, "not a regular file") for name in listing.special),
        *(("bad-name", name, "the name is not UTF-8") for name in listing.nameless),
    ]
    for kind, name, detail in sets:
        place = _place(name)
        if place.hidden:
            yield Finding("hidden", place.hidden)
        else:
            yield _finding(kind, place.path or name, extensions, detail)


def _links(
    listing: Listing, members: pl.DataFrame, extensions: frozenset[str]
) -> tuple[pl.DataFrame, list[Finding]]:
    """Find what links lead to: the member that has that path."""
    paths = {path: row for row, path in enumerate(members["path"].to_list())}
    targets: dict[str, str] = {}
    hidden: dict[str, str] = {}
    places: dict[str, int] = {}
    lost = []
    for link in listing.links:
        place = _place(link.name)
        start = posixpath.dirname(place.path or "") if link.symbolic else ""
        target = posixpath.normpath(posixpath.join(start, link.target))
        if place.path is None:
            lost.append(_finding("bad-name", link.name, extensions, "leads out of the archive"))
        else:
            targets[place.path], hidden[place.path] = target, place.hidden
            places[place.path] = 2 * link.position
    found = []
    for path, target in targets.items():
        row = _follow(target, targets, paths)
        if row is not None:
            found.append((path, row, hidden[path]))
        elif hidden[path]:
            lost.append(Finding("hidden", hidden[path]))
        else:
            shown = target.replace("\0", "\\x00")
            lost.append(
                _finding("missing", path, extensions, f"a link to {shown}, not in the archive")
            )
    linked = members[[row for _, row, _ in found]].with_columns(
        pl.Series("path", [path for path, _, _ in found], pl.String),
        pl.Series("hidden", [each for _, _, each in found], pl.String),
        pl.Series("row", [places[path] for path, _, _ in found], pl.Int64),
    )
    return linked, lost


def _follow(target: str, targets: Mapping[str, str], paths: Mapping[str, int]) -> int | None:
    for _ in range(_MOST_LINKS):
        if target in paths:
            return paths[target]
        if target not in targets:
            return None
        target = targets[target]
    return None


def _duplicates(repeated: pl.DataFrame) -> list[Finding]:
    counts = repeated.filter("image").group_by("path", maintain_order=True).len()
    return [
        Finding("duplicate", path, f"{count} times in the archive; the last one counts")
        for path, count in counts.iter_rows()
    ]


def _below(
    archive: Archive, members: pl.DataFrame, findings: list[Finding]
) -> tuple[pl.DataFrame, list[Finding]]:
    """Only what lies below the directory that was named, with paths that start there."""
    if not archive.below:
        return members, findings
    prefix = archive.below + "/"
    path = pl.col("path")
    members = members.filter(path.str.starts_with(prefix))
    if members.is_empty():
        raise SourceError(f"{archive.path}: holds no directory {archive.below!r}")
    members = members.with_columns(path.str.strip_prefix(prefix))
    return members, [
        each._replace(path=each.path.removeprefix(prefix))
        for each in findings
        if each.path.startswith(prefix)
    ]


def _top(paths: pl.Series, listing: Listing) -> str:
    """The directory that an archive is of, if all images lie below it.

    Where every name begins with ``./``, a directory was archived from within and is not named; and
    a tar in a tar is a class.
    """
    first = paths.str.extract(r"^([^/]+)/")
    if first.n_unique() != 1 or first[0] is None or first[0] in listing.stems:
        return ""
    if all(name.startswith("./") for name in listing.names):
        return ""
    return str(first[0])

"""The files of a directory or an archive, or samples, as a table that lists choose from."""

from __future__ import annotations

import posixpath
import re
import shlex
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter

import polars as pl

from dsprep.catalog import PLACE_COLUMNS, Catalog, Inferred
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.images.header import NOT_DECODED
from dsprep.lists.rows import plain_paths
from dsprep.patterns import pattern
from dsprep.places.archive import Archive, is_archive, open_archive
from dsprep.places.names import depth_of_sides, in_order, is_companion, side_name
from dsprep.places.scan import LEFT_BEHIND, RunAll, Scanned, scan_below
from dsprep.printable import utf8_text
from dsprep.rows import Reader
from dsprep.sample import OTHER_IMAGES, RAW
from dsprep.storage.files import exists, full_path, is_dir, is_file
from dsprep.storage.local import LARGEST_TABLE
from dsprep.text import decode_text, read_data, read_text
from dsprep.tuples import NamedTuple
from dsprep.units import extension_in, format_size, format_some

FILES = pl.Schema({"path": pl.String(), "size": pl.Int64(), "mtime": pl.Int64()})

_PARTS = ("cls", "json", "txt")  # extensions of parts of samples in a WebDataset, besides images
_FILES_OF_A_TABLE = 1 << 16  # many small directories together: each call of polars takes its time
_MOST_TEXT = 1 << 30  # maximum size of a list or a table in an archive

_DRIVE = pattern(r"[A-Za-z]:")
_LEFT = "|".join(map(re.escape, sorted(LEFT_BEHIND)))
_ODD = rf"^$|\x00|^[A-Za-z]:|(?:^|/)(?:\.|/|$|(?:{_LEFT})(?:/|$))"
"""Names that are hidden, not normal, or lead outside: few, so looked at one by one."""

_EXTENSION = r"[^/]\.([^./]*)$"
_MOST_LINKS = 40  # as many links may follow one another, as on a disk


class Files(NamedTuple):
    """The files below a directory or in an archive, or the names of samples."""

    # the images, with the columns of `FILES`, in no particular order; for an archive also with
    # those of `dsprep.catalog.PLACE_COLUMNS`
    table: pl.DataFrame
    findings: list[Finding]  # everything else, by path
    passed_by: list[str]  # the directories that were not looked into, printable, by path
    # for an archive: the files that are not images, or hidden, like the table
    others: pl.DataFrame | None = None
    top: str = ""  # for an archive: the one directory that all of its images lie in
    start: str = ""  # for an archive: the directory in it that the paths start from
    archive: Archive | None = None
    samples: Catalog | None = None  # the catalog of samples, in the order of the table
    # for an archive whose images have annotations: the content of these, by path
    texts: Mapping[str, bytes] | None = None
    # how files that are not images begin, by path: those that were read so far
    heads: dict[str, bytes] | None = None

    @property
    def reader(self) -> Reader | None:
        """The reader of an archive or of samples."""
        found = self.samples or self.archive
        return None if found is None else found.reader

    @classmethod
    def of(cls, catalog: Catalog, findings: list[Finding]) -> Files:
        """Return samples by the names that lists call them."""
        names = plain_paths(catalog.names())
        first = names.is_first_distinct()  # names repeat only if the user named a shard twice
        names, catalog = names.filter(first), replace(catalog, table=catalog.table.filter(first))
        table = catalog.table.select(names.alias("path"), "size", "mtime")
        return cls(table, findings, [], FILES.to_frame(), samples=catalog)

    def below(self, directory: str) -> Files:
        """Return the files in a directory of an archive, with paths that start there."""
        assert self.others is not None
        prefix, path = directory + "/", pl.col("path")
        table, others = (
            rows.filter(path.str.starts_with(prefix)).with_columns(path.str.strip_prefix(prefix))
            for rows in (self.table, self.others)
        )
        findings = [found._replace(path=found.path.removeprefix(prefix)) for found in self.findings]
        findings.sort(key=attrgetter("path"))
        start = posixpath.join(self.start, directory)
        return self._replace(table=table, findings=findings, others=others, top="", start=start)

    def below_top(self) -> Files:
        """Return the same with paths that start below :attr:`top`."""
        return self.below(self.top) if self.top else self

    def contents(self, paths: Collection[str]) -> dict[str, bytes]:
        """Read files of an archive that are not images."""
        assert self.archive is not None
        assert self.others is not None
        rows = self.others.filter(pl.col("path").is_in(list(paths))).sort("offset")
        if rows["size"].sum() > _MOST_TEXT:
            raise SourceError(
                f"{self.archive.path}: its annotations have more than {_MOST_TEXT:,} bytes, and "
                "those of an archive are held in memory: unpack it"
            )
        if lost := sorted(set(paths).difference(rows["path"])):
            why = next(found.detail for found in self.findings if found.path == lost[0])
            raise SourceError(f"{self.archive.path}: {lost[0]}: cannot be read: {why}")
        places = rows.select("offset", "stored", "size").iter_rows()
        found = {}
        for path, data in zip(rows["path"], self.archive.reader.members(places), strict=True):
            if not isinstance(data, bytes):
                raise SourceError(f"{self.archive.path}: {path}: {data}")
            found[path] = data
        return found

    def listed(
        self, below: str, extension: str, run_all: RunAll
    ) -> Sequence[tuple[str, int | bytes]]:
        """Return the files with an extension, each with its size or, in an archive, its content.

        An empty extension means files that have none.
        """
        if self.texts is not None:
            ending = extension_in(f"x.{extension}")
            return sorted(each for each in self.texts.items() if extension_in(each[0]) == ending)
        extensions = frozenset({extension}) if extension else None
        found = list_files(scan_below(below, extensions, run_all)).table.sort("path")
        if not extension:
            found = found.filter(~pl.col("path").str.contains(r"\.[^./]*$"))
        return list(found.select("path", "size").iter_rows())

    def text(self, root: str, path: str, limit: int = LARGEST_TABLE) -> str | None:
        """Read a text that may lie beside the images below a root; None if there is none."""
        if self.texts is not None:
            below = full_path(path).removeprefix(f"{full_path(root)}/")
            data = self.texts.get(below)
            if data is not None and len(data) > limit:
                most = f"at most {format_size(limit)} are read"
                raise SourceError(f"{path}: has {format_size(len(data))}; {most}")
            return None if data is None else decode_text(data, path)
        return read_text(path, limit) if is_file(path) else None

    def unreadable(self) -> Iterator[Finding]:
        """Find the images of kinds that dsprep does not decode, by their extensions.

        A camera's raw image is none of them if it lies beside an image of the same name.
        """
        found = [
            (finding, OTHER_IMAGES[extension])
            for finding in self.findings
            if finding.kind == "not-an-image" and not finding.detail
            if (extension := extension_in(finding.path)[1:]) in OTHER_IMAGES
        ]
        stems = {posixpath.splitext(finding.path)[0] for finding, name in found if name == RAW}
        names = (
            self.table["path"].str.replace(r"\.[^./]*$", "")
            if stems
            else pl.Series(dtype=pl.String)
        )
        beside = frozenset(names.filter(names.is_in(list(stems))))
        for finding, name in found:
            if name != RAW or posixpath.splitext(finding.path)[0] not in beside:
                yield finding._replace(kind="unreadable", detail=f"{name}, {NOT_DECODED}")

    def fitting(self, paths: pl.Series) -> Files:
        """Return these, or those :meth:`below_top` if the paths of a list start there."""
        if not self.top or self._has_any(paths):
            return self
        below = self.below_top()
        return below if below._has_any(paths) else self

    def _has_any(self, paths: pl.Series) -> bool:
        others = [] if self.others is None else [self.others["path"]]
        names = (paths, pl.concat([self.table["path"], *others]))
        bare, known = (name.str.replace(r"\.[^./]*$", "") for name in names)
        return bare.is_in(known.implode()).any()


def _table_of(scans: Sequence[Scanned]) -> pl.DataFrame:
    """Put files into a table; all have paths in their one text."""
    sizes, mtimes = array("q"), array("q")
    for scanned in scans:
        sizes += scanned.sizes
        mtimes += scanned.mtimes
    text = "\0".join(scanned.paths for scanned in scans)
    paths = pl.Series("path", [text]).str.split("\0").explode()
    facts = {"size": sizes, "mtime": mtimes}
    columns = (pl.Series(name, values, dtype=pl.Int64) for name, values in facts.items())
    return pl.DataFrame([paths, *columns])


def list_files(scans: Iterable[Scanned], only: Collection[str] | None = None) -> Files:
    """Put the files of a scan into a table."""
    tables, findings, passed_by = [FILES.to_frame()], list[Finding](), list[str]()
    some, count = list[Scanned](), 0
    for scanned in scans:
        if scanned.sizes:
            some.append(scanned)
            count += len(scanned.sizes)
        if count >= _FILES_OF_A_TABLE:
            tables.append(_table_of(some))
            some, count = [], 0
        findings += scanned.findings
        if only is not None:
            below = (directory.path for directory in scanned.directories)
            passed_by += [utf8_text(path) for path in below if path not in only]
    if some:
        tables.append(_table_of(some))
    findings.sort(key=attrgetter("path"))
    return Files(pl.concat(tables), findings, sorted(passed_by), heads={})


def with_sides_of_files(catalog: Catalog, sides: Sequence[str]) -> Catalog:
    """Give each sample the side of the file that it lies in; ``sides`` has that of each file."""
    if not sides:
        return catalog
    names = in_order(set(sides))
    numbers = [names.index(side) for side in sides]
    every = range(len(numbers))
    column = catalog.table["file"].replace_strict(every, numbers, return_dtype=pl.Int64)
    return catalog.with_sides(names, column)


def sides_of(
    paths: pl.Series, depth: int, root: str
) -> tuple[pl.Series, tuple[str, ...], pl.Series]:
    """Take the directory at a depth, from 1, for the side of each sample.

    Returns the paths without it, the names of the sides, and their numbers as a column. A directory
    that a side holds under its own name is left out, too: `seg_test/seg_test`.
    """
    parts = paths.str.split("/")
    short = paths.filter(parts.list.len() <= depth)
    if not short.is_empty():
        raise OptionError(
            f"--sides-from {depth}: {root} has samples in fewer directories, such as {short[0]!r}"
        )
    named = parts.list.get(depth - 1)
    sides = in_order(named.unique())
    if odd := [side for side in sides if not side.isprintable() or side.startswith(".")]:
        raise OptionError(f"--sides-from {depth}: {odd[0]!r} cannot begin the name of a shard")
    repeated = sorted(repeated_sides(directories_of(paths).unique(), depth))
    path = pl.col("at")
    start = depth + path.list.get(depth - 1).is_in(repeated)
    rest = pl.concat_list(path.list.head(depth - 1), path.list.slice(start))
    below = parts.to_frame("at").select(rest.list.join("/")).to_series()
    numbers = named.replace_strict(sides, range(len(sides)), return_dtype=pl.Int64)
    return below, sides, numbers.alias("side")


def depth_of_sides_in(paths: pl.Series, root: str, given: bool = False) -> int:
    """Return at which depth, from 1, all paths lead through sides of one data set; 0 if nowhere.

    Images beside the sides that are called like their masks are refused, unless all are ``given``.
    """
    ends = (paths[0], paths[-1]) if len(paths) else ()
    names = (name for path in ends for name in path.split("/")[:-1])
    are_called_so = any(side_name(name) or is_companion(name) for name in names)
    if not are_called_so and not paths.str.contains("(?i)train").any():
        return 0  # two paths are enough to know of most trees that not all lie in sides
    directories = directories_of(paths).unique().sort().to_list()
    depth = depth_of_sides(directories, alone=given)
    above = dict.fromkeys("/".join(path.split("/")[:depth]) for path in directories if depth)
    apart = [path for path in above if is_companion(posixpath.basename(path))]
    if not apart or given:
        return depth
    sides = [path for path in above if path not in apart]
    if not any(side_name(posixpath.basename(path)) for path in sides):
        return depth  # `seg_train` and `seg_test` are the sides themselves
    own = (path for path in sides if apart[0].startswith(path))
    side = next(own, sides[0])
    images, masks = (shlex.quote(posixpath.join(root, each)) for each in (side, apart[0]))
    raise SourceError(
        f"{root}: {apart[0]}/ is called like the masks or annotations of {side}/, and images lie "
        f"in it: give each side with its masks, such as {images} --masks {masks}; or give --from "
        "images to pack all as images"
    )


def repeated_sides(directories: Iterable[str], depth: int) -> set[str]:
    """Return the sides, at a depth from 1, that hold only a directory of their own name.

    If another side has such a directory, it is a class: `train/train` beside `test/train`.
    """
    inside: dict[str, set[str]] = {}
    for path in directories:
        side, *below = path.split("/")[depth - 1 : depth + 1]
        inside.setdefault(side, set()).add("".join(below))
    counts = Counter(chain.from_iterable(inside.values()))
    return {side for side, own in inside.items() if own == {side} and counts[side] == 1}


def with_sides_of_directories(catalog: Catalog) -> tuple[Catalog, list[Finding]]:
    """Give each sample the side of its directory, if all lie in sides; and a note that says so."""
    paths = catalog.table["path"]
    depth = depth_of_sides_in(paths, catalog.root)
    if not depth:
        return catalog, []
    _, sides, column = sides_of(paths, depth, catalog.root)
    inferred = (*catalog.inferred, Inferred("sides_from", depth, said_of_sides(sides)))
    catalog = replace(catalog.with_sides(sides, column), inferred=inferred)
    return catalog, [Finding("note", "", said_of_sides(sides))]


def said_of_sides(sides: Sequence[str]) -> str:
    """Say that directories are sides."""
    names = format_some([f"{side}/" for side in sides])
    return f"{names} are sides of the data set, not classes"


def directories_of(paths: pl.Series) -> pl.Series:
    """Return the directory of each path; empty for one without."""
    return paths.str.replace(r"/?[^/]*$", "")


# Members of archives


def images_of(archive: Archive, suffixes: frozenset[str]) -> Files:
    """Return the files of an archive, whose images may be samples by themselves.

    Args:
        archive: The archive, opened at what the user named.
        suffixes: The file name extensions of images, in lower case.
    """
    files = files_of(archive, suffixes)
    if files.table.is_empty() and archive.damage:
        raise SourceError(f"{archive.path}: {archive.damage[0].detail}")
    return files


def require_images_alone(files: Files, root: str) -> None:
    """Refuse a tar in which half of the images, or more, have labels or texts beside them.

    A zip is no shard of WebDataset, so that its images are samples by themselves.
    """
    if files.archive is None or not files.archive.reader.may_be_shard:
        return
    assert files.others is not None
    stem = pl.col("path").str.extract(r"^(.*)\.")
    is_part = pl.col("path").str.extract(r"\.([^./]*)$").is_in(_PARTS)
    known = files.others.filter(is_part).select(stem=stem).unique()
    together = files.table.select(stem=stem).join(known, on="stem", how="semi").height
    if together > 0 and 2 * together >= files.table.height:
        raise SourceError(
            f"{root}: its images have files of the same names, which are not adjacent to "
            "them: give --from parts to take those of one name for one sample, or --from images "
            "to take the images alone"
        )


def read_beside(root: str, path: str, archive: Archive | None = None) -> bytes:
    """Read a list or a table that goes with a source: from the disk, or from its archive."""
    if exists(path) or (archive is None and (is_dir(root) or not is_archive(root))):
        return read_data(path)
    archive = archive or open_archive(root)
    below = path.removeprefix(f"{root.rstrip('/')}/").removeprefix(f"{archive.path}/")
    wanted = posixpath.normpath(below)
    exact = {wanted, posixpath.join(archive.below, wanted)}
    members = [(posixpath.normpath(name), at) for at, name in enumerate(archive.names)]
    found = [at for name, at in members if name in exact]
    found = found or [at for name, at in members if name.endswith("/" + wanted)]
    if len({archive.names[at] for at in found}) > 1:
        named = " or ".join(repr(archive.names[at]) for at in found[:2])
        raise SourceError(f"{path}: may be {named} of {archive.path}")
    if not found:
        raise SourceError(f"{path}: does not exist, neither on the disk nor in {archive.path}")
    if archive.sizes[found[-1]] > _MOST_TEXT:
        raise SourceError(f"{path}: has {archive.sizes[found[-1]]} bytes, too many for a list")
    (data,) = archive.reader.members([archive.place(found[-1])])
    if not isinstance(data, bytes):
        raise SourceError(f"{archive.path}: {path}: {data}")
    return data


def files_of(archive: Archive, extensions: frozenset[str]) -> Files:
    """Put the members of an archive into a table, with the paths that unpacking would give them."""

    def finding(kind: str, name: str, detail: str) -> Finding:
        """Report a file; one whose name is not that of an image was never a sample."""
        match = re.search(_EXTENSION, name)
        is_image = match is not None and match[1].lower() in extensions
        return Finding(kind if is_image else "not-an-image", name.replace("\0", "\\x00"), detail)

    findings = []
    for kind, name, detail in archive.odd:
        path, hidden = _normal(name)
        findings.append(
            Finding("hidden", hidden) if hidden else finding(kind, path or name, detail)
        )
    columns = {"path": archive.names, "size": archive.sizes}
    columns |= {"offset": archive.offsets, "stored": archive.stored}
    schema = {name: pl.String() if name == "path" else pl.Int64() for name in columns}
    # files get odd numbers, so that links can come between two files
    row = 2 * pl.int_range(pl.len()) + 1
    facts = {"mtime": pl.lit(archive.reader.mtime or 0, pl.Int64), "file": pl.lit(0, pl.Int64)}
    members = pl.DataFrame(columns, schema).with_columns(row=row, hidden=pl.lit(""), **facts)
    is_odd = members["path"].str.contains(_ODD)
    if is_odd.any():
        names = members["path"].filter(is_odd).to_list()
        paths, hiddens = zip(*map(_normal, names), strict=True)
        findings += [
            finding("bad-name", name, "leads out of the archive")
            for name, path in zip(names, paths, strict=True)
            if path is None
        ]
        odd = members.filter(is_odd).with_columns(
            pl.Series("path", paths, pl.String), pl.Series("hidden", hiddens, pl.String)
        )
        members = pl.concat([members.filter(~is_odd), odd.drop_nulls("path")])
    if archive.links:
        members = pl.concat([members, _linked(archive, members, findings, finding)])
    is_image = pl.col("path").str.extract(_EXTENSION).str.to_lowercase().is_in(extensions)
    members = members.with_columns(image=is_image.fill_null(False) & (pl.col("hidden") == ""))
    if members["path"].is_duplicated().any():
        repeats = pl.col("path").is_duplicated() & pl.col("image")
        counts = members.filter(repeats).group_by("path", maintain_order=True).len()
        findings += [
            Finding("duplicate", path, f"{count} times in the archive; the last one counts")
            for path, count in counts.iter_rows()
        ]
        members = members.sort("row").unique("path", keep="last", maintain_order=True)
    is_hidden = pl.col("hidden") != ""
    hidden_paths = members.filter(is_hidden)["hidden"].unique()
    findings += [Finding("hidden", path) for path in hidden_paths.to_list()]
    plain = members.filter(~pl.col("image") & ~is_hidden)["path"]
    findings += [Finding("not-an-image", path) for path in plain.to_list()]
    table = members.select(*FILES, *PLACE_COLUMNS)
    images, others = table.filter(members["image"]), table.filter(~members["image"])
    files = Files(images, findings, [], others, archive=archive, heads={})
    if archive.below:
        prefix = archive.below + "/"
        if not table["path"].str.starts_with(prefix).any():
            raise SourceError(f"{archive.path}: has no directory {archive.below!r}")
        inside = [found for found in findings if found.path.startswith(prefix)]
        files = files._replace(findings=inside).below(archive.below)
    else:
        files = files._replace(top=_top(files.table["path"], archive))
    findings = sorted(files.findings, key=attrgetter("path"))
    return files._replace(findings=[*archive.damage, *findings])


def _normal(name: str) -> tuple[str | None, str]:
    """Return the normal path of a member, and what is hidden or left behind in it."""
    # The path is None if it leads outside.
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or "\0" in name or ".." in parts or _DRIVE.match(name) or not parts:
        return None, ""
    for depth, part in enumerate(parts, 1):
        if part.startswith(".") or part in LEFT_BEHIND:
            return "/".join(parts), "/".join(parts[:depth]) + "/" * (depth < len(parts))
    return "/".join(parts), ""


def _linked(
    archive: Archive,
    members: pl.DataFrame,
    findings: list[Finding],
    finding: Callable[[str, str, str], Finding],
) -> pl.DataFrame:
    """Return the members that links lead to, under the paths of the links; adds to findings."""
    rows = {path: row for row, path in enumerate(members["path"].to_list())}
    links: dict[str, tuple[str, str, int]] = {}  # target, what is hidden, position by path
    for link in archive.links:
        path, hidden = _normal(link.name)
        if path is None:
            findings.append(finding("bad-name", link.name, "leads out of the archive"))
        else:
            links[path] = posixpath.normpath(link.target), hidden, 2 * link.position
    found = []
    for path, (target, hidden, position) in links.items():
        end = target
        for _ in range(_MOST_LINKS):
            if end in rows or end not in links:
                break
            end = links[end][0]
        if end in rows:
            found.append((rows[end], path, hidden, position))
        elif hidden:
            findings.append(Finding("hidden", hidden))
        else:
            shown = target.replace("\0", "\\x00")
            findings.append(finding("missing", path, f"a link to {shown}, not in the archive"))
    kinds = {"at": pl.Int64, "path": pl.String, "hidden": pl.String, "row": pl.Int64}
    linked = pl.DataFrame(found, kinds, orient="row")
    return members[linked["at"]].with_columns(linked.drop("at").get_columns())


def _top(paths: pl.Series, archive: Archive) -> str:
    """Return the directory that an archive is of, if all images lie below it."""
    # Where every name begins with `./`, a directory was archived from within and is not named; and
    # a tar in a tar is a class.
    first = paths.str.extract(r"^([^/]+)/")
    if first.n_unique() != 1 or first[0] is None or first[0] in archive.stems:
        return ""
    return "" if all(name.startswith("./") for name in archive.names) else str(first[0])

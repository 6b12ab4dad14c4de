"""A tree of images, labeled by their directories, a list, a table or an augmented manifest."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import polars as pl

from dsprep.catalog import Catalog, Found
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.formats.augmented import Annotated, parse_augmented
from dsprep.lists.rows import OUTSIDE, leads_outside, parse_rows, plain_paths
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.cells import refuse_annotations
from dsprep.sources.classes import (
    Known,
    classes_in_names,
    classes_of_directories,
    hint_in_names,
    labels_from_numbers,
    number_classes,
)
from dsprep.sources.files import Files, list_files, read_beside
from dsprep.sources.match import choose
from dsprep.sources.names import SPLITS, are_sides, in_order
from dsprep.sources.readers import FileReader, PartReader
from dsprep.sources.scan import RunAll, scan_below
from dsprep.sources.table import read_table
from dsprep.storage.files import common_path, is_dir
from dsprep.storage.location import is_s3
from dsprep.text import decode_text, read_text, refuse
from dsprep.units import extension_in, format_count, format_extensions, format_some

if TYPE_CHECKING:
    from dsprep.sources.reading import Source


def read_tree(source: Source, files: Files | None, run_all: RunAll = map) -> Found:
    """Make the catalog of a directory, of an archive, or of samples."""
    # A list or a table finds out itself which files there are, if none are given.
    classes = source.class_names()
    owner = None
    if classes is None and files is not None and files.samples is not None:
        # If a table has the labels, directories do not, as for a folder of images.
        in_directories = source.labels is not None and isinstance(files.reader, PartReader)
        classes = None if in_directories else files.samples.classes
        owner = source.root
    known = Known(classes, owner, source.class_order)
    path = source.list_file or source.labels
    if path:
        data = read_beside(source.root, path, files.archive if files else None)
        if source.labels:
            return read_table(source, data, files, known, run_all)
        return read_lst(source, decode_text(data, path), files, known, run_all)
    root, extensions = source.root, source.suffixes
    assert files is not None
    top, files = files.top, files.below_top()
    # The class of an image is the path of its directory; without directories, there are no classes.
    if extensions == frozenset(IMAGE_EXTENSIONS):
        lost = {found.path: found for found in files.unreadable()}
        files = files._replace(findings=[lost.get(found.path, found) for found in files.findings])
    if files.table.is_empty():
        raise SourceError(f"{root}: holds no images{_what_else(files, extensions)}")
    table = files.table.sort("path").select(pl.int_range(pl.len()).alias("index"), pl.all())
    tables = [each.path for each in files.findings if each.path.lower().endswith((".csv", ".tsv"))]
    only = os.path.join(root if files.others is None else "", *tables) if len(tables) == 1 else ""
    below, sides, findings = table["path"], tuple[str, ...](), list(files.findings)
    depth = source.sides_from
    if source.kind is None and depth is None and in_sides(below):
        depth = 1
    if depth is not None:
        below, sides, column = sides_of(table["path"], depth, root)
        table = table.with_columns(column)
        lacks = ~below.str.contains("/", literal=True)
        if source.label_regex is None and lacks.any() and not lacks.all():
            bare = table["path"].filter(lacks)[0]
            raise SourceError(
                f"{root}: has the sides {format_some(sides)}, and some images lie in a directory "
                f"of their class, but not {bare!r}: name the sides one by one, such as "
                f"{os.path.join(root, top, sides[0])}; or give --from images to take all "
                "directories for classes"
            )
    if source.sides_from is None and sides:
        names = format_some([f"{side}/" for side in sides])
        detail = f"{names} are sides of the data set, not classes"
        detail += "; --from images makes them a part of the names of classes"
        detail += f"; {only} is not read: give --labels {only}" if only else ""
        findings.append(Finding("note", "", detail))
    if source.label_regex is not None:
        label_type = source.choice.label_type
        numbers, classes, notes = classes_in_names(
            below, root, known, source.label_regex, label_type
        )
    else:
        numbers, classes, notes = classes_of_directories(below, root, known, top, only)
    if numbers is None and (hint := hint_in_names(below)):
        notes.append(Finding("note", "", hint))
    table = table.with_columns([] if numbers is None else [numbers])
    catalog = Catalog(table, root, classes, files.reader or FileReader(root), sides=sides)
    return catalog, [*findings, *notes]


def in_sides(paths: pl.Series) -> bool:
    """Return whether all paths begin with a directory that is called like a side, of several."""
    if paths[0].partition("/")[0].lower() not in SPLITS:  # which one path tells of most trees
        return False
    first = paths.str.extract(r"^([^/]+)/").unique()
    return not first.null_count() and are_sides(first)


def sides_of(
    paths: pl.Series, depth: int, root: str
) -> tuple[pl.Series, tuple[str, ...], pl.Series]:
    """Take the directory at a depth, from 1, for the side of each sample.

    Returns the paths without it, the names of the sides, and their numbers as a column.
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
    rest = pl.concat_list(pl.col("at").list.head(depth - 1), pl.col("at").list.slice(depth))
    below = parts.to_frame("at").select(rest.list.join("/")).to_series()
    numbers = named.replace_strict(sides, range(len(sides)), return_dtype=pl.Int64)
    return below, sides, numbers.alias("side")


def _what_else(files: Files, extensions: frozenset[str]) -> str:
    """Describe the content of a folder without images."""
    if not files.findings:
        return ", nor anything else"
    counts = Counter(extension_in(found.path) for found in files.findings if found.kind != "hidden")
    hidden = len(files.findings) - counts.total()
    counted = [format_extensions(counts)] if counts else []
    counted += [f"{hidden:,} hidden"] if hidden else []
    unreadable = next((found.detail for found in files.findings if found.kind == "unreadable"), "")
    found = f" that dsprep reads, but {' and '.join(counted)}"
    if unreadable:
        return f"{found} ({unreadable})"
    is_chosen = extensions != frozenset(IMAGE_EXTENSIONS)
    return f"{found} (images are .{', .'.join(sorted(extensions))})" if is_chosen else found


def read_lst(
    source: Source, text: str, files: Files | None, known: Known, run_all: RunAll = map
) -> Found:
    """Make the catalog of an MXNet ``.lst``."""
    # One whole number a line makes class numbers; several numbers, a fraction or a detection label
    # make label lists. A listed file may have any extension and may be hidden. Only the directories
    # that the list names are looked into for files that it does not name.
    path = source.list_file
    assert path is not None
    refuse_annotations(text, path)
    rows = parse_rows(text, path, source.duplicates or "error")
    names = plain_paths(rows["path"]).alias("file")
    numbers = pl.col("label").str.split("\t").cast(pl.List(pl.Float64)).alias("labels")
    labels = labels_from_numbers(rows.select("line", numbers), known, path)
    rows = rows.select("line", "index", "path", labels, names)
    if files is None:
        listed = {""}
        for directory in names.str.replace(r"/?[^/]*$", "").unique().to_list():
            while directory not in listed:
                listed.add(directory)
                directory = directory.rpartition("/")[0]
        files = list_files(scan_below(source.root, source.suffixes, run_all, listed), listed)
    files = files.fitting(names)
    return choose(rows, files, source, known.classes)


# SageMaker's augmented manifest

_SCHEME = r"([a-z][a-z0-9+.-]*)://"
_LONGEST_URL = len("s3://") + 63 + 1 + 1024  # scheme, bucket, slash and key


def read_augmented(source: Source, run_all: RunAll = map) -> Found:
    """Make the catalog of a manifest."""
    # It names images by a path below the root, relative or absolute, also as `file://`; or by an S3
    # URL, whose end is a path below the root: the bucket and as few directories as possible are cut
    # off.
    path = source.list_file or source.root
    lines = list(parse_augmented(read_text(path), path))
    if not lines:
        raise SourceError(f"{path}: names no images")
    root = source.root
    if not source.list_file and is_s3(path) and all(is_s3(line.ref) for line in lines):
        root = common_path([line.ref for line in lines])
        if not is_s3(root):
            raise SourceError(f"{path}: names images of several buckets; bring them into one")
    elif not source.list_file:
        beside = os.path.splitext(path)[0]
        root = beside if is_dir(beside) else os.path.dirname(path) or "."
    if lines[0].kind == "boxes" or lines[0].has_masks:
        from dsprep.sources.annotated import catalog_of, list_images
        from dsprep.sources.ground_truth import scan_manifest

        source = source.replace(root=root, list_file=None, annotations=(path,))
        scan = scan_manifest(source, path, run_all)
        return catalog_of(source, scan, list_images(source, run_all), run_all)
    classes = _classes(lines, source.class_names(), path)
    files = list_files(scan_below(root, source.suffixes, run_all))
    paths = _paths(lines, root, set(files.table["path"].to_list()), path)
    rows = pl.DataFrame({"line": [line.line for line in lines], "path": paths})
    refuse(path, rows, leads_outside(pl.col("path")), OUTSIDE.format_map)
    rows = rows.with_columns(plain_paths(rows["path"]).alias("file"))
    rows = rows.with_columns(_labels(lines, classes, path)).with_row_index("index")
    source = source.replace(root=root, list_file=path, labels=None)
    catalog, findings = choose(rows, files, source, classes, paths="file")
    others = Counter(name for line in lines for name in line.others)
    findings += [
        Finding("unlisted", name, f"{format_count(count, 'reference')} to files that are not read")
        for name, count in sorted(others.items())
    ]
    return catalog, findings


def _labels(
    lines: Sequence[Annotated], classes: tuple[str, ...] | None, source: str
) -> list[pl.Series]:
    if lines[0].label is None:
        return []
    labels = [line.label for line in lines]
    if classes and all(line.lists_classes for line in lines):
        sets = [frozenset(label or ()) for label in labels]
        labels = [tuple(float(at in own) for at in range(len(classes))) for own in sets]
    for line, label in zip(lines, labels, strict=True):
        if not label:
            raise SourceError(
                f"{source}:{line.line}: the label is empty, and nothing tells all classes: give "
                "--classes"
            )
    lists = pl.Series("labels", labels, dtype=pl.List(pl.Float64))
    rows = pl.DataFrame({"line": [line.line for line in lines], "labels": lists})
    return [labels_from_numbers(rows, Known(classes), source)]


def _classes(
    lines: Sequence[Annotated], classes: tuple[str, ...] | None, source: str
) -> tuple[str, ...] | None:
    """Return the names of the classes, about which all lines have to agree."""
    names: dict[int, str] = dict(enumerate(classes or ()))
    numbers = {name: number for number, name in names.items()}
    for line in lines:
        for number, name in line.names.items():
            known = names.setdefault(number, name)
            if known != name or (classes and number >= len(classes)):
                other = f"is called {known!r}" if known != name else "is none of the classes"
                raise SourceError(
                    f"{source}:{line.line}: the class {number} is called {name!r}, but {other} "
                    "elsewhere"
                )
            if numbers.setdefault(name, number) != number:
                raise SourceError(
                    f"{source}:{line.line}: {name!r} is what class {numbers[name]} is called, and "
                    f"class {number}, too"
                )
    if not names:
        return None
    if classes is None:
        number_classes(numbers, source)  # each of them fits on a line
    for number in sorted(set(range(len(names))).difference(names)):
        raise SourceError(
            f"{source}: tells no name of class {number}, but of class {max(names)}: give all "
            "names with --classes"
        )
    for line in lines:
        if line.lists_classes:
            for value in line.label or ():
                if not (0 <= value < len(names) and value.is_integer()):
                    raise SourceError(
                        f"{source}:{line.line}: {value:g} is none of the {len(names)} classes"
                    )
    return tuple(names[number] for number in range(len(names)))


def _paths(lines: Sequence[Annotated], root: str, known: set[str], source: str) -> list[str]:
    """Return the path below the root of each image."""
    tops = {f"{top(root).rstrip('/')}/" for top in (os.path.abspath, os.path.realpath)}
    below_root = root.rstrip("/") + "/"
    paths: list[str | None] = []  # None for URLs of S3
    for line in lines:
        scheme, path = re.match(_SCHEME, line.ref, re.IGNORECASE), line.ref
        kind = scheme[1].lower() if scheme else ""
        if is_s3(root) and path.startswith(below_root):
            path = path.removeprefix(below_root)
        elif kind == "s3":
            paths.append(None)
            continue
        elif kind == "file":
            host, slash, rest = path[len("file://") :].partition("/")
            if host.lower() not in ("", "localhost"):
                raise _refusal(line, source, "is on another machine")
            path = slash + unquote(rest)
        elif kind:
            raise _refusal(line, source, "is no path, and no file:// or s3:// URL")
        if path.startswith("/"):
            plain = re.sub(r"/(?:\.?/)+", "/", path)
            top = next((top for top in tops if plain.startswith(top)), None)
            if top is None:
                raise _refusal(line, source, "is not below the folder")
            path = plain.removeprefix(top)
        paths.append(path)
    on_s3 = [line for line, path in zip(lines, paths, strict=True) if path is None]
    found = iter(_find(on_s3, known, source))
    return [next(found) if path is None else path for path in paths]


def _find(lines: Sequence[Annotated], known: set[str], source: str) -> list[str]:
    """Find the files that S3 URLs mean, cutting off as little as possible at their beginnings."""
    # What is cut off one URL is cut off all that begin so; if that leads to other files, the URLs
    # are ambiguous.
    cuts: dict[str, Annotated] = {}  # prefixes to cut off, with the first URL that has them
    for line in lines:
        if not line.ref[len("s3://") :].partition("/")[2]:
            raise _refusal(line, source, "names no object of a bucket")
        if len(line.ref) > _LONGEST_URL:
            raise _refusal(line, source, "is longer than a URL of S3 can be")
        prefixes = _prefixes(line.ref)
        prefix = next((each for each in prefixes if line.ref[len(each) :] in known), None)
        if prefix is not None:
            cuts.setdefault(prefix, line)
    for prefix, line in cuts.items():
        shorter = [each for each in _prefixes(prefix)[:-1] if each in cuts]
        if shorter:
            one, two = (line.ref.removeprefix(each) for each in (prefix, shorter[-1]))
            raise _refusal(line, source, f"may mean {one!r} or, like other lines, {two!r}")
    paths: list[str] = []
    taken: dict[str, Annotated] = {}
    for line in lines:
        begin = [each for each in _prefixes(line.ref) if each in cuts]
        path = line.ref.removeprefix(begin[-1]) if begin else line.ref.split("/", 3)[-1]
        first = taken.setdefault(path, line)
        if first.ref != line.ref:
            raise _refusal(line, source, f"would be {path!r}, as {first.ref!r} is")
        paths.append(path)
    return paths


def _prefixes(ref: str) -> list[str]:
    """Return what a URL of S3 begins with, from the bucket on, each up to a slash."""
    return [ref[: slash.end()] for slash in re.finditer("/", ref)][2:]


def _refusal(line: Annotated, source: str, problem: str) -> SourceError:
    return SourceError(f"{source}:{line.line}: {line.ref!r:.300} {problem}")

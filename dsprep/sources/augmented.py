"""SageMaker's augmented manifest, and the folder of its images."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats.augmented import Annotated, parse_augmented
from dsprep.lists.rows import leads_outside, plain_paths
from dsprep.sources.classes import Known, labels_from_numbers, number_classes
from dsprep.sources.files import list_files
from dsprep.sources.match import choose
from dsprep.sources.scan import RunAll, scan_below
from dsprep.storage.files import common_path, is_dir
from dsprep.storage.location import is_s3
from dsprep.text import read_text, refuse
from dsprep.units import format_count

if TYPE_CHECKING:
    from dsprep.sources.reading import Source

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_LONGEST_URL = len("s3://") + 63 + 1 + 1024  # scheme, bucket, slash and key
_OBJECT_HEAD, _OBJECT = 4, 5  # numbers of a detection label before the objects, and for each


def read_augmented(source: Source, run_all: RunAll = map) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a manifest."""
    # It names images by a path below the root, relative or absolute, also as `file://`; or by an S3
    # URL, whose end is a path below the root: the bucket and as few directories as possible are cut
    # off.
    path = source.list_file or source.root
    lines = list(parse_augmented(read_text(path), path))
    if not lines:
        raise SourceError(f"{path}: names no images")
    classes = _classes(lines, source.class_names(), path)
    root = source.root
    if not source.list_file and is_s3(path) and all(is_s3(line.ref) for line in lines):
        root = common_path([line.ref for line in lines])
        if not is_s3(root):
            raise SourceError(f"{path}: names images of several buckets; bring them into one")
    elif not source.list_file:
        beside = os.path.splitext(path)[0]
        root = beside if is_dir(beside) else os.path.dirname(path) or "."
    files = list_files(scan_below(root, source.suffixes, run_all))
    paths = _paths(lines, root, set(files.table["path"].to_list()), path)
    rows = pl.DataFrame({"line": [line.line for line in lines], "path": paths})
    outside = leads_outside(pl.col("path"))
    refuse(path, rows, outside, lambda row: f"{row['path']!r} is not a path below the folder")
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
    """Return the column of labels, if there are any."""
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
        if line.kind == "boxes" or line.lists_classes:
            assert line.label is not None
            start, step = (_OBJECT_HEAD, _OBJECT) if line.kind == "boxes" else (0, 1)
            for value in line.label[start::step]:
                if not (0 <= value < len(names) and value.is_integer()):
                    raise SourceError(
                        f"{source}:{line.line}: {value:g} is none of the {len(names)} classes"
                    )
    return tuple(names[number] for number in range(len(names)))


def _paths(lines: Sequence[Annotated], root: str, known: set[str], source: str) -> list[str]:
    """Return the path below the root of each image."""
    tops = {f"{top(root).rstrip('/')}/" for top in (os.path.abspath, os.path.realpath)}
    paths = []
    on_s3: list[tuple[int, Annotated]] = []
    for at, line in enumerate(lines):
        scheme = _SCHEME.match(line.ref)
        kind = scheme[1].lower() if scheme else ""
        path = line.ref
        if is_s3(root) and path.startswith(root.rstrip("/") + "/"):
            path = path[len(root.rstrip("/")) + 1 :]
        elif kind == "s3":
            on_s3.append((at, line))
            path = ""  # set below
        elif kind == "file":
            host, slash, rest = path[len("file://") :].partition("/")
            if host.lower() not in ("", "localhost"):
                raise _refusal(line, source, "is on another machine")
            path = slash + unquote(rest)
        elif kind:
            raise _refusal(line, source, "is no path, and no file:// or s3:// URL")
        if path.startswith("/"):
            plain = re.sub(r"/(?:\.?/)+", "/", path)
            below = [plain.removeprefix(top) for top in tops if plain.startswith(top)]
            if not below:
                raise _refusal(line, source, "is not below the folder")
            path = below[0]
        paths.append(path)
    for (at, _), path in zip(on_s3, _find([line for _, line in on_s3], known, source), strict=True):
        paths[at] = path
    return paths


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

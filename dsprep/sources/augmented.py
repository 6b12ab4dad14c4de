"""SageMaker's augmented manifest, and the folder that its images lie in."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from urllib.parse import unquote

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.formats.augmented import Annotated, parse_augmented
from dsprep.lists.rows import leads_outside, plain_paths
from dsprep.sources.below import scan_below
from dsprep.sources.classes import number_classes
from dsprep.sources.files import Files, list_files
from dsprep.sources.labels import labels_from_numbers
from dsprep.sources.match import chosen, match_files
from dsprep.sources.scan import RunAll
from dsprep.storage.paths import common_path, is_dir
from dsprep.storage.urls import is_s3
from dsprep.text import read_text, refuse
from dsprep.units import format_count

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_LONGEST_URL = len("s3://") + 63 + 1 + 1024
"""Characters: of the scheme, a bucket's name, a slash and a key."""

_DEEPEST = 64
_ENOUGH = 1000
"""Lines that show whether a manifest's paths begin below the one directory of an archive."""
_OBJECT_HEAD, _OBJECT = 4, 5


def read_augmented(
    path: str,
    root: str | None,
    *,
    attribute: str | None = None,
    classes: tuple[str, ...] | None = None,
    extensions: frozenset[str],
    duplicates: str | None = None,
    run_all: RunAll = map,
    text: str | None = None,
    files: Files | None = None,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a manifest.

    Images are named by a path below the root, relative or absolute, also as ``file://``; or by an
    S3 URL, of which the bucket and as many directories are taken off as it takes to come to a file
    below the root.
    """
    lines = list(parse_augmented(read_text(path) if text is None else text, path, attribute))
    if not lines:
        raise SourceError(f"{path}: names no images")
    classes = _classes(lines, classes, path)
    if root is None:
        root = _images_of(path, lines)
    if files is None:
        files = list_files(scan_below(root, extensions, run_all))
    else:
        ends = [end for line in lines[:_ENOUGH] for end in _ends(line.ref)]
        files = files.fitting(pl.Series("path", ends, dtype=pl.String))
    rows = pl.DataFrame(
        {"line": [each.line for each in lines], "path": _paths(lines, root, files, path)}
    )
    outside = leads_outside(pl.col("path"))
    refuse(path, rows, outside, lambda row: f"{row['path']!r} is not a path below the folder")
    rows = rows.with_columns(plain_paths(rows["path"]).alias("file"))
    label = _labels(lines, classes, path)
    rows = rows.with_columns(label).with_row_index("index")
    rows, findings = match_files(rows, files, root, path, duplicates)
    others = Counter(name for line in lines for name in line.others)
    findings += [
        Finding("unlisted", name, f"{format_count(count, 'reference')} to files that are not read")
        for name, count in sorted(others.items())
    ]
    rows = rows.with_columns(pl.col("index").cast(pl.Int64), path="file")
    return chosen(rows, files, root, classes), findings


def _images_of(manifest: str, lines: Sequence[Annotated]) -> str:
    """The directory of a manifest's images, where nobody names it."""
    if is_s3(manifest) and all(is_s3(line.ref) for line in lines):
        common = common_path([line.ref for line in lines])
        if not is_s3(common):
            raise SourceError(f"{manifest}: names images of several buckets; bring them into one")
        return common
    beside = os.path.splitext(manifest)[0]
    return beside if is_dir(beside) else os.path.dirname(manifest) or "."


def _labels(
    lines: Sequence[Annotated], classes: tuple[str, ...] | None, source: str
) -> list[pl.Series]:
    """The column of labels, if there are any."""
    if lines[0].label is None:
        return []
    labels = [each.label for each in lines]
    if classes and all(each.lists_classes for each in lines):
        sets = [frozenset(label or ()) for label in labels]
        labels = [tuple(float(at in each) for at in range(len(classes))) for each in sets]
    for each, label in zip(lines, labels, strict=True):
        if not label:
            raise SourceError(
                f"{source}:{each.line}: the label is empty, and nothing tells all classes: give "
                "--classes"
            )
    rows = pl.DataFrame(
        {"line": [each.line for each in lines], "labels": labels},
        schema_overrides={"labels": pl.List(pl.Float64)},
    )
    return [labels_from_numbers(rows, classes, source)]


def _classes(
    lines: Sequence[Annotated], classes: tuple[str, ...] | None, source: str
) -> tuple[str, ...] | None:
    """The names of the classes, about which all lines have to agree."""
    names: dict[int, str] = dict(enumerate(classes or ()))
    numbers = {name: number for number, name in names.items()}
    for line in lines:
        for number, name in line.names.items():
            known = names.setdefault(number, name)
            if known != name or (classes and number >= len(classes)):
                told = f"is called {known!r}" if known != name else "is none of the classes"
                raise SourceError(
                    f"{source}:{line.line}: the class {number} is called {name!r}, but {told} "
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
    for number in range(len(names)):
        if number not in names:
            raise SourceError(
                f"{source}: tells no name of class {number}, but of class {max(names)}: give all "
                "names with --classes"
            )
    for line in lines:
        _require_classes(line, len(names), source)
    return tuple(names[number] for number in range(len(names)))


def _require_classes(line: Annotated, count: int, source: str) -> None:
    """Refuse classes that have no name."""
    if line.kind == "boxes" or line.lists_classes:
        assert line.label is not None
        start, step = (_OBJECT_HEAD, _OBJECT) if line.kind == "boxes" else (0, 1)
        for number in line.label[start::step]:
            if not (0 <= number < count and number.is_integer()):
                raise SourceError(
                    f"{source}:{line.line}: {number:g} is none of the {count} classes"
                )


def _key(ref: str) -> str:
    """What an S3 URL says after the bucket; any other reference as it is."""
    return ref.split("/", 3)[-1] if ref[:5].lower() == "s3://" else ref


def _ends(ref: str) -> list[str]:
    """What a reference may say below the root: a path itself, the ends of an S3 URL."""
    key = _key(ref)
    if key == ref:
        return [ref]
    parts = key[-_LONGEST_URL:].split("/")
    return ["/".join(parts[start:]) for start in range(min(len(parts), _DEEPEST))]


def _paths(lines: Sequence[Annotated], root: str, files: Files, source: str) -> list[str]:
    """Where below the root each image should be."""
    tops = {os.path.abspath(root), os.path.realpath(root)}
    paths = []
    urls: list[tuple[int, Annotated]] = []
    for place, line in enumerate(lines):
        scheme = _SCHEME.match(line.ref)
        kind = scheme[1].lower() if scheme else ""
        if is_s3(root) and line.ref.startswith(root.rstrip("/") + "/"):
            paths.append(line.ref[len(root.rstrip("/")) + 1 :])
        elif kind == "s3":
            urls.append((place, line))
            paths.append(_key(line.ref))
        elif kind == "file":
            host, slash, rest = line.ref[len("file://") :].partition("/")
            if host.lower() not in ("", "localhost"):
                raise _refuse(line, source, "is on another machine")
            paths.append(_below(slash + unquote(rest), tops, line, source))
        elif kind:
            raise _refuse(line, source, "is no path, and no file:// or s3:// URL")
        else:
            paths.append(_below(line.ref, tops, line, source))
    if urls:
        known = set(files.table["path"].to_list())
        for (place, _), path in zip(urls, _find(urls, known, source), strict=True):
            paths[place] = path
    return paths


def _below(path: str, tops: set[str], line: Annotated, source: str) -> str:
    """The path below the root of a path that may be absolute."""
    if not path.startswith("/"):
        return path
    plain = re.sub(r"/(?:\.?/)+", "/", path)
    for top in tops:
        if plain.startswith(top.rstrip("/") + "/"):
            return plain[len(top.rstrip("/")) + 1 :]
    raise _refuse(line, source, "is not below the folder")


def _find(urls: Sequence[tuple[int, Annotated]], known: set[str], source: str) -> list[str]:
    """Find the files that S3 URLs mean: as little as possible is taken off their beginnings.

    What is taken off one URL is taken off all that begin so; where that leads to other files, it is
    not clear which are meant.
    """
    cuts: dict[str, int] = {}  # what is taken off, and from which URL first
    for at, (_, line) in enumerate(urls):
        cut = _cut(line, known, source)
        if cut is not None:
            cuts.setdefault(line.ref[:cut], at)
    for prefix, at in cuts.items():
        shorter = _prefix_of(prefix.rstrip("/"), cuts)
        if shorter is not None:
            line = urls[at][1]
            one, two = line.ref[len(prefix) :], line.ref[len(shorter) :]
            raise _refuse(line, source, f"may mean {one!r} or, like other lines, {two!r}")
    paths: list[str] = []
    meant: dict[str, Annotated] = {}
    for _, line in urls:
        start = _prefix_of(line.ref, cuts)
        path = _key(line.ref) if start is None else line.ref[len(start) :]
        first = meant.setdefault(path, line)
        if first.ref != line.ref:
            raise _refuse(line, source, f"would be {path!r}, as {first.ref!r} is")
        paths.append(path)
    return paths


def _cut(line: Annotated, known: set[str], source: str) -> int | None:
    """How many characters have to be taken off a URL; None if nothing makes it a file's path."""
    ref = line.ref
    slash = ref.find("/", len("s3://"))
    if slash < 0 or slash == len(ref) - 1:
        raise _refuse(line, source, "names no object of a bucket")
    if len(ref) > _LONGEST_URL:
        raise _refuse(line, source, "is longer than a URL of S3 can be")
    while slash >= 0:
        if ref[slash + 1 :] in known:
            return slash + 1
        slash = ref.find("/", slash + 1)
    return None


def _prefix_of(ref: str, prefixes: dict[str, int]) -> str | None:
    """The longest of the prefixes, all of which end in a slash, that a URL begins with."""
    slash = ref.rfind("/")
    while slash > 0:
        if ref[: slash + 1] in prefixes:
            return ref[: slash + 1]
        slash = ref.rfind("/", 0, slash)
    return None


def _refuse(line: Annotated, source: str, problem: str) -> SourceError:
    return SourceError(f"{source}:{line.line}: {line.ref!r:.300} {problem}")

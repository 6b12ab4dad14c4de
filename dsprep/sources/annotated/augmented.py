"""SageMaker's augmented manifest: a line of JSON for each image, or for each text."""

from __future__ import annotations

import json
import os
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote

import polars as pl

from dsprep.catalog import Catalog, SourceScan
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.augmented import TEXT, AugmentedLine, parse_augmented
from dsprep.lists.rows import OUTSIDE, leads_outside, plain_paths
from dsprep.numbering import Known, numbers_of, require_lines
from dsprep.opening import opened
from dsprep.places.files import list_files
from dsprep.places.prefetch import OpenFiles, read_at, runs
from dsprep.places.scan import RunAll, scan_below
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, key_of
from dsprep.schema import Field, Schema
from dsprep.sources.file_rows import rows_of
from dsprep.sources.labels.choose import choose
from dsprep.sources.labels.classes import labels_from_numbers
from dsprep.sources.labels.columns import Columns
from dsprep.storage.files import common_path, facts, is_dir
from dsprep.storage.store import scheme_of
from dsprep.storage.stored import Facts
from dsprep.text import decode_text, read_data, refuse
from dsprep.units import format_count

if TYPE_CHECKING:
    from dsprep.sources.source import Source

_READ = 1 << 20  # bytes of text that are read at once
_SCHEME = r"([a-z][a-z0-9+.-]*)://"
_BOM = b"\xef\xbb\xbf"
_LONGEST_URL = len("s3://") + 63 + 1 + 1024  # scheme, bucket, slash and key


def read_augmented(source: Source, run_all: RunAll = map) -> SourceScan:
    """Make the catalog of a manifest."""
    # It names images by a path below the root, relative or absolute, also as `file://`; or by an S3
    # URL, whose end is a path below the root: the bucket and as few directories as possible are cut
    # off.
    path = source.list_file or source.root
    data = read_data(path)
    lines = list(parse_augmented(decode_text(data, path), path, source.choice.label))
    if not lines:
        raise SourceError(f"{path}: names no images")
    if lines[0].is_text:
        return _read_texts(source, path, data, lines)
    root = source.root
    scheme = scheme_of(path)
    if not source.list_file and scheme and all(scheme_of(line.ref) == scheme for line in lines):
        root = common_path([line.ref for line in lines])
        if not scheme_of(root):
            raise SourceError(f"{path}: names images of several buckets; bring them into one")
    elif not source.list_file:
        beside = os.path.splitext(path)[0]
        root = beside if is_dir(beside) else os.path.dirname(path) or "."
    if lines[0].kind == "boxes" or lines[0].has_masks:
        from dsprep.sources.annotated.annotated import catalog_of, list_images
        from dsprep.sources.annotated.ground_truth import scan_manifest

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


def _read_texts(
    source: Source, path: str, data: bytes, lines: Sequence[AugmentedLine]
) -> SourceScan:
    """Make the catalog of a manifest whose lines are texts."""
    if source.list_file:
        raise SourceError(f"{path}: its lines are texts, and no images: give it as SOURCE")
    wanted, offsets, sizes = {line.line for line in lines}, array("q"), array("q")
    at = len(_BOM) if data.startswith(_BOM) else 0
    for number, line in enumerate(data[at:].split(b"\n"), 1):
        if number in wanted:
            offsets.append(at)
            sizes.append(len(line))
        at += len(line) + 1
    state = facts(path)
    if state.size != len(data):
        raise SourceError(f"{path}: changes while it is read")
    classes = _classes(lines, source.class_names(), path)
    columns = (pl.Series(each, dtype=pl.Int64) for each in (offsets, sizes, sizes))
    table = rows_of(0, os.path.basename(path), state, *columns)
    table = table.select(pl.int_range(pl.len()).alias("index"), pl.all())
    table = table.with_columns(_labels(lines, classes, path))
    field = Field("text", "text", False, (), ((TEXT,),), "the manifest")
    unread = Counter(name for line in lines for name in line.unread)
    findings = [
        Finding("note", "", f"{format_count(count, 'line')} with {name!r}, which is not read")
        for name, count in sorted(unread.items())
    ]
    reader = TextReader(path, state)
    return Catalog(table, path, classes, reader, Schema((field,)), schema_known=True), findings


class TextReader(Reader):
    """Reads the texts of a manifest; rows have their labels."""

    reads_samples: ClassVar[bool] = True
    has_images: ClassVar[bool] = False
    table: ClassVar = Columns()
    path: str
    state: Facts  # of the file when it was listed

    def sources(self) -> Sequence[str]:
        return (self.path,)

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        with OpenFiles((self.path,), (self.state,)) as files:
            for run in files.ahead(runs(rows, _READ)):
                data = read_at(files.same(0), run.stop - run.start, run.start)
                for row in range(run.first, run.last):
                    at = rows.offsets[row] - run.start
                    values: Mapping[str, str] = json.loads(data[at : at + rows.stored[row]])
                    found = {TEXT: values[TEXT]}
                    yield self.typed(Sample(key_of(rows.paths[row]), found, rows.ids[row]))


def _labels(
    lines: Sequence[AugmentedLine], classes: tuple[str, ...] | None, source: str
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
    lines: Sequence[AugmentedLine], classes: tuple[str, ...] | None, source: str
) -> tuple[str, ...] | None:
    """Return the names of the classes, about which all lines have to agree."""
    names: dict[int, str] = dict(enumerate(classes or ()))
    numbers = numbers_of(classes or ())
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
        require_lines(sorted(numbers), source)
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


def _paths(lines: Sequence[AugmentedLine], root: str, known: set[str], source: str) -> list[str]:
    """Return the path below the root of each image."""
    tops = {f"{top(opened(root)).rstrip('/')}/" for top in (os.path.abspath, os.path.realpath)}
    below_root = root.rstrip("/") + "/"
    paths: list[str | None] = []  # None for URLs of S3
    for line in lines:
        scheme, path = re.match(_SCHEME, line.ref, re.IGNORECASE), line.ref
        kind = scheme[1].lower() if scheme else ""
        if kind and path.startswith(below_root):
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


def _find(lines: Sequence[AugmentedLine], known: set[str], source: str) -> list[str]:
    """Find the files that S3 URLs mean, cutting off as little as possible at their beginnings."""
    # What is cut off one URL is cut off all that begin so; if that leads to other files, the URLs
    # are ambiguous.
    cuts: dict[str, AugmentedLine] = {}  # prefixes to cut off, with the first URL that has them
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
    taken: dict[str, AugmentedLine] = {}
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


def _refusal(line: AugmentedLine, source: str, problem: str) -> SourceError:
    return SourceError(f"{source}:{line.line}: {line.ref!r:.300} {problem}")

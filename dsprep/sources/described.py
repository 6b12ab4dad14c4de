"""Images with a ``metadata.jsonl`` or ``metadata.csv``, as ``imagefolder`` has them."""

from __future__ import annotations

import csv
import io
import json
import os
import posixpath
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import Any

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.readers.described import DescribedReader, is_reference, references
from dsprep.readers.places import read_at
from dsprep.sample import image_kind_of
from dsprep.schema import IMAGE
from dsprep.sources.below import scan_below
from dsprep.sources.files import Files, list_files
from dsprep.sources.scan import RunAll
from dsprep.storage.local import LARGEST_TABLE
from dsprep.storage.opened import open_file
from dsprep.storage.paths import entries, is_dir, is_file, read_bytes
from dsprep.storage.urls import is_s3

NAMES = ("metadata.jsonl", "metadata.csv")

_LOOKED_AT = 64
"""Names in a directory that tell whether directories in it have metadata."""

_HEAD = 1 << 16
"""Bytes of metadata that tell whether it names files."""


def metadata_below(root: str) -> list[str]:
    """Find the files of metadata in a directory, or in those that lie in it."""
    if not is_dir(root):
        return []
    found = _metadata_in(root, "")
    if not found and not is_s3(root):  # where each look takes a request
        first = [each.name for each in islice(entries(root), _LOOKED_AT) if each.is_dir()]
        if any(_metadata_in(root, name) for name in first):
            names = sorted(each.name for each in entries(root) if each.is_dir())
            found = [path for name in names for path in _metadata_in(root, name)]
    return found


def _metadata_in(root: str, directory: str) -> list[str]:
    paths = [posixpath.join(directory, name) for name in NAMES]
    there = (path for path in paths if is_file(os.path.join(root, path)))
    return [path for path in there if _names_files(os.path.join(root, path))][:1]


def _names_files(path: str) -> bool:
    """Whether the first line of metadata has a column of file names."""
    with open_file(path) as file:
        head = read_at(file, _HEAD, 0).partition(b"\n")[0]
    try:
        text = head.decode("utf-8-sig")
        names = next(csv.reader([text])) if path.endswith(".csv") else list(json.loads(text))
    except (ValueError, TypeError, StopIteration, RecursionError, csv.Error):
        return False
    return any(isinstance(name, str) and is_reference(name.strip()) for name in names)


def read_described(
    root: str, files: list[str], *, classes: tuple[str, ...] | None, run_all: RunAll = map
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of images that metadata describes, in its order."""
    paths: list[str] = []
    owners, places, offsets, stored, numbers = (array("q") for _ in range(5))
    others: list[str] = []
    columns: list[tuple[tuple[str, str], ...] | None] = []
    for number, name in enumerate(files):
        data = _read(os.path.join(root, name))
        columns.append(_columns(data, name) if name.endswith(".csv") else None)
        for line, offset, size, values in _lines(data, name, columns[-1]):
            try:
                found = references(values, posixpath.dirname(name))
            except ValueError as error:
                raise SourceError(f"{root}/{name}:{line}: {error}") from None
            if not found:
                raise SourceError(f"{root}/{name}:{line}: names no file: give it a 'file_name'")
            main = IMAGE if IMAGE in found else next(iter(found))
            for field, path in found.items():
                if field != main:
                    owners.append(len(paths))
                    others.append(path)
            paths.append(found[main])
            numbers.append(line)
            places.append(number)
            offsets.append(offset)
            stored.append(size)
    rows = pl.DataFrame(
        {"path": paths, "file": places, "offset": offsets, "stored": stored, "line": numbers},
        schema={"path": pl.String} | dict.fromkeys(("file", "offset", "stored", "line"), pl.Int64),
    ).with_row_index("row")
    references_ = pl.DataFrame(
        {"row": owners, "path": others}, schema={"row": pl.UInt32, "path": pl.String}
    )
    there = list_files(scan_below(root, None, run_all))
    needed = pl.concat([rows.select("row", "path"), references_]).join(
        there.table, on="path", how="left"
    )
    totals = needed.group_by("row").agg(
        pl.col("size").sum(),
        pl.col("mtime").max(),
        lacking=pl.col("path").filter(pl.col("size").is_null()).first(),
    )
    rows = rows.join(totals, on="row", maintain_order="left")
    findings = [*_lost(rows, files), *_unlisted(needed["path"], there, files)]
    repeated = rows.filter(~pl.col("path").is_first_distinct())
    if not repeated.is_empty():
        first = repeated.row(0, named=True)
        raise SourceError(
            f"{root}/{files[first['file']]}:{first['line']}: names {first['path']!r} again: remove "
            "one of the lines"
        )
    rows = rows.filter(pl.col("lacking").is_null())
    if rows.is_empty():
        raise SourceError(f"{root}: {files[0]} names no file that is there, such as {paths[:1]}")
    table = rows.select(
        pl.int_range(pl.len()).alias("index"), "path", "size", "mtime", "file", "offset", "stored"
    )
    reader = DescribedReader(root, tuple(files), tuple(columns))
    return Catalog(table, root, classes, reader), sorted(findings, key=lambda each: each.path)


def _read(path: str) -> bytes:
    try:
        return read_bytes(path, LARGEST_TABLE)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None


def _lost(rows: pl.DataFrame, files: list[str]) -> Iterator[Finding]:
    lost = rows.filter(pl.col("lacking").is_not_null()).select("path", "lacking", "file", "line")
    for path, lacking, file, line in lost.iter_rows():
        other = f", for {lacking}" if lacking != path else ""
        yield Finding("missing", path, f"{files[file]}:{line}{other}")


def _unlisted(named: pl.Series, there: Files, files: list[str]) -> Iterator[Finding]:
    """Find the files that no line names."""
    left = there.table.filter(~pl.col("path").is_in(named.implode()))["path"]
    for path in left.to_list():
        if path not in files:
            yield Finding("unlisted" if image_kind_of(path) else "not-an-image", path)
    yield from there.findings


def _lines(
    data: bytes, name: str, columns: tuple[tuple[str, str], ...] | None
) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """Return number, place, size and values of each line; of CSV, only those that are text."""
    if columns is not None:
        names = [column for column, _ in columns]
        for number, offset, size, cells in islice(_records(data, name), 1, None):
            yield number, offset, size, dict(zip(names, cells, strict=True))
        return
    offset = 0
    for number, line in enumerate(io.BytesIO(data), 1):
        if line.strip(b"\xef\xbb\xbf \t\r\n"):
            try:
                values = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError):
                values = None
            if not isinstance(values, dict):
                raise SourceError(f"{name}:{number}: is no JSON object, as each line has to be")
            yield number, offset, len(line), values
        offset += len(line)


def _records(data: bytes, name: str) -> Iterator[tuple[int, int, int, list[str]]]:
    """Return the line, place, size and cells of each record of a CSV file."""
    start = at = number = 0

    def texts() -> Iterator[str]:
        nonlocal at, number
        for line in io.BytesIO(data):
            at, number = at + len(line), number + 1
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")

    try:
        width = 0
        for cells in csv.reader(texts(), strict=True):
            width = width or len(cells)
            if cells and len(cells) != width:
                raise SourceError(f"{name}:{number}: has {len(cells)} cells, the first row {width}")
            if cells:
                yield number, start, at - start, cells
            start = at
    except (csv.Error, UnicodeDecodeError) as error:
        raise SourceError(f"{name}:{number}: is no CSV in UTF-8 ({error})") from None


def _columns(data: bytes, name: str) -> tuple[tuple[str, str], ...]:
    """Return the columns of a CSV file, and the type that all cells of each have."""
    records = _records(data, name)
    _, _, _, names = next(records, (0, 0, 0, list[str]()))
    kinds: list[set[str]] = [set() for _ in names]
    for _, _, _, cells in records:
        for kind, cell in zip(kinds, cells, strict=True):
            if cell:
                kind.add(_kind(cell))
    return tuple(
        (column, "text" if is_reference(column) else _joined(kind))
        for column, kind in zip(names, kinds, strict=True)
    )


def _joined(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return kinds.pop()
    return "float" if kinds == {"int", "float"} else "text"


def _kind(cell: str) -> str:
    """Return the type of a cell; a number that another text would be written for is text."""
    if cell in ("True", "False", "true", "false"):
        return "bool"
    try:
        is_int = str(int(cell)) == cell and -(1 << 63) <= int(cell) < 1 << 63
    except ValueError:
        is_int = False
    if is_int:
        return "int"
    try:
        float(cell)
    except ValueError:
        return "text"
    digits = cell.lstrip("+-")
    return "text" if digits.isdigit() or "_" in cell or cell != cell.strip() else "float"

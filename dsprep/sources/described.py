"""Images with a ``metadata.jsonl`` or ``metadata.csv``, as ``imagefolder`` has them.

A row's offset is that of its line, so that a reader is small however many samples there are.
"""

from __future__ import annotations

import csv
import io
import json
import os
import posixpath
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.folder import FILE_NAME, Folder
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, image_kind_of, key_of
from dsprep.schema import IMAGE
from dsprep.sources.prefetch import read_at, read_spans
from dsprep.sources.scan import RunAll, read_all, read_file, scan_below, size_of
from dsprep.storage.files import entries, is_dir, is_file, open_file, read_bytes
from dsprep.storage.local import LARGEST_TABLE
from dsprep.storage.location import is_s3

if TYPE_CHECKING:
    from dsprep.catalog import Catalog

NAMES = ("metadata.jsonl", "metadata.csv")
_LOOKED_AT = 64  # names in a directory that show whether directories in it have metadata
_HEAD = 1 << 16  # bytes of metadata that show whether it names files


class _Columns(Folder):
    """The meaning of columns: nothing of them is the content of a folder."""

    name: ClassVar[str] = "imagefolder"


_TABLE = _Columns()

# Converts the cells of a CSV file, by the type of the column.
CELLS: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: text.lower() == "true",
    "text": str,
}


# Reading


@dataclass(frozen=True)
class DescribedReader(Reader):
    """Reads images and their lines."""

    whole: ClassVar[bool] = True
    root: str  # the directory that the rows' paths start from
    files: tuple[str, ...]  # the files of metadata, below the root; paths in them start there
    # the columns of each that is CSV, with their types; None for lines of JSON
    columns: tuple[tuple[tuple[str, str], ...] | None, ...]

    @property
    def table(self) -> Folder:
        """The meaning of columns."""
        return _TABLE

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read the samples, in the order of the rows."""
        assert rows.files is not None
        paths = tuple(posixpath.join(self.root, name) for name in self.files)
        described = zip(rows.sizes, rows.files, read_spans(paths, rows), strict=True)
        calls = ((row[0], partial(self._fields, *row)) for row in described)
        for id, path, fields in zip(rows.ids, rows.paths, read_all(self.root, calls), strict=True):
            bad = isinstance(fields, BadSample)
            yield fields if bad else self.typed(Sample(key_of(path), fields, id, path))

    def _fields(self, size: int, file: int, line: bytes) -> dict[str, Any] | BadSample:
        """Read the images of a sample, which have ``size`` bytes together, and its line."""
        try:
            values = parse_line(line, self.columns[file])
            named = references(values, posixpath.dirname(self.files[file]))
            paths = {field: posixpath.join(self.root, path) for field, path in named.items()}
            sizes = [size] if len(paths) == 1 else list(map(size_of, paths.values()))
            if None in sizes or sum(filter(None, sizes)) != size:
                raise BadSample(f"has changed: its files had {size} bytes when they were listed")
            fields = {name: value for name, value in values.items() if not is_reference(name)}
            for (field, path), length in zip(paths.items(), sizes, strict=True):
                fields[field] = read_file(path, length or 0)
        except BadSample as error:
            return error
        except ValueError:
            return BadSample("has changed: its line in the metadata is another one")
        return fields


def parse_line(line: bytes, columns: tuple[tuple[str, str], ...] | None) -> dict[str, Any]:
    """Return the values of a line."""
    text = line.decode("utf-8-sig")
    if columns is None:
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("is no JSON object")
        return values
    (cells,) = csv.reader(text.splitlines(keepends=True), strict=True)
    pairs = zip(columns, cells, strict=True)
    return {name: CELLS[kind](cell) for (name, kind), cell in pairs if cell != ""}


def is_reference(column: str) -> bool:
    """Return whether a column names files."""
    return column == FILE_NAME or column.endswith(f"_{FILE_NAME}")


def references(values: Mapping[str, Any], directory: str) -> dict[str, str]:
    """Return the files that a line names, by field."""
    found = {}
    for column, name in values.items():
        if name in (None, "") or not is_reference(column):
            continue
        path = posixpath.normpath(name) if isinstance(name, str) else ""
        if path in ("", ".", "..") or path.startswith(("../", "/")) or "\0" in path:
            raise ValueError(f"{column!r} is {name!r:.80}, which is no file in its directory")
        field = IMAGE if column == FILE_NAME else column.removesuffix(f"_{FILE_NAME}")
        found[field] = posixpath.join(directory, path)
    return found


# Scanning


def metadata_below(root: str) -> list[str]:
    """Find the files of metadata in a directory, or in those that lie in it."""
    if not is_dir(root):
        return []
    found = _metadata_in(root, "")
    if not found and not is_s3(root):  # where each look takes a request
        first = [entry.name for entry in islice(entries(root), _LOOKED_AT) if entry.is_dir()]
        if any(_metadata_in(root, name) for name in first):
            names = sorted(entry.name for entry in entries(root) if entry.is_dir())
            found = [path for name in names for path in _metadata_in(root, name)]
    return found


def _metadata_in(root: str, directory: str) -> list[str]:
    paths = [posixpath.join(directory, name) for name in NAMES]
    there = (path for path in paths if is_file(os.path.join(root, path)))
    return [path for path in there if _names_files(os.path.join(root, path))][:1]


def _names_files(path: str) -> bool:
    """Return whether the first line of metadata has a column of file names."""
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
    import polars as pl

    from dsprep.catalog import Catalog
    from dsprep.sources.files import list_files

    paths, others = list[str](), list[str]()
    owners, owned, offsets, stored, numbers = (array("q") for _ in range(5))
    columns: list[tuple[tuple[str, str], ...] | None] = []
    for number, name in enumerate(files):
        try:
            data = read_bytes(os.path.join(root, name), LARGEST_TABLE)
        except OSError as error:
            message = f"{os.path.join(root, name)}: cannot be read ({error.strerror})"
            raise SourceError(message) from None
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
            owned.append(number)
            offsets.append(offset)
            stored.append(size)
    rows = pl.DataFrame(
        {"path": paths, "file": owned, "offset": offsets, "stored": stored, "line": numbers},
        schema={"path": pl.String} | dict.fromkeys(("file", "offset", "stored", "line"), pl.Int64),
    ).with_row_index("row")
    more = pl.DataFrame(
        {"row": owners, "path": others}, schema={"row": pl.UInt32, "path": pl.String}
    )
    there = list_files(scan_below(root, None, run_all))
    needed = pl.concat([rows.select("row", "path"), more]).join(there.table, on="path", how="left")
    totals = needed.group_by("row").agg(
        pl.col("size").sum(),
        pl.col("mtime").max(),
        lacking=pl.col("path").filter(pl.col("size").is_null()).first(),
    )
    rows = rows.join(totals, on="row", maintain_order="left")
    is_lacking = pl.col("lacking").is_not_null()
    lost = rows.filter(is_lacking).select("path", "lacking", "file", "line")
    unlisted = there.table.filter(~pl.col("path").is_in(needed["path"].implode()))["path"]
    findings = [
        *(
            Finding(
                "missing",
                path,
                f"{files[file]}:{line}" + (f", for {lacking}" if lacking != path else ""),
            )
            for path, lacking, file, line in lost.iter_rows()
        ),
        *(
            Finding("unlisted" if image_kind_of(path) else "not-an-image", path)
            for path in unlisted.to_list()
            if path not in files
        ),
        *there.findings,
    ]
    repeated = rows.filter(~pl.col("path").is_first_distinct())
    if not repeated.is_empty():
        first = repeated.row(0, named=True)
        raise SourceError(
            f"{root}/{files[first['file']]}:{first['line']}: names {first['path']!r} again: remove "
            "one of the lines"
        )
    rows = rows.filter(~is_lacking)
    if rows.is_empty():
        raise SourceError(f"{root}: {files[0]} names no file that is there, such as {paths[:1]}")
    table = rows.select(
        pl.int_range(pl.len()).alias("index"), "path", "size", "mtime", "file", "offset", "stored"
    )
    reader = DescribedReader(root, tuple(files), tuple(columns))
    return Catalog(table, root, classes, reader), sorted(findings, key=attrgetter("path"))


def _lines(
    data: bytes, name: str, columns: tuple[tuple[str, str], ...] | None
) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """Return number, offset, size and values of each line; the values of CSV are text."""
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
    """Return line, offset, size and cells of each record of a CSV file."""
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
    columns = []
    for column, kind in zip(names, kinds, strict=True):
        if len(kind) != 1 or is_reference(column):
            kind = {"float"} if kind == {"int", "float"} and not is_reference(column) else {"text"}
        columns.append((column, kind.pop()))
    return tuple(columns)


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

"""Images that a file of metadata describes, a line for each, as ``imagefolder`` has them.

A row's place is that of its line, so a reader is a few words however many samples there are.
"""

from __future__ import annotations

import csv
import json
import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from dsprep.errors import BadSample
from dsprep.formats.folder import FILE_NAME, Folder
from dsprep.readers.base import Reader
from dsprep.readers.files import require_there
from dsprep.readers.parts import read_part, size_of_part
from dsprep.readers.places import OpenFiles, read_at, runs
from dsprep.rows import Rows
from dsprep.sample import Sample, key_of
from dsprep.schema import IMAGE
from dsprep.storage.ahead import ahead
from dsprep.storage.urls import is_s3


class _Columns(Folder):
    """What columns mean: nothing of them lies in a folder as it is."""

    name: ClassVar[str] = "imagefolder"


_TABLE = _Columns()

CELLS: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: text.lower() == "true",
    "text": str,
}
"""What makes values of the cells of a CSV file, by the type of the column."""


@dataclass(frozen=True)
class DescribedReader(Reader):
    """Reads images and what their lines say."""

    whole: ClassVar[bool] = True
    root: str  # the directory that the rows' paths start from
    # the files of metadata, below the root; paths in them start where they lie
    files: tuple[str, ...]
    # the columns of each that is CSV, with their types; None for lines of JSON
    columns: tuple[tuple[tuple[str, str], ...] | None, ...]

    @property
    def table(self) -> Folder:
        """What columns mean."""
        return _TABLE

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        """Read the samples, in the order of the rows."""
        assert rows.files is not None
        described = zip(rows.paths, rows.sizes, rows.files, self._lines(rows), strict=True)
        calls = ((each[1], partial(self._fields, *each)) for each in described)
        read = ahead(calls) if is_s3(self.root) else (call() for _, call in calls)
        for id, path, fields in zip(rows.ids, rows.paths, read, strict=True):
            if isinstance(fields, BadSample):
                require_there(self.root)
                yield fields
            else:
                yield self.typed(Sample(key_of(path), fields, id, path))

    def _lines(self, rows: Rows) -> Iterator[bytes]:
        assert rows.offsets is not None and rows.stored is not None
        paths = tuple(posixpath.join(self.root, each) for each in self.files)
        with OpenFiles(paths) as files:
            for run in files.ahead(runs(rows)):
                data = read_at(files[run.file], run.stop - run.start, run.start)
                for row in range(run.first, run.last):
                    at = rows.offsets[row] - run.start
                    yield data[at : at + rows.stored[row]]

    def _fields(self, path: str, size: int, file: int, line: bytes) -> dict[str, Any] | BadSample:
        """Read the images of a sample; ``size`` is that of all of them."""
        try:
            values = parse_line(line, self.columns[file])
            places = {
                field: posixpath.join(self.root, place)
                for field, place in references(values, posixpath.dirname(self.files[file])).items()
            }
            sizes = [size] if len(places) == 1 else list(map(size_of_part, places.values()))
            if None in sizes or sum(filter(None, sizes)) != size:
                raise BadSample(f"has changed: its files had {size} bytes when they were listed")
            fields = {name: value for name, value in values.items() if not is_reference(name)}
            for (field, place), length in zip(places.items(), sizes, strict=True):
                fields[field] = read_part(place, length or 0)
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
    """Return the files that a line names, by the fields that they are."""
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

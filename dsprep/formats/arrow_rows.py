"""The samples that the rows of a Parquet file hold, and their values as Arrow has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from dsprep.errors import BadSample
from dsprep.formats.arrow_types import arrow, is_file, plain_type
from dsprep.formats.beside import read_beside
from dsprep.sample import Sample

Cell: TypeAlias = Any
"""A value of a column as Python has it; None for a null."""

_ELSEWHERE = re.compile(r"/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]*://")
_GOES_UP = re.compile(r"(^|/)\.\.(/|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Columns(NamedTuple):
    """What is read of Parquet files. Plain data: it is pickled for the workers."""

    names: tuple[str, ...]  # the columns
    # the one of the images, whose paths are those of the samples; None if there is none
    image: str | None = None
    label: str | None = None  # the one of the labels, if its numbers are read as names
    classes: tuple[str, ...] = ()  # the names of those numbers


class _Part(NamedTuple):
    """The values of a column; of a column of files, with their paths."""

    name: str
    cells: list[Cell]
    paths: list[Cell] | None = None


def plain_batch(batch: Any, names: tuple[str, ...]) -> Any:
    """Return rows with some of their columns, as far as there are such, of plain types."""
    found = [name for name in names if batch.schema.get_field_index(name) >= 0]
    columns = [plain(batch.column(batch.schema.get_field_index(name))) for name in found]
    return arrow().RecordBatch.from_arrays(columns, found)


def plain(column: Any) -> Any:
    """Return a column as :func:`dsprep.formats.arrow_types.plain_type` has it."""
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    if isinstance(column, arrow().ExtensionArray):
        return plain(column.storage)
    is_time = arrow().types.is_timestamp(column.type)
    column = column.cast(kind)
    return arrow().compute.replace_substring(column, " ", "T") if is_time else column


def restored(column: Any, kind: Any) -> Any:
    """Return a plain column as a type has it, the reverse of :func:`plain`."""
    pa = arrow()
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        # Not a cast, which takes what lies below a null for a value.
        parts = [
            restored(part, each.type) for part, each in zip(column.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
        items = restored(column.values, kind.value_type)
        return made.from_arrays(column.offsets, items, type=kind, mask=column.is_null())
    if pa.types.is_time(kind):
        day = pa.compute.binary_join_element_wise("1970-01-01", column, "T")
        column = day.cast(pa.timestamp(kind.unit))
    return column.cast(kind)


def decode(
    batch: Any, columns: Columns, folder: str, raw: bool = False
) -> Iterator[Sample | BadSample]:
    """Make raw samples, without keys, of rows."""
    parts = [
        _part(name, column, columns, raw)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    for row in range(len(batch)):
        try:
            yield _sample(parts, row, columns.image, folder, raw)
        except BadSample as error:
            yield error


def _part(name: str, column: Any, columns: Columns, raw: bool) -> _Part:
    if is_file(column.type):
        return _Part(name, *map(cells_of, file_parts(column)))
    cells = cells_of(column)
    if name == columns.label:
        known = range(len(columns.classes))
        cells = [columns.classes[each] if each in known else each for each in cells]
    elif not raw and is_file(getattr(column.type, "value_type", None)):
        cells = [each and [item and item["bytes"] for item in each] for each in cells]
    return _Part(name, cells)


def _sample(parts: list[_Part], row: int, image: str | None, folder: str, raw: bool) -> Sample:
    sample = Sample("", {})
    for name, cells, paths in parts:
        value = cells[row]
        if paths is not None:
            path = paths[row]
            if isinstance(path, bytes):
                raise BadSample(f"the path in its column {name!r} is not UTF-8")
            if value is None and path:
                value = read_beside(folder, path)
            if name == image:
                sample.path = (path if raw else plain_path(path)) or ""
            elif raw and value is not None:
                value = {"bytes": value, "path": path}
        if value is not None:
            sample.fields[name] = value
    return sample


def file_parts(column: Any) -> tuple[Any, Any]:
    """Return the bytes and the paths of a column of files."""
    parts = dict(zip([part.name for part in column.type], column.flatten(), strict=True))
    nothing = arrow().nulls(len(column))
    return parts["bytes"].cast("large_binary"), parts.get("path", nothing).cast("large_string")


def cells_of(column: Any) -> list[Cell]:
    """Return the values of a column; bytes for text that is not UTF-8, which no text type takes."""
    try:
        cells: list[Cell] = column.to_pylist()
    except ValueError:
        return [_cell(each) for each in column]
    return cells


def _cell(scalar: Any) -> Cell:
    try:
        return scalar.as_py()
    except ValueError:
        return scalar.as_buffer().to_pybytes() if hasattr(scalar, "as_buffer") else b"\xff"


def plain_path(path: str | None) -> str | None:
    """Return what a file says of an image's place as a path below a root; None if it says none."""
    if not path or _CONTROL.search(path):
        return None
    if _ELSEWHERE.match(path) or _GOES_UP.search(path):
        path = re.split(r"[/\\]", path)[-1]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/".join(parts) if parts and parts[-1] != ".." else None

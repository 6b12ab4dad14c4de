"""Indexing the rows of a Parquet file, as a worker does: sizes, paths and labels, not images."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dsprep.errors import BadSample, SourceError
from dsprep.formats.arrow_columns import KEY, Columns
from dsprep.formats.arrow_rows import normal
from dsprep.formats.arrow_types import FILES, arrow
from dsprep.formats.beside import find_beside
from dsprep.formats.parquet import ROWS_OF_BATCH, first_line, open_parquet
from dsprep.images.header import sniff
from dsprep.sample import UNKNOWN_IMAGE
from dsprep.stores.opened import open_file
from dsprep.stores.paths import facts

_HEAD = 16
"""Bytes that tell the kind of an image."""

_MESSAGE = 512
_MESSAGE_OF_COLUMN = 512
"""More than what Arrow's message of one row takes besides the values."""


class RowsTask(NamedTuple):
    """A file to index.

    Attributes:
        path: Where it is.
        columns: What its columns are.
    """

    path: str
    columns: Columns


@dataclass
class IndexedRows:
    """What indexing found in a file.

    Attributes:
        size: The file's bytes.
        mtime: When it was last changed, in nanoseconds since 1970.
        groups: The number of the first row of each row group, and the number of all rows.
        rows: The number of each row that can be read.
        sizes: The bytes of each one's image; without images, of all its values.
        kinds: The kind of each one's image; empty without one.
        paths: What the file says of where each image was.
        keys: What the column of keys says.
        labels: What the column of labels says.
        counts: How many rows have a value, by column and, of files, ``NAME.path``.
        spool: The bytes that the rows take one by one, or more.
        damage: Which row groups cannot be read, and why.
    """

    size: int
    mtime: int
    groups: list[int]
    rows: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    kinds: list[str] = field(default_factory=list)
    paths: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    spool: int = 4096
    damage: list[str] = field(default_factory=list)


def open_or_refuse(path: str) -> Any:
    """Open a Parquet file.

    Raises:
        SourceError: If it cannot be read or is not Parquet.
    """
    try:
        return open_parquet(path)
    except OSError as error:
        if error.errno is not None:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
        raise SourceError(f"{path}: is not a whole Parquet file ({first_line(error)})") from None
    except arrow().ArrowException as error:
        raise SourceError(f"{path}: is not a whole Parquet file ({first_line(error)})") from None


def index_rows(task: RowsTask) -> IndexedRows:
    """Index a file: all of it is read, a few rows at a time.

    Raises:
        SourceError: If it cannot be read.
    """
    size, mtime = facts(task.path)
    names = [name for name, _ in task.columns.kinds]
    with open_or_refuse(task.path) as file:
        groups = [0]
        for group in range(file.num_row_groups):
            groups.append(groups[-1] + file.metadata.row_group(group).num_rows)
        _require_believable(groups, size, task.path)
        indexed = IndexedRows(size, mtime, groups)
        for group, start in enumerate(groups[:-1]):
            row = start
            try:
                for batch in file.iter_batches(
                    ROWS_OF_BATCH, [group], columns=names, use_threads=False
                ):
                    batch = batch.slice(0, groups[group + 1] - row)
                    _index(indexed, normal(batch, task.columns), row, task)
                    row += len(batch)
                if row != groups[group + 1]:
                    indexed.damage.append(f"row group {group} holds {row - start} rows")
            except (arrow().ArrowException, OSError) as error:
                indexed.damage.append(f"row group {group}: {first_line(error)}")
    # Where a row that cannot be read begins is noted as well.
    indexed.spool += 8 * (groups[-1] if indexed.damage else len(indexed.rows))
    return indexed


def _require_believable(groups: list[int], size: int, path: str) -> None:
    """Refuse numbers of rows that no file of its size holds.

    Raises:
        SourceError: If a group has fewer than none, or there is less than a byte for each row.
    """
    if groups != sorted(groups) or groups[-1] > size:
        raise SourceError(
            f"{path}: is not a Parquet file of samples: {groups[-1]} rows in {size} bytes"
        )


def _index(indexed: IndexedRows, batch: Any, start: int, task: RowsTask) -> None:
    """Note a batch of rows."""
    columns = task.columns
    count = len(batch)
    indexed.rows.extend(range(start, start + count))
    indexed.spool += batch.nbytes + count * (_MESSAGE + _MESSAGE_OF_COLUMN * batch.num_columns)
    for name, kind in columns.kinds:
        column = batch.column(batch.schema.get_field_index(name))
        if kind in FILES and arrow().types.is_struct(column.type):
            data, paths = column.flatten()
            indexed.counts[name] += count - data.null_count
            indexed.counts[f"{name}.path"] += count - paths.null_count
        else:
            indexed.counts[name] += count - column.null_count
        if name == KEY:
            indexed.keys.extend(column.to_pylist())
        elif name == columns.label:
            indexed.labels.extend(column.to_pylist())
        elif name == columns.image:
            _index_images(indexed, column, os.path.dirname(task.path))
    if columns.image is None:
        indexed.sizes.extend([batch.nbytes // max(count, 1)] * count)
        indexed.kinds.extend([""] * count)
        indexed.paths.extend([None] * count)


def _index_images(indexed: IndexedRows, column: Any, folder: str) -> None:
    compute = arrow().compute
    data, paths = column, [None] * len(column)
    if arrow().types.is_struct(column.type):
        data, places = column.flatten()
        paths = places.to_pylist()
    if arrow().types.is_null(data.type):
        data = data.cast("binary")
    sizes = compute.binary_length(data).to_pylist()
    heads = compute.binary_slice(data, 0, _HEAD).to_pylist()
    for size, head, path in zip(sizes, heads, paths, strict=True):
        if head is None and path:
            size, head = _beside(folder, path)
        indexed.sizes.append(size or 0)
        indexed.kinds.append("" if head is None else sniff(head) or UNKNOWN_IMAGE)
        indexed.paths.append(path)


def _beside(folder: str, path: bytes) -> tuple[int, bytes | None]:
    """Size and first bytes of an image that the file only names."""
    try:
        full, size = find_beside(folder, os.fsdecode(path))
        with open_file(full) as file:
            return size, file.pread(_HEAD, 0)
    except (BadSample, OSError):
        return 0, None

"""Indexing the rows of a Parquet file, as a worker does: sizes, paths and labels, not images."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple

from dsprep.errors import BadSample, SourceError
from dsprep.formats.arrow import (
    Cell,
    Columns,
    arrow,
    cells_of,
    file_parts,
    find_beside,
    is_file,
    plain_batch,
)
from dsprep.formats.parquet import ROWS_OF_BATCH, first_line, open_parquet
from dsprep.images.header import sniff
from dsprep.sample import UNKNOWN_IMAGE
from dsprep.storage.opened import open_file
from dsprep.storage.paths import facts

_HEAD = 16
"""Bytes that tell the kind of an image."""

_MESSAGE = 512
_MESSAGE_OF_COLUMN = 512
"""More than what Arrow's message of one row takes besides the values."""


class RowsTask(NamedTuple):
    """A file to index."""

    path: str  # where it is
    columns: Columns  # what is read of it
    label: str | None  # the column of labels, if labels are wanted
    no_image: bool  # whether rows without an image are samples


@dataclass
class IndexedRows:
    """What indexing found in a file."""

    size: int  # the file's bytes
    mtime: int  # when it was last changed, in nanoseconds since 1970
    groups: list[int]  # the number of the first row of each row group, and the number of all rows
    # the number of each row that is a sample
    rows: array[int] = field(default_factory=lambda: array("q"))
    # the bytes of each one's image; without images, of all its values
    sizes: array[int] = field(default_factory=lambda: array("q"))
    # the kind of each one's image; empty without one
    kinds: list[str] = field(default_factory=list)
    paths: list[Cell] = field(default_factory=list)  # what the file says of where each image was
    labels: list[Any] = field(default_factory=list)  # what the column of labels says
    counts: Counter[str] = field(default_factory=Counter)  # how many rows have a value, by column
    spool: int = 4096  # the bytes that the rows take one by one, or more
    without_image: int = 0  # how many rows are none, because their image is null
    damage: list[str] = field(default_factory=list)  # which row groups cannot be read, and why


def open_or_refuse(path: str) -> Any:
    """Open a Parquet file."""
    try:
        return open_parquet(path)
    except OSError as error:
        if error.errno is not None:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
        raise SourceError(f"{path}: is not a whole Parquet file ({first_line(error)})") from None
    except arrow().ArrowException as error:
        raise SourceError(f"{path}: is not a whole Parquet file ({first_line(error)})") from None


def index_rows(task: RowsTask) -> IndexedRows:
    """Index a file: all of it is read, a few rows at a time."""
    size, mtime = facts(task.path)
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
                    ROWS_OF_BATCH, [group], columns=list(task.columns.names), use_threads=False
                ):
                    batch = batch.slice(0, groups[group + 1] - row)
                    _index(indexed, plain_batch(batch, task.columns.names), row, task)
                    row += len(batch)
                if row != groups[group + 1]:
                    indexed.damage.append(f"row group {group} holds {row - start} rows")
            except (arrow().ArrowException, OSError) as error:
                indexed.damage.append(f"row group {group}: {first_line(error)}")
    indexed.spool += 8 * groups[-1]  # where each row begins, also one that is no sample
    return indexed


def _require_believable(groups: list[int], size: int, path: str) -> None:
    """Refuse numbers of rows that no file of its size holds."""
    if groups != sorted(groups) or groups[-1] > size:
        raise SourceError(
            f"{path}: is not a Parquet file of samples: {groups[-1]} rows in {size} bytes"
        )


def _index(indexed: IndexedRows, batch: Any, start: int, task: RowsTask) -> None:
    """Note a batch of rows."""
    count = len(batch)
    indexed.spool += batch.nbytes + count * (_MESSAGE + _MESSAGE_OF_COLUMN * batch.num_columns)
    held = {name: _held(batch.column(name)) for name in batch.schema.names}
    rows: Sequence[int] = range(start, start + count)
    kept = held.get(task.columns.image or "")
    if kept is not None and kept.false_count and not task.no_image:
        indexed.without_image += kept.false_count
        rows = list(compress(rows, kept.to_pylist()))
        batch, count = batch.filter(kept), len(rows)
        held = {name: _held(batch.column(name)) for name in held}
    indexed.rows.extend(rows)
    for name, cells in held.items():
        indexed.counts[name] += cells.true_count
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    if task.label is not None:
        labels = found.get(task.label)
        indexed.labels.extend([None] * count if labels is None else cells_of(labels))
    image = found.get(task.columns.image or "")
    if image is not None:
        _index_images(indexed, image, os.path.dirname(task.path))
    else:
        indexed.sizes.extend([batch.nbytes // max(count, 1)] * count)
        indexed.kinds.extend([""] * count)
        indexed.paths.extend([None] * count)


def _held(column: Any) -> Any:
    """Which rows have a value; an image that is only named is one."""
    if not is_file(column.type):
        return column.is_valid()
    data, paths = file_parts(column)
    if not data.null_count:
        return data.is_valid()
    named = arrow().compute.not_equal(paths, "").fill_null(False)
    return arrow().compute.or_(data.is_valid(), named)


def _index_images(indexed: IndexedRows, column: Any, folder: str) -> None:
    compute = arrow().compute
    data, paths = column, [None] * len(column)
    if is_file(column.type):
        data, places = file_parts(column)
        paths = cells_of(places)
    sizes = compute.binary_length(data.cast("large_binary")).to_pylist()
    heads = compute.binary_slice(data.cast("large_binary"), 0, _HEAD).to_pylist()
    for size, head, path in zip(sizes, heads, paths, strict=True):
        if head is None and isinstance(path, str) and path:
            size, head = _beside(folder, path)
        indexed.sizes.append(size or 0)
        indexed.kinds.append("" if head is None else sniff(head) or UNKNOWN_IMAGE)
        indexed.paths.append(path)


def _beside(folder: str, path: str) -> tuple[int, bytes | None]:
    """Size and first bytes of an image that the file only names."""
    try:
        full, size = find_beside(folder, path)
        with open_file(full) as file:
            return size, file.pread(_HEAD, 0)
    except (BadSample, OSError):
        return 0, None

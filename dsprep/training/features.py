"""What the first sample of a channel tells of all of them, for the algorithms that read tables."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from dsprep.errors import source_errors
from dsprep.formats import FORMATS
from dsprep.formats.stream import ShardStream
from dsprep.training.facts import DataFacts

_LONGEST_LINE = 1 << 24  # bytes of a line of CSV, with some million columns
_VALUES = "values"  # the feature of a record that algorithms read


def count_features(data: DataFacts, labels: int) -> int | None:
    """Return how many features a sample has besides its labels; None if nothing tells."""
    path = os.path.join(data.directory, data.files[0][0])
    if data.format == "csv":
        return max(len(first_cells(path)) - labels, 0) or None
    if data.format != "recordio-protobuf":
        return None
    with ShardStream(path) as stream:
        for entry in FORMATS[data.format]().read(stream):
            values = entry.sample.fields.get(_VALUES)
            if isinstance(values, dict):  # a sparse tensor
                return math.prod(values["shape"]) or None
            return len(values) if isinstance(values, Sequence) else None
    return None


def has_header(data: DataFacts) -> bool:
    """Return whether CSV begins with a line that is not numbers alone."""
    if data.format != "csv":
        return False
    cells = first_cells(os.path.join(data.directory, data.files[0][0]))
    return not all(map(_is_number, cells))


def first_cells(path: str) -> list[str]:
    """Return the cells of the first line of a CSV file without quotes, as algorithms read it."""
    with source_errors(path), ShardStream(path, is_shard=False) as stream:
        line = bytearray()
        for block in stream.blocks():
            line += block
            if b"\n" in block or len(line) > _LONGEST_LINE:
                break
    text = line.partition(b"\n")[0].decode("utf-8", "replace").strip("\r\ufeff")
    return text.split(",") if text else []


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return not cell.strip()  # an empty cell is missing
    return True

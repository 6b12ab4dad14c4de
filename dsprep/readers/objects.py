"""Samples that have an object each on S3: many are fetched at once, ahead of those that wait."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dsprep.errors import BadSample
from dsprep.rows import Rows
from dsprep.storage.ahead import ahead
from dsprep.storage.objects import read_object


def read_objects(root: str, rows: Rows) -> Iterator[bytes | BadSample]:
    """Read objects whose paths start from a place on S3; they come in the order of the rows."""
    root = root.rstrip("/") + "/"
    return ahead(
        (size, partial(read_one, root + path, size))
        for path, size in zip(rows.paths, rows.sizes, strict=True)
    )


def read_one(url: str, size: int) -> bytes | BadSample:
    """Read an object that had so many bytes when it was listed; or tell why it is no sample."""
    try:
        data = read_object(url, size)
    except OSError as error:
        return BadSample(f"cannot be read ({error.strerror})")
    if data is None:
        return BadSample(f"has changed: it had {size} bytes when it was listed")
    return data

"""Laying out anew, as a worker does, what of a source cannot be read at random."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from dsprep.rows import Reader
from dsprep.storage.local import destination_errors


class SpoolTask(NamedTuple):
    """A spool file to write."""

    reader: Reader  # the reader that needs it
    number: int  # its number among those
    directory: str  # where to write it, under its number


def write_spool(task: SpoolTask, report: Callable[[int], None]) -> None:
    """Write one spool file; it has its name when it is whole."""
    path = os.path.join(task.directory, str(task.number))
    with destination_errors(path):
        task.reader.write_spool(task.number, path + ".partial")
        os.replace(path + ".partial", path)
        report(os.path.getsize(path))

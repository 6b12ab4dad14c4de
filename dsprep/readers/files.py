"""Samples that have a file each, below a directory on a disk or on S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from dsprep.errors import BadSample, SourceError
from dsprep.readers.base import Reader
from dsprep.readers.objects import read_objects
from dsprep.rows import Rows
from dsprep.storage.paths import is_dir
from dsprep.storage.urls import is_s3


@dataclass(frozen=True)
class FileReader(Reader):
    """Reads images that are files."""

    root: str  # the directory that the rows' paths start from

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        """Read the files, in the order of the rows."""
        for data in read_objects(self.root, rows) if is_s3(self.root) else self._files(rows):
            if isinstance(data, BadSample):
                require_there(self.root)
            yield data

    def _files(self, rows: Rows) -> Iterator[bytes | BadSample]:
        root = self.root.rstrip("/") + "/"
        for path, size in zip(rows.paths, rows.sizes, strict=True):
            try:
                data: bytes | BadSample = read_file(root + path, size)
            except BadSample as error:
                data = error
            yield data


def require_there(root: str) -> None:
    """Tell a sample that is gone from a directory that is."""
    if not is_dir(root):
        raise SourceError(f"{root}: is gone; give the same command again when it is back")


def read_file(path: str, size: int) -> bytes:
    """Read a whole file of a known size with as few system calls as can be."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            data = os.read(fd, size + 1)
            while len(data) < size and (more := os.read(fd, size + 1 - len(data))):
                data += more
        finally:
            os.close(fd)
    except OSError as error:
        raise BadSample(f"cannot be read ({error.strerror})") from None
    if len(data) != size:
        raise BadSample(f"has changed: it had {size} bytes when it was listed")
    return data

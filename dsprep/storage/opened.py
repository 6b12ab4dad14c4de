"""Files that are open for reading, on a disk or on S3: at any place, or from front to back."""

from __future__ import annotations

import io
import os
from typing import TypeAlias

from dsprep.storage.local import open_regular
from dsprep.storage.location import is_s3
from dsprep.storage.objects import Facts
from dsprep.storage.ranges import ObjectFile


class LocalFile(io.FileIO):
    """A file on a disk, which nothing is held back of."""

    def __init__(self, path: str) -> None:
        """Open a regular file."""
        super().__init__(path, opener=open_regular)

    def facts(self) -> Facts:
        """Its size, and when it was last changed."""
        status = os.fstat(self.fileno())
        return Facts(status.st_size, status.st_mtime_ns)

    def pread(self, count: int, offset: int) -> bytes:
        """Read so many bytes at a place, or fewer; none only at the end."""
        return os.pread(self.fileno(), count, offset)

    def ahead(self, offset: int, count: int) -> None:
        """Tell the system that these bytes will be read."""
        os.posix_fadvise(self.fileno(), offset, count, os.POSIX_FADV_WILLNEED)


OpenFile: TypeAlias = LocalFile | ObjectFile


def open_file(path: str) -> OpenFile:
    """Open a file for reading."""
    return ObjectFile(path) if is_s3(path) else LocalFile(path)

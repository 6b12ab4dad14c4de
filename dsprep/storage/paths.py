"""What is at a path, on a disk or on S3, where what keys begin with up to a slash is a directory.

Of ``os.path``, what joins and takes apart does so with ``s3://bucket/key`` as well; what asks the
system, or makes a path plain, does not, and neither does `pathlib`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from dsprep.storage.local import LARGEST, read_whole
from dsprep.storage.location import is_s3
from dsprep.storage.objects import Facts as Facts
from dsprep.storage.objects import facts_of, levels, look_up, no_object, read_object
from dsprep.storage.pool import ahead


class ObjectEntry(NamedTuple):
    """What lies right below a place on S3; it answers as :class:`os.DirEntry` does."""

    name: str  # its name there
    path: str  # its path
    is_object: bool  # whether it is an object; else keys that lie deeper begin so

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self.is_object

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return not self.is_object


Entry: TypeAlias = "os.DirEntry[str] | ObjectEntry"
"""What lies in a directory."""


def exists(path: str) -> bool:
    """Whether anything is there, be it a link that leads nowhere."""
    return is_file(path) or is_dir(path) if is_s3(path) else os.path.lexists(path)


def is_file(path: str) -> bool:
    """Whether a file is there."""
    return look_up(path) is not None if is_s3(path) else os.path.isfile(path)


def absent(paths: Sequence[str]) -> list[str]:
    """Those of some paths where no file is."""
    calls = [partial(is_file, path) for path in paths]
    on_s3 = any(map(is_s3, paths))
    there = ahead((0, call) for call in calls) if on_s3 else (call() for call in calls)
    return [path for path, found in zip(paths, there, strict=True) if not found]


def is_dir(path: str) -> bool:
    """Whether a directory is there; a bucket is one."""
    if not is_s3(path):
        return os.path.isdir(path)
    first = next(levels(path))
    return bool(first.files or first.deeper or path.rstrip("/").count("/") == 2)


def facts(path: str) -> Facts:
    """The size of a file, and when it was last changed."""
    if not is_s3(path):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return Facts(status.st_size, status.st_mtime_ns)
    found = look_up(path)
    if found is None:
        raise no_object(path)
    return facts_of(found)


def entries(directory: str) -> Iterator[Entry]:
    """What lies in a directory, in no particular order."""
    if not is_s3(directory):
        with os.scandir(directory) as found:
            yield from found
        return
    for level in levels(directory):
        names = [(each.key.rpartition("/")[2], True) for each in level.files]
        names += [(each.rstrip("/").rpartition("/")[2], False) for each in level.deeper]
        for name, is_object in names:
            if name:  # the object that stands for the directory itself has none
                yield ObjectEntry(name, os.path.join(directory, name), is_object)


def common_path(paths: Sequence[str]) -> str:
    """The directory that several paths lie in; empty if they lie apart."""
    if not any(map(is_s3, paths)):
        return os.path.commonpath(map(os.path.abspath, paths))
    parts = [path.split("/")[:-1] for path in paths]
    same = takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False))
    return "/".join(each[0] for each in same)


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the base names or, if two are equal, the paths below the common directory."""
    names = [os.path.basename(path) for path in paths]
    if len(set(names)) == len(set(paths)):
        return names
    top = common_path([os.path.dirname(path) + "/" for path in paths])
    whole = (path if is_s3(path) else os.path.abspath(path) for path in paths)
    return [path.removeprefix(top).lstrip("/") for path in whole]


def read_bytes(path: str, limit: int = LARGEST) -> bytes:
    """Read a whole file."""
    if is_s3(path):
        data = read_object(path, limit=limit)
        assert data is not None  # of any size
        return data
    return read_whole(path, limit)

"""Files on a disk or on S3, where what keys begin with up to a slash is a directory.

Of ``os.path``, what joins and takes apart does so with ``s3://bucket/key`` as well; what asks the
system or normalizes a path does not, and neither does `pathlib`.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from typing import NamedTuple, TypeAlias, TypeVar

from dsprep.opening import began_in, opened
from dsprep.storage import pool
from dsprep.storage.local import LARGEST, open_regular, read_expected, read_whole
from dsprep.storage.location import is_s3
from dsprep.storage.objects import ObjectFile, as_source, levels, look_up, no_object, read_object
from dsprep.storage.stored import Facts

T = TypeVar("T")


class ObjectEntry(NamedTuple):
    """What lies directly below a location on S3, like :class:`os.DirEntry`."""

    name: str  # its name there
    path: str  # its path
    is_object: bool  # whether it is an object; else keys that lie deeper begin so

    def is_file(self) -> bool:
        return self.is_object

    def is_dir(self) -> bool:
        return not self.is_object


class LocalEntry:
    """What lies in a directory that is opened by another path than the one that was given."""

    def __init__(self, directory: str, entry: os.DirEntry[str]) -> None:
        self.name, self.path = entry.name, os.path.join(directory, entry.name)
        self.is_file, self.is_dir = entry.is_file, entry.is_dir


Entry: TypeAlias = "os.DirEntry[str] | LocalEntry | ObjectEntry"  # what lies in a directory


def exists(path: str) -> bool:
    """Return whether anything is there, even a broken link."""
    return is_file(path) or is_dir(path) if is_s3(path) else os.path.lexists(opened(path))


def is_file(path: str) -> bool:
    """Return whether a file is there."""
    return look_up(path) is not None if is_s3(path) else os.path.isfile(opened(path))


def absent(paths: Sequence[str]) -> list[str]:
    """Return the paths where no file is."""
    on_s3 = next(filter(is_s3, paths), "")
    there = results(on_s3, ((0, partial(is_file, path)) for path in paths))
    return [path for path, found in zip(paths, there, strict=True) if not found]


def results(root: str, calls: Iterable[tuple[int, Callable[[], T]]]) -> Iterator[T]:
    """Make calls that read below a path, several at once where each is a request to S3."""
    # Each call comes with the size of its result.
    return pool.ahead(calls) if is_s3(root) else (call() for _, call in calls)


def is_dir(path: str) -> bool:
    """Return whether a directory is there; a bucket is one."""
    if not is_s3(path):
        return os.path.isdir(opened(path))
    first = next(levels(path))
    return bool(first.files or first.deeper or path.rstrip("/").count("/") == 2)


def facts(path: str) -> Facts:
    """Return the size of a file, and when it was last changed."""
    if not is_s3(path):
        status = os.stat(opened(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        return Facts(status.st_size, status.st_mtime_ns)
    found = look_up(path)
    if found is None:
        raise no_object(path)
    return found.facts


def entries(directory: str) -> Iterator[Entry]:
    """List a directory, in no particular order."""
    if not is_s3(directory):
        full = opened(directory)
        with os.scandir(full) as scanned:
            if full == directory:
                yield from scanned
            else:
                yield from (LocalEntry(directory, entry) for entry in scanned)
        return
    for level in levels(directory):
        found = [(file.key, True) for file in level.files]
        found += [(key.rstrip("/"), False) for key in level.deeper]
        for key, is_object in found:
            if name := os.path.basename(key):  # the object for the directory itself has none
                yield ObjectEntry(name, os.path.join(directory, name), is_object)


def common_path(paths: Sequence[str]) -> str:
    """Return the directory that several paths lie in; empty if there is none."""
    if not any(map(is_s3, paths)):
        return os.path.commonpath([os.path.abspath(opened(path)) for path in paths])
    parts = [path.split("/")[:-1] for path in paths]
    same = takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in same)


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the base names or, if two are equal, the paths below the common directory."""
    names = [os.path.basename(path) for path in paths]
    if len(set(names)) == len(set(paths)):
        return names
    top = common_path([os.path.dirname(path) + "/" for path in paths])
    absolute = (path if is_s3(path) else os.path.abspath(opened(path)) for path in paths)
    return [path.removeprefix(top).lstrip("/") for path in absolute]


def read_bytes(path: str, limit: int = LARGEST) -> bytes:
    """Read a file."""
    return read_object(path, limit=limit) or b"" if is_s3(path) else read_whole(path, limit)


def read_sized(path: str, size: int) -> bytes | None:
    """Read a file of a known size, with as few calls as possible; None if it has another size."""
    if is_s3(path):
        return read_object(path, size)
    fd = os.open(opened(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        data = read_expected(fd, size)
    finally:
        os.close(fd)
    return data if len(data) == size else None


class LocalFile(io.FileIO):
    """A file on a disk."""

    def __init__(self, path: str) -> None:
        super().__init__(path, opener=open_regular)

    def facts(self) -> Facts:
        status = os.fstat(self.fileno())
        return Facts(status.st_size, status.st_mtime_ns)

    def pread(self, count: int, offset: int) -> bytes:
        return os.pread(self.fileno(), count, offset)

    def ahead(self, offset: int, count: int) -> None:
        """Tell the system that these bytes will be read."""
        os.posix_fadvise(self.fileno(), offset, count, os.POSIX_FADV_WILLNEED)


OpenFile: TypeAlias = LocalFile | ObjectFile


def open_file(path: str) -> OpenFile:
    """Open a file for reading."""
    return ObjectFile(path) if is_s3(path) else LocalFile(path)


def find_files(pattern: str) -> list[str]:
    """Return the files that match, sorted."""
    if not is_s3(pattern):
        return sorted(glob.glob(pattern, root_dir=began_in(), recursive=True))
    with as_source(pattern) as (store, key):
        pages = store.list(re.split(r"[*?[]", key, maxsplit=1)[0])
        return [store.url(file.key) for page in pages for file in page if matches(file.key, key)]


def matches(path: str, pattern: str) -> bool:
    """Return whether a file matches a pattern, as :mod:`glob` has it."""
    # Wildcards match neither slashes nor a dot at the beginning of a name; `**/` is any
    # directories, and `**` at the end all files below.
    parts = pattern.split("/")
    return _match(path.split("/"), [*parts, "*"] if parts[-1] == "**" else parts)


def _match(names: Sequence[str], parts: Sequence[str]) -> bool:
    if not names or not parts:
        return not names and not parts
    is_hidden = names[0].startswith(".") and not parts[0].startswith(".")
    if parts[0] == "**":
        passes = len(names) > 1 and names[0] != "" and not is_hidden
        return _match(names, parts[1:]) or (passes and _match(names[1:], parts))
    return not is_hidden and fnmatchcase(names[0], parts[0]) and _match(names[1:], parts[1:])

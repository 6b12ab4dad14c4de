"""Files of any store, by their paths or addresses, as programs read them.

Of ``os.path``, what joins and takes apart does so with ``s3://bucket/key`` as well; what asks the
system or normalizes a path does not, and neither does `pathlib`.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import nsmallest
from itertools import islice, repeat, takewhile
from operator import attrgetter
from typing import Any, TypeVar

from dsprep.errors import OptionError
from dsprep.opening import opened
from dsprep.storage import pool
from dsprep.storage.store import LARGEST, scheme_of, store_of
from dsprep.storage.store import DirectoryEntry as DirectoryEntry
from dsprep.storage.store import OpenFile as OpenFile
from dsprep.storage.stored import Facts

T = TypeVar("T")


def exists(path: str) -> bool:
    """Return whether anything is there, even a broken link."""
    store, key = store_of(path)
    return store.exists(key)


def is_file(path: str) -> bool:
    """Return whether a file is there."""
    store, key = store_of(path)
    return store.is_file(key)


def is_taken(path: str) -> bool:
    """Return whether a file is there or, where a look costs little, anything of this name."""
    return is_file(path) if takes_requests(path) else exists(path)


def is_dir(path: str) -> bool:
    """Return whether a directory is there; a bucket is one."""
    store, key = store_of(path)
    return store.is_dir(key)


def facts(path: str) -> Facts:
    """Return the size of a file, and when it was last changed."""
    store, key = store_of(path)
    return store.facts(key)


def entries(directory: str) -> Iterator[DirectoryEntry]:
    """List a directory, in no particular order."""
    store, key = store_of(directory)
    return store.entries(key, directory)


def first_entries(directory: str, count: int) -> list[DirectoryEntry]:
    """Return the first entries of a directory by name, or as a bucket lists them, page by page."""
    found = entries(directory)
    if takes_requests(directory):
        return [*islice(found, count)]
    return nsmallest(count, found, key=attrgetter("name"))


def find_files(pattern: str) -> list[str]:
    """Return the files that match, sorted."""
    store, key = store_of(pattern)
    return list(store.find(key))


def read_bytes(path: str, limit: int = LARGEST) -> bytes:
    """Read a file."""
    store, key = store_of(path)
    return store.read_file(key, limit)


def read_sized(path: str, size: int) -> bytes | None:
    """Read a file of a known size, with as few calls as possible; None if it has another size."""
    store, key = store_of(path)
    return store.read_sized(key, size)


def open_file(path: str) -> OpenFile:
    """Open a file for reading."""
    store, key = store_of(path)
    return store.open_file(key)


def takes_requests(*paths: str) -> bool:
    """Return whether a look at one of these paths takes a request over a network."""
    return any(store_of(path)[0].takes_requests for path in paths)


def is_shared(path: str) -> bool:
    """Return whether all machines see the same file under this path."""
    return store_of(path)[0].is_shared


def system_path(path: str) -> str | None:
    """Return the path by which the system opens a file; None if only its store reads it."""
    store, key = store_of(path)
    return store.path(key)


def results(
    root: str | Sequence[str],
    function: Callable[..., T],
    *columns: Iterable[Any],
    sizes: Iterable[int] | None = None,
) -> Iterator[T]:
    """Call a function that reads below paths with each row of some columns.

    Where each call takes a request, several are made at once. ``sizes`` has the bytes of the
    results, if these are large.
    """
    if not takes_requests(*([root] if isinstance(root, str) else root)):
        return map(function, *columns)
    calls = (partial(function, *row) for row in zip(*columns, strict=True))
    return pool.ahead(zip(repeat(0) if sizes is None else sizes, calls, strict=False))


def absent(paths: Sequence[str]) -> list[str]:
    """Return the paths where no file is."""
    there = results(paths, is_file, paths)
    return [path for path, found in zip(paths, there, strict=True) if not found]


def require_disk(path: str) -> None:
    """Refuse to write to a store what can only be written to a disk."""
    store, key = store_of(path)
    if store.path(key) is None:
        raise OptionError(
            f"{path}: this cannot be written to {store.name}; write it to a disk, and bring it "
            "there with dsprep sync"
        )


def canonical(path: str) -> str:
    """Return the spelling of a path that is the same for all its spellings."""
    store, key = store_of(path)
    return store.canonical(key)


def absolute(path: str) -> str:
    """Return a path that means the same in every directory; an address does."""
    return path if scheme_of(path) else os.path.abspath(opened(path))


def full_path(path: str) -> str:
    """Return a path by which others are compared, without ``..`` and, on a disk, absolute.

    That of an address is an address in the same bucket.
    """
    full = absolute(path)
    if not scheme_of(full):
        return posixpath.normpath(full)
    scheme, _, rest = full.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}{posixpath.normpath(f'/{key}')}".rstrip("/")


def common_path(paths: Sequence[str]) -> str:
    """Return the directory that several paths lie in; empty if there is none."""
    if not any(map(scheme_of, paths)):
        return os.path.commonpath([absolute(path) for path in paths])
    parts = [path.split("/")[:-1] for path in paths]
    same = takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in same)


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the base names or, if two are equal, the paths below the common directory."""
    names = [os.path.basename(path) for path in paths]
    if len(set(names)) == len(set(paths)):
        return names
    top = common_path([os.path.dirname(path) + "/" for path in paths])
    return [absolute(path).removeprefix(top).lstrip("/") for path in paths]

"""What relative paths mean during a call: the directory in which it began.

A program may change its directory while another of its threads is in a call. So a call opens
relative paths below the directory that it began in, and prints them as they were given. Workers
are started in that directory. The command line needs none of this: nothing changes its directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import PosixPath
from typing import Any

# The directory that the outermost call of this thread began in; empty if it is the process's.
_BEGAN_IN: ContextVar[str | None] = ContextVar("began_in", default=None)

_MARK = "/./"  # between that directory and a relative path: no path that is given begins like this


def began_in() -> str | None:
    """Return the directory that the call began in; None if it is always that of the process."""
    return _BEGAN_IN.get() or None


def opened(path: str | os.PathLike[str]) -> str:
    """Return the path by which the system finds what a path meant when the call began."""
    text = os.fspath(path)
    directory = _BEGAN_IN.get()
    return f"{directory}{_MARK}{text}" if directory and text and text[0] != "/" else text


def as_given(path: Any) -> Any:
    """Return what `opened` was given, of a path that an error of the system names."""
    directory = _BEGAN_IN.get()
    if not directory or not isinstance(path, str):
        return path
    return path.removeprefix(f"{directory}{_MARK}")


class GivenPath(PosixPath):
    """A path that is opened by what it meant when the call began, and printed as it was given."""

    def __fspath__(self) -> str:
        return opened(str(self))


@contextmanager
def same_directory() -> Iterator[None]:
    """Keep the meaning of relative paths during a call, and during the calls that it makes."""
    if _BEGAN_IN.get() is not None:
        yield
        return
    with _set(_current()):
        yield


@contextmanager
def directory_of_process() -> Iterator[None]:
    """Leave relative paths to the system, in a process that does not change its directory."""
    with _set(""):
        yield


@contextmanager
def _set(directory: str) -> Iterator[None]:
    before = _BEGAN_IN.set(directory)
    try:
        yield
    finally:
        _BEGAN_IN.reset(before)


def _current() -> str:
    """Return the directory of the process; empty if it cannot be opened by its path."""
    try:
        directory = os.getcwd()
        os.stat(directory + "/.")
        return directory
    except OSError:  # the working directory was removed, or a directory above it denies access
        return ""

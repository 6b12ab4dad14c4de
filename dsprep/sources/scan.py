"""The files below a directory: their paths, sizes and times, found by worker processes.

Workers call :func:`scan_directories`, so nothing heavy is imported here and what travels between
processes is compact.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple, TypeAlias

from dsprep.errors import SourceError
from dsprep.findings import Finding

RunAll: TypeAlias = Callable[[Callable[..., Any], list[Any]], Iterable[Any]]
"""Like ``map``: calls the function with each item of the list and returns the results in order."""

Identity: TypeAlias = tuple[int, int]
"""What tells a directory from all others, however it was reached: st_dev and st_ino."""

LEFT_BEHIND = frozenset({"__MACOSX", "Thumbs.db", "desktop.ini"})
_MOST_DIRECTORIES_PER_CALL = 16
_CALLS_PER_LEVEL = 64
_MOST_DIRECTORIES = 1_000_000
"""More than any data set has, but links between directories can make up any number."""


class Directory(NamedTuple):
    """A directory to scan."""

    path: str  # path below the root; empty for the root itself
    # the directories that it was reached through, from the root on
    above: tuple[Identity, ...] = ()


class ScanTask(NamedTuple):
    """What one call of a worker scans."""

    root: str  # the directory that paths start from
    directories: Sequence[Directory]  # some of those below it
    # those of images, in lower case and without the dot; None takes any file
    extensions: frozenset[str] | None


class Scanned(NamedTuple):
    """What lies in some directories (and not in those below them)."""

    paths: str  # the images' paths below the root, joined by NUL, in no particular order
    sizes: array[int]  # the size of each, in bytes
    mtimes: array[int]  # when each was last changed, in ns since 1970
    directories: list[Directory]  # the directories that lie there
    findings: list[Finding]  # what lies there besides


def scan(
    root: str,
    extensions: frozenset[str] | None,
    run_all: RunAll = map,
    only: Collection[str] | None = None,
) -> Iterator[Scanned]:
    """Find the images below a directory, level by level. Links are followed."""
    level = [Directory("")]
    seen = 0
    while level:
        seen += len(level)
        if seen > _MOST_DIRECTORIES:
            raise SourceError(
                f"{root}: holds more than {_MOST_DIRECTORIES:,} directories, the last of them "
                f"{level[-1].path}; do links lead to and fro?"
            )
        count = min(max(len(level) // _CALLS_PER_LEVEL, 1), _MOST_DIRECTORIES_PER_CALL)
        batches = (level[start : start + count] for start in range(0, len(level), count))
        tasks = [ScanTask(root, batch, extensions) for batch in batches]
        level = []
        for scanned in run_all(scan_directories, tasks):
            yield scanned
            level += [found for found in scanned.directories if only is None or found.path in only]


def scan_directories(task: ScanTask) -> Scanned:
    """List what lies in some directories."""
    scanned = Scanned("", array("q"), array("q"), [], [])
    paths: list[str] = []
    for directory in task.directories:
        place = os.path.join(task.root, directory.path) if directory.path else task.root
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _scan_one(directory, descriptor, task.extensions, paths, scanned)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SourceError(
                f"{printable(place)}: cannot be read as a directory: {error.strerror}"
            ) from None
    return scanned._replace(paths="\0".join(paths))


def _scan_one(
    directory: Directory,
    descriptor: int,
    extensions: frozenset[str] | None,
    paths: list[str],
    scanned: Scanned,
) -> None:
    _, sizes, mtimes, directories, findings = scanned
    identity = _identity(descriptor)
    if identity in directory.above:
        detail = "a link to a directory that it lies in"
        findings.append(Finding("loop", printable(directory.path) + "/", detail))
        return
    prefix = directory.path + "/" if directory.path else ""
    above = (*directory.above, identity)
    # listdir and stat cost less than scandir's entries do: these lines run for every file.
    for name in os.listdir(descriptor):
        path = prefix + name
        if name[0] == "." or name in LEFT_BEHIND:
            mode = os.lstat(name, dir_fd=descriptor).st_mode
            findings.append(Finding("hidden", printable(path) + "/" * S_ISDIR(mode)))
            continue
        stem, _, extension = name.rpartition(".")
        is_image = extensions is None or (extension.lower() in extensions and stem != "")
        try:
            status = os.stat(name, dir_fd=descriptor)
        except OSError as error:
            kind = "missing" if is_image else "not-an-image"
            findings.append(Finding(kind, printable(path), _why_gone(name, descriptor, error)))
            continue
        mode = status.st_mode
        if S_ISDIR(mode):
            directories.append(Directory(path, above))
        elif not (is_image and S_ISREG(mode)):
            detail = "not a regular file" if is_image else ""
            findings.append(Finding("not-an-image", printable(path), detail))
        elif not path.isascii() and printable(path) != path:
            findings.append(Finding("bad-name", printable(path), "the name is not UTF-8"))
        else:
            paths.append(path)
            sizes.append(status.st_size)
            mtimes.append(status.st_mtime_ns)


def _identity(descriptor: int) -> Identity:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _why_gone(name: str, descriptor: int, error: OSError) -> str:
    """Say why something that is listed in a directory is not there."""
    try:
        os.readlink(name, dir_fd=descriptor)
    except OSError:
        if not isinstance(error, FileNotFoundError):
            raise error from None
        return "it vanished during the scan"
    return f"a broken link: {error.strerror}"


def printable(path: str) -> str:
    r"""A path as text, the bytes of it that are not UTF-8 written as ``\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")

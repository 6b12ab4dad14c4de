"""Files below a directory, on a disk or on S3: how they are found.

Workers call :func:`scan_directories`, so that nothing heavy is imported here, and what travels
between processes is compact.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from stat import S_ISDIR, S_ISREG
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.printable import utf8_text
from dsprep.storage.files import system_path
from dsprep.tuples import NamedTuple
from dsprep.workers.worker import brief

if TYPE_CHECKING:
    from dsprep.storage.stored import Pages

RunAll: TypeAlias = Callable[[Callable[..., Any], list[Any]], Iterable[Any]]
"""Like ``map``: calls the function with each item of the list and returns the results in order."""

LEFT_BEHIND = frozenset({"__MACOSX", "Thumbs.db", "desktop.ini"})
_MOST_DIRECTORIES_PER_CALL = 16
_CALLS_PER_LEVEL = 64
_MOST_DIRECTORIES = 1_000_000  # links between directories can make up any number


class DirectoryToScan(NamedTuple):
    """A directory to scan."""

    path: str  # path below the root; empty for the root itself
    # the `st_dev` and `st_ino` of the directories that it was reached through, root first
    above: tuple[tuple[int, int], ...] = ()


class Scanned(NamedTuple):
    """The content of some directories, without that of the directories below them."""

    paths: str  # the images' paths below the root, joined by NUL, in no particular order
    sizes: array[int]  # the size of each, in bytes
    mtimes: array[int]  # when each was last changed, in ns since 1970
    directories: list[DirectoryToScan]  # directories below the scanned ones
    findings: list[Finding]  # everything else


def scan_below(
    root: str,
    extensions: frozenset[str] | None,
    run_all: RunAll = map,
    only: Collection[str] | None = None,
) -> Iterator[Scanned]:
    """Find the images below a directory, in any case of the extensions; follow links."""
    # `only` names the directories to look into; without it, these are all.
    if system_path(root) is None:
        # imports S3, which workers load only for paths on S3
        from dsprep.storage.objects import as_source, prefix_of

        with as_source(root) as (store, key):
            prefix = prefix_of(key)
            yield from _scan_objects(prefix, store.list(prefix), extensions, only)
        return
    level = [DirectoryToScan("")]
    seen = 0
    while level:
        seen += len(level)
        if seen > _MOST_DIRECTORIES:
            raise SourceError(
                f"{root}: holds more than {_MOST_DIRECTORIES:,} directories, the last of them "
                f"{level[-1].path}; do links lead in circles?"
            )
        count = min(max(len(level) // _CALLS_PER_LEVEL, 1), _MOST_DIRECTORIES_PER_CALL)
        batches = (level[start : start + count] for start in range(0, len(level), count))
        tasks = [(root, batch, extensions) for batch in batches]
        level = []
        for scanned in run_all(scan_directories, tasks):
            yield scanned
            level += [found for found in scanned.directories if only is None or found.path in only]


@brief
def scan_directories(task: tuple[str, Sequence[DirectoryToScan], frozenset[str] | None]) -> Scanned:
    """List some directories below a root, on a disk, in a worker."""
    root, directories, extensions = task
    scanned, paths = Scanned("", array("q"), array("q"), [], []), list[str]()
    for directory in directories:
        full = os.path.join(root, directory.path) if directory.path else root
        try:
            descriptor = os.open(system_path(full) or full, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _scan_one(directory, descriptor, extensions, paths, scanned)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SourceError(
                f"{utf8_text(full)}: cannot be read as a directory: {error.strerror}"
            ) from None
    return scanned._replace(paths="\0".join(paths))


def _scan_one(
    directory: DirectoryToScan,
    descriptor: int,
    extensions: frozenset[str] | None,
    paths: list[str],
    scanned: Scanned,
) -> None:
    _, sizes, mtimes, directories, findings = scanned
    status = os.fstat(descriptor)
    identity = status.st_dev, status.st_ino
    if identity in directory.above:
        detail = "a link to a directory that it lies in"
        findings.append(Finding("loop", utf8_text(directory.path) + "/", detail))
        return
    prefix = directory.path + "/" if directory.path else ""
    above = (*directory.above, identity)
    # listdir and stat cost less than scandir's entries do: these lines run for every file.
    for name in os.listdir(descriptor):
        path = prefix + name
        if name[0] == "." or name in LEFT_BEHIND:
            mode = os.lstat(name, dir_fd=descriptor).st_mode
            findings.append(Finding("hidden", utf8_text(path) + "/" * S_ISDIR(mode)))
            continue
        stem, _, extension = name.rpartition(".")
        is_image = extensions is None or (extension.lower() in extensions and stem != "")
        try:
            status = os.stat(name, dir_fd=descriptor)
        except OSError as error:
            kind = "missing" if is_image else "not-an-image"
            findings.append(Finding(kind, utf8_text(path), _why_gone(name, descriptor, error)))
            continue
        mode = status.st_mode
        if S_ISDIR(mode):
            directories.append(DirectoryToScan(path, above))
        elif not (is_image and S_ISREG(mode)):
            detail = "not a regular file" if is_image else ""
            findings.append(Finding("not-an-image", utf8_text(path), detail))
        elif not path.isascii() and utf8_text(path) != path:
            findings.append(Finding("bad-name", utf8_text(path), "the name is not UTF-8"))
        else:
            paths.append(path)
            sizes.append(status.st_size)
            mtimes.append(status.st_mtime_ns)


def _why_gone(name: str, descriptor: int, error: OSError) -> str:
    try:
        os.readlink(name, dir_fd=descriptor)
    except OSError:
        if not isinstance(error, FileNotFoundError):
            raise error from None
        return "it vanished during the scan"
    return f"a broken link: {error.strerror}"


def _scan_objects(
    prefix: str, pages: Pages, extensions: frozenset[str] | None, only: Collection[str] | None
) -> Iterator[Scanned]:
    """Sort a listing of S3 page by page: keys have no directories of their own."""
    verdicts = {"": "taken"}  # verdict of each directory by its path
    for page in pages:
        found, paths = Scanned("", array("q"), array("q"), [], []), list[str]()
        for stored in page:
            path = stored.key[len(prefix) :]
            directory, _, name = path.rpartition("/")
            verdict = verdicts.get(directory) or _judge(directory, only, verdicts, found)
            if verdict in ("hidden", "passed by") or (not name and not stored.size):
                continue  # an empty object whose key ends in a slash stands for a directory
            stem, _, extension = name.rpartition(".")
            is_image = extensions is None or (extension.lower() in extensions and stem != "")
            if verdict == "bad" or path[:1] == "/" or name in (".", "..") or "\0" in name:
                kind = "bad-name" if is_image else "not-an-image"
                problem = "an empty part, . or .. in the key is no part of a path"
                found.findings.append(Finding(kind, path.replace("\0", "\\x00"), problem))
            elif name[:1] == "." or name in LEFT_BEHIND:
                found.findings.append(Finding("hidden", path))
            elif not is_image or not name:
                found.findings.append(Finding("not-an-image", path))
            else:
                size, mtime = stored.facts
                paths.append(path)
                found.sizes.append(size)
                found.mtimes.append(mtime)
        yield found._replace(paths="\0".join(paths))


def _judge(
    directory: str, only: Collection[str] | None, verdicts: dict[str, str], found: Scanned
) -> str:
    """Decide on a directory of S3, and those above; note the first of them that is hidden."""
    above, _, name = directory.rpartition("/")
    verdict = verdicts.get(above) or _judge(above, only, verdicts, found)
    if verdict == "taken":
        if directory[0] == "/" or name in ("", ".", "..") or "\0" in name:
            verdict = "bad"
        elif name[0] == "." or name in LEFT_BEHIND:
            verdict = "hidden"
            found.findings.append(Finding("hidden", directory + "/"))
        else:
            found.directories.append(DirectoryToScan(directory))
            if only is not None and directory not in only:
                verdict = "passed by"
    verdicts[directory] = verdict
    return verdict


@contextmanager
def importing_polars() -> Iterator[None]:
    """Import polars in the background, which takes a quarter of a second."""

    def load() -> None:
        with suppress(BaseException):  # importing polars fails again where it is used
            import_module("polars")

    importing = Thread(target=load)
    importing.start()
    try:
        yield
    finally:
        importing.join()  # while Python shuts down, the import would fail

"""Files below a directory, on a disk or on S3: how they are found, and how workers read them.

Workers call :func:`scan_directories`, so that nothing heavy is imported here, and what travels
between processes is compact.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import repeat
from stat import S_ISDIR, S_ISREG
from threading import Thread
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample
from dsprep.sources.prefetch import read_spans
from dsprep.storage.files import facts, is_dir, read_sized, results
from dsprep.storage.location import is_s3
from dsprep.storage.s3.read import as_source, bucket_and_key, facts_of, prefix_of
from dsprep.storage.store import Facts, Stored

T = TypeVar("T")

RunAll: TypeAlias = Callable[[Callable[..., Any], list[Any]], Iterable[Any]]
"""Like ``map``: calls the function with each item of the list and returns the results in order."""

Identity: TypeAlias = tuple[int, int]
"""``st_dev`` and ``st_ino``, which are a directory's own, however it was reached."""

LEFT_BEHIND = frozenset({"__MACOSX", "Thumbs.db", "desktop.ini"})
_MOST_DIRECTORIES_PER_CALL = 16
_CALLS_PER_LEVEL = 64
_MOST_DIRECTORIES = 1_000_000  # links between directories can make up any number


class Directory(NamedTuple):
    """A directory to scan."""

    path: str  # path below the root; empty for the root itself
    above: tuple[Identity, ...] = ()  # the directories that it was reached through, root first


class ScanTask(NamedTuple):
    """The directories that one call of a worker scans."""

    root: str  # the directory that paths start from
    directories: Sequence[Directory]
    extensions: frozenset[str] | None  # of images, in lower case without the dot; None takes all


class Scanned(NamedTuple):
    """The content of some directories, without that of the directories below them."""

    paths: str  # the images' paths below the root, joined by NUL, in no particular order
    sizes: array[int]  # the size of each, in bytes
    mtimes: array[int]  # when each was last changed, in ns since 1970
    directories: list[Directory]  # the directories in them
    findings: list[Finding]  # everything else


def scan_below(
    root: str,
    extensions: frozenset[str] | None,
    run_all: RunAll = map,
    only: Collection[str] | None = None,
) -> Iterator[Scanned]:
    """Find the images below a directory, in any case of the extensions; follow links.

    ``only`` names the directories to look into; without it, these are all.
    """
    if is_s3(root):
        with as_source(root):
            store, key = bucket_and_key(root)
            prefix = prefix_of(key)
            listing = _Listing(extensions, only)
            for page in store.list(prefix):
                yield listing.sort(prefix, page)
        return
    level = [Directory("")]
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
        tasks = [ScanTask(root, batch, extensions) for batch in batches]
        level = []
        for scanned in run_all(scan_directories, tasks):
            yield scanned
            level += [found for found in scanned.directories if only is None or found.path in only]


def scan_directories(task: ScanTask) -> Scanned:
    """List some directories of a disk, in a worker."""
    scanned = Scanned("", array("q"), array("q"), [], [])
    paths: list[str] = []
    for directory in task.directories:
        full = os.path.join(task.root, directory.path) if directory.path else task.root
        try:
            descriptor = os.open(full, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _scan_one(directory, descriptor, task.extensions, paths, scanned)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SourceError(
                f"{printable(full)}: cannot be read as a directory: {error.strerror}"
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
    status = os.fstat(descriptor)
    identity = status.st_dev, status.st_ino
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


def _why_gone(name: str, descriptor: int, error: OSError) -> str:
    try:
        os.readlink(name, dir_fd=descriptor)
    except OSError:
        if not isinstance(error, FileNotFoundError):
            raise error from None
        return "it vanished during the scan"
    return f"a broken link: {error.strerror}"


def printable(path: str) -> str:
    r"""Return a path as text, its bytes that are not UTF-8 written as ``\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class _Listing:
    """A listing of S3 that is sorted page by page: keys have no directories of their own."""

    def __init__(self, extensions: frozenset[str] | None, only: Collection[str] | None) -> None:
        self._extensions, self._only = extensions, only
        self._verdicts: dict[str, str] = {"": "taken"}  # of directories

    def sort(self, prefix: str, page: list[Stored]) -> Scanned:
        found = Scanned("", array("q"), array("q"), [], [])
        paths = []
        for stored in page:
            path = stored.key[len(prefix) :]
            if self._takes(path, stored.size, found):
                size, mtime = facts_of(stored)
                paths.append(path)
                found.sizes.append(size)
                found.mtimes.append(mtime)
        return found._replace(paths="\0".join(paths))

    def _takes(self, path: str, size: int, found: Scanned) -> bool:
        """Return whether an object is an image; note what it is instead."""
        extensions = self._extensions
        directory, _, name = path.rpartition("/")
        verdict = self._verdicts.get(directory) or self._judge(directory, found)
        if verdict in ("hidden", "passed by") or (not name and not size):
            return False  # an empty object whose key ends in a slash stands for a directory
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
            return True
        return False

    def _judge(self, directory: str, found: Scanned) -> str:
        above, _, name = directory.rpartition("/")
        verdict = self._verdicts.get(above) or self._judge(above, found)
        if verdict == "taken":
            if directory[0] == "/" or name in ("", ".", "..") or "\0" in name:
                verdict = "bad"
            elif name[0] == "." or name in LEFT_BEHIND:
                verdict = "hidden"
                found.findings.append(Finding("hidden", directory + "/"))
            else:
                found.directories.append(Directory(directory))
                if self._only is not None and directory not in self._only:
                    verdict = "passed by"
        self._verdicts[directory] = verdict
        return verdict


@contextmanager
def importing_polars() -> Iterator[None]:
    """Import polars in the background, which takes a quarter of a second."""

    def load() -> None:
        with suppress(BaseException):  # it will fail again where it is used
            import_module("polars")

    importing = Thread(target=load)
    importing.start()
    try:
        yield
    finally:
        importing.join()


@dataclass(frozen=True)
class FileReader(Reader):
    """Reads images that are files of their own, or objects on S3."""

    root: str  # the directory that the rows' paths start from

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        root = self.root.rstrip("/") + "/"
        sizes = zip(rows.paths, rows.sizes, strict=True)
        calls = ((size, partial(_or_reject, read_file, root + path, size)) for path, size in sizes)
        return _read_all(self.root, calls)


@dataclass(frozen=True)
class SampleReader(Reader):
    """Reads samples that are several files, or files and a line of another file."""

    whole: ClassVar[bool] = True
    root: str  # the directory that the rows' paths start from

    @abstractmethod
    def sample(self, path: str, size: int, file: int, line: bytes) -> Sample:
        """Read a sample, whose files have ``size`` bytes together."""

    def described_in(self) -> tuple[str, ...]:
        """Return the files with a line for each sample; none if names tell all."""
        return ()

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        paths = self.described_in()
        lines = read_spans(paths, rows) if paths else repeat(b"", len(rows.ids))
        files = rows.files if paths and rows.files is not None else repeat(0, len(rows.ids))
        each = zip(rows.paths, rows.sizes, files, lines, strict=True)
        calls = ((row[1], partial(_or_reject, self.sample, *row)) for row in each)
        for id, found in zip(rows.ids, _read_all(self.root, calls), strict=True):
            if isinstance(found, Sample):
                found.id = id
            yield self.typed(found)


def _read_all(root: str, calls: Iterable[tuple[int, Callable[[], T]]]) -> Iterator[T]:
    """Call functions that read so many bytes below a root, ahead of their turn if it is on S3."""
    for found in results(root, calls):
        if isinstance(found, BadSample) and not is_dir(root):
            raise SourceError(f"{root}: is gone; give the same command again when it is back")
        yield found


def _or_reject(read: Callable[..., T], *args: Any) -> T | BadSample:
    try:
        return read(*args)
    except BadSample as error:
        return error


def facts_at(path: str) -> Facts | None:
    """Return the facts of a file; None if it is not there, or is something else."""
    try:
        return facts(path)
    except OSError:
        return None


def read_file(path: str, size: int) -> bytes:
    """Read a whole file of a known size."""
    try:
        data = read_sized(path, size)
    except OSError as error:
        raise BadSample(f"cannot be read ({error.strerror})") from None
    if data is None:
        raise BadSample(f"has changed: it had {size} bytes when it was listed")
    return data


def read_files(files: Mapping[T, tuple[str, Facts | None]], size: int) -> dict[T, bytes]:
    """Read files by their paths and present facts, which had ``size`` bytes together."""
    sizes = {name: own.size for name, (_, own) in files.items() if own is not None}
    if len(sizes) != len(files) or sum(sizes.values()) != size:
        raise BadSample(f"has changed: its files had {size} bytes when they were listed")
    return {name: read_file(path, sizes[name]) for name, (path, _) in files.items()}

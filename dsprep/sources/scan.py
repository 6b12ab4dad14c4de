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
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain, repeat
from stat import S_ISDIR, S_ISREG
from threading import Thread
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.webdataset import WebDataset
from dsprep.images.header import sniff
from dsprep.rows import Reader, Rows
from dsprep.sample import Sample, image_kind_of, key_of
from dsprep.sources.archive import ArchiveReader
from dsprep.sources.prefetch import read_spans
from dsprep.storage.files import facts, is_dir, read_sized, results
from dsprep.storage.location import is_s3
from dsprep.storage.s3.read import as_source, prefix_of
from dsprep.storage.store import Facts, Pages

T = TypeVar("T")

RunAll: TypeAlias = Callable[[Callable[..., Any], list[Any]], Iterable[Any]]
"""Like ``map``: calls the function with each item of the list and returns the results in order."""

LEFT_BEHIND = frozenset({"__MACOSX", "Thumbs.db", "desktop.ini"})
_PARTS = WebDataset()  # files of a sample mean what the members of a WebDataset shard mean
_MOST_DIRECTORIES_PER_CALL = 16
_CALLS_PER_LEVEL = 64
_MOST_DIRECTORIES = 1_000_000  # links between directories can make up any number


class Directory(NamedTuple):
    """A directory to scan."""

    path: str  # path below the root; empty for the root itself
    # the `st_dev` and `st_ino` of the directories that it was reached through, root first
    above: tuple[tuple[int, int], ...] = ()


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
    """Find the images below a directory, in any case of the extensions; follow links."""
    # `only` names the directories to look into; without it, these are all.
    if is_s3(root):
        with as_source(root) as (store, key):
            prefix = prefix_of(key)
            yield from _scan_objects(prefix, store.list(prefix), extensions, only)
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
        tasks = [(root, batch, extensions) for batch in batches]
        level = []
        for scanned in run_all(scan_directories, tasks):
            yield scanned
            level += [found for found in scanned.directories if only is None or found.path in only]


def scan_directories(task: tuple[str, Sequence[Directory], frozenset[str] | None]) -> Scanned:
    """List some directories below a root, on a disk, in a worker."""
    root, directories, extensions = task
    scanned, paths = Scanned("", array("q"), array("q"), [], []), list[str]()
    for directory in directories:
        full = os.path.join(root, directory.path) if directory.path else root
        try:
            descriptor = os.open(full, os.O_RDONLY | os.O_DIRECTORY)
            try:
                _scan_one(directory, descriptor, extensions, paths, scanned)
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


def _scan_objects(
    prefix: str, pages: Pages, extensions: frozenset[str] | None, only: Collection[str] | None
) -> Iterator[Scanned]:
    """Sort a listing of S3 page by page: keys have no directories of their own."""
    verdicts = {"": "taken"}  # of directories
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
            found.directories.append(Directory(directory))
            if only is not None and directory not in only:
                verdict = "passed by"
    verdicts[directory] = verdict
    return verdict


@contextmanager
def importing_polars() -> Iterator[None]:
    """Import polars in the background, which takes a quarter of a second."""

    def load() -> None:
        with suppress(BaseException):  # it fails again where it is used
            import_module("polars")

    importing = Thread(target=load)
    importing.start()
    try:
        yield
    finally:
        importing.join()  # while Python shuts down, the import would fail


@dataclass(frozen=True)
class FileReader(Reader):
    """Reads images that are files of their own, or objects on S3."""

    root: str  # the directory that the rows' paths start from

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        root = self.root.rstrip("/") + "/"
        tasks = ((root + path, size) for path, size in zip(rows.paths, rows.sizes, strict=True))
        return _read_each(self.root, _read_file, tasks)


@dataclass(frozen=True)
class SampleReader(Reader):
    """Reads samples that are several files, or files and a line of another file."""

    reads_samples: ClassVar[bool] = True
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
        files = rows.files if paths else repeat(0, len(rows.ids))
        tasks = zip(rows.paths, rows.sizes, files, lines, strict=True)
        for id, found in zip(rows.ids, _read_each(self.root, self.sample, tasks), strict=True):
            if isinstance(found, Sample):
                found.id = id
            yield self.typed(found)


class Part(NamedTuple):
    """Where the files of a part lie, around the stem that all parts of a sample share."""

    field: str  # the field that it becomes; for the image, the one that its extension promises
    before: str  # the path of its file, up to the stem
    after: str  # and after it
    is_image: bool = False  # whether it is the image, which gets its name from its bytes


@dataclass(frozen=True)
class PartReader(SampleReader):
    """Reads samples that are several files."""

    table: ClassVar = _PARTS
    parts: tuple[Part, ...]  # of several for one field, the first that exists is taken
    # what the rows' paths end in after the stem, with the dot, if samples have all of the parts;
    # None if they have some, and stems end at the first dot of the names
    extension: str | None = None

    def sample(self, path: str, size: int, file: int, line: bytes) -> Sample:
        has_all = self.extension is not None
        stem = path.removesuffix(self.extension or "") if has_all else stem_of(path)
        files: dict[str, tuple[str, Facts]] = {}
        for field, before, after, _ in self.parts:
            name = f"{self.root}/{before}{stem}{after}"
            if field not in files and (found := facts_at(name)) is not None:
                files[field] = name, found
            elif has_all:
                raise BadSample(f"its part {field} is not on the disk any more")
        if not files:
            raise BadSample("is not on the disk any more")
        members = read_files(files, size)
        image = next((part.field for part in self.parts if part.is_image), None)
        if image is not None and (kind := sniff(members[image])) and kind not in members:
            members = {kind if field == image else field: members[field] for field in members}
        return _sample(path, members)


def _sample(path: str, members: Mapping[str, bytes], id: int = 0) -> Sample:
    return Sample(key_of(path), dict(members), id, path if image_kind_of(path) else "")


@dataclass(frozen=True)
class ArchivedParts(Reader):
    """Reads samples of several members of an archive; a row's offset is the sample's number."""

    reads_samples: ClassVar[bool] = True
    table: ClassVar = _PARTS
    archive: ArchiveReader  # reads members
    names: tuple[str, ...]  # what members are called
    starts: array[int]  # the number of the first member of each sample, and the number of members
    kinds: array[int]  # which of the names each member has
    offsets: array[int]  # where each lies, as the archive's reader wants it
    sizes: array[int]  # the bytes of each
    stored: array[int]  # how many bytes each takes in the archive

    def read(self, rows: Rows) -> Iterator[Sample | BadSample]:
        runs = [range(self.starts[at], self.starts[at + 1]) for at in rows.offsets]
        members = list(chain.from_iterable(runs))
        columns = (self.offsets, self.stored, self.sizes)
        places = zip(*([column[at] for at in members] for column in columns), strict=True)
        found = self.archive.members(places)
        for id, path, run in zip(rows.ids, rows.paths, runs, strict=True):
            parts = {self.names[self.kinds[at]]: next(found) for at in run}
            bad = next((part for part in parts.values() if isinstance(part, BadSample)), None)
            yield bad or self.typed(_sample(path, parts, id))  # type: ignore[arg-type]

    def spools(self) -> Sequence[int]:
        return self.archive.spools()

    def write_spool(self, number: int, path: str) -> None:
        self.archive.write_spool(number, path)

    def spooled(self, directory: str) -> ArchivedParts:
        archive = self.archive.spooled(directory)
        assert isinstance(archive, ArchiveReader)
        return replace(self, archive=archive)


def stem_of(path: str) -> str:
    """Return a path up to the first dot of its base name, which is WebDataset's key."""
    directory, slash, name = path.rpartition("/")
    return directory + slash + name.partition(".")[0]


def _read_each(
    root: str, read: Callable[..., T], tasks: Iterable[tuple[Any, ...]]
) -> Iterator[T | BadSample]:
    """Call a function with a path, a size, and more; several at once if the root is on S3."""

    def read_one(*task: Any) -> T | BadSample:
        try:
            return read(*task)
        except BadSample as error:
            return error

    for found in results(root, ((task[1], partial(read_one, *task)) for task in tasks)):
        if isinstance(found, BadSample) and not is_dir(root):
            raise SourceError(f"{root}: is gone; give the same command again when it is back")
        yield found


def facts_at(path: str) -> Facts | None:
    """Return the facts of a file; None if it is not there, or is something else."""
    try:
        return facts(path)
    except OSError:
        return None


def _read_file(path: str, size: int) -> bytes:
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
    return {name: _read_file(path, sizes[name]) for name, (path, _) in files.items()}

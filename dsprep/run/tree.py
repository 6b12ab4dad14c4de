"""The last step to a folder: the files of all units get their names in one tree.

Names are chosen when all units are there, in their order, so that they depend on nothing but the
samples: a name that is taken already gets a number. Files are renamed, not copied. Whatever stops
this, doing it again goes on: where each file belongs is found again, and what is there stays.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO

from dsprep.dataset.manifest import FileReceipt
from dsprep.errors import DestinationError, RunStopped
from dsprep.formats.folder import LISTING, File, Listed, read_listing
from dsprep.run.names import Names
from dsprep.storage.local import destination_errors, publish, sync_directory

_EXAMPLES = 20


@dataclass
class Joined:
    """What a tree consists of."""

    samples: int = 0  # how many samples
    files: int = 0  # how many files
    bytes: int = 0  # their size
    # how many samples could not have the name that they should have had: it was taken, or no file
    # can have it. The listing names them all.
    renamed: int = 0
    # the first of those: the name that was wanted, and the path of the file
    examples: list[tuple[str, str]] = field(default_factory=list)

    def add(self, sample: Listed) -> None:
        """Count a sample."""
        self.samples += 1
        self.files += len(sample.files)
        self.bytes += sum(each.bytes for each in sample.files)
        if sample.wanted is not None:
            self.renamed += 1
            if len(self.examples) < _EXAMPLES:
                self.examples.append((sample.wanted, sample.files[0].path))


def is_whole(unit: Path, written: int) -> bool:
    """Whether a unit's listing is the one that was written, by its crc32c."""
    try:
        return FileReceipt.of(unit / LISTING).crc32c == written
    except OSError:
        return False


def join_tree(units: Sequence[tuple[Path, int]], tree: Path, listing: Path) -> Joined:
    """Move the files of units into one tree, in their order."""
    if listing.exists():
        return _count(read_listing(listing))
    partial = listing.with_name(listing.name + ".partial")
    try:
        with destination_errors(tree), partial.open("wb") as file:
            # From here on, listings are what tells where files are that have been moved.
            os.sync()
            for unit, crc32c in units:
                if not is_whole(unit, crc32c):
                    raise _Damaged(unit)
            joined = _count(_write(_move(units, tree), file))
    except _Damaged as damaged:
        for path in (tree, *(unit for unit, _ in units)):
            shutil.rmtree(path, ignore_errors=True)
        raise RunStopped(
            f"{damaged}: was not as it had been written; what was made of it is removed; "
            "give the same command again to continue"
        ) from None
    publish(partial, listing)
    return joined


def publish_tree(tree: Path, final: Path) -> None:
    """See the files of a tree onto the disk, then give it its final name.

    Nothing is done where the tree has that name already.
    """
    with destination_errors(final):
        if not os.path.lexists(tree) and final.is_dir() and not final.is_symlink():
            return
        _flush(tree)
        try:
            os.rename(tree, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            what = "holds files already" if final.is_dir() else "is there and is no directory"
            what = "is a link" if final.is_symlink() else what
            raise DestinationError(f"{final}: {what}; choose another destination") from None
        sync_directory(final.parent)


def _flush(tree: Path) -> None:
    """See everything onto the disk that lies below a directory, and on its file system.

    It is one flush for all: asking for each of a million files takes a disk that others write to
    milliseconds every time. Linux tells of what could not be written since (from 5.8 on).
    """
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
        if syncfs is None:
            os.sync()
        elif syncfs(descriptor):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(tree))
    finally:
        os.close(descriptor)


def remove_tree(final: Path, listing: Path) -> None:
    """Remove the files of a folder that its listing names, and the directories that are then empty.

    Nothing else that lies there is removed, and no link is followed.
    """
    directories = {""}
    with destination_errors(final), _Tree(final) as tree:
        for sample in _read_again(listing):
            for file in sample.files:
                tree.remove(file.path)
                directories.update(_above(file.path))
        for directory in sorted(directories, key=len, reverse=True):
            with suppress(OSError):
                os.rmdir(final / directory)


def _count(samples: Iterable[Listed]) -> Joined:
    joined = Joined()
    for sample in samples:
        joined.add(sample)
    return joined


def _write(samples: Iterable[Listed], file: BinaryIO) -> Iterator[Listed]:
    for sample in samples:
        file.write(sample.to_json())
        yield sample


def _move(units: Sequence[tuple[Path, int]], tree: Path) -> Iterator[Listed]:
    """Move the files, and say under which names."""
    tree.mkdir(exist_ok=True)
    names = Names()
    with _Tree(tree) as place:
        for path, _ in units:
            with _Tree(path) as unit:
                number = 0
                for sample in map(names.choose, read_listing(path / LISTING)):
                    for file in sample.files:
                        if not place.take(unit, str(number), file):
                            raise _Damaged(path)
                        number += 1
                    yield sample


class _Damaged(Exception):
    """A unit is not as it was written."""


class _Tree:
    """A directory and what is below it, reached through no link that lies in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._real = {""}

    def __enter__(self) -> _Tree:
        """Open it."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(self._path, flags)
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        os.close(self.descriptor)

    def size(self, path: str) -> int | None:
        """The size of a regular file; None if there is none, and -1 if it is something else."""
        try:
            status = os.stat(path, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return status.st_size if S_ISREG(status.st_mode) else -1

    def take(self, unit: _Tree, name: str, file: File) -> bool:
        """Move a file here, if that has not been done."""
        self._make(_directory_of(file.path))
        found, present = unit.size(name), self.size(file.path)
        if found is None:
            return present == file.bytes
        if found != file.bytes:
            return False
        if present is not None:
            raise DestinationError(
                f"{self._path / file.path}: is there already: the file system takes two names for "
                "one, as some do that ignore case; choose a destination on another"
            )
        os.rename(name, file.path, src_dir_fd=unit.descriptor, dst_dir_fd=self.descriptor)
        return True

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        if all(self._is_real(above) for above in _above(path)):
            with suppress(FileNotFoundError):
                os.unlink(path, dir_fd=self.descriptor)

    def _make(self, directory: str) -> None:
        if directory in self._real:
            return
        self._make(_directory_of(directory))
        with suppress(FileExistsError):
            os.mkdir(directory, dir_fd=self.descriptor)
        if not self._is_real(directory):
            raise DestinationError(f"{self._path / directory}: is no directory; remove it")

    def _is_real(self, directory: str) -> bool:
        """Whether something is a directory and no link to one."""
        if directory not in self._real:
            try:
                status = os.stat(directory, dir_fd=self.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                return False
            if not S_ISDIR(status.st_mode):
                return False
            self._real.add(directory)
        return True


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> list[str]:
    """The directories that a path leads through, the outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _read_again(listing: Path) -> Iterator[Listed]:
    try:
        for sample in read_listing(listing):
            if any(".." in file.path.split("/") or file.path[:1] == "/" for file in sample.files):
                raise ValueError("names a file elsewhere")
            yield sample
    except ValueError as error:
        raise DestinationError(f"{listing}: {error}; remove the folder yourself") from None

"""A split as a tree of files: hard links, symbolic links or copies.

Nothing is ever written through a link that lies in the tree: directories are opened one below the
other without following any. A file that is in its place already stays, so that a run that was
stopped can be given again; any other file in a side's directory is refused.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import TypeVar

from dsprep.errors import DestinationError, SourceError
from dsprep.progress import Progress
from dsprep.storage.local import destination_errors, open_regular

T = TypeVar("T")

Place = tuple[str, str]
"""The path of a sample below the root, and that of its place below the output."""

WAYS = ("hardlink", "symlink", "copy")

_PARTIAL = ".split.partial"
_BLOCK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def materialize(
    way: str, root: str, out: Path, places: Sequence[Place], progress: Progress
) -> None:
    """Make the tree."""
    put = {"hardlink": _hardlink, "symlink": _symlink, "copy": _copy}[way]
    real_root, real_out = os.path.realpath(root), os.path.realpath(out)
    ordered = sorted(places, key=lambda place: os.path.split(place[1]))
    progress.begin("placing files", len(ordered), 0)
    try:
        with destination_errors(out):
            for directory, inside in groupby(ordered, lambda place: os.path.dirname(place[1])):
                with _opened(real_out, directory) as descriptor:
                    with suppress(FileNotFoundError):
                        os.unlink(_PARTIAL, dir_fd=descriptor)
                    where = os.path.join(real_out, directory)
                    for path, target in inside:
                        source = os.path.join(real_root, path)
                        put(_Put(source, where, os.path.basename(target), descriptor))
                        progress.advance(1, 0)
                    os.fsync(descriptor)
        if way == "copy":
            os.sync()  # one flush for all of them: a disk takes milliseconds for each
    finally:
        progress.end()


def require_clean(out: Path, sides: Sequence[str], places: Sequence[Place]) -> None:
    """Refuse a tree that holds files of something else, such as another split."""
    targets = {target for _, target in places}
    for side in sides:
        top = out / side
        if top.is_symlink() or (top.exists() and not top.is_dir()):
            raise DestinationError(f"{top}: is there and is no directory; remove it")
        for directory, below, names in os.walk(top):
            below.sort()
            links = [name for name in below if os.path.islink(os.path.join(directory, name))]
            for name in sorted([*names, *links]):
                path = os.path.relpath(os.path.join(directory, name), out)
                if name != _PARTIAL and path not in targets:
                    raise DestinationError(
                        f"{out / path}: is not of this split; remove {top}, or choose another "
                        "directory"
                    )


class _Put:
    """A file that is to get a place."""

    def __init__(self, source: str, where: str, name: str, into: int) -> None:
        self.source, self.where, self.name, self.into = source, where, name, into

    def present(self) -> os.stat_result | None:
        """What is in the place already, not followed if it is a link."""
        try:
            return os.stat(self.name, dir_fd=self.into, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def refuse(self) -> DestinationError:
        place = os.path.join(self.where, self.name)
        return DestinationError(
            f"{place}: is there already, and is not {self.source}; remove it, or choose another "
            "directory"
        )


def _hardlink(put: _Put) -> None:
    wanted = _source_errors(put.source, os.stat)
    present = put.present()
    if present is not None:
        if not os.path.samestat(present, wanted):
            raise put.refuse()
        return
    try:
        os.link(put.source, put.name, dst_dir_fd=put.into, follow_symlinks=True)
    except OSError as error:
        if error.errno == errno.EXDEV:
            raise DestinationError(
                f"{put.where}: is on another disk than {put.source}, which no hard link reaches: "
                "give --materialize symlink or copy"
            ) from None
        raise


def _symlink(put: _Put) -> None:
    _source_errors(put.source, os.stat)
    # Relative, so that the tree and the images can be moved or mounted elsewhere together.
    link = os.path.relpath(put.source, put.where)
    present = put.present()
    if present is not None:
        if not S_ISLNK(present.st_mode) or os.readlink(put.name, dir_fd=put.into) != link:
            raise put.refuse()
        return
    os.symlink(link, put.name, dir_fd=put.into)


def _copy(put: _Put) -> None:
    wanted = _source_errors(put.source, os.stat)
    present = put.present()
    if present is None:
        _copy_whole(put)
    elif os.path.samestat(present, wanted) or not _same_content(put, present):
        raise put.refuse()


def _copy_whole(put: _Put) -> None:
    """Copy a file so that its name never stands for a part of it."""
    source = _source_errors(put.source, open_regular)
    try:
        status = os.fstat(source)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(_PARTIAL, flags, 0o666, dir_fd=put.into)
        try:
            with (
                open(source, "rb", closefd=False) as reader,
                open(target, "wb", closefd=False) as writer,
            ):
                shutil.copyfileobj(reader, writer, _BLOCK)
            os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)
    os.rename(_PARTIAL, put.name, src_dir_fd=put.into, dst_dir_fd=put.into)


def _same_content(put: _Put, present: os.stat_result) -> bool:
    if not S_ISREG(present.st_mode):
        return False
    source = _source_errors(put.source, open_regular)
    target = open_regular(put.name, os.O_RDONLY | os.O_NOFOLLOW, put.into)
    with os.fdopen(source, "rb") as left, os.fdopen(target, "rb") as right:
        while (block := left.read(_BLOCK)) == right.read(_BLOCK):
            if not block:
                return True
    return False


def _source_errors(path: str, read: Callable[[str], T]) -> T:
    """Read something about a source; what fails is the source's fault."""
    try:
        return read(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


@contextmanager
def _opened(out: str, directory: str) -> Iterator[int]:
    """A directory below the output, made where it is not there, reached through no link."""
    descriptor = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in directory.split("/"):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
            try:
                below = os.open(name, _DIRECTORY, dir_fd=descriptor)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise DestinationError(
                        f"{os.path.join(out, directory)}: {name!r} is no directory there, but a "
                        "link or a file; remove it"
                    ) from None
                raise
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)

"""What a split writes: its lists, and a tree of links or copies, ``SIDE/CLASS/NAME``.

Nothing is ever written through a link that lies in the tree: directories are opened one below the
other without following any. A file that is in its place already stays, so that a run that was
stopped can be given again; any other file in a side's directory is refused.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import TypeVar

import polars as pl

from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.lists.rows import class_numbers, plain_path
from dsprep.progress import Progress
from dsprep.storage.local import Lock, destination_errors, holds, open_regular, sync_directory

T = TypeVar("T")

Place = tuple[str, str]
"""The path of a sample below the root, and that of its place below the output."""

_LOCK = ".split.lock"
_SCRATCH = ".split"
_PARTIAL = ".split.partial"
_BLOCK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Make a directory, and keep other splits from writing there."""
    with destination_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    guard = directory / _LOCK
    lock = Lock(guard, directory)
    try:
        yield
    finally:
        with suppress(OSError):
            guard.unlink()
        lock.release()


def write_lists(
    directory: Path,
    files: Mapping[str, Callable[[], bytes]],
    *,
    overwrite: bool,
    inputs: Collection[str] = (),
) -> bool:
    """Write all files or none; return whether any was missing or different.

    Old files are removed before the first new file gets its name, so that nobody ever finds files
    of two splits side by side, whose samples overlap.
    """
    read = {os.path.realpath(path) for path in inputs}
    scratch = directory / _SCRATCH
    new = []
    with destination_errors(directory):
        try:
            if scratch.is_symlink() or scratch.is_file():
                scratch.unlink()
            elif scratch.exists():  # a killed run has left it
                shutil.rmtree(scratch)
            scratch.mkdir()
            for name, make in files.items():
                final, data = directory / name, make()
                if holds(final, data):
                    continue
                if os.path.lexists(final) and os.path.realpath(final) in read:
                    raise OptionError(
                        f"{final}: is what this command reads; write to another directory with -o"
                    )
                if os.path.lexists(final) and not overwrite:
                    raise DestinationError(
                        f"{final}: is there already and differs; give --overwrite to replace it, "
                        "or another directory"
                    )
                with (scratch / name).open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                new.append(name)
            for name in new:
                (directory / name).unlink(missing_ok=True)
            sync_directory(directory)
            for name in new:
                (scratch / name).rename(directory / name)
            sync_directory(directory)
        finally:
            with suppress(OSError):
                shutil.rmtree(scratch)
    return bool(new)


def plan_tree(
    rows: pl.DataFrame, sides: pl.Series, classes: Sequence[str] | None, keep_paths: bool
) -> pl.DataFrame:
    """Choose the place of each sample: ``SIDE/CLASS/NAME``, or ``SIDE/`` and its path."""
    path = plain_path(pl.col("path"))
    numbers = rows.select(class_numbers()).to_series()
    if keep_paths or numbers.null_count():
        below = path
    else:
        below = pl.concat_str("directory", path.str.split("/").list.last(), separator="/")
    table = rows.with_columns(side=sides, directory=_directories(numbers, classes))
    table = table.select(
        source="path", target=pl.concat_str("side", below, separator="/"), plain=path
    )
    hostile = pl.col("target").str.contains(r"\x00|(?:^|/)(?:\.{1,2})?(?:/|$)")
    for place in table.filter(hostile)["target"].head(1):
        raise SourceError(f"{place!r} cannot be a place below the output: rename the class")
    clash = table.unique(["target", "plain"]).filter(pl.col("target").is_duplicated())
    if len(clash):
        first, other = clash.sort("target", "plain").head(2).iter_rows(named=True)
        raise SourceError(
            f"{first['plain']!r} and {other['plain']!r} would both be {first['target']!r} "
            f"({clash['target'].n_unique():,} such places): rename files"
        )
    return table.select("source", "target")


def _directories(numbers: pl.Series, classes: Sequence[str] | None) -> pl.Series:
    if classes is None or numbers.null_count():
        return numbers.cast(pl.String)
    outside = numbers.filter(~numbers.is_between(0, len(classes) - 1))
    if len(outside):
        raise SourceError(f"the label {outside[0]} is none of the {len(classes)} classes")
    return numbers.replace_strict(range(len(classes)), classes, return_dtype=pl.String)


def require_apart(out: Path, root: str) -> None:
    """Refuse to make a tree among the images that it is made of: they would be found again."""
    real_root = os.path.realpath(root)
    if os.path.commonpath([os.path.realpath(out), real_root]) == real_root:
        raise OptionError(f"{out}: lies in {root}; choose a directory outside for the tree")


def require_clean(out: Path, sides: Sequence[str], places: Sequence[Place]) -> None:
    """Refuse a tree that holds other files, such as those of another split."""
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


def materialize_tree(
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


class _Put:
    """A file to put into its place."""

    def __init__(self, source: str, where: str, name: str, into: int) -> None:
        self.source, self.where, self.name, self.into = source, where, name, into
        self.status = self.of_source(os.stat)

    def of_source(self, read: Callable[[str], T]) -> T:
        """Read something about the source; what fails is the source's fault."""
        try:
            return read(self.source)
        except OSError as error:
            raise SourceError(f"{self.source}: cannot be read: {error.strerror}") from None

    def is_there(self, is_right: Callable[[os.stat_result], bool]) -> bool:
        """Return whether the file is in its place; refuse another one there."""
        try:
            present = os.stat(self.name, dir_fd=self.into, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if not is_right(present):
            raise DestinationError(
                f"{os.path.join(self.where, self.name)}: is there already, and is not "
                f"{self.source}; remove it, or choose another directory"
            )
        return True


def _hardlink(put: _Put) -> None:
    if put.is_there(lambda present: os.path.samestat(present, put.status)):
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
    # Relative, so that the tree and the images can be moved or mounted elsewhere together.
    link = os.path.relpath(put.source, put.where)

    def is_link(present: os.stat_result) -> bool:
        return S_ISLNK(present.st_mode) and os.readlink(put.name, dir_fd=put.into) == link

    if not put.is_there(is_link):
        os.symlink(link, put.name, dir_fd=put.into)


def _copy(put: _Put) -> None:
    """Copy a file so that its name never stands for a part of it."""

    def is_copy(present: os.stat_result) -> bool:
        if os.path.samestat(present, put.status) or not S_ISREG(present.st_mode):
            return False
        target = open_regular(put.name, os.O_RDONLY | os.O_NOFOLLOW, put.into)
        with os.fdopen(put.of_source(open_regular), "rb") as left, os.fdopen(target, "rb") as right:
            while (block := left.read(_BLOCK)) == right.read(_BLOCK):
                if not block:
                    return True
        return False

    if put.is_there(is_copy):
        return
    with os.fdopen(put.of_source(open_regular), "rb") as reader:
        status = os.fstat(reader.fileno())
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(_PARTIAL, flags, 0o666, dir_fd=put.into), "wb") as writer:
            shutil.copyfileobj(reader, writer, _BLOCK)
            writer.flush()
            os.utime(writer.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    os.rename(_PARTIAL, put.name, src_dir_fd=put.into, dst_dir_fd=put.into)


@contextmanager
def _opened(out: str, directory: str) -> Iterator[int]:
    """Open a directory below the output through no link; make it if it is missing."""
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

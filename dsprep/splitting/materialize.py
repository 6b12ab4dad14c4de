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
from contextlib import contextmanager, nullcontext, suppress
from itertools import groupby
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import BinaryIO

import polars as pl

from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.lists.rows import class_numbers, plain_path
from dsprep.progress import Progress
from dsprep.storage.local import (
    ScratchLock,
    destination_errors,
    holds,
    open_regular,
    remove_all_but,
    sync_path,
)

Place = tuple[str, str]
"""The path of a sample below the root, and that of its place below the output."""

_SCRATCH = ".split"
_PARTIAL = ".split.partial"
_BLOCK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Make a directory, and keep other splits from writing there."""
    scratch = directory / _SCRATCH
    with destination_errors(scratch):
        if scratch.is_symlink() or scratch.is_file():
            scratch.unlink()
    lock = ScratchLock(scratch, directory)
    try:
        yield
    finally:
        lock.remove()


def write_lists(
    directory: Path,
    files: Mapping[str, Callable[[], bytes]],
    *,
    overwrite: bool,
    inputs: Collection[str] = (),
) -> tuple[bool, list[str]]:
    """Write all files or none; return whether any was missing or different, and other lists there.

    The caller is the :func:`only_writer`. Old files are removed before the first new file gets its
    name, so that nobody ever finds files of two splits side by side, whose samples overlap.
    """
    read = {os.path.realpath(path) for path in inputs}
    scratch = directory / _SCRATCH
    new = []
    with destination_errors(directory):
        remove_all_but(scratch, "lock")  # what a killed run has left
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
            (scratch / name).write_bytes(data)
            sync_path(scratch / name)
            new.append(name)
        for name in new:
            (directory / name).unlink(missing_ok=True)
        sync_path(directory)
        for name in new:
            (scratch / name).rename(directory / name)
        sync_path(directory)
    lists = {path.name: os.path.realpath(path) for path in directory.glob("[!.]*.lst")}
    return bool(new), sorted(name for name in lists.keys() - files if lists[name] not in read)


def plan_tree(
    rows: pl.DataFrame, sides: pl.Series, classes: Sequence[str] | None, keep_paths: bool
) -> pl.DataFrame:
    """Choose the place of each sample: ``SIDE/CLASS/NAME``, or ``SIDE/`` and its path."""
    path = plain_path(pl.col("path"))
    numbers = rows.select(class_numbers()).to_series()
    directories, below = numbers.cast(pl.String), path
    if classes is not None and not numbers.null_count():
        outside = numbers.filter(~numbers.is_between(0, len(classes) - 1))
        if len(outside):
            raise SourceError(f"the label {outside[0]} is none of the {len(classes)} classes")
        directories = pl.Series(classes, dtype=pl.String).gather(numbers)
    if not (keep_paths or numbers.null_count()):
        below = pl.concat_str("directory", path.str.split("/").list.last(), separator="/")
    table = rows.with_columns(side=sides, directory=directories).select(
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


def require_apart(out: Path, root: str) -> None:
    """Refuse to make a tree among the images that it is made of: they would be found again."""
    real_root = os.path.realpath(root)
    if os.path.commonpath([os.path.realpath(out), real_root]) == real_root:
        raise OptionError(f"{out}: lies in {root}; choose a directory outside for the tree")


def require_clean(out: Path, sides: Sequence[str], places: Sequence[Place]) -> list[Path]:
    """Refuse a tree that holds other files; return unfinished ones, which killed runs have left."""
    targets, unfinished = {target for _, target in places}, []
    for side in sides:
        top = out / side
        if top.is_symlink() or (top.exists() and not top.is_dir()):
            raise DestinationError(f"{top}: is there and is no directory; remove it")
        for directory, below, names in os.walk(top):
            below.sort()
            links = [name for name in below if os.path.islink(os.path.join(directory, name))]
            for name in sorted([*names, *links]):
                path = os.path.relpath(os.path.join(directory, name), out)
                if name == _PARTIAL:
                    unfinished.append(out / path)
                elif path not in targets:
                    raise DestinationError(
                        f"{out / path}: is not of this split; remove {top}, or choose another "
                        "directory"
                    )
    return unfinished


def materialize_tree(
    way: str,
    root: str,
    out: Path,
    places: Sequence[Place],
    unfinished: Sequence[Path],
    progress: Progress,
) -> None:
    """Make the tree, without unfinished files of other runs."""
    real_root, real_out = os.path.realpath(root), os.path.realpath(out)
    ordered = sorted(places, key=lambda place: os.path.split(place[1]))
    with progress.running("placing files", len(ordered)), destination_errors(out):
        for file in unfinished:
            file.unlink(missing_ok=True)
        for directory, inside in groupby(ordered, lambda place: os.path.dirname(place[1])):
            with _opened(real_out, directory) as descriptor:
                for path, target in inside:
                    source = os.path.join(real_root, path)
                    _put(way, source, os.path.join(real_out, target), descriptor)
                    progress.advance(1, 0)
                os.fsync(descriptor)
        if way == "copy":
            os.sync()  # one flush for all files: a flush of each takes milliseconds


def _put(way: str, source: str, final: str, into: int) -> None:
    """Put a file into its place in an open directory, unless it is there; refuse another one."""
    where, name = os.path.split(final)
    # Relative, so that the tree and the images can be moved or mounted elsewhere together.
    link = os.path.relpath(source, where)
    try:
        reader = os.fdopen(open_regular(source), "rb") if way == "copy" else None
        status = os.stat(source)
    except OSError as error:
        raise SourceError(f"{source}: cannot be read: {error.strerror}") from None
    with reader or nullcontext():
        try:
            present = os.stat(name, dir_fd=into, follow_symlinks=False)
        except FileNotFoundError:
            if way == "symlink":
                os.symlink(link, name, dir_fd=into)
            elif reader is None:
                try:
                    os.link(source, name, dst_dir_fd=into, follow_symlinks=True)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    raise DestinationError(
                        f"{where}: is on another disk than {source}, which no hard link reaches: "
                        "give --materialize symlink or copy"
                    ) from None
            else:
                _copy(reader, name, into)
            return
        if way == "symlink":
            is_right = S_ISLNK(present.st_mode) and os.readlink(name, dir_fd=into) == link
        elif reader is None:
            is_right = os.path.samestat(present, status)
        else:
            is_file = S_ISREG(present.st_mode) and not os.path.samestat(present, status)
            is_right = is_file and _has_same_bytes(reader, name, into)
    if not is_right:
        raise DestinationError(
            f"{final}: is there already, and is not {source}; remove it, or choose another "
            "directory"
        )


def _copy(reader: BinaryIO, name: str, into: int) -> None:
    """Copy a file so that its name never stands for a part of it."""
    status = os.fstat(reader.fileno())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(_PARTIAL, flags, 0o666, dir_fd=into), "wb") as writer:
            shutil.copyfileobj(reader, writer, _BLOCK)
            writer.flush()
            os.utime(writer.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
    except BaseException:  # a full disk gets the room back
        with suppress(FileNotFoundError):
            os.unlink(_PARTIAL, dir_fd=into)
        raise
    os.rename(_PARTIAL, name, src_dir_fd=into, dst_dir_fd=into)


def _has_same_bytes(reader: BinaryIO, name: str, into: int) -> bool:
    with os.fdopen(open_regular(name, os.O_RDONLY | os.O_NOFOLLOW, into), "rb") as other:
        while (block := reader.read(_BLOCK)) == other.read(_BLOCK):
            if not block:
                return True
    return False


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

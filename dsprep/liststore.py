"""The files of lists: read whole, replaced whole, by one writer at a time.

A list lies on a shared file system, and several people edit it. A writer holds the lock of the list
from its reading to its writing, so that no edit is lost; what it writes gets its name when it is on
the disk, so that readers, who need no lock, see the old list or the new one. Files that belong
together, a list and its ``classes.txt``, are replaced together: what a killed writer had begun to
rename is finished by whoever opens the list next.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE

import polars as pl

from dsprep.errors import DestinationError
from dsprep.lists.rows import ROWS, parse_rows
from dsprep.sources.classes import read_classes
from dsprep.storage.local import (
    LARGEST_TABLE,
    Lock,
    destination_errors,
    holds,
    publish,
    read_whole,
    sync_directory,
    sync_file,
)
from dsprep.storage.paths import is_file
from dsprep.storage.urls import is_s3, require_disk
from dsprep.text import decode_text, read_stdin, read_text

STREAM = "-"
"""The name of a list that comes from stdin, or goes to stdout."""

CLASSES = "classes.txt"

_MARK = "user.dsprep.written"
"""The attribute of a file that tells which command wrote it, and with which other files."""

_PATIENCE = 60.0
"""Seconds to wait for another writer; an edit takes one."""


@dataclass(frozen=True, eq=False)
class ListFile:
    """A list that was read."""

    path: str  # its path, for messages
    table: pl.DataFrame  # its rows, with the columns of :data:`~dsprep.lists.rows.ROWS`
    classes: tuple[str, ...] | None = None  # the names of its classes; None if nothing tells them


def read_list(path: str, classes: str | None = None, duplicates: str | None = None) -> ListFile:
    """Read a list."""
    if path == STREAM:
        text = decode_text(read_stdin(), "<stdin>")
        named = read_classes(classes) if classes else None
        return ListFile("<stdin>", parse_rows(text, "<stdin>", duplicates).select(*ROWS), named)
    if _journal(real_path(path)).exists():
        with editing(path):
            pass
    rows = parse_rows(read_text(path), path, duplicates)
    return ListFile(path, rows.select(*ROWS), classes_beside(path, classes))


def classes_beside(path: str, classes: str | None = None) -> tuple[str, ...] | None:
    """The class names of a list: those of the file given, or of ``classes.txt`` beside it."""
    if classes is not None:
        return read_classes(classes)
    beside = None if path == STREAM else classes_path(path)
    return read_classes(beside) if beside is not None and is_file(beside) else None


def classes_path(path: str) -> str:
    """Where the class names of a list are: in ``classes.txt`` beside it."""
    if is_s3(path):
        return os.path.join(os.path.dirname(path), CLASSES)
    return str(real_path(path).with_name(CLASSES))


@contextmanager
def editing(path: str, *, new: bool = False) -> Iterator[None]:
    """Be the only one who writes a list, from before reading it."""
    if path == STREAM:
        yield
        return
    require_disk(path)
    real = real_path(path)
    guard = real.with_name(f".{real.name}.lock")
    if new:
        with destination_errors(real.parent):
            real.parent.mkdir(parents=True, exist_ok=True)
    lock = Lock(guard, real, _PATIENCE)
    try:
        _finish(real)
        yield
    finally:
        # While it is held: who waits for it sees that the file is gone, and makes another.
        with suppress(OSError):
            guard.unlink()
        lock.release()


def write_files(path: str, files: Mapping[str, bytes], command: str = "") -> None:
    """Replace a list, and files beside it, together; the caller is :func:`editing` the list."""
    real = real_path(path)
    partials = {_partial(real, name): real.with_name(name) for name in files}
    try:
        for (partial, final), data in zip(partials.items(), files.values(), strict=True):
            with destination_errors(final):
                partial.unlink(missing_ok=True)  # also a link or a pipe that somebody put there
                partial.write_bytes(data)
                _keep_mode(partial, final)
            if command:
                _mark(partial, command, files)
    except BaseException:
        for partial in partials:
            partial.unlink(missing_ok=True)
        raise
    if len(files) == 1:
        ((partial, final),) = partials.items()
        publish(partial, final)
    else:
        _publish_together(real, partials)
    with destination_errors(real):
        sync_directory(real.parent)


def command_text(name: str, *words: object) -> str:
    """What tells an edit from others: its name, and all that its result depends on but the list."""
    return hashlib.sha256(json.dumps([name, *words], default=str).encode()).hexdigest()


def was_done(path: str, command: str) -> bool:
    """Whether a list is as this very command left it, which may have been killed thereafter.

    Some edits cannot be repeated: rows that were removed are not there to be removed once more. So
    a list carries, in an attribute of its file and not in another file beside it, which command has
    written it, and the digests of what that wrote. Whoever changes the file changes its digest.
    An edit that can be made again is made again: only where it cannot, this is asked.
    """
    real = real_path(path)
    try:
        known, digests = json.loads(os.getxattr(real, _MARK))
        return (
            known == command
            and real.name in digests  # not so in a copy under another name
            and all(
                _digest(read_whole(real.with_name(name), LARGEST_TABLE)) == digest
                for name, digest in digests.items()
            )
        )
    except (AttributeError, OSError, ValueError, TypeError):  # no mark: there may be no such thing
        return False


def are_there(directory: Path, files: Mapping[str, bytes]) -> bool:
    """Whether all of some new files are there already, as they would be written."""
    return all(holds(directory / name, data) for name, data in files.items())


def _mark(partial: Path, command: str, files: Mapping[str, bytes]) -> None:
    digests = {name: _digest(data) for name, data in files.items()}
    with suppress(AttributeError, OSError):  # a file system, or a system, without attributes
        os.setxattr(partial, _MARK, json.dumps([command, digests]).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_stream(data: bytes) -> None:
    """Write a list to stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def real_path(path: str) -> Path:
    """Where a file lies: a link is followed, so that it stays one when the file is replaced."""
    return Path(os.path.realpath(path))


def _journal(real: Path) -> Path:
    return real.with_name(f".{real.name}.journal")


def _partial(real: Path, name: str) -> Path:
    return real.with_name(f".{real.name}.{name}.partial")


def _publish_together(real: Path, partials: Mapping[Path, Path]) -> None:
    """Rename several files so that a kill leaves all of the renaming undone, or to be finished."""
    journal = _journal(real)
    begun = real.with_name(f".{real.name}.journal.partial")
    with destination_errors(real):
        for partial in partials:
            sync_file(partial)
        begun.unlink(missing_ok=True)
        begun.write_text(json.dumps([final.name for final in partials.values()]), "utf-8")
    publish(begun, journal)
    _finish(real)


def _finish(real: Path) -> None:
    """Rename what a journal names, and forget the journal."""
    journal = _journal(real)
    try:
        names = json.loads(read_whole(journal))
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        names = None
    if not isinstance(names, list) or not all(_is_plain(name) for name in names):
        raise DestinationError(f"{journal}: is not what dsprep left there; look at it, delete it")
    with destination_errors(real):
        for name in names:
            partial = _partial(real, name)
            if partial.exists():
                partial.replace(real.with_name(name))
        journal.unlink()


def _is_plain(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and "/" not in name


def _keep_mode(partial: Path, final: Path) -> None:
    """Let those read and write a new file who could with the old one."""
    if not final.exists():
        return
    status = final.stat()
    partial.chmod(S_IMODE(status.st_mode))
    with suppress(OSError):  # only root gives files away
        os.chown(partial, status.st_uid, status.st_gid)

"""The files of lists, and of class names: read whole, replaced whole, by one writer at a time.

A list lies on a shared file system, and several people edit it. A writer holds the lock of the list
from reading it to writing it, so that no edit is lost. What it writes gets its name when it is on
the disk, so readers, which need no lock, see the old list or the new one. Files that belong
together, a list and its ``classes.txt``, are replaced together: if a writer was killed while it
renamed them, the next command that opens the list finishes that.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_IMODE
from typing import Any

import polars as pl

from dsprep.csv_parsers import CsvError, records_of
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.frozen import Frozen
from dsprep.lists.rows import ROWS, format_rows, parse_rows
from dsprep.opening import opened
from dsprep.patterns import pattern
from dsprep.printable import json_values
from dsprep.storage.files import is_file, require_disk, system_path
from dsprep.storage.local import (
    LARGEST,
    LARGEST_TABLE,
    Lock,
    destination_errors,
    holds,
    publish,
    read_whole,
    sync_path,
    write_whole,
)
from dsprep.text import decode_text, read_data, read_stdin, read_text
from dsprep.tuples import NamedTuple

STREAM = "-"  # the name of a list that comes from stdin, or goes to stdout

CLASSES = "classes.txt"

_MARK = "user.dsprep.written"
"""The attribute of a file that tells which command wrote it, and with which other files."""

_PATIENCE = 60.0  # seconds to wait for another writer; an edit takes one


# Reading


class ListFile(Frozen, eq=False):
    """A list that was read."""

    path: str  # its path, for messages
    table: pl.DataFrame  # its rows, with the columns of `~dsprep.lists.rows.ROWS`
    classes: tuple[str, ...] | None = None  # the names of its classes, if any file has them


class ListWritten(NamedTuple):
    """A list that was written, or would be."""

    path: str
    rows: int

    def to_json(self) -> dict[str, Any]:
        return json_values({"path": self.path, "rows": self.rows})


def read_list(
    path: str, classes: str | Sequence[str] | None = None, duplicates: str | None = None
) -> ListFile:
    """Read a list, and the names of its classes."""
    if path != STREAM and (real := real_path(path)).with_name(f".{real.name}.journal").exists():
        with editing(path):
            pass  # taking the lock finishes what a killed writer began
    data, source = read_input(path)
    rows = parse_rows(decode_text(data, source), source, duplicates).select(*ROWS)
    return ListFile(source, rows, classes_of(path, classes))


def require_one_stream(*paths: str) -> None:
    """Refuse to read stdin twice."""
    if paths.count(STREAM) > 1:
        raise OptionError('only one file can be "-", which is stdin')


def read_input(path: str) -> tuple[bytes, str]:
    """Read a file or stdin; also return its name for messages."""
    return (read_stdin(), "<stdin>") if path == STREAM else (read_data(path), path)


def classes_of(path: str, classes: str | Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Return the class names of a list: the given ones, or those of ``classes.txt`` beside it."""
    if classes is None and path != STREAM and is_file(beside := classes_path(path)):
        classes = beside
    if classes is None:
        return None
    return read_classes(classes) if isinstance(classes, str) else tuple(classes)


def classes_path(path: str) -> str:
    """Return the path of ``classes.txt`` beside a list."""
    full = system_path(path)
    where = path if full is None else os.path.realpath(full)
    return os.path.join(os.path.dirname(where), CLASSES)


def read_classes(path: str, gaps: bool = False) -> tuple[str, ...]:
    """Read the names of classes, one a line, whose numbers are the line numbers from 0."""
    return classes_in(read_text(path, LARGEST), path, gaps)


def classes_in(text: str, path: str, gaps: bool = False) -> tuple[str, ...]:
    """Return the names of classes in the text of a file.

    Lines of ``.csv`` may be ``NAME,NUMBER`` in any order, as Keras-RetinaNet has them
    (github.com/fizyr/keras-retinanet, "CSV datasets").
    """
    names = _names_by_number(text, path) if path.lower().endswith(".csv") else []
    names = names or [line.removesuffix("\r") for line in text.split("\n")]
    while names and not names[-1].strip():
        names.pop()
    if not names:
        raise SourceError(f"{path}: names no class: give a file with one class name a line")
    first_lines: dict[str, int] = {}
    for line, name in enumerate(names, 1):
        if not name.strip():
            if gaps:
                continue
            raise SourceError(f"{path}:{line}: blank; each line before the last names a class")
        first = first_lines.setdefault(name, line)
        if first != line:
            raise SourceError(f"{path}:{line}: {name!r} stands in line {first} already")
    return tuple(names)


_NUMBER = pattern(r"\s*[0-9]{1,9}\s*")


def _names_by_number(text: str, path: str) -> list[str]:
    """Return the names in lines of a name and a number, by number; none if lines are others."""
    try:
        rows = [row for row in records_of(text, strict=False) if row]
    except CsvError:  # such as a cell of more than 128 KB
        return []
    if not all(len(row) == 2 and _NUMBER.fullmatch(row[1]) for row in rows):  # noqa: PLR2004
        return []
    by_number = {int(number): name for name, number in rows}
    if sorted(by_number) != [*range(len(rows))]:
        raise SourceError(
            f"{path}: the numbers behind the names are not 0 to {len(rows) - 1}, each once: "
            "correct them, or give a file with one class name a line"
        )
    return [by_number[number] for number in range(len(rows))]


def format_classes(classes: Iterable[str]) -> str:
    """Write what :func:`read_classes` reads."""
    return "".join(f"{name}\n" for name in classes)


# Writing


@contextmanager
def editing(*paths: str, new: bool = False) -> Iterator[None]:
    """Be the only writer of lists, from before they are read; ``new`` makes their directories."""
    with ExitStack() as locks:
        for path in sorted({*paths} - {STREAM}, key=real_path):
            require_disk(path)
            real = real_path(path)
            if new:
                with destination_errors(real.parent):
                    real.parent.mkdir(parents=True, exist_ok=True)
            guard = real.with_name(f".{real.name}.lock")
            lock = Lock(guard, real, _PATIENCE)
            locks.callback(_release, lock, guard)
            _finish(real)
        yield


def _release(lock: Lock, guard: Path) -> None:
    # Removed under the lock: a writer that waits sees that the file is gone, and makes another.
    with suppress(OSError):
        guard.unlink()
    lock.release()


def write_text(path: str, text: str, command: str = "") -> None:
    """Write a list or another text to a file, which the caller is :func:`editing`, or to stdout."""
    if path != STREAM:
        write_files(path, {real_path(path).name: text.encode()}, command)
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Exit code 1, that of any other failure, would stand for a conflict or a difference.
        raise DestinationError(f"<stdout>: cannot be written: {error.strerror}") from None


def write_new(
    lists: Mapping[str, pl.DataFrame],
    classes: Sequence[str] | None,
    overwrite: bool,
    advice: str,
    dry_run: bool = False,
) -> bool:
    """Write lists of one directory and their classes; return False if they are there already."""
    # Without `overwrite`, other files of these names are an error; `advice` says what else to do
    # about another `classes.txt`.
    first = next(iter(lists))
    if first == STREAM:
        if not dry_run:
            write_text(STREAM, format_rows(lists[first]))
        return True
    files = {real_path(path).name: format_rows(rows).encode() for path, rows in lists.items()}
    directory = real_path(first).parent
    same_names = classes is None
    if classes is not None:
        with suppress(SourceError):  # what is there may be no file of classes
            same_names = classes_of(first) == tuple(classes)
    if not overwrite:
        if not dry_run and same_names and all(holds(directory / n, d) for n, d in files.items()):
            return False
        for path in lists:
            if os.path.exists(opened(path)):
                raise DestinationError(f"{path}: exists; give --overwrite to replace it")
        if not same_names and (beside := directory / CLASSES).exists():
            advice = advice.format(beside)
            raise DestinationError(f"{beside}: names other classes; give {advice}")
    if not same_names and classes is not None:
        files[CLASSES] = format_classes(classes).encode()
    if not dry_run:
        write_files(first, files)
    return True


def write_files(path: str, files: Mapping[str, bytes], command: str = "") -> None:
    """Replace a list, and files beside it, together; the caller is :func:`editing` the list."""
    real = real_path(path)
    mark = json.dumps([command, {name: _digest(data) for name, data in files.items()}])
    partials = {name: _partial(real, name) for name in files}
    try:
        for name, partial in partials.items():
            final = real.with_name(name)
            with destination_errors(final):
                # removes a link or a pipe that somebody put there, too
                partial.unlink(missing_ok=True)
                partial.write_bytes(files[name])
                if final.exists():  # the same users can read and write the new file
                    status = final.stat()
                    partial.chmod(S_IMODE(status.st_mode))
                    with suppress(OSError):  # only root may change the owner of a file
                        os.chown(partial, status.st_uid, status.st_gid)
            if command:
                # some file systems have no extended attributes
                with suppress(AttributeError, OSError):
                    os.setxattr(partial, _MARK, mark.encode())
    except BaseException:
        for partial in partials.values():
            partial.unlink(missing_ok=True)
        raise
    if len(files) == 1:
        for name, partial in partials.items():
            publish(partial, real.with_name(name))
    else:
        # Renamed by a journal: a kill leaves none of it done, or all to be finished.
        journal = real.with_name(f".{real.name}.journal")
        with destination_errors(real):
            for partial in partials.values():
                sync_path(partial)
            journal.with_name(f"{journal.name}.partial").unlink(missing_ok=True)
        write_whole(journal, json.dumps([*files]).encode(), real.parent)
        _finish(real)
    with destination_errors(real):
        sync_path(real.parent)


def _finish(real: Path) -> None:
    """Rename the files that a journal names, and remove the journal."""
    journal = real.with_name(f".{real.name}.journal")
    try:
        names = json.loads(read_whole(journal))
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        names = None
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name not in ("", ".", "..") and "/" not in name for name in names
    ):
        raise DestinationError(f"{journal}: dsprep did not write it like this; check and delete it")
    with destination_errors(real):
        for name in names:
            partial = _partial(real, name)
            if partial.exists():
                partial.replace(real.with_name(name))
        journal.unlink()


def _partial(real: Path, name: str) -> Path:
    return real.with_name(f".{real.name}.{name}.partial")


def command_text(*words: object) -> str:
    """Identify an edit by its name and all that its result depends on except the list."""
    return _digest(json.dumps(words, default=str).encode())


def was_done(path: str, command: str) -> bool:
    """Whether a list is as this very command left it, perhaps when it was killed at its end."""
    # Some edits cannot be repeated: rows that were removed are not there to be removed again. So a
    # list has an attribute that says which command wrote it, and the digests of what that wrote. A
    # later change of the file changes its digest. Only an edit that fails asks this.
    real = real_path(path)
    try:
        known, digests = json.loads(os.getxattr(real, _MARK))
        return (
            known == command
            # a copy of the list has another name, and is not the list that was written
            and real.name in digests
            and all(
                _digest(read_whole(real.with_name(name), LARGEST_TABLE)) == digest
                for name, digest in digests.items()
            )
        )
    except (AttributeError, OSError, ValueError, TypeError):
        # the attribute is missing, or another program wrote it
        return False


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def real_path(path: str) -> Path:
    """Follow a link, so that it stays a link when the file is replaced."""
    return Path(os.path.realpath(opened(path)))

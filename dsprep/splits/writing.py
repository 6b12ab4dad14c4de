"""The lists of a split on the disk: all of them whole, or none of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dsprep.errors import DestinationError, OptionError
from dsprep.storage.local import Lock, destination_errors, holds, sync_directory

_LOCK = ".split.lock"
_SCRATCH = ".split"


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Make a directory, and be the only split that writes there."""
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


def write_together(
    directory: Path,
    files: Mapping[str, Callable[[], bytes]],
    *,
    overwrite: bool,
    inputs: Collection[str] = (),
) -> bool:
    """Write files that belong together. One that is there already, and is the same, may stay.

    What is to be replaced is removed before the first of the new files gets its name, so that
    nobody ever finds files of two splits side by side, whose samples overlap.
    """
    read = {os.path.realpath(path) for path in inputs}
    scratch = directory / _SCRATCH
    new = []
    with destination_errors(directory):
        try:
            _clear(scratch)
            for name, make in files.items():
                final, data = directory / name, make()
                if holds(final, data):
                    continue
                if os.path.lexists(final):
                    _require_replaceable(final, overwrite, read)
                _write(scratch / name, data)
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


def _clear(scratch: Path) -> None:
    """Make an empty directory of what a killed run may have left."""
    if scratch.is_symlink() or scratch.is_file():
        scratch.unlink()
    elif scratch.exists():
        shutil.rmtree(scratch)
    scratch.mkdir()


def _require_replaceable(final: Path, overwrite: bool, read: Collection[str]) -> None:
    if os.path.realpath(final) in read:
        raise OptionError(
            f"{final}: is what this command reads; write to another directory with -o"
        )
    if not overwrite:
        raise DestinationError(
            f"{final}: is there already and differs; give --overwrite to replace it, or another "
            "directory"
        )


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

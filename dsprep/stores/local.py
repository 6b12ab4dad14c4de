"""Files on a local disk: nothing has its final name before it is whole and on the disk."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dsprep.errors import DestinationError

SCRATCH = ".dsprep"
"""What hidden directories are called, or end with, that hold what is not finished."""

LONGEST_NAME = 255
"""Bytes of a file name, as nearly all file systems have it."""

_ADVICE = {
    errno.ENOSPC: "the disk is full; make room and give the same command again to continue",
    errno.EDQUOT: "the disk quota is full; make room and give the same command again to continue",
    errno.EACCES: "permission denied; choose a directory that you may write to",
    errno.EPERM: "permission denied; choose a directory that you may write to",
    errno.EROFS: "the file system is read-only; choose another destination",
    errno.ENOTDIR: "a part of the path is a file, not a directory",
    errno.EFBIG: "the file is larger than the file system or the limits of this process allow",
}


def scratch_name(single: str) -> str:
    """What the hidden directory of an unfinished run is called.

    Args:
        single: The name of the one file that the data set is; empty if it has the directory for
            itself.
    """
    return f".{single}{SCRATCH}" if single else SCRATCH


def is_scratch(path: str) -> bool:
    """Whether a path, with slashes, is or lies in such a directory: it is nobody's data set.

    Args:
        path: Relative to whatever is looked at.
    """
    # Nearly all paths are settled by the first look.
    return SCRATCH in path and any(
        name.startswith(".") and name.endswith(SCRATCH) for name in path.split("/")
    )


@contextmanager
def destination_errors(path: str | Path) -> Iterator[None]:
    """Turn what the operating system refuses into a message that says what to do.

    Raises:
        DestinationError: In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, error.strerror)
        raise DestinationError(f"{error.filename or path}: cannot be written: {advice}") from None


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(temporary: Path, final: Path) -> None:
    """See a file's bytes onto the disk, then give it its final name.

    Raises:
        DestinationError: If they do not get there.
    """
    with destination_errors(final):
        fd = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        temporary.replace(final)


def write_whole(final: Path, data: bytes, scratch: Path) -> None:
    """Write a small file so that its final name never stands for a part of it.

    Args:
        final: Its name.
        data: Its content.
        scratch: A directory on the same file system for the temporary file.

    Raises:
        DestinationError: If it cannot be written.
    """
    temporary = scratch / (final.name + ".partial")
    with destination_errors(final):
        temporary.write_bytes(data)
    publish(temporary, final)


def stage_for(url: str) -> Path:
    """The directory where what goes to a place on S3 waits for it.

    It is below ``TMPDIR``, and of the same name whenever something goes there. `make_stage` makes
    it.
    """
    import tempfile

    above = os.environ.get("TMPDIR") or tempfile.gettempdir()
    name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return Path(above) / f"dsprep-{os.geteuid()}-{name}"


def make_stage(stage: Path) -> None:
    """Make a stage that nobody else can look into or has put there.

    Raises:
        DestinationError: If that cannot be.
    """
    with destination_errors(stage):
        stage.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = stage.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            raise DestinationError(
                f"{stage}: belongs to somebody else; set TMPDIR to a directory of your own"
            )


def free_bytes(directory: Path) -> int:
    """How much more the file system of a directory, which need not exist yet, can take."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free


class Lock:
    """Keeps two runs from writing to one destination.

    The lock is the kernel's (``flock``), so a killed run leaves none behind.
    """

    def __init__(self, path: Path, guarded: Path | str) -> None:
        """Take the lock.

        Args:
            path: The file to lock, which is made if it is not there.
            guarded: What it guards, for the message.

        Raises:
            DestinationError: If another run holds it.
        """
        with destination_errors(path):
            self._file = path.open("a")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A run that has just ended removed the file between our opening and our locking it.
            current = path.exists() and os.path.samestat(path.stat(), os.fstat(self._file.fileno()))
        except OSError:
            current = False
        if not current:
            self._file.close()
            raise DestinationError(
                f"{guarded}: another dsprep run is writing there; wait for it to end"
            )

    def release(self) -> None:
        """Let other runs in."""
        self._file.close()

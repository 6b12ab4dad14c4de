"""Files on a local disk: nothing has its final name before it is whole and on the disk.

Another user may have made the files that are opened here: opening a pipe waits for its writer, and
a device never ends. So only regular files are opened, and whole files are read
only up to a limit. All of dsprep opens files for reading through this module and
:mod:`dsprep.storage.files`; a test checks that.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from google_crc32c import extend

from dsprep.errors import DestinationError, source_errors
from dsprep.opening import GivenPath, as_given, opened
from dsprep.patterns import pattern
from dsprep.storage.store import LARGEST as LARGEST
from dsprep.storage.stored import combine_all
from dsprep.units import format_size

SCRATCH = ".dsprep"  # name, or end of the name, of hidden directories for unfinished files
LONGEST_NAME = 255  # maximum bytes of a file name on nearly all file systems
# Maximum size of a list or a table: its columns take several times as much memory.
LARGEST_TABLE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
_LOCKED = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW  # flags of a file that is opened to be locked

# Seconds to wait for another run at a hidden directory: one that only tidies up takes less.
_PATIENCE = 1.0
_ATTEMPTS = 100  # how often to make a hidden directory that others remove at the same moment

# Paths of streams that a user gave to this process: `<(command)` is `/dev/fd/63`.
_OPEN_ALREADY = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_STREAM = pattern(r"/dev/stdin|/(?:dev|proc/self)/fd/(\d+)")

_ADVICE = {
    errno.ENOSPC: "the disk is full; make room and give the same command again to continue",
    errno.EDQUOT: "the disk quota is full; make room and give the same command again to continue",
    errno.EACCES: "permission denied; choose a directory that you may write to",
    errno.EPERM: "permission denied; choose a directory that you may write to",
    errno.EROFS: "the file system is read-only; choose another destination",
    errno.ENOTDIR: "a part of the path is a file, not a directory",
    errno.EXDEV: "it is on another file system than the directory above it; choose another place",
    errno.EFBIG: "the file is larger than the file system or the limits of this process allow",
}


def is_scratch(path: str) -> bool:
    """Return whether a path is the hidden directory of an unfinished run, or lies in one."""
    # Nearly all paths are settled by the first look.
    return SCRATCH in path and any(
        name.startswith(".") and name.endswith(SCRATCH) for name in path.split("/")
    )


@contextmanager
def destination_errors(path: str | Path) -> Iterator[None]:
    """Raise errors of the operating system with advice."""
    try:
        yield
    except OSError as error:
        raise DestinationError(
            f"{as_given(error.filename) or path}: cannot be written: {advice_on(error)}"
        ) from None


def advice_on(error: OSError) -> str:
    """Return what is wrong where something cannot be written, and what to do about it."""
    return _ADVICE.get(error.errno or 0, error.strerror or str(error))


def sync_path(path: Path) -> None:
    """Make a file, or the names in a directory, survive a power cut."""
    # O_NONBLOCK: opening a pipe does not wait for its writer
    fd = os.open(opened(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def open_regular(path: str | Path, flags: int = os.O_RDONLY, dir_fd: int | None = None) -> int:
    """Open a regular file without waiting; also an ``opener`` for :func:`open`."""
    irregular = OSError(errno.EINVAL, "not a regular file", as_given(str(path)))
    full = opened(path) if dir_fd is None else path
    try:
        fd = os.open(full, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o666, dir_fd=dir_fd)
    except OSError as error:
        raise irregular if error.errno == errno.ENXIO else error from None  # a pipe or a socket
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise irregular
    return fd


def is_pipe(path: str) -> bool:
    """Return whether a path is that of a named pipe."""
    try:
        return stat.S_ISFIFO(os.stat(opened(path)).st_mode)
    except (OSError, ValueError):
        return False


def open_pipe(path: str) -> io.FileIO:
    """Open a pipe that the user named, which waits for its writer."""
    return io.FileIO(opened(path))


def keep_stream(path: str) -> None:
    """Replace a pipe that a shell opened for this process, ``<(command)``, by a file of its bytes.

    A pipe can be read once, by one process, and tells no size. The file gets the pipe's number,
    which workers inherit; it is gone when this process ends.
    """
    number = _STREAM.fullmatch(path)
    if number is None or not is_pipe(path):
        return
    fd = int(number[1] or 0)
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
        return  # the shell gave this descriptor for writing, as `>(command)`
    from tempfile import TemporaryFile  # slow to load

    with source_errors(path), open(fd, "rb", closefd=False) as stream, TemporaryFile() as file:
        file.write(read_stream(stream))
        file.flush()
        os.dup2(file.fileno(), fd)  # workers inherit the descriptor


def read_whole(path: str | Path, limit: int = LARGEST) -> bytes:
    """Read a file: a regular one, or a stream that the user gave to this process."""
    if str(path).startswith(_OPEN_ALREADY) and stat.S_ISFIFO(os.stat(path).st_mode):
        with open(path, "rb") as stream:
            return read_stream(stream, limit)
    fd = open_regular(path)
    try:
        size = os.fstat(fd).st_size
        data = b"" if size > limit else read_expected(fd, size)
    finally:
        os.close(fd)
    if len(data) != size:
        why = f"has {format_size(size)}" if size > limit else "changes while it is read, or grew"
        raise OSError(errno.EINVAL, f"{why}; at most {format_size(limit)} are read", str(path))
    return data


def read_expected(fd: int, size: int) -> bytes:
    """Read a file that should have this size, and one byte more if it has grown."""
    # With as few calls as possible, and no file object, which takes 5 µs to make.
    data = os.read(fd, size + 1)
    while len(data) < size and (more := os.read(fd, size + 1 - len(data))):
        data += more
    return data


def read_stream(stream: BinaryIO, limit: int = LARGEST_TABLE) -> bytes:
    """Read a stream to its end."""
    parts, left = [], limit
    while part := stream.read(min(1 << 20, left + 1)):
        left -= len(part)
        if left < 0:
            raise OSError(errno.EINVAL, f"does not end after {format_size(limit)}")
        parts.append(part)
    return b"".join(parts)


def holds(path: Path, data: bytes) -> bool:
    """Return whether a regular file has exactly these bytes."""
    try:
        return read_whole(path, len(data)) == data
    except OSError:
        return False


def publish(temporary: Path, final: Path) -> None:
    """Write a file's bytes to the disk, then give it its final name."""
    with destination_errors(final):
        sync_path(temporary)
        temporary.replace(final)


def write_whole(final: Path, data: bytes, scratch: Path) -> None:
    """Write a small file that appears under its final name when it is complete."""
    temporary = scratch / (final.name + ".partial")
    try:
        with destination_errors(final):
            temporary.write_bytes(data)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    publish(temporary, final)


def stage_for(url: str) -> Path:
    """Return the directory below ``TMPDIR`` for files on their way to S3; `make_stage` makes it."""
    import hashlib  # slow to load, as tempfile is
    import tempfile

    above = os.environ.get("TMPDIR") or tempfile.gettempdir()
    name = hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return GivenPath(above) / f"dsprep-{os.geteuid()}-{name}"


def make_stage(stage: Path) -> None:
    """Make a stage that other users cannot read; refuse one that another user has made."""
    with destination_errors(stage):
        stage.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = stage.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            raise DestinationError(
                f"{stage}: belongs to somebody else; set TMPDIR to a directory of your own"
            )


@contextmanager
def try_directory(stage: Path) -> Iterator[Path]:
    """Make a stage and a directory in it; remove both after use, and what dead processes left."""
    with ExitStack() as stack:

        def locked(path: Path, how: int) -> int:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, how)
            return descriptor

        def make() -> Path:
            make_stage(stage)
            making = locked(stage, fcntl.LOCK_EX)
            for path in stage.iterdir():
                with suppress(OSError):
                    locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path, ignore_errors=True)
            own = stage / os.urandom(16).hex()
            own.mkdir()
            locked(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            own.stat()
            fcntl.flock(making, fcntl.LOCK_UN)
            return own

        own = None
        with destination_errors(stage):
            for _ in range(_ATTEMPTS):
                # another run has removed the stage, or holds it
                with suppress(FileNotFoundError, BlockingIOError):
                    own = make()
                    break
            own = own or make()
        stack.callback(_remove, own)
        yield own


def _remove(own: Path) -> None:
    shutil.rmtree(own, ignore_errors=True)
    with suppress(OSError):  # the directory above is not empty
        own.parent.rmdir()


def free_bytes(directory: Path) -> int:
    """Return the free bytes of a directory's file system; it need not exist yet."""
    while not directory.exists():
        directory = directory.parent
    return shutil.disk_usage(directory).free


_LARGE_PART = 16384  # parts larger than this, on average, are written without joining them first
_MOST_PARTS = 1024  # maximum number of buffers of one call: Linux's IOV_MAX


class OutputFile:
    """A file, or a part of one, that is written front to back, with its size and checksum."""

    def __init__(self, path: str, offset: int | None = None) -> None:
        """Begin a new file, or a part of one that others write as well, at an offset."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(opened(path), flags | (os.O_TRUNC if offset is None else 0), 0o666)
        if offset:
            os.lseek(self._fd, offset, os.SEEK_SET)
        self.bytes = self.crc32c = 0

    def write(self, *parts: bytes) -> None:
        for data in parts:
            self.crc32c = extend(self.crc32c, data)
            self.bytes += len(data)
        for start in range(0, len(parts), _MOST_PARTS):
            some = parts[start : start + _MOST_PARTS]
            written = os.writev(self._fd, some)
            if written < sum(map(len, some)):  # a full disk says so at the next write
                view = memoryview(b"".join(some))[written:]
                while view:
                    view = view[os.write(self._fd, view) :]

    def write_parts(self, parts: Sequence[bytes], size: int) -> None:
        """Write parts of this size; a photograph from where it was read to, without a copy."""
        if size <= len(parts) * _LARGE_PART:
            self.write(b"".join(parts))
        else:
            self.write(*parts)

    def keep(self, size: int, crc32c: int) -> None:
        """Take over bytes of this checksum that are in the file already, at this place."""
        self.crc32c = combine_all(((self.crc32c, self.bytes), (crc32c, size)))
        self.bytes += size
        os.lseek(self._fd, size, os.SEEK_CUR)

    def cut(self) -> None:
        """Remove what the file has after what was written."""
        os.ftruncate(self._fd, self.bytes)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class Lock:
    """A lock of the kernel (``flock``) on a file, which it opens; it ends with the process."""

    def __init__(
        self,
        path: Path,
        guarded: Path | str,
        patience: float = _PATIENCE,
        *,
        hidden: bool = False,
        shared: bool = False,
    ) -> None:
        """Take the lock, or raise `DestinationError`; make the directory of a hidden file."""
        self._how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        until = time.monotonic() + patience
        with destination_errors(path):
            while not self._take(path, hidden):
                if time.monotonic() >= until:
                    raise DestinationError(
                        f"{guarded}: another dsprep run is writing there; wait for it to end"
                    )
                time.sleep(0.01)

    def _take(self, path: Path, hidden: bool) -> bool:
        self.file = io.FileIO(_open_hidden(path) if hidden else open_regular(path, _LOCKED))
        with suppress(OSError):
            fcntl.flock(self.file, self._how)
            # A run that has just ended removed the file between our opening and our locking it.
            if os.path.samestat(path.stat(), os.fstat(self.file.fileno())):
                return True
        self.file.close()
        return False

    def release(self) -> None:
        self.file.close()


def _open_hidden(path: Path) -> int:
    for _ in range(_ATTEMPTS):
        # another run has just removed or created the directory
        with suppress(FileNotFoundError, FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            return open_regular(path, _LOCKED)
    return open_regular(path, _LOCKED)


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file; a file that is not there has none."""
    try:
        file = io.FileIO(open_regular(path))
    except OSError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


class ScratchLock(Lock):
    """A lock and its hidden directory, which is made and removed with it."""

    def __init__(self, scratch: Path, guarded: Path | str, *, shared: bool = False) -> None:
        """Take the lock; a run that only looks for leftovers releases it soon."""
        self._scratch = scratch
        super().__init__(scratch / "lock", guarded, hidden=True, shared=shared)

    def remove(self) -> None:
        # The locked file is removed last: until then no other run can begin to write there.
        if not self.file.closed and not self._scratch.is_symlink():
            with suppress(OSError):
                remove_all_but(self._scratch, "lock")
                (self._scratch / "lock").unlink()
                self._scratch.rmdir()
        self.release()

    def leave(self) -> None:
        """Release a shared lock; remove its directory if there is nothing else in it."""
        # another process holds the lock, or it is released already
        with suppress(OSError, ValueError):
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.listdir(self._scratch) == ["lock"]:
                (self._scratch / "lock").unlink()
                self._scratch.rmdir()
        self.release()


def remove_all_but(directory: Path, kept: str) -> None:
    """Remove everything in a directory except one name, as far as possible."""
    for path in list(directory.iterdir()):
        if path.name == kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()

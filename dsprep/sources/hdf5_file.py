"""HDF5 through h5py, which not everybody has installed (https://docs.h5py.org)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dsprep.errors import OptionError, SourceError
from dsprep.extras import pip_install
from dsprep.storage.files import OpenFile

# what h5py raises for files that are damaged, or say that they hold more than memory does
DAMAGE = (
    *(OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, UnicodeError),
    MemoryError,
)


class Seekable(io.RawIOBase):
    """An open file as h5py reads it: by `seek` and `readinto`."""

    def __init__(self, file: OpenFile) -> None:
        self._file, self._at, self._size = file, 0, file.facts().size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._file.pread(len(view), self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


def load_h5py(path: str) -> Any:
    """Import h5py; the error of one who has not installed it says how to."""
    try:
        import h5py
    except ImportError as error:
        raise OptionError(
            f"{path}: HDF5 is read by h5py ({error}): {pip_install('h5py')}"
        ) from None
    return h5py


@contextmanager
def h5_errors(path: str) -> Iterator[None]:
    """Raise what h5py raises for damaged files as errors of the source."""
    try:
        yield
    except DAMAGE as error:
        raise SourceError(
            f"{path}: is damaged, or no HDF5 that h5py reads: {first_line(error)}"
        ) from None


def first_line(error: Exception) -> str:
    """Return the first line of what h5py says."""
    return str(error).partition("\n")[0]


@contextmanager
def opened_hdf5(path: str, stream: io.RawIOBase | io.BytesIO) -> Iterator[Any]:
    """Open a file of HDF5 that a stream reads; ``path`` is its name for messages."""
    h5py = load_h5py(path)
    with h5_errors(path):
        opened = h5py.File(stream, "r")
    try:
        yield opened
    finally:
        with h5_errors(path):
            opened.close()


def lies_inside(found: Any) -> bool:
    """Return whether the numbers of a data set lie in its file, and in no other."""
    return not found.is_virtual and not found.external

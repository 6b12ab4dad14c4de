"""Files of HDF5: which arrays they hold, and slices of these.

An array of HDF5 may lie in another file, by a link, as an external or as a
virtual one; such arrays are passed over, because a file from anywhere could name any file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from dsprep.errors import BadSample, SourceError
from dsprep.formats.stream import is_bomb
from dsprep.sources.hdf5_file import (
    DAMAGE,
    Seekable,
    first_line,
    h5_errors,
    lies_inside,
    load_h5py,
    opened_hdf5,
)
from dsprep.sources.tables.arrays import Array, Bytes, Plain, read_header, type_of_items
from dsprep.storage.files import OpenFile
from dsprep.tuples import NamedTuple

_DEEPEST = 8  # groups in each other
_MOST_ARRAYS = 10_000
_LARGEST_CHUNK = 1 << 28
_LARGEST_LABELS = 1 << 30


class H5Array(NamedTuple):
    """An array in a file of HDF5."""

    array: Array  # the array, whose `start` is 0 or, if it is plain, its place in the file
    name: str  # its path in the file
    is_plain: bool  # whether it lies in the file as it is, in one piece
    is_by_row: bool  # whether each row can be read without others


def h5_arrays(path: str, file: OpenFile) -> list[H5Array]:
    """Return the arrays of a file of HDF5."""
    with opened_hdf5(path, Seekable(file)) as opened, h5_errors(path):
        found = [_described(path, file, each) for each in _datasets(path, opened)]
        return [each for each in found if each is not None]


def _datasets(path: str, group: Any, depth: int = 0, seen: set[Any] | None = None) -> Iterator[Any]:
    """Yield the data sets that lie in the file itself, in the order of their names."""
    h5py = load_h5py(path)
    seen = {group} if seen is None else seen  # groups may hold one another
    if depth > _DEEPEST or len(group) > _MOST_ARRAYS:
        raise SourceError(f"{path}: has more groups, or arrays in one, than dsprep reads")
    for name in sorted(group):
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            continue
        each = group[name]
        if isinstance(each, h5py.Group):
            if each not in seen:
                seen.add(each)
                yield from _datasets(path, each, depth + 1, seen)
        elif isinstance(each, h5py.Dataset) and lies_inside(each):
            yield each


def _described(path: str, file: OpenFile, found: Any) -> H5Array | None:
    """Return what a data set says of itself; None if it holds what no array of NumPy does."""
    name = found.name.strip("/")
    if found.shape is None or found.dtype.names is not None:
        return None
    is_text = load_h5py(path).check_string_dtype(found.dtype) is not None
    try:
        kind = "|S1" if is_text else found.dtype.str
        order, code, size = type_of_items(f"{path}: {name}", kind)
    except SourceError:
        return None
    array = Array(name, order, code, size, tuple(found.shape), False, 0)
    offset = found.id.get_offset() if found.chunks is None else None
    if offset is not None and not is_text and offset + array.bytes <= file.facts().size:
        return H5Array(array._replace(start=offset), name, True, True)
    return H5Array(array, name, False, found.chunks is None or found.chunks[0] == 1)


def require_sound(path: str, file: OpenFile, name: str) -> None:
    """Refuse an array whose chunks unpack to far more than they take, or do not fit the memory."""
    with opened_hdf5(path, Seekable(file)) as opened, h5_errors(path):
        found = opened[name]
        size, stored = found.size * found.dtype.itemsize, found.id.get_storage_size()
        chunk = prod(found.chunks or (0,)) * found.dtype.itemsize
    if chunk > _LARGEST_CHUNK:
        raise SourceError(f"{path}: {name} has chunks of {chunk:,} bytes, too large to read")
    if not stored or is_bomb(size, stored):
        raise SourceError(
            f"{path}: {name} says that it has {size:,} bytes, but {stored:,} bytes in the file "
            "cannot be so many images: it was not written, or is a bomb"
        )


class H5Bytes:
    """The bytes of an array of HDF5, of which a few rows are unpacked at once."""

    def __init__(self, path: str, file: OpenFile, name: str, size: int) -> None:
        self._path, self._size = path, size
        h5py = load_h5py(path)
        with h5_errors(path):
            self._file = h5py.File(Seekable(file), "r")
            self._found = self._file[name]

    def read(self, offset: int, count: int) -> bytes:
        first, last = offset // self._size, -(-(offset + count) // self._size)
        try:
            rows = self._found[first:last].tobytes()
        except DAMAGE as error:
            raise BadSample(f"cannot be unpacked: {first_line(error)}") from None
        at = offset - first * self._size
        return bytes(rows[at : at + count])


class Held:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, offset: int, count: int) -> bytes:
        return self._data[offset : offset + count]


@contextmanager
def h5_values(path: str, file: OpenFile, each: H5Array) -> Iterator[tuple[Array, Bytes]]:
    """Read a small array whole, as an array in memory."""
    import numpy

    if each.is_plain:
        yield each.array, Plain(file)
        return
    with opened_hdf5(path, Seekable(file)) as opened, h5_errors(path):
        found = opened[each.name]
        if max(found.size * found.dtype.itemsize, found.id.get_storage_size()) > _LARGEST_LABELS:
            raise SourceError(f"{path}: {each.name} is too large for labels")
        is_text = load_h5py(path).check_string_dtype(found.dtype) is not None
        values = numpy.array(found.asstr()[()], dtype="U") if is_text else found[()]
    data = io.BytesIO()
    numpy.save(data, values, allow_pickle=False)
    held = Held(data.getvalue())
    yield read_header(f"{path}: {each.name}", held, 0, len(data.getvalue()), None), held

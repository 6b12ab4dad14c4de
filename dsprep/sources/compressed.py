"""The decompressed bytes of a file, from front to back: gzip, bzip2 or xz, by its first bytes.

Not :mod:`gzip` and its like: one reader for all three, which says where the damage is, and does not
take the memory that a header of xz asks for.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from dsprep.errors import DamagedShard
from dsprep.storage.opened import OpenFile, open_file

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BLOCK = 1 << 18
"""Bytes that are decompressed at once, whoever reads: of a damaged block, nothing is had."""

_MOST_MEMORY = 1 << 29
"""Bytes that xz may ask for; its strongest preset takes 65 MB."""


class _Decompressor(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, most: int, /) -> bytes: ...


class _Gunzip:
    """zlib's decompressor, keeping what it has not used yet, as the other two do."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, most: int) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, most)


def _unxz() -> Any:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)


# RFC 1952, 2.3.1; the manual of bzip2; the .xz file format, 2.1.1.1.
_KINDS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b\x08": ("gzip", _Gunzip),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\0": ("xz", _unxz),
}


def compression_of(head: bytes) -> str | None:
    """How a file is compressed, by its first six bytes: ``gzip``, ``bzip2``, ``xz`` or None."""
    return next((name for magic, (name, _) in _KINDS.items() if head.startswith(magic)), None)


class _Decompressed(io.RawIOBase):
    def __init__(self, path: str, file: BinaryIO | OpenFile) -> None:
        super().__init__()
        self._path = path
        self._file = file  # closed with this
        head = self._file.read(6) or b""
        self._offset = 0
        kind = next((kind for magic, kind in _KINDS.items() if head.startswith(magic)), None)
        if kind is None:
            raise DamagedShard(path, 0, "is not compressed")
        self._name, self._make = kind
        self._data = head
        self._stream: _Decompressor = self._make()
        self._block = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if not self._block:
            self._block = memoryview(self._decompress())
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._block))
        view[:count] = self._block[:count]
        self._block = self._block[count:]
        return count

    def _decompress(self) -> bytes:
        """The next block of decompressed bytes, or what there is of it; nothing at the end."""
        fed = False
        while True:
            if self._stream.eof and not self._next_stream():
                return b""
            data, self._data = self._data, b""
            try:
                out = self._stream.decompress(data, _BLOCK)
            except (OSError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise self._damaged(f"bad {self._name} data ({error})") from None
            if out:
                self._offset += len(out)
                return out
            if self._stream.eof:
                continue
            if fed and not data:
                raise self._damaged(f"the {self._name} data is cut short")
            self._data = self._more(_BLOCK)
            fed = not self._data

    def _next_stream(self) -> bool:
        """Continue after the end of a compressed stream: with another one, or zeros."""
        data = self._stream.unused_data
        while not (data := data.lstrip(b"\0")):
            if not (data := self._more(_BLOCK)):
                return False
        data += self._more(6)
        if compression_of(data) is None:
            raise self._damaged(f"something else follows the {self._name} data")
        self._data, self._stream = data, self._make()
        return True

    def _more(self, count: int) -> bytes:
        try:
            return self._file.read(count) or b""
        except OSError as error:
            raise self._damaged(f"cannot be read ({error.strerror})") from None

    def _damaged(self, problem: str) -> DamagedShard:
        return DamagedShard(self._path, self._offset, problem)

    def close(self) -> None:
        self._file.close()
        super().close()


def open_compressed(path: str, file: BinaryIO | OpenFile | None = None) -> io.BufferedReader:
    """Open a compressed file for reading from front to back, in constant memory.

    What is read raises :class:`~dsprep.errors.DamagedShard` where the compressed data is damaged;
    its offset is that of the decompressed byte.
    """
    return io.BufferedReader(_Decompressed(path, file or open_file(path)), _BLOCK)

"""Compressed files, decompressed from front to back in constant memory: gzip, zlib, bzip2, xz.

Unlike :mod:`gzip` and its like, this is one reader for all, and it says where the damage is. The
position does not depend on how much is read at once: a damaged piece returns nothing, so pieces and
blocks have fixed sizes, for the scan that finds samples and for the workers that read them.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from dsprep.errors import DamagedShard

_BLOCK = 1 << 20
"""Maximum number of bytes that are decompressed at once."""

_PIECE = 1 << 16
"""Compressed bytes that are read at once."""

_MOST_MEMORY = 1 << 29
"""Memory that xz may ask for; its strongest preset takes 65 MB."""

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


@runtime_checkable
class Readable(Protocol):
    """A file, a pipe, the body of an HTTP response."""

    def read(self, count: int, /) -> bytes:
        """Read at most ``count`` bytes; none only at the end."""


# RFC 1952, 2.3.1; the manual of bzip2; the .xz file format, 2.1.1.1.
_KINDS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b\x08": ("gzip", lambda: zlib.decompressobj(wbits=_GZIP_OR_ZLIB)),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\0": ("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)),
}


def compression_of(head: bytes) -> str | None:
    """Return the compression of a file, by its first six bytes: gzip, bzip2, xz or None."""
    return next((name for magic, (name, _) in _KINDS.items() if head.startswith(magic)), None)


class Decompressor:
    """The decompressed bytes of a file; it may be made of several compressed streams."""

    def __init__(self, path: str, source: Readable, head: bytes, is_shard: bool = False) -> None:
        """Read from a source whose first bytes, at least six, have been read.

        A shard is gzip or zlib, and nothing follows the data. After other files zeros may follow,
        as tapes and mirrors add them.
        """
        self._path = path
        self._source = source
        self._padded = not is_shard
        if is_shard:
            self._name, self._make = "compressed", _KINDS[b"\x1f\x8b\x08"][1]
        else:
            self._name, self._make = next(
                kind for magic, kind in _KINDS.items() if head.startswith(magic)
            )
        self._stream = self._make()
        self._tail = head
        self._offset = 0
        self._block = b""
        self._at = 0
        self._damage: DamagedShard | None = None

    def read(self, count: int) -> bytes:
        """Read at most ``count`` bytes; none only at the end."""
        if self._at == len(self._block):
            self._block, self._at = self._next_block(), 0
        data = self._block[self._at : self._at + count]
        self._at += len(data)
        return data

    def _next_block(self) -> bytes:
        while True:
            if self._damage is not None:
                raise self._damage
            if self._stream.eof and not self._begin_next():
                return b""
            data = self._tail
            # zlib returns what it has not used yet; the other two keep it.
            if not data and getattr(self._stream, "needs_input", True):
                data = self._source.read(_PIECE)
                if not data:
                    self._damage = self._damaged(f"the {self._name} data is cut short")
                    continue
            try:
                out: bytes = self._stream.decompress(data, _BLOCK)
            except (OSError, ValueError, zlib.error, lzma.LZMAError) as error:
                self._damage = self._damaged(f"bad {self._name} data ({error})")
                continue
            self._tail = getattr(self._stream, "unconsumed_tail", b"")
            if out:
                self._offset += len(out)
                return out

    def _begin_next(self) -> bool:
        """Continue after the end of a compressed stream."""
        data = self._stream.unused_data or self._source.read(_PIECE)
        while self._padded and data and not (data := data.lstrip(b"\0")):
            data = self._source.read(_PIECE)
        if data:
            self._tail, self._stream = data, self._make()
        return bool(data)

    def _damaged(self, problem: str) -> DamagedShard:
        return DamagedShard(self._path, self._offset, problem)

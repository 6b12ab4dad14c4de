"""Reading a shard from front to back, never believing a length before the bytes are there."""

from __future__ import annotations

import io
import os
import re
import zlib
from types import TracebackType
from typing import Any, Protocol

from google_crc32c import extend

from dsprep.errors import DamagedShard, SourceError

_BLOCK = 1 << 20


_HEADERS = 1 << 14
"""Bytes read at once where only headers are wanted: some small samples, little of a large one."""


class Readable(Protocol):
    """What bytes can be read from: a file, a pipe, the body of an HTTP response."""

    def read(self, count: int, /) -> bytes:
        """Read at most so many bytes; none only at the end."""


class _Counted(io.RawIOBase):
    """A file that counts what is read from it and keeps its crc32c."""

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self._file = file
        self.crc32c = 0
        self.bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer) or 0
        self.crc32c = extend(self.crc32c, bytes(buffer[:count]))
        self.bytes += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Part(io.RawIOBase):
    """A run of the bytes of a file, in which one can move on."""

    def __init__(self, file: io.FileIO, stop: int) -> None:
        super().__init__()
        self._file = file
        self._stop = stop

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        left = max(0, self._stop - self._file.tell())
        return self._file.readinto(buffer[:left]) or 0

    def close(self) -> None:
        self._file.close()
        super().close()


class _Foreign(io.RawIOBase):
    """Any object that bytes can be read from."""

    def __init__(self, source: Readable) -> None:
        super().__init__()
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Gunzip(io.RawIOBase):
    """The decompressed bytes of a gzip file of one or more members.

    Not :mod:`gzip`: this one never holds more than a block, and says where the damage is.
    """

    def __init__(self, source: io.BufferedReader[Any], path: str) -> None:
        super().__init__()
        self._source = source
        self._path = path
        self._inflate = zlib.decompressobj(wbits=31)
        self._tail = b""
        self._offset = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while True:
            if self._inflate.eof:
                self._tail = self._inflate.unused_data or self._source.read(_BLOCK)
                if not self._tail:
                    return 0
                self._inflate = zlib.decompressobj(wbits=31)
            data = self._tail or self._source.read(_BLOCK)
            if not data:
                raise DamagedShard(self._path, self._offset, "the gzip stream is cut short")
            try:
                out = self._inflate.decompress(data, len(buffer))
            except zlib.error as error:
                raise DamagedShard(self._path, self._offset, f"bad gzip data ({error})") from None
            self._tail = self._inflate.unconsumed_tail
            if out:
                buffer[: len(out)] = out
                self._offset += len(out)
                return len(out)


# RFC 1952, 2.3: magic number, method, five flags, time, and how hard it tried. The first two alone
# may be the length of a TFRecord's first record, but its checksum then never passes for the last.
_GZIP = re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\0\2\4]", re.DOTALL)


def is_gzip(head: bytes) -> bool:
    """Whether a shard is compressed, by its first nine bytes or more."""
    return _GZIP.match(head) is not None


class ShardStream:
    """A shard being read from front to back; one that is gzip is decompressed on the way.

    Attributes:
        path: The file, for messages.
        offset: Where the next byte stands in the (decompressed) shard.
        first: The number of the first sample in what is read.
        is_part: Whether this is not the whole shard, so that its end is not the shard's.
        compressed: Whether it is gzip.
    """

    def __init__(self, path: str, source: Readable | None = None) -> None:
        """Open a shard.

        Args:
            path: The file.
            source: What to read instead; ``path`` is then no more than its name.

        Raises:
            SourceError: If it cannot be opened.
        """
        if source is None:
            self._counted: _Counted | None = _Counted(_open(path))
            self._begin(path, 0, self._counted, _BLOCK)
        else:
            self._counted = None
            self._begin(path, 0, _Foreign(source), _BLOCK)

    @classmethod
    def of_headers(cls, path: str) -> ShardStream:
        """Open a shard of which most is to be skipped.

        Raises:
            SourceError: If it cannot be opened.
        """
        stream = cls.__new__(cls)
        file = _open(path)
        size = os.fstat(file.fileno()).st_size
        stream._counted = None
        stream._begin(path, 0, _Part(file, size), _HEADERS)
        if not stream.compressed:
            stream._size = size
        return stream

    @classmethod
    def of_part(cls, path: str, start: int, stop: int, first: int) -> ShardStream:
        """Open the bytes from ``start`` up to, and without, ``stop`` of a shard that is not gzip.

        Args:
            path: The file.
            start: Where a sample begins.
            stop: Where another one ends.
            first: The number of the first of these samples.

        Raises:
            SourceError: If it cannot be opened.
        """
        stream = cls.__new__(cls)
        file = _open(path)
        file.seek(start)
        stream._counted = None
        stream._begin(path, start, _Part(file, stop), min(_BLOCK, max(stop - start, 1)), plain=True)
        stream.is_part = True
        stream.first = first
        return stream

    def _begin(
        self, path: str, offset: int, raw: io.RawIOBase, buffer: int, plain: bool = False
    ) -> None:
        self.path = path
        self.offset = offset
        self.first = 0
        self.is_part = False
        self._size: int | None = None
        self._raw = raw
        self._file: io.BufferedReader[Any] = io.BufferedReader(raw, buffer)
        self.compressed = not plain and is_gzip(self._file.peek(9))
        if self.compressed:
            self._file = io.BufferedReader(_Gunzip(self._file, path), _BLOCK)

    def read(self, count: int, what: str) -> bytes:
        """Read exactly ``count`` bytes.

        Memory grows with the bytes that are there, not with ``count``.

        Args:
            count: How many bytes.
            what: What they are, for the message.

        Raises:
            DamagedShard: If the shard ends before.
        """
        if count <= _BLOCK:
            data = self._file.read(count)
        else:
            blocks = []
            left = count
            while left and (block := self._file.read(min(left, 16 * _BLOCK))):
                blocks.append(block)
                left -= len(block)
            data = b"".join(blocks)
        if len(data) < count:
            raise self.damaged(
                f"{what} needs {count} bytes, but the file ends after {len(data)} of them"
            )
        self.offset += count
        return data

    def skip(self, count: int, what: str) -> None:
        """Pass over ``count`` bytes, without reading them where the file allows that.

        Args:
            count: How many bytes.
            what: What they are, for the message.

        Raises:
            DamagedShard: If the shard ends before.
        """
        if self._size is None:
            while count > 0:
                block = min(count, _BLOCK)
                self.read(block, what)
                count -= block
        elif self.offset + count > self._size:
            left = self._size - self.offset
            raise self.damaged(
                f"{what} needs {count} bytes, but the file ends after {left} of them"
            )
        else:
            self.offset += count
            self._file.seek(self.offset)

    def at_end(self) -> bool:
        """Whether nothing is left to read."""
        return not self._file.peek(1)

    def rest_is_zero(self) -> bool:
        """Read to the end, or to the block that holds something else than zeros."""
        while block := self._file.read(_BLOCK):
            self.offset += len(block)
            if block != bytes(len(block)):
                return False
        return True

    def checksum(self) -> tuple[int, int]:
        """The size in bytes and the crc32c of the whole file on disk, which is read to its end.

        Only for a shard that was opened to be read as a whole.
        """
        assert self._counted is not None
        while self._counted.read(_BLOCK):
            pass
        return self._counted.bytes, self._counted.crc32c

    def damaged(self, problem: str, offset: int | None = None) -> DamagedShard:
        """The error that names this shard and where it breaks."""
        return DamagedShard(self.path, self.offset if offset is None else offset, problem)

    def __enter__(self) -> ShardStream:
        """Return the stream itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()


def _open(path: str) -> io.FileIO:
    try:
        return io.FileIO(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None

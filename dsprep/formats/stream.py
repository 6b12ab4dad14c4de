"""Reading a shard from front to back, never believing a length before the bytes are there."""

from __future__ import annotations

import io
import re
import zlib
from types import TracebackType
from typing import Any

from google_crc32c import extend

from dsprep.errors import DamagedShard, SourceError

_BLOCK = 1 << 20


class _Counted(io.RawIOBase):
    """A file that counts what is read from it and keeps its crc32c."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._file = io.FileIO(path)
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
    """A shard being read from front to back.

    Attributes:
        path: The file, for messages.
        offset: How many (decompressed) bytes have been read.
    """

    def __init__(self, path: str) -> None:
        """Open a shard; gzip is recognized by its first bytes.

        Raises:
            SourceError: If it cannot be opened.
        """
        self.path = path
        self.offset = 0
        try:
            self._counted = _Counted(path)
        except OSError as error:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from None
        self._file: io.BufferedReader[Any] = io.BufferedReader(self._counted, _BLOCK)
        if is_gzip(self._file.peek(9)):
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
        """The size in bytes and the crc32c of the whole file on disk, which is read to its end."""
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
        self._counted.close()

"""Reading a shard from front to back, never believing a length before the bytes are there.

The buffer is a plain bytes object that is sliced: one of :mod:`io` copies all that it holds to tell
whether its end is reached, and costs more a call than parsing a header does.
"""

from __future__ import annotations

import io
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

from google_crc32c import extend

from dsprep.errors import DamagedShard, SourceError
from dsprep.formats.compressed import Decompressor, Readable, compression_of
from dsprep.storage.files import OpenFile, open_file
from dsprep.units import format_extensions

_BLOCK = 1 << 20

_HEADERS = 1 << 14
"""Bytes read at once where only headers are wanted: some small samples, little of a large one."""

_STEP = 16 * _BLOCK
"""Of a longer run than this, no more is asked for at once than is known to be there."""


_BOMB = 1 << 30
_MOST_COMPRESSED = 100


def is_bomb(size: int, packed: int) -> bool:
    """Whether a sample is made to fill the memory.

    Data that compresses a hundred times is no image, or is one of less than a gigabyte.
    """
    return size > max(_BOMB, _MOST_COMPRESSED * packed)


def why_no_shard(passed_over: Mapping[str, int], kept: int) -> str:
    """Say why a tar is not a WebDataset shard; empty if at least half of it is samples."""
    lost = sum(passed_over.values())
    if lost <= kept:
        return ""
    return (
        f"{lost:,} of {lost + kept:,} members belong to no sample of a WebDataset "
        f"({format_extensions(passed_over)}): unpack it, or give --from images if images are in "
        "it; --from webdataset takes only the other members"
    )


class _Counted:
    """A file that counts what is read from it and keeps its crc32c."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.crc32c = 0
        self.bytes = 0

    def read(self, count: int) -> bytes:
        data = self._file.read(count) or b""
        self.crc32c = extend(self.crc32c, data)
        self.bytes += len(data)
        return data


class _Part:
    """A run of the bytes of a file."""

    def __init__(self, file: OpenFile, start: int, stop: int) -> None:
        self._file = file
        self._at = start
        self._stop = stop

    def read(self, count: int) -> bytes:
        data = self._file.pread(min(count, self._stop - self._at), self._at)
        self._at += len(data)
        return data


# RFC 1952, 2.3: magic number, method, five flags, time, and how hard it tried. The first two alone
# may be the length of a TFRecord's first record, but its checksum then never passes for the last.
_GZIP = re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\0\2\4]", re.DOTALL)


def is_gzip(head: bytes) -> bool:
    """Whether a shard is gzip, by its first nine bytes or more."""
    return _GZIP.match(head) is not None


# RFC 1950, 2.2: deflate with the usual window, at each level.
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_HEAD = 512


def is_zlib(head: bytes) -> bool:
    """Whether a shard is a zlib stream, by its first bytes: the more, the surer.

    TensorFlow has these, too. The length of a record, or a name in a tar, may begin alike, but does
    not decompress.
    """
    if not head.startswith(_ZLIB):
        return False
    try:
        zlib.decompressobj().decompress(head[:_HEAD])
    except zlib.error:
        return False
    return True


class ShardStream:
    """A shard that is read from front to back; gzip and zlib are decompressed on the way."""

    def __init__(self, path: str, source: Readable | None = None) -> None:
        """Open a shard."""
        self._counted: _Counted | None = None
        if source is None:
            self._file = _open(path)
            source = self._counted = _Counted(self._file)
        self._begin(path, source, 0, _BLOCK)
        self._look_for_compression()

    @classmethod
    def of_headers(cls, path: str) -> ShardStream:
        """Open a shard to read headers and skip the rest."""
        stream = cls.__new__(cls)
        stream._file = _open(path)
        stream._begin(path, stream._file, 0, _HEADERS)
        stream._look_for_compression()
        if not stream.compressed:
            stream._size = stream._file.facts().size
        return stream

    @classmethod
    def of_archive(cls, path: str) -> ShardStream:
        """Open a tar of any compression, to read headers and skip the rest.

        A member too large for memory is not damage: the caller leaves it out.
        """
        stream = cls.__new__(cls)
        stream._file = _open(path)
        stream._begin(path, stream._file, 0, _HEADERS)
        if compression_of(stream.peek(6)) is None:
            stream._size = stream._file.facts().size
        else:
            stream._source = Decompressor(path, stream._file, stream._block)
            stream._block, stream._block_size = b"", _BLOCK
            stream.is_unpacked = True
        return stream

    @classmethod
    def of_part(cls, path: str, file: OpenFile, start: int, stop: int, first: int) -> ShardStream:
        """Take the bytes from ``start`` up to, and without, ``stop``, of a plain shard."""
        stream = cls.__new__(cls)
        stream._begin(path, _Part(file, start, stop), start, _BLOCK)
        stream.is_part = True
        stream.first = first
        return stream

    @classmethod
    def of_sample(cls, path: str, encoded: bytes, start: int, first: int) -> ShardStream:
        """Take the bytes of one sample, of a shard that is open elsewhere."""
        stream = cls.__new__(cls)
        stream._begin(path, io.BytesIO(encoded), start, len(encoded))
        stream.is_part = True
        stream.first = first
        return stream

    def _begin(self, path: str, source: Readable, offset: int, block: int) -> None:
        self.path = path
        self.offset = offset
        self.first = 0
        self.is_part = self.compressed = self.is_unpacked = False
        self._size: int | None = None
        self._source = source
        self._block_size = block
        self._block = b""
        self._at = 0
        self.passed_over: Counter[str] = Counter()

    _file: OpenFile | None = None

    def _look_for_compression(self) -> None:
        wanted = 9
        while len(self._block) < wanted and (data := self._source.read(_HEADERS)):
            self._block += data
            wanted = _HEAD if self._block.startswith(_ZLIB) else 9
        self.compressed = is_gzip(self._block) or is_zlib(self._block)
        if self.compressed:
            self._source = Decompressor(self.path, self._source, self._block, is_shard=True)
            self._block, self._block_size = b"", _BLOCK

    def read(self, count: int, what: str) -> bytes:
        """Read exactly ``count`` bytes.

        Memory grows with the bytes that are there, not with ``count``.
        """
        at = self._at
        stop = at + count
        if stop <= len(self._block):
            self._at = stop
            self.offset += count
            return self._block[at:stop]
        return self._read_on(count, what)

    def _read_on(self, count: int, what: str) -> bytes:
        """Read more than there is in the block."""
        self._refuse_bomb(count, what)
        parts = [self._block[self._at :]]
        have = len(parts[0])
        self._block, self._at = b"", 0
        while have < count:
            missing = count - have
            # What is long is not read into a block first, to be copied out of it.
            data = self._source.read(min(max(missing, self._block_size), _STEP))
            if not data:
                raise self.damaged(
                    f"{what} needs {count} bytes, but the file ends after {have} of them"
                )
            if len(data) > missing:
                self._block, self._at = data, missing
                data = data[:missing]
            parts.append(data)
            have += len(data)
        self.offset += count
        return b"".join(parts)

    def peek(self, count: int) -> bytes:
        """Return the next ``count`` bytes, or fewer at the end, without moving past them."""
        while len(self._block) - self._at < count and (
            data := self._source.read(max(count, self._block_size))
        ):
            self._block, self._at = self._block[self._at :] + data, 0
        return self._block[self._at : self._at + count]

    def skip(self, count: int, what: str) -> None:
        """Pass over ``count`` bytes, without reading them where the file allows that."""
        if self._at + count <= len(self._block):
            self._at += count
            self.offset += count
            return
        self._refuse_bomb(count, what)
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
            assert self._file is not None
            self.offset += count
            self._file.seek(self.offset)
            self._block, self._at = b"", 0

    def _refuse_bomb(self, count: int, what: str) -> None:
        if self.compressed and self._file is not None:
            packed = self._file.facts().size
            if is_bomb(count, packed):
                raise self.damaged(f"{what} of {count} bytes, compressed to {packed}: a bomb")

    def at_end(self) -> bool:
        """Whether nothing is left to read."""
        if self._at < len(self._block):
            return False
        self._block, self._at = self._source.read(self._block_size), 0
        return not self._block

    def rest_is_zero(self) -> bool:
        """Read to the end, or to the block that holds something else than zeros."""
        while not self.at_end():
            block = self._block[self._at :]
            self._at += len(block)
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
        if self._file is not None:
            self._file.close()


def _open(path: str) -> OpenFile:
    try:
        return open_file(path)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None

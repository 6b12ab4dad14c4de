"""Reading a file from front to back: decompressed, and never believing a length too early.

The buffer of a stream is a plain bytes object that is sliced: one of :mod:`io` copies all that it
holds to tell whether its end is reached, and costs more a call than parsing a header does.
"""

from __future__ import annotations

import bz2
import lzma
import re
import struct
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, Protocol, Self, runtime_checkable

from google_crc32c import extend

from dsprep.errors import DamagedShard, DsprepError, SourceError, source_errors
from dsprep.extras import pip_install
from dsprep.patterns import pattern
from dsprep.storage.files import OpenFile, open_file
from dsprep.storage.stored import Facts
from dsprep.units import format_extensions

_BLOCK = 1 << 20  # maximum number of bytes that are read or decompressed at once
_PIECE = 1 << 16  # compressed bytes that are read at once
# bytes read at once where only headers are wanted: some small samples, little of a large one
_HEADERS = 1 << 14
_MANY_HEADERS = 1 << 18  # and where samples are small, which still fits a core's own cache
_STEP = 16 * _BLOCK  # bytes of one read: allocate no more than the file is known to hold
_MOST_MEMORY = 1 << 29  # memory that xz may ask for; its strongest preset takes 65 MB
_BOMB = 1 << 30


def is_bomb(size: int, packed: int) -> bool:
    """Whether a sample is made to fill the memory."""
    # Data that compresses a hundred times is no image, or is one of less than a gigabyte.
    return size > max(_BOMB, 100 * packed)


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


# Compression


@runtime_checkable
class Readable(Protocol):
    """A file, a pipe, the body of an HTTP response."""

    def read(self, count: int, /) -> bytes:
        """Read at most ``count`` bytes; none only at the end."""


_inflater = partial(zlib.decompressobj, wbits=32 + zlib.MAX_WBITS)  # gzip or zlib


# RFC 1952, 2.3.1; the manual of bzip2; the .xz file format, 2.1.1.1.
_KINDS: dict[bytes, tuple[str, Callable[[], Any]]] = {
    b"\x1f\x8b\x08": ("gzip", _inflater),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\0": ("xz", partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, _MOST_MEMORY)),
}

# RFC 1952, 2.3: magic number, method, five flags, time, and how hard it tried. The first two alone
# may be the length of a TFRecord's first record, but its checksum then never passes for the last.
_GZIP = pattern(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\0\2\4]", re.DOTALL)

# RFC 1950, 2.2: deflate with the usual window, at each level. TensorFlow has these, too. The length
# of a record, or a name in a tar, may begin alike, but does not decompress.
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_HEAD = 512

_ZSTD = b"\x28\xb5\x2f\xfd"  # RFC 8878, 3.1.1
_FRAMES = b"LDFZ01\0\0"  # litdata 0.2.76, streaming/framed_zstd.py


def zstd() -> Any:
    """Return the module that compresses with zstd, which is an extra."""
    import zstandard

    return zstandard


def require_zstd(what: str, error: type[DsprepError] = SourceError) -> None:
    """Raise an error that says what cannot be done without zstd."""
    if find_spec("zstandard") is None:
        raise error(f"{what}: needs zstandard, which is not installed; {pip_install('zstandard')}")


def compression_of(head: bytes) -> str | None:
    """Return the compression of a file, by its first six bytes: gzip, bzip2, xz or None."""
    return next((name for magic, (name, _) in _KINDS.items() if head.startswith(magic)), None)


def compression_of_shard(head: bytes) -> str | None:
    """Return that of a shard, by its first bytes, nine or more; None if it has none.

    It is gzip, zstd, zlib, or frames: those of litdata.
    """
    if _GZIP.match(head):
        return "gzip"
    if head.startswith(_FRAMES):
        return "frames"
    if head.startswith(_ZSTD):
        return "zstd"
    if not head.startswith(_ZLIB):
        return None
    try:
        zlib.decompressobj().decompress(head[:_HEAD])
    except zlib.error:
        return None
    return "zlib"


class Decompressor:
    """Decompress a file of one or several compressed streams, in constant memory.

    Unlike :mod:`gzip` and similar modules, it reads all kinds, and it reports where the damage is.
    That position must not depend on how much is read at once, and a damaged piece returns nothing.
    So pieces and blocks have fixed sizes, both for the scan of samples and for the workers.
    """

    def __init__(self, path: str, source: Readable, head: bytes, is_shard: bool = False) -> None:
        """Read from a source whose first bytes, at least six, have been read."""
        # A shard is gzip or zlib, and nothing follows the data. After other files zeros may follow,
        # as tapes and mirrors add them.
        self._path = path
        self._source = source
        self._padded = not is_shard
        self._name = "compressed"
        self._make: Callable[[], Any] = _inflater
        if not is_shard:
            kinds = (kind for magic, kind in _KINDS.items() if head.startswith(magic))
            self._name, self._make = next(kinds)
        self._stream = self._make()
        self._tail = head
        self._offset = 0
        self._block = b""
        self._at = 0
        self._damage: DamagedShard | None = None

    def read(self, count: int) -> bytes:
        if self._at == len(self._block):
            self._block, self._at = self._next_block(), 0
        data = self._block[self._at : self._at + count]
        self._at += len(data)
        return data

    def _next_block(self) -> bytes:
        while True:
            if self._damage is not None:
                raise self._damage
            if self._stream.eof:
                data = self._stream.unused_data or self._source.read(_PIECE)
                while self._padded and data and not (data := data.lstrip(b"\0")):
                    data = self._source.read(_PIECE)
                if not data:
                    return b""
                self._tail, self._stream = data, self._make()
            data = self._tail
            # zlib returns what it has not used yet; the other two keep it.
            if not data and getattr(self._stream, "needs_input", True):
                data = self._source.read(_PIECE)
                if not data:
                    self._damage = DamagedShard(
                        self._path, self._offset, f"the {self._name} data is cut short"
                    )
                    continue
            try:
                out: bytes = self._stream.decompress(data, _BLOCK)
            except (OSError, ValueError, zlib.error, lzma.LZMAError) as error:
                problem = f"bad {self._name} data ({error})"
                self._damage = DamagedShard(self._path, self._offset, problem)
                continue
            self._tail = getattr(self._stream, "unconsumed_tail", b"")
            if out:
                self._offset += len(out)
                return out


class _ZstdDecompressor:
    """Decompress a shard of one or several frames of zstd, in constant memory."""

    def __init__(self, path: str, source: Readable, head: bytes) -> None:
        """Read from a source whose first bytes have been read."""
        require_zstd(path)
        self._path, self._offset = path, 0
        self._block, self._at = b"", 0
        parts = _Chained(head, source)
        self._reader = zstd().ZstdDecompressor().stream_reader(parts, read_across_frames=True)

    def read(self, count: int) -> bytes:
        if self._at == len(self._block):
            try:
                self._block, self._at = self._reader.read(_BLOCK), 0
            except zstd().ZstdError as error:
                problem = f"bad zstd data ({error})"
                raise DamagedShard(self._path, self._offset, problem) from None
            self._offset += len(self._block)
        data = self._block[self._at : self._at + count]
        self._at += len(data)
        return data


class _FramesDecompressor:
    """Decompress a chunk of litdata whose samples are in frames of zstd: `compression_level=batch`.

    It gives the bytes of the same chunk without compression: the number of samples, their offsets,
    and they. Facts are those of ``streaming/framed_zstd.py`` of litdata 0.2.76, little-endian:

    - the magic, u16 version, u16 flags, u32 samples, u32 samples of a frame, u32 frames
    - u32 offset of each sample among all of them, and of the end of the last
    - of each frame u32 first sample, u32 samples, u64 offset in the file, u32 size, u32 size before
    - the frames
    """

    def __init__(self, path: str, source: Readable, head: bytes) -> None:
        """Read from a source whose first bytes have been read."""
        require_zstd(path)
        self._path, self._source, self._offset = path, _Chained(head, source), 0
        self._blocks, self._block, self._at = self._decompressed(), b"", 0

    def read(self, count: int) -> bytes:
        if self._at == len(self._block):
            self._block, self._at = next(self._blocks, b""), 0
        data = self._block[self._at : self._at + count]
        self._at += len(data)
        return data

    def _decompressed(self) -> Iterator[bytes]:
        """Yield the head of the chunk, and the samples of each frame."""
        _, version, _, count, _, frames = struct.unpack("<8sHHIII", self._read(24))
        if version != 1:
            raise self._damaged(f"frames of version {version}, which dsprep does not know")
        offsets = array("I", self._read(4 * (count + 1)))
        table = self._read(24 * frames)
        if sys.byteorder == "big":
            offsets.byteswap()
        start = 4 * (count + 2)
        if offsets[-1] + start >= 1 << 32:
            raise self._damaged("the offsets of samples are not those of a chunk")
        head = array("I", [count, *(start + min(each, offsets[-1]) for each in offsets)])
        if sys.byteorder == "big":
            head.byteswap()
        yield head.tobytes()
        for _, _, offset, packed, size in struct.iter_unpack("<IIQII", table):
            if offset != self._offset or is_bomb(size, packed):
                raise self._damaged("the table of frames is wrong")
            yield self._frame(packed, size)
        if self._source.read(1):
            raise self._damaged("bytes follow the last frame")

    def _frame(self, packed: int, size: int) -> bytes:
        data = self._read(packed)
        try:
            # Decompressing takes the size in a frame as true; some frames have none.
            told = zstd().frame_content_size(data)
            found: bytes = b""
            if told in (-1, size):
                found = zstd().ZstdDecompressor().decompress(data, max_output_size=size)
            if len(found) != size:
                raise ValueError("the frame does not have the size that the table of frames says")
        except (zstd().ZstdError, ValueError) as error:
            raise self._damaged(f"bad zstd data ({error})") from None
        return found

    def _read(self, count: int) -> bytes:
        """Read exactly some bytes; memory grows with the bytes that are there."""
        parts, left = list[bytes](), count
        while left:
            data = self._source.read(min(left, _STEP))
            if not data:
                raise self._damaged(f"{left} bytes are missing at its end")
            parts.append(data)
            left -= len(data)
        self._offset += count
        return b"".join(parts)

    def _damaged(self, problem: str) -> DamagedShard:
        return DamagedShard(self._path, self._offset, problem)


class _Chained:
    """The first bytes of a file, and then what follows them."""

    def __init__(self, head: bytes, source: Readable) -> None:
        self._head, self._source = head, source

    def read(self, count: int = _PIECE) -> bytes:
        data, self._head = self._head[:count], self._head[count:]
        return data or self._source.read(count)


_BY_FRAMES: dict[str | None, Callable[[str, Readable, bytes], Readable]] = {
    "zstd": _ZstdDecompressor,
    "frames": _FramesDecompressor,
}

# Streams


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


class ByteRun:
    """A run of the bytes of a file."""

    def __init__(self, file: OpenFile, start: int, stop: int) -> None:
        self._file, self._at, self._stop = file, start, stop

    def read(self, count: int) -> bytes:
        data = self._file.pread(min(count, self._stop - self._at), self._at)
        self._at += len(data)
        return data


class ShardStream:
    """A shard that is read from front to back; gzip and zlib are decompressed on the way."""

    def __init__(
        self,
        path: str,
        source: Readable | None = None,
        *,
        headers: bool = False,
        is_shard: bool = True,
        start: int | None = None,
    ) -> None:
        """Open a shard, or read from a source.

        With ``headers``, of a shard or of a tar of any compression, headers are read and the rest
        is skipped. With ``start``, the source has the bytes of a plain shard from there on.
        """
        self._file: OpenFile | None = None
        self._counted: _Counted | None = None
        if source is None:
            with source_errors(path):
                source = self._file = open_file(path)
            if not headers:
                source = self._counted = _Counted(self._file)
        self.path = path
        self.offset, self.is_part = start or 0, start is not None
        self.passed_over: Counter[str] = Counter()
        self.compressed = False
        self._source = source
        self._block, self._at = b"", 0
        self._block_size = _HEADERS if headers else _BLOCK
        self._size: int | None = None  # size of an uncompressed file, where bytes can be skipped
        # size of a compressed file, which may be a decompression bomb
        self._packed: int | None = None
        if not self.is_part:
            self._recognize(is_shard)
        if headers and not self.compressed and self._file is not None:
            self._size = self._file.facts().size

    def facts(self) -> Facts:
        """Return the size of the file that was opened, and when it was last changed."""
        assert self._file is not None
        return self._file.facts()

    def _recognize(self, is_shard: bool) -> None:
        """Decompress what follows if the first bytes are those of a compressed file."""
        wanted = 9
        while len(self._block) < wanted and (data := self._source.read(_HEADERS)):
            self._block += data
            wanted = _HEAD if is_shard and self._block.startswith(_ZLIB) else 9
        found = (compression_of_shard if is_shard else compression_of)(self._block)
        self.compressed = found is not None
        if self.compressed:
            # A member of a tar that is too large for memory is not damage: the caller skips it.
            if is_shard and self._file is not None:
                self._packed = self._file.facts().size
            if found in _BY_FRAMES:
                self._source = _BY_FRAMES[found](self.path, self._source, self._block)
            else:
                self._source = Decompressor(self.path, self._source, self._block, is_shard)
            self._block, self._block_size = b"", _BLOCK

    def read(self, count: int, what: str) -> bytes:
        """Read exactly ``count`` bytes."""
        # Memory grows with the bytes that are there, not with `count`.
        at = self._at
        stop = at + count
        if stop <= len(self._block):
            self._at = stop
            self.offset += count
            return self._block[at:stop]
        self._refuse_bomb(count, what)
        parts = [self._block[at:]]
        have = len(parts[0])
        self._block, self._at = b"", 0
        while have < count:
            missing = count - have
            # What is long is not read into a block first, to be copied out of it.
            data = self._source.read(min(max(missing, self._block_size), _STEP))
            if not data:
                raise self._cut_off(count, have, what)
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

    def held(self) -> tuple[bytes, int]:
        """Return the block that was read last, and where in it the stream is."""
        return self._block, self._at

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
            raise self._cut_off(count, self._size - self.offset, what)
        else:
            assert self._file is not None
            # More is read at once as long as little of it is passed over.
            is_little = count - (len(self._block) - self._at) < _HEADERS
            self._block_size = min(2 * self._block_size, _MANY_HEADERS) if is_little else _HEADERS
            self.offset += count
            self._file.seek(self.offset)
            self._block, self._at = b"", 0

    def _refuse_bomb(self, count: int, what: str) -> None:
        if self._packed is not None and is_bomb(count, self._packed):
            raise self.damaged(f"{what} of {count} bytes, compressed to {self._packed}: a bomb")

    def _cut_off(self, count: int, have: int, what: str) -> DamagedShard:
        return self.damaged(f"{what} needs {count} bytes, but the file ends after {have} of them")

    def records(self) -> Iterator[tuple[int, int]]:
        """Return the position and the offset of each record that the caller reads."""
        position = 0
        while not self.at_end():
            yield position, self.offset
            position += 1

    def blocks(self) -> Iterator[bytes]:
        """Read the rest, block by block."""
        while not self.at_end():
            yield self.read(len(self._block) - self._at, "a block")

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
        """The size in bytes and the crc32c of the whole file on disk, which is read to its end."""
        # Only for a shard that was opened to be read as a whole.
        assert self._counted is not None
        while self._counted.read(_BLOCK):
            pass
        return self._counted.bytes, self._counted.crc32c

    def damaged(self, problem: str, offset: int | None = None) -> DamagedShard:
        return DamagedShard(self.path, self.offset if offset is None else offset, problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

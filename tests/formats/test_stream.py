"""Reading a file front to back: compression, checksums, and lengths that are not to be believed."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import DamagedShard
from dsprep.formats import tar
from dsprep.formats.stream import ShardStream, compression_of_shard
from tests.formats.test_contract import properties


def opened(path: Path, data: bytes) -> ShardStream:
    path.write_bytes(data)
    return ShardStream(str(path))


CONTENT = bytes(range(256)) * 8192
"""More than one block."""


NUMBERS = b"".join(struct.pack("<I", number) for number in range(700_000))
"""More bytes than the test of skipping passes, no two blocks of them equal."""

_deflate = zlib.compressobj(0, zlib.DEFLATED, 31)
A_BLOCK = _deflate.compress(CONTENT[:1_048_473]) + _deflate.flush()
"""As much of it, not compressed, as makes a file of one block of 1 MiB."""


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(CONTENT, id="plain"),
        pytest.param(gzip.compress(CONTENT), id="gzip"),
        pytest.param(gzip.compress(CONTENT, compresslevel=1), id="fast"),
        pytest.param(gzip.compress(CONTENT[:999]) + gzip.compress(CONTENT[999:]), id="two members"),
        pytest.param(gzip.compress(b"") + gzip.compress(CONTENT), id="an empty member"),
        pytest.param(A_BLOCK + gzip.compress(CONTENT[1_048_473:]), id="a member of one block"),
    ],
)
def test_reads_a_file_to_its_end(tmp_path: Path, data: bytes) -> None:
    with opened(tmp_path / "file", data) as stream:
        assert stream.read(999, "the start") == CONTENT[:999]
        assert stream.offset == 999
        assert not stream.at_end()
        assert stream.read(len(CONTENT) - 999, "the rest") == CONTENT[999:]
        assert stream.at_end()
        assert stream.offset == len(CONTENT)


@properties
@given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 2_000)), max_size=60))
def test_skips_what_is_not_wanted(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]
) -> None:
    path, at = tmp_path_factory.getbasetemp() / "skipped", 0
    path.write_bytes(NUMBERS)
    with ShardStream(str(path), headers=True) as stream:
        for skipped, wanted in steps:
            stream.skip(skipped, "a part")
            at += skipped
            assert stream.offset == at
            assert stream.read(wanted, "a part") == NUMBERS[at : at + wanted]
            at += wanted


@pytest.mark.parametrize("consumed", [0, 10, len(CONTENT)])
@pytest.mark.parametrize("data", [CONTENT, gzip.compress(CONTENT)], ids=["plain", "gzip"])
def test_the_checksum_is_that_of_the_whole_file(tmp_path: Path, data: bytes, consumed: int) -> None:
    with opened(tmp_path / "file", data) as stream:
        stream.read(consumed, "some bytes")
        assert stream.checksum() == (len(data), crc32c(data))


def test_says_how_much_is_missing_and_where(tmp_path: Path) -> None:
    with opened(tmp_path / "file", b"123456") as stream:
        stream.read(2, "a head")
        with pytest.raises(DamagedShard, match="a body needs 9 bytes, but .* after 4") as caught:
            stream.read(9, "a body")
    assert caught.value.offset == 2


@pytest.mark.parametrize("length", [1 << 31, 1 << 63, (1 << 96) - 1])
def test_memory_follows_the_bytes_that_are_there(tmp_path: Path, length: int) -> None:
    with opened(tmp_path / "file", CONTENT) as stream:
        tracemalloc.start()
        try:
            with pytest.raises(DamagedShard):
                stream.read(length, "a record")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 30_000_000


class TestGzip:
    def test_a_bomb_is_not_held_in_memory(self, tmp_path: Path) -> None:
        bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
        data = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(100)) + bomb.flush()
        assert len(data) < 1 << 17
        with opened(tmp_path / "bomb", data) as stream:
            tracemalloc.start()
            try:
                assert stream.read(10, "a head") == bytes(10)
                assert stream.rest_is_zero()
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert stream.offset == 100 << 20
        assert peak < 10_000_000

    @pytest.mark.parametrize(
        "garbage", [b"\0", b"x" * 100, b"\x1f\x8b", b"\x1f\x8b\x09" + bytes(99)]
    )
    def test_what_follows_the_stream_is_damage(self, tmp_path: Path, garbage: bytes) -> None:
        with opened(tmp_path / "file", gzip.compress(b"abc") + garbage) as stream:
            assert stream.read(3, "the content") == b"abc"
            with pytest.raises(DamagedShard, match="compressed data") as caught:
                stream.at_end()
        assert caught.value.offset == 3

    def test_a_wrong_checksum_is_damage(self, tmp_path: Path) -> None:
        data = bytearray(gzip.compress(CONTENT))
        data[-8] ^= 1
        with opened(tmp_path / "file", bytes(data)) as stream, pytest.raises(DamagedShard):
            stream.read(len(CONTENT), "the content")
            stream.at_end()

    @pytest.mark.parametrize("level", range(10))
    def test_is_recognized(self, level: int) -> None:
        deflate = zlib.compressobj(level, zlib.DEFLATED, 31)
        for data in (deflate.compress(b"abc") + deflate.flush(), gzip.compress(b"abc", level)):
            assert compression_of_shard(data) == "gzip"
        for data in (zlib.compress(b"abc", level), zlib.compress(CONTENT, level)[:512]):
            assert compression_of_shard(data) == "zlib"

    def test_no_tfrecord_is_taken_for_it(self) -> None:
        # Lengths that begin with gzip's magic number and method: 559,903 bytes, and so on; and
        # those that begin with zlib's: 376 bytes, 24,184, 40,056, and so on.
        for number in range(256):
            lengths = [number << 24 | 0x088B1F]
            lengths += [number << 16 | head for head in (0x0178, 0x5E78, 0x9C78, 0xDA78)]
            for length in (struct.pack("<Q", each) for each in lengths):
                crc = crc32c(length)
                masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFF_FFFF
                head = length + struct.pack("<I", masked) + b"\x0a\xf4\x02\x0a\x0d" + CONTENT
                assert compression_of_shard(head) is None

    def test_nor_if_it_comes_in_drops(self) -> None:
        class Drops(io.BytesIO):
            def read(self, count: int | None = -1) -> bytes:
                return super().read(9)

        data = struct.pack("<Q", 0x0C9C78) + CONTENT  # of which nine bytes might be zlib's
        assert compression_of_shard(data[:9]) == "zlib"
        stream = ShardStream("-", Drops(data))
        assert not stream.compressed
        assert stream.read(600, "a record") == data[:600]

    @pytest.mark.parametrize("name", ["x^bird.jpg", "x^cat.jpg", "x^dog.jpg", "x\x01y.jpg"])
    def test_no_tar_is_taken_for_it(self, name: str) -> None:
        assert compression_of_shard(tar.member(name.encode(), 9)) is None

    @pytest.mark.parametrize("head", [b"", b"\x1f", b"\x1f\x8b", b"\x1f\x8b\x08", b"PK\3\4" * 3])
    def test_other_files_are_not(self, head: bytes) -> None:
        assert compression_of_shard(head) is None

"""Tars that lie: about lengths, names, checksums, and where they end."""

from __future__ import annotations

import io
import tarfile
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import BadSample, DamagedShard
from dsprep.formats import tar
from dsprep.formats.stream import ShardStream
from dsprep.formats.webdataset import WebDataset
from tests.formats.layouts import JPEG, Picture, encode, read, shard
from tests.formats.test_contract import properties

LAYOUT = WebDataset()
END = bytes(1024)


def header(
    name: bytes, size: bytes, kind: bytes = b"0", magic: bytes = b"ustar\x0000", prefix: bytes = b""
) -> bytes:
    """A header with any bytes in its size field, and a right checksum."""
    block = bytearray(512)
    block[: len(name)] = name
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    block[257:265] = magic
    block[345 : 345 + len(prefix)] = prefix
    block[148:156] = b"%06o\0 " % (sum(block) + 8 * ord(" "))
    return bytes(block)


def file(name: bytes, data: bytes = b"") -> bytes:
    return header(name, b"%011o\0" % len(data)) + padded(data)


def pax(data: bytes, kind: bytes = b"x") -> bytes:
    return header(b"PaxHeader", b"%011o\0" % len(data), kind) + padded(data)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def names(data: bytes) -> list[str]:
    return [entry.sample.key for entry in read(LAYOUT, data)]


class TestEnds:
    def test_zero_blocks_end_a_tar(self) -> None:
        assert names(file(b"a.jpg") + END) == ["a"]
        assert names(file(b"a.jpg") + END + bytes(123_456)) == ["a"]
        assert names(END) == []

    @pytest.mark.parametrize(
        ("data", "problem", "offset"),
        [
            pytest.param(b"", "without its end blocks", 0, id="empty"),
            pytest.param(file(b"a.jpg"), "without its end blocks", 512, id="no end"),
            pytest.param(file(b"a.jpg") + bytes(512), "second end block", 1024, id="half an end"),
            pytest.param(
                bytes(512) + file(b"a.jpg"), "second end block", 1024, id="one zero block"
            ),
            pytest.param(END + file(b"a.jpg") + END, "something follows", 1024, id="two tars"),
            pytest.param(END + bytes(9) + b"\1", "something follows", 1024, id="a byte more"),
            pytest.param(file(b"a.jpg")[:300], "a tar header", 0, id="half a header"),
            pytest.param(b"0" * 512, "checksum", 0, id="no header"),
            pytest.param(b"\xff\xd8\xff" * 512, "is not a number", 0, id="a JPEG"),
        ],
    )
    def test_anything_else_is_damage(self, data: bytes, problem: str, offset: int) -> None:
        with pytest.raises(DamagedShard, match=problem) as caught:
            read(LAYOUT, data)
        assert caught.value.offset == offset

    def test_a_tar_cut_between_two_members_is_damage(self) -> None:
        samples = [Picture(number, f"{number}.jpg", JPEG, 1) for number in range(3)]
        first = encode(LAYOUT, samples[0])
        with pytest.raises(DamagedShard, match="it was cut off") as caught:
            read(LAYOUT, shard(LAYOUT, samples)[: len(first)])
        assert caught.value.offset == len(first)


class TestHeaders:
    def test_a_flipped_bit_is_found(self) -> None:
        whole = shard(LAYOUT, [Picture(0, "a.jpg", b"")])
        for position in range(512):
            for bit in range(8):
                flipped = bytearray(whole)
                flipped[position] ^= 1 << bit
                try:
                    read(LAYOUT, bytes(flipped))
                except DamagedShard as damage:
                    assert damage.offset == 0
                else:  # the checksum, written otherwise: a blank for a zero, anything after it
                    assert 148 <= position < 156

    @pytest.mark.parametrize(
        "size",
        [b"-1", b"99999999999\0", b"0x10", b"1_0", b"0o7", b"+7", b"7" * 11 + b"x", b"\xff" * 12],
    )
    def test_a_size_that_is_no_octal_number(self, size: bytes) -> None:
        with pytest.raises(DamagedShard, match="is not a number"):
            read(LAYOUT, header(b"a.jpg", size) + END)

    @pytest.mark.parametrize(
        "size", [b"", b"\0" * 12, b" " * 12, b"      0 \0", b"\x80" + bytes(11)]
    )
    def test_nothing_is_zero(self, size: bytes) -> None:
        assert names(header(b"a.jpg", size) + END) == ["a"]

    @pytest.mark.parametrize(
        "size", [b"7" * 11, b"7" * 12, b"\x80" + b"\xff" * 11, b"\x80\0\0\0\x80"]
    )
    @pytest.mark.parametrize("kind", [b"0", b"x", b"L", b"g", b"K"])
    def test_memory_does_not_follow_the_size(self, size: bytes, kind: bytes) -> None:
        tracemalloc.start()
        try:
            with pytest.raises(
                DamagedShard, match=r"the file ends after|is too large for a (name|size)"
            ):
                read(LAYOUT, header(b"a.jpg", size, kind) + bytes(9000))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20_000_000

    def test_sizes_in_base_256(self) -> None:
        data = header(b"a.jpg", b"\x80" + (3).to_bytes(11, "big")) + padded(b"abc") + END
        (entry,) = read(LAYOUT, data)
        assert entry.sample.fields == {"jpg": b"abc"}

    @pytest.mark.parametrize("kind", [b"S", b"D", b"M", b"V", b"\xff", b"9"])
    def test_types_that_are_not_read_are_said(self, kind: bytes) -> None:
        with pytest.raises(DamagedShard, match="type .*, which dsprep does not read"):
            read(LAYOUT, header(b"a.jpg", b"0", kind) + END)

    def test_only_ustar_has_prefixes(self) -> None:
        prefix = b"dir/of.it"
        assert names(header(b"a.jpg", b"0", prefix=prefix) + END) == ["dir/of.it/a"]
        for magic in (b"ustar  \0", bytes(8)):  # GNU's, where times stand there; and Unix V7's
            assert names(header(b"a.jpg", b"0", magic=magic, prefix=prefix) + END) == ["a"]

    def test_names_that_are_not_utf8_are_kept(self) -> None:
        (name,) = names(file(b"\xff\xfe.jpg") + END)
        assert name == r"\xff\xfe"

    def test_links_have_no_data_whatever_their_size(self) -> None:
        assert names(header(b"a.jpg", b"777", b"1") + file(b"b.jpg") + END) == ["b"]


class TestPax:
    @pytest.mark.parametrize(
        "record",
        [
            b"x",
            b"12",
            b" path=a\n",
            b"0 path=a\n",
            b"5 path=a\n",
            b"8 path=a\n",
            b"99 path=a\n",
            b"9 path:a\n",
            b"9 path=aX",
            b"-9 path=a\n",
            b"9" * 400 + b" path=a\n",
            b"9 path=a\n9",
            b"18446744073709551616 path=a\n",
            b"\xb2 path=a\n",
        ],
        ids=repr,
    )
    def test_a_record_that_lies(self, record: bytes) -> None:
        with pytest.raises(DamagedShard, match="PAX header") as caught:
            read(LAYOUT, pax(record) + file(b"b.jpg") + END)
        assert caught.value.offset == 0

    @pytest.mark.parametrize("kind", [b"x", b"X"])  # and as Solaris wrote it
    def test_the_last_path_counts(self, kind: bytes) -> None:
        data = pax(b"14 path=a.jpg\n15 path=bb.jpg\n", kind) + file(b"x.jpg") + file(b"y.jpg") + END
        assert names(data) == ["bb", "y"]

    def test_a_size_is_that_of_the_next_member_alone(self) -> None:
        data = pax(b"10 size=3\n") + header(b"a.jpg", b"0") + padded(b"abc") + file(b"b.jpg") + END
        assert [entry.sample.fields["jpg"] for entry in read(LAYOUT, data)] == [b"abc", b""]

    @pytest.mark.parametrize("size", ["-1", "x", "", "٣", "9" * 21, "9" * 5000])
    def test_a_size_that_is_no_number(self, size: str) -> None:
        with pytest.raises(DamagedShard, match="whose size is not a number") as caught:
            read(LAYOUT, pax(tar._pax_record(b"size", size.encode())) + file(b"a.jpg") + END)
        assert caught.value.offset == 0

    @pytest.mark.parametrize("size", [3, 1 << 31, 1 << 63, 10**20 - 1])
    def test_a_size_that_lies(self, size: int) -> None:
        with pytest.raises(DamagedShard):
            read(LAYOUT, pax(tar._pax_record(b"size", b"%d" % size)) + file(b"a.jpg") + END)

    def test_headers_for_the_whole_tar_name_no_member(self) -> None:
        assert names(pax(b"14 path=a.jpg\n", b"g") + file(b"b.jpg") + END) == ["b"]

    @pytest.mark.parametrize("record", [b"22 GNU.sparse.major=1\n", b"26 GNU.sparse.map=0,1,9,1\n"])
    def test_a_sparse_file_is_not_taken_for_what_is_stored_of_it(self, record: bytes) -> None:
        with pytest.raises(DamagedShard, match="a sparse file") as caught:
            read(LAYOUT, file(b"a.jpg") + pax(record) + file(b"b.bin", b"2\n0\n1\n") + END)
        assert caught.value.offset == 512

    @pytest.mark.parametrize("kind", [b"x", b"L"])
    def test_a_header_larger_than_a_name_is_an_attack(self, kind: bytes) -> None:
        with pytest.raises(DamagedShard, match="is too large for a name"):
            read(LAYOUT, pax(bytes((1 << 20) + 1), kind) + file(b"a.jpg") + END)

    def test_a_long_name_ends_at_its_first_zero(self) -> None:
        data = pax(b"a.jpg\0b.jpg\0", b"L") + file(b"c.jpg") + END
        assert names(data) == ["a"]
        with tarfile.open(fileobj=io.BytesIO(data)) as theirs:
            assert theirs.getnames() == ["a.jpg"]

    def test_headers_without_a_member_name_nothing(self) -> None:
        assert names(pax(b"14 path=a.jpg\n") + END) == []
        assert names(pax(b"a.jpg\0", b"L") + pax(b"14 path=b.jpg\n") + file(b"c.jpg") + END) == [
            "b"
        ]

    def test_a_sample_begins_with_its_first_header(self) -> None:
        data = file(b"a.jpg") + pax(b"14 path=b.jpg\n") + pax(b"x", b"K") + file(b"c.jpg") + END
        assert [(entry.offset, entry.size) for entry in read(LAYOUT, data)] == [
            (0, 512),
            (512, 2560),
        ]


KINDS = (b"0", b"0", b"0", b"\0", b"7", b"5", b"g", b"L", b"S", b"!")


class TestHowMuchIsReadAtOnce:
    """Files that a stream holds as a whole are read by another way than those that it does not."""

    @properties
    @given(
        st.lists(st.tuples(st.binary(max_size=9), st.sampled_from(KINDS), st.integers(0, 1600))),
        st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=2),
        st.booleans(),
    )
    def test_it_changes_nothing(
        self,
        members: list[tuple[bytes, bytes, int]],
        changes: list[tuple[int, int]],
        with_data: bool,
    ) -> None:
        parts = (
            header(name, b"%011o\0" % size, kind) + padded(b"x" * size)
            for name, kind, size in members
        )
        data = bytearray(b"".join(parts) + END)
        for at, value in changes:
            data[at % len(data)] = value

        def found(most: int) -> tuple[list[object], str]:
            stream = ShardStream("-", Drops(bytes(data), most))
            read = list[object]()
            try:
                read.extend(tar.members(stream, with_data))
            except DamagedShard as error:
                return read, str(error)
            return read, ""

        assert found(len(data)) == found(512) == found(700)

    def test_members_that_are_held_are_those_of_tarfile(self) -> None:
        data = b"".join(file(b"%d.jpg" % at, b"x" * at) for at in range(1000)) + END
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            expected = [(each.offset, each.name, each.size) for each in archive]
        read = [tar.Member(*own) for own in tar.members(ShardStream("-", io.BytesIO(data)))]
        assert [(each.offset, each.name, each.size) for each in read] == expected
        assert [each.data for each in read] == [b"x" * at for at in range(1000)]


class Drops(io.BytesIO):
    """A file that gives at most some bytes at once."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__(data)
        self._most = most

    def read(self, count: int | None = -1) -> bytes:
        return super().read(self._most)


class TestWriting:
    @properties
    @given(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
        st.integers(0, 4000),
    )
    def test_any_name_is_what_tarfile_reads(self, key: str, size: int) -> None:
        name = f"{key}.jpg"
        content = tar.member(name.encode(), size) + bytes(size) + tar.padding(size)
        data = content + tar.ending(len(content))
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            (found,) = archive.getmembers()
        assert found.name == name
        assert found.size == size

    def test_a_member_larger_than_the_format_holds(self) -> None:
        assert tar.member(b"a", 8_589_934_591)[124:136] == b"77777777777\0"
        with pytest.raises(BadSample, match="8589934592 bytes, but a tar member holds 8589934591"):
            tar.member(b"a", 8_589_934_592)

    @pytest.mark.parametrize("length", [101, 255, 980, 988, 989, 990, 991, 992, 4000, 9989])
    def test_the_length_of_a_pax_record_counts_itself(self, length: int) -> None:
        name = b"n" * length
        block = tar.member(name, 0)[512:-512].rstrip(b"\0")
        assert int(block.split(b" ")[0]) == len(block)
        assert block.split(b" ", 1)[1] == b"path=" + name + b"\n"

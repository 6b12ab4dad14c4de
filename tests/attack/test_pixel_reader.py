"""CIFAR's pickles and MNIST's idx files, damaged and made to harm."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsprep.errors import SourceError
from dsprep.sources.pictures.pixel_reader import read_pickle
from dsprep.sources.pictures.pixels import read_pixels
from tests.pixels import (
    PIXELS,
    Array,
    cifar10_binary,
    cifar10_python,
    idx,
    mnist,
    pixels,
    python2,
    write_archive,
    write_directory,
)

ONE = {b"data": Array([pixels(1)]), b"labels": [3], b"filenames": [b"a.png"]}
BATCH = python2(ONE)


def refused(path: Path, problem: str) -> None:
    with pytest.raises(SourceError, match=problem) as error:
        read_pixels([str(path)], None)
    assert path.name in str(error.value)


class Evil:
    """Runs a command where it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


class TestPickles:
    @pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
    def test_nothing_is_run(self, protocol: int, tmp_path: Path) -> None:
        trace = tmp_path / "trace"
        evil = {"data": Evil(f"touch {trace}"), "labels": [1]}
        path = tmp_path / "data_batch_1"
        path.write_bytes(pickle.dumps(evil, protocol))
        names = r"loads \w+\.system, which no file of CIFAR does; dsprep does not open it"
        refused(path, names if protocol >= 2 else "is not a complete pickle|is a pickle that loads")
        assert not trace.exists()

    @pytest.mark.parametrize(
        "name", ["builtins.eval", "numpy.load", "numpy.ndarray.dump", "os.system", "_codecs.decode"]
    )
    def test_other_names(self, name: str, tmp_path: Path) -> None:
        module, _, attribute = name.rpartition(".")
        path = tmp_path / "test_batch"
        path.write_bytes(b"\x80\x02c" + f"{module}\n{attribute}\n".encode() + b"U\x01a\x85R.")
        refused(path, name)

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x80\x02",
            b"\x80\x02.",
            b"\x80\x02N.",
            b"\x80\x02]].",
            b"\x80\x02U\x01a.",
            b"\x80\x02}U\x01aNs",
            b"\x80\x02}(U\x01au.",
            b"\x80\x02}K\x01Ns.",  # a key that is no text
            b"\x80\x02}h\x05.",  # not in the memo
            b"\x80\x02}Nb.",  # the state of a dictionary
            b"\x80\x02cnumpy\nndarray\n)R.",
            b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aU\x04rot1\x86R.",
            b"\x80\x02T\xff\xff\xff\x7f",
            b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\x80\x02}r\xff\xff\xff\x7fT\0\0\0\x80.",
            b"\x80\x02" + b"(" * 100_000,
            b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
            b"\x80\x02Q.",  # a persistent id
            b"\x80\x02\x82\x01.",  # an extension
            b"\x80\x02c" + b"a" * 10_000,
        ],
    )
    def test_what_is_no_batch(self, data: bytes) -> None:
        with pytest.raises(SourceError, match="batch: is "):
            read_pickle(data, "batch")

    def test_tuples_that_double_are_not_hashed(self) -> None:
        data = b"\x80\x02})" + b"q\x00h\x00\x86" * 60 + b"Ns."
        with pytest.raises(SourceError):
            read_pickle(data, "batch")
        data = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n)" + b"q\x00h\x00\x86" * 60 + b"R."
        with pytest.raises(SourceError):
            read_pickle(data, "batch")

    @pytest.mark.parametrize(
        ("batch", "problem"),
        [
            ({b"labels": [1]}, "has no array 'data'"),
            ({b"data": b"x" * PIXELS, b"labels": [1]}, "has no array 'data'"),
            ({b"data": Array([pixels(1)])}, "has no list 'labels'"),
            ({b"data": Array([pixels(1)]), b"labels": [b"a"]}, "has no list 'labels'"),
            ({b"data": Array([pixels(1)]), b"labels": [1, 2]}, "has 2 labels, but 1 images"),
            ({b"data": Array([pixels(1)]), b"labels": [-1]}, "that are not class numbers"),
            ({b"data": Array([pixels(1)[:-1]]), b"labels": [1]}, "1 images, but holds 3071 bytes"),
        ],
    )
    def test_batches_that_contradict_themselves(
        self, batch: dict[bytes, object], problem: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "data_batch_1"
        path.write_bytes(python2(batch))
        refused(path, problem)

    @pytest.mark.parametrize(
        ("names", "problem"),
        [
            ([b"cat", b"cat"], "does not name each class once"),
            ([b"cat", b""], "does not name each class once"),
            ([b"a\nb"], "does not name each class once"),
            ([], "names no classes"),
            (7, "names no classes"),
        ],
    )
    def test_class_names(self, names: object, problem: str, tmp_path: Path) -> None:
        files = {"data_batch_1": BATCH, "batches.meta": python2({b"label_names": names})}
        path = write_directory(tmp_path / "py", files)
        with pytest.raises(SourceError, match=f"batches.meta: {problem}"):
            read_pixels([str(path)], None)

    def test_a_label_beyond_the_names(self, tmp_path: Path) -> None:
        files = {"data_batch_1": BATCH, "batches.meta": python2({b"label_names": [b"cat"]})}
        path = write_directory(tmp_path / "py", files)
        with pytest.raises(SourceError, match="image 0 has the label 3, which is none of the 1"):
            read_pixels([str(path)], None)

    def test_cut_anywhere(self, tmp_path: Path) -> None:
        path = tmp_path / "data_batch_1"
        for size in [*range(300), *range(len(BATCH) - 100, len(BATCH))]:
            path.write_bytes(BATCH[:size])
            with pytest.raises(SourceError):
                read_pixels([str(path)], None)

    def test_any_flipped_bit(self, tmp_path: Path) -> None:
        path = tmp_path / "data_batch_1"
        head = BATCH.index(pixels(1))
        for position in [*range(head), *range(head + PIXELS, len(BATCH))]:
            flipped = bytearray(BATCH)
            flipped[position] ^= 1 << random.Random(position).randrange(8)
            path.write_bytes(flipped)
            only_source_errors(path)

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_any_instructions(self, data: st.DataObject) -> None:
        codes = [bytes([code]) for code in b".(}])teausbRNcTUXBCKMJqhrj"] + [
            *(b"\x80\x02", b"\x85", b"\x86", b"\x87", b"\x88", b"\x8a", b"\x93", b"\x94", b"\x95"),
            *(b"cnumpy\ndtype\n", b"cnumpy\nndarray\n", b"c_codecs\nencode\n", b"K\x01", b"U\x01a"),
            b"cnumpy.core.multiarray\n_reconstruct\n",
        ]
        program = b"".join(data.draw(st.lists(st.sampled_from(codes) | st.binary(max_size=4))))
        for whole in (program + b".", b"\x80\x02}(" + program + b"u."):
            try:
                read_pickle(whole, "batch")
            except SourceError as error:
                assert str(error).startswith("batch: ")

    def test_memory_is_not_by_what_it_says(self, tmp_path: Path) -> None:
        path = tmp_path / "data_batch_1"
        tracemalloc.start()
        try:
            for number in range(200):
                at = random.Random(number).randrange(BATCH.index(pixels(1)))
                for bad in (b"\xff\xff\xff\x7f", b"r\xff\xff\xff\x7f", b"\x96" + b"\xff" * 7):
                    path.write_bytes(BATCH[:at] + bad + BATCH[at + len(bad) :])
                    only_source_errors(path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 10_000_000


def only_source_errors(path: Path) -> None:
    try:
        read_pixels([str(path)], None)
    except SourceError as error:
        assert str(error)


class TestBinary:
    @pytest.mark.parametrize("size", [0, 1, PIXELS, PIXELS + 2])
    def test_a_batch_of_another_size(self, size: int, tmp_path: Path) -> None:
        path = tmp_path / "data_batch_1.bin"
        path.write_bytes(bytes(size))
        refused(path, f"has {size} bytes, not a multiple of 3073")


class TestArchives:
    def test_cut_anywhere(self, tmp_path: Path) -> None:
        whole = tmp_path / "cifar.tar.gz"
        write_archive(whole, "cifar-10-batches-bin", cifar10_binary())
        data = whole.read_bytes()
        assert read_pixels([f"{whole}/train"], None) is not None
        cut = tmp_path / "cut.tar.gz"
        for size in range(40, len(data), 997):
            cut.write_bytes(data[:size])
            found = None
            with pytest.raises(SourceError, match="download it again"):
                found = read_pixels([str(cut)], None)
                if found is None:  # too short to tell what it was
                    raise SourceError("download it again")

    def test_a_batch_twice(self, tmp_path: Path) -> None:
        path = tmp_path / "a.tar"
        first = write_archive(tmp_path / "b.tar", "cifar-10-batches-bin", cifar10_binary(), "w")
        data = first.read_bytes().rstrip(b"\0")
        data += bytes(-len(data) % 512)
        path.write_bytes(data + first.read_bytes())
        refused(path, "has two files called")

    def test_one_with_other_files_only(self, tmp_path: Path) -> None:
        path = write_archive(tmp_path / "a.tar.gz", "cifar-10-batches-bin", {"readme": b""})
        assert read_pixels([str(path)], None) is None

    def test_a_member_that_would_fill_the_memory(self, tmp_path: Path) -> None:
        files = {"data_batch_1": b""}
        path = write_archive(tmp_path / "a.tar", "cifar-10-batches-py", files, "w")
        data = bytearray(path.read_bytes())
        at = data.index(b"cifar-10-batches-py/data_batch_1")
        data[at + 124 : at + 136] = b"%011o\0" % (1 << 32)
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
        with path.open("wb") as file:
            file.write(data[: at + 512])
            file.truncate(at + 512 + (1 << 32))
            file.seek(0, os.SEEK_END)
            file.write(bytes(10240))
        refused(path, "has 4294967296 bytes, far more than a file of CIFAR")


class TestIdx:
    @pytest.mark.parametrize("suffix", ["", ".gz"])
    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"", "is not an idx file of bytes in 3 dimensions"),
            (b"\0\0\x08\x01\0\0\0\0", "is not an idx file"),
            (b"\0\0\x0d\x03" + bytes(12), "is not an idx file"),
            (b"\0\0\x08\x03\0\0\0\x01", "ends within its head"),
            (idx(bytes(11), 1, 3, 4), "28 with its head, but ends after 27"),
            (idx(bytes(13), 1, 3, 4), "but there are more"),
            (idx(b"", 10**9, 10**9, 10**9), "1000000000 images; the maximum is 10000000"),
            (idx(b"", 1, 2**32 - 1, 2**32 - 1), "but ends after 16"),
            (idx(b"", 5, 0, 4), "its images have 4 by 0 pixels"),
            (idx(b"", 0, 3, 4), "holds no images"),
        ],
    )
    def test_images(self, data: bytes, problem: str, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"train-images-idx3-ubyte{suffix}"
        path.write_bytes(gzip.compress(data) if suffix else data)
        refused(path, problem)

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (idx(bytes(4), 4), "has 4 labels, but there are 5 images"),
            (idx(bytes(4), 5), "but ends after 12"),
            (idx(bytes(60), 5, 3, 4), "is not an idx file of bytes in 1 dimensions"),
        ],
    )
    def test_labels(self, data: bytes, problem: str, tmp_path: Path) -> None:
        files = mnist() | {"train-labels-idx1-ubyte": data}
        path = write_directory(tmp_path / "m", files)
        with pytest.raises(SourceError, match=f"train-labels-idx1-ubyte: .*{problem}"):
            read_pixels([str(path)], None)

    def test_gzip_cut_and_damaged(self, tmp_path: Path) -> None:
        path = tmp_path / "train-images-idx3-ubyte.gz"
        data = mnist(suffix=".gz")[path.name]
        for size in range(2, len(data)):
            path.write_bytes(data[:size])
            with pytest.raises(SourceError):
                read_pixels([str(path)], None)
        path.write_bytes(data[:-8] + bytes(8))
        refused(path, "download it again")

    def test_a_bomb(self, tmp_path: Path) -> None:
        path = tmp_path / "train-images-idx3-ubyte.gz"
        zeros = gzip.compress(bytes(1 << 24))
        path.write_bytes(gzip.compress(idx(b"", 1, 10_000, 10_000)) + zeros * 20)
        tracemalloc.start()
        try:
            refused(path, "but there are more")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 20_000_000

    def test_images_of_more_pixels_than_any(self, tmp_path: Path) -> None:
        path = tmp_path / "train-images-idx3-ubyte"
        with path.open("wb") as file:
            file.write(b"\0\0\x08\x03" + struct.pack(">3I", 1, 20_000, 20_000))
            file.truncate(16 + 20_000 * 20_000)
        refused(path, "its images have 20000 by 20000 pixels")


def test_python_batches_in_an_archive_are_bounded_by_it(tmp_path: Path) -> None:
    files = cifar10_python()
    files["data_batch_1"] = files["data_batch_1"][:-2000]
    path = write_archive(tmp_path / "c.tar.gz", "cifar-10-batches-py", files)
    refused(path, "data_batch_1: is not a complete pickle")

"""CIFAR as downloaded and MNIST-style idx files as catalogs, and their images as PNGs."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dsprep.catalog import Catalog
from dsprep.errors import BadSample, SourceError
from dsprep.formats.stream import ShardStream
from dsprep.places.archive import CompressedTarReader
from dsprep.rows import Rows
from dsprep.sample import Sample
from dsprep.sources.pictures.pixels import read_pixels
from dsprep.sources.reading import read_source
from dsprep.sources.source import make_source
from tests.pixels import (
    FINE,
    NAMES,
    PIXELS,
    TEST,
    TRAIN,
    Array,
    cifar10_binary,
    cifar10_python,
    cifar100_binary,
    cifar100_python,
    file_name,
    mnist,
    pixels,
    python2,
    qmnist,
    write_archive,
    write_directory,
    write_zip,
)

ALL = [*TRAIN[0], *TRAIN[1], *TEST]
FEW = [*TRAIN[0], *TEST]


def catalog_of(path: Path, classes: tuple[str, ...] | None = None) -> Catalog:
    catalog = read_pixels([str(path)], classes)
    assert catalog is not None
    return catalog


def rows_of(catalog: Catalog) -> Rows:
    table = catalog.table
    columns = (table[name].to_list() for name in ("index", "path", "size"))
    labels = table["cls"].to_list() if "cls" in table.columns else None
    places = (table[name].to_list() for name in ("file", "offset", "stored"))
    return Rows(*columns, labels, *places)


def images_of(catalog: Catalog, directory: Path | None = None) -> list[bytes]:
    """The pixels of the images, in planes, as they are read: with a directory, from spools."""
    reader = catalog.reader
    if directory is not None:
        directory.mkdir()
        for number, size in enumerate(reader.spools()):
            path = directory / str(number)
            reader.write_spool(number, str(path))
            assert path.stat().st_size <= size
        reader = reader.spooled(str(directory))
    found = []
    for sample in reader.read(catalog.rows()):
        data = sample.fields["image"] if isinstance(sample, Sample) else sample
        assert isinstance(data, bytes)
        with Image.open(io.BytesIO(data)) as image:
            assert image.format == "PNG"
            found.append(b"".join(band.tobytes() for band in image.split()))
    return found


def check_images(catalog: Catalog, expected: list[bytes], tmp_path: Path) -> None:
    assert images_of(catalog) == expected
    assert images_of(catalog, tmp_path / "spools") == expected
    assert catalog.table["size"].to_list() == [len(each) for each in expected]
    backwards = catalog.shuffle(3)
    shuffled = [expected[index] for index in backwards.table["index"]]
    assert images_of(backwards) == shuffled


def labels_of(catalog: Catalog) -> list[int]:
    return catalog.table["cls"].to_list()


CIFAR = {
    "cifar-10-binary": ("cifar-10-batches-bin", cifar10_binary, ALL, NAMES, 1),
    "cifar-10-python": ("cifar-10-batches-py", cifar10_python, ALL, NAMES, 1),
    "cifar-100-binary": ("cifar-100-binary", cifar100_binary, FEW, FINE, 9),
    "cifar-100-python": ("cifar-100-python", cifar100_python, FEW, FINE, 9),
}
every_version = pytest.mark.parametrize(
    ("name", "directory", "files", "images", "names", "times"),
    [(name, *rest) for name, rest in CIFAR.items()],
    ids=CIFAR,
)


class TestCifar:
    @every_version
    @pytest.mark.parametrize("how", ["tar.gz", "tgz", "tar", "directory"])
    def test_downloaded(
        self,
        name: str,
        directory: str,
        files: Any,
        images: list[tuple[int, int]],
        names: tuple[str, ...],
        times: int,
        how: str,
        tmp_path: Path,
    ) -> None:
        if how == "directory":
            path = write_directory(tmp_path / directory, files())
        else:
            mode = "w" if how == "tar" else "w:gz"
            path = write_archive(tmp_path / f"{name}.{how}", directory, files(), mode)
        catalog = catalog_of(path)
        assert catalog.classes == names
        assert labels_of(catalog) == [label * times for label, _ in images]
        assert sum(catalog.reader.spools()) == len(images) * PIXELS
        assert catalog.collisions() == []
        assert set(catalog.table["mtime"]) <= {
            each.stat().st_mtime_ns for each in [path, *path.parent.rglob("*")]
        }
        check_images(catalog, [pixels(seed) for _, seed in images], tmp_path)
        for part, chosen in (("train", images[: -len(TEST)]), ("test", TEST)):
            some = catalog_of(path / part)
            assert labels_of(some) == [label * times for label, _ in chosen]
            assert images_of(some) == [pixels(seed) for _, seed in chosen]
            starts = {each.partition("/")[0] for each in some.table["path"]}
            assert starts == {part}
            assert some.classes == names

    def test_both_versions_agree(self, tmp_path: Path) -> None:
        for directory, binary, python in (
            ("10", cifar10_binary, cifar10_python),
            ("100", cifar100_binary, cifar100_python),
        ):
            one = catalog_of(write_directory(tmp_path / directory / "bin", binary()))
            two = catalog_of(write_directory(tmp_path / directory / "py", python()))
            assert labels_of(one) == labels_of(two)
            assert one.classes == two.classes
            assert images_of(one) == images_of(two)

    def test_paths(self, tmp_path: Path) -> None:
        binary = catalog_of(write_directory(tmp_path / "bin", cifar10_binary()))
        assert binary.table["path"].to_list()[2:6] == [
            "train/data_batch_1/00002.png",
            "train/data_batch_2/00000.png",
            "train/data_batch_2/00001.png",
            "test/test_batch/00000.png",
        ]
        python = catalog_of(write_directory(tmp_path / "py", cifar10_python()))
        assert python.table["path"].to_list()[3:6] == [
            "train/data_batch_2/00000_deer_s_000003.png",
            "train/data_batch_2/00001_automobile_s_000004.png",
            "test/test_batch/00000_cat_s_000005.png",
        ]
        hundred = catalog_of(write_directory(tmp_path / "100", cifar100_binary()))
        assert hundred.table["path"].to_list()[2:4] == ["train/00002.png", "test/00000.png"]

    @pytest.mark.parametrize(
        ("files", "batch", "images", "times"),
        [
            (cifar10_binary, "data_batch_2.bin", TRAIN[1], 1),
            (cifar10_python, "test_batch", TEST, 1),
            (cifar100_binary, "test.bin", TEST, 9),
            (cifar100_python, "train", TRAIN[0], 9),
        ],
    )
    @pytest.mark.parametrize("alone", [False, True])
    def test_one_batch(
        self, files: Any, batch: str, images: Any, times: int, alone: bool, tmp_path: Path
    ) -> None:
        chosen = {batch: files()[batch]} if alone else files()
        catalog = catalog_of(write_directory(tmp_path / "some", chosen) / batch)
        assert labels_of(catalog) == [label * times for label, _ in images]
        assert images_of(catalog) == [pixels(seed) for _, seed in images]
        assert (catalog.classes is None) == alone

    @pytest.mark.parametrize("how", ["tar.gz", "directory"])
    def test_arrays_that_run_by_column(self, how: str, tmp_path: Path) -> None:
        files = cifar10_python(by_column=True)
        if how == "directory":
            path = write_directory(tmp_path / "py", files)
        else:
            path = write_archive(tmp_path / "py.tar.gz", "cifar-10-batches-py", files)
        catalog = catalog_of(path)
        assert len(catalog.reader.spools()) == (1 if how == "tar.gz" else 3)
        check_images(catalog, [pixels(seed) for _, seed in ALL], tmp_path)

    def test_one_pass_over_an_archive_reads_all_batches(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = dict(sorted(cifar10_python().items(), reverse=True))
        path = write_archive(tmp_path / "py.tar.gz", "cifar-10-batches-py", files)
        catalog = catalog_of(path)
        passes = 0

        def counted(self: CompressedTarReader) -> AbstractContextManager[ShardStream]:
            nonlocal passes
            passes += 1
            return decompressed(self)

        decompressed = CompressedTarReader._decompressed
        monkeypatch.setattr(CompressedTarReader, "_decompressed", counted)
        assert images_of(catalog) == [pixels(seed) for _, seed in ALL]
        assert passes == 1
        assert images_of(catalog, tmp_path / "spools") == [pixels(seed) for _, seed in ALL]
        assert passes == 2

    @pytest.mark.parametrize("protocol", [2, 3, 4])
    @pytest.mark.parametrize("order", ["C", "F"])
    def test_pickled_again(self, protocol: int, order: Any, tmp_path: Path) -> None:
        rows = [pixels(seed) for _, seed in TEST]
        array = np.array(np.frombuffer(b"".join(rows), "uint8").reshape(-1, PIXELS), order=order)
        batch = {"data": array, "labels": [3, 8], "filenames": ["cat.png", "x/../é.png"]}
        path = tmp_path / "data_batch_1"
        path.write_bytes(pickle.dumps(batch, protocol))
        catalog = catalog_of(path)
        assert labels_of(catalog) == [3, 8]
        assert catalog.table["path"].to_list() == [
            "train/data_batch_1/00000_cat.png",
            "train/data_batch_1/00001.png",
        ]
        check_images(catalog, rows, tmp_path)

    def test_the_fixtures_are_what_python_unpickles(self) -> None:
        for by_column in (False, True):
            data = cifar10_python(by_column=by_column)["data_batch_1"]
            batch = pickle.loads(data, encoding="bytes")
            assert batch[b"labels"] == [label for label, _ in TRAIN[0]]
            assert batch[b"data"].shape == (3, PIXELS)
            assert batch[b"data"].tobytes() == b"".join(pixels(seed) for _, seed in TRAIN[0])
            assert batch[b"filenames"] == [file_name(*each).encode() for each in TRAIN[0]]

    def test_more_than_nine_batches_stand_in_the_order_of_their_numbers(
        self, tmp_path: Path
    ) -> None:
        files = {f"data_batch_{at}.bin": bytes([at]) + pixels(at) for at in range(1, 12)}
        assert labels_of(catalog_of(write_directory(tmp_path / "d", files))) == [*range(1, 12)]


class TestIdx:
    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_mnist(self, suffix: str, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "MNIST", mnist(suffix=suffix))
        catalog = catalog_of(path)
        assert catalog.classes is None
        assert labels_of(catalog) == [label for label, _ in ALL]
        assert catalog.table["path"].to_list()[4:6] == ["train/00004.png", "test/00000.png"]
        assert len(catalog.reader.spools()) == 2 * bool(suffix)
        check_images(catalog, [pixels(seed, 12) for _, seed in ALL], tmp_path)
        assert labels_of(catalog_of(path / "test")) == [label for label, _ in TEST]
        (data,) = list(catalog.slice(0, 1).reader.read(catalog.slice(0, 1).rows()))
        assert isinstance(data, bytes)
        assert Image.open(io.BytesIO(data)).size == (4, 3)

    def test_one_file(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "MNIST", mnist(suffix=".gz"))
        catalog = catalog_of(path / "t10k-images-idx3-ubyte.gz")
        assert labels_of(catalog) == [label for label, _ in TEST]
        assert catalog.table["path"].to_list() == ["test/00000.png", "test/00001.png"]

    def test_other_names(self, tmp_path: Path) -> None:
        files = {
            name.replace("-idx", ".idx").removeprefix("train-"): data
            for name, data in mnist().items()
        }
        path = write_directory(tmp_path / "set", files) / "images.idx3-ubyte"
        catalog = catalog_of(path)
        assert catalog.table["path"].to_list()[0] == "00000.png"
        assert labels_of(catalog) == [label for label, _ in ALL[:5]]

    def test_emnist(self, tmp_path: Path) -> None:
        files = mnist("emnist-letters-", ".gz", "test") | mnist("emnist-digits-", ".gz", "test")
        path = write_directory(tmp_path / "gzip", files)
        with pytest.raises(SourceError, match=r"several data sets; name one.*gzip/emnist-letters"):
            read_pixels([str(path)], None)
        assert len(catalog_of(path / "emnist-letters")) == len(ALL)
        assert labels_of(catalog_of(path / "emnist-digits" / "test")) == [3, 8]
        with pytest.raises(SourceError, match="no such part"):
            read_pixels([str(path / "emnist-balanced")], None)

    def test_qmnist(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "qmnist", qmnist())
        assert labels_of(catalog_of(path)) == [label for label, _ in ALL]
        (note,) = read_source(make_source(str(path)))[1]
        assert note.detail.startswith("of QMNIST's labels, the class is read")
        for data, said in (
            (bytes((0, 0, 12, 2)) + struct.pack(">2I", 2, 3) + bytes(24), "has 3 numbers a label"),
            (bytes((0, 0, 12, 2)) + struct.pack(">2I", 2, 8) + bytes(63), "ends after 75"),
            (bytes((0, 0, 12, 2)) + struct.pack(">2I", 3, 8) + bytes(96), "has 3 labels, but"),
            (bytes((0, 0, 8, 2)) + struct.pack(">2I", 2, 8) + bytes(16), "not an idx file of ints"),
        ):
            (path / "qmnist-test-labels-idx2-int.gz").write_bytes(gzip.compress(data))
            with pytest.raises(SourceError, match=said):
                catalog_of(path)

    def test_above_the_directory_that_torchvision_writes(self, tmp_path: Path) -> None:
        for name in ("MNIST", "FashionMNIST"):
            (tmp_path / name).mkdir()
            write_directory(tmp_path / name / "raw", mnist(suffix=".gz"))
        catalog = read_source(make_source(str(tmp_path / "MNIST")))[0]
        assert catalog.sides == ("train", "test")
        assert labels_of(catalog) == [label for label, _ in ALL]
        catalog = read_source(make_source(str(tmp_path / "FashionMNIST" / "test")))[0]
        assert labels_of(catalog) == [label for label, _ in TEST]
        with pytest.raises(SourceError, match="several data sets; name one of them, such as"):
            read_source(make_source(str(tmp_path)))
        (tmp_path / "cifar").mkdir()
        write_directory(tmp_path / "cifar" / "cifar-10-batches-py", cifar10_python())
        assert len(read_source(make_source(str(tmp_path / "cifar")))[0]) == len(
            catalog_of(tmp_path / "cifar" / "cifar-10-batches-py")
        )
        (tmp_path / "FashionMNIST").rename(tmp_path / "cifar" / "FashionMNIST")
        with pytest.raises(SourceError, match="several data sets; name one of them, such as"):
            read_source(make_source(str(tmp_path / "cifar")))

    def test_a_file_unpacked_beside_its_archive_counts_once(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "both", mnist() | mnist(suffix=".gz"))
        catalog = catalog_of(path)
        assert len(catalog) == len(ALL)
        assert catalog.reader.spools() == []

    def test_without_labels(self, tmp_path: Path) -> None:
        files = {name: data for name, data in mnist().items() if "images" in name}
        catalog = catalog_of(write_directory(tmp_path / "d", files))
        assert catalog.label_column is None
        files = mnist()
        del files["t10k-labels-idx1-ubyte"]
        with pytest.raises(SourceError, match="t10k-images-idx3-ubyte: has no labels beside it"):
            catalog_of(write_directory(tmp_path / "e", files))


def kaggle_mnist() -> dict[str, bytes]:
    """As a well-known zip has it: each file once more, in a directory of its name."""
    files = mnist()
    again = {f"{name}/{name}": data for name, data in files.items()}
    return {name.replace("-idx", ".idx"): data for name, data in files.items()} | again


class TestArchives:
    @pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
    def test_tars_of_any_name_that_begin_with_pax_headers(self, mode: str, tmp_path: Path) -> None:
        directory, files = "cifar-10-batches-py", cifar10_python()
        path = write_archive(tmp_path / "download", directory, files, mode, mtime=1.5)
        check_images(catalog_of(path), [pixels(seed) for _, seed in ALL], tmp_path)

    @every_version
    @pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    def test_zips(
        self,
        name: str,
        directory: str,
        files: Any,
        images: list[tuple[int, int]],
        names: tuple[str, ...],
        times: int,
        method: int,
        tmp_path: Path,
    ) -> None:
        path = write_zip(tmp_path / "a.zip", f"data/{directory}", files(), method)
        catalog = catalog_of(path)
        assert catalog.classes == names
        assert labels_of(catalog) == [label * times for label, _ in images]
        check_images(catalog, [pixels(seed) for _, seed in images], tmp_path)
        assert len(catalog_of(path / "data" / "test")) == len(TEST)
        assert len(catalog_of(path / "data" / directory / "test")) == len(TEST)

    def test_arrays_that_run_by_column_in_a_zip(self, tmp_path: Path) -> None:
        path = write_zip(tmp_path / "a.zip", "py", cifar10_python(by_column=True))
        check_images(catalog_of(path), [pixels(seed) for _, seed in ALL], tmp_path)

    @pytest.mark.parametrize("suffix", ["", ".gz"])
    @pytest.mark.parametrize("how", ["zip", "tar", "tar.gz"])
    def test_idx_files(self, how: str, suffix: str, tmp_path: Path) -> None:
        path, files = tmp_path / f"a.{how}", mnist(suffix=suffix)
        if how == "zip":
            write_zip(path, "MNIST/raw", files)
        else:
            write_archive(path, "MNIST/raw", files, "w:gz" if how == "tar.gz" else "w")
        catalog = catalog_of(path)
        assert labels_of(catalog) == [label for label, _ in ALL]
        check_images(catalog, [pixels(seed, 12) for _, seed in ALL], tmp_path)
        for part in ("test", "MNIST/test", f"MNIST/raw/t10k-images-idx3-ubyte{suffix}"):
            assert labels_of(catalog_of(path / part)) == [label for label, _ in TEST]

    def test_the_files_at_the_top_count(self, tmp_path: Path) -> None:
        path = write_zip(tmp_path / "archive.zip", "", kaggle_mnist())
        check_images(catalog_of(path), [pixels(seed, 12) for _, seed in ALL], tmp_path)

    def test_several_data_sets(self, tmp_path: Path) -> None:
        files = {f"{top}/{name}": data for top in "ab" for name, data in mnist().items()}
        path = write_zip(tmp_path / "a.zip", "", files)
        with pytest.raises(SourceError, match=r"several data sets; name one.*a\.zip/b"):
            read_pixels([str(path)], None)
        assert len(catalog_of(path / "a" / "test")) == len(TEST)
        files = mnist("emnist-letters-", ".gz", "test") | mnist("emnist-digits-", ".gz", "test")
        path = write_zip(tmp_path / "gzip.zip", "gzip", files)
        assert len(catalog_of(path / "emnist-digits")) == len(ALL)
        assert len(catalog_of(path / "gzip" / "emnist-letters" / "test")) == len(TEST)
        with pytest.raises(SourceError, match="no such part"):
            read_pixels([str(path / "emnist-balanced")], None)

    @pytest.mark.parametrize("batch", ["data_batch_2", "test_batch"])
    def test_one_batch(self, batch: str, tmp_path: Path) -> None:
        path = write_archive(tmp_path / "c.tar.gz", "cifar-10-batches-py", cifar10_python())
        catalog = catalog_of(path / "cifar-10-batches-py" / batch)
        images = TEST if batch == "test_batch" else TRAIN[1]
        assert images_of(catalog) == [pixels(seed) for _, seed in images]
        assert catalog.classes == NAMES

    def test_images_with_such_a_file_among_them(self, tmp_path: Path) -> None:
        path = write_zip(tmp_path / "a.zip", "", cifar10_python() | {"a.png": b"x"})
        assert read_pixels([str(path)], None) is None


class TestSeveral:
    def test_batches_in_the_order_in_which_they_are_named(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "py", cifar10_python())
        named = [str(path / batch) for batch in ("test_batch", "data_batch_1")]
        catalog = read_pixels(named, None)
        assert catalog is not None
        assert labels_of(catalog) == [label for label, _ in [*TEST, *TRAIN[0]]]
        assert catalog.classes == NAMES

    def test_what_does_not_go_together(self, tmp_path: Path) -> None:
        ten = write_directory(tmp_path / "ten", cifar10_python()) / "test"
        hundred = write_directory(tmp_path / "hundred", cifar100_python()) / "test"
        with pytest.raises(SourceError, match=r"hundred/test: has other class names than .*ten"):
            read_pixels([str(ten), str(hundred)], None)
        bare = [write_directory(tmp_path / f"bare {n}", {}) / "train.bin" for n in (10, 100)]
        for path, files, name in (
            (bare[0].with_name("data_batch_1.bin"), cifar10_binary(), "data_batch_1.bin"),
            (bare[1], cifar100_binary(), "train.bin"),
        ):
            path.write_bytes(files[name])
        with pytest.raises(SourceError, match=r"train\.bin: has other labels than .*batch_1"):
            read_pixels([str(bare[0].with_name("data_batch_1.bin")), str(bare[1])], None)
        with pytest.raises(SourceError, match="test_batch: is named twice"):
            read_pixels([str(ten), str(ten)], None)
        assert read_pixels([str(ten), str(tmp_path)], None) is None

    @pytest.mark.parametrize("files", [cifar10_binary, cifar100_python, mnist])
    def test_both_parts_are_sides_unless_both_are_named(self, files: Any, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "d", files())
        catalog = catalog_of(path)
        assert catalog.sides == ("train", "test")
        own = catalog.table["path"].str.split("/").list.first().to_list()
        assert [catalog.sides[side] for side in catalog.table["side"]] == own
        mixed = read_pixels([f"{path}/train", f"{path}/test"], None)
        assert mixed is not None
        assert mixed.sides == catalog_of(path / "train").sides == ()


class TestClasses:
    def test_another_order_renumbers(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "bin", cifar10_binary())
        order = ("other", *reversed(NAMES))
        catalog = catalog_of(path, order)
        assert catalog.classes == order
        assert labels_of(catalog) == [10 - label for label, _ in ALL]

    def test_a_class_that_is_not_in_the_list(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "bin", cifar10_binary())
        with pytest.raises(SourceError, match="'truck' is not among the 9 classes"):
            catalog_of(path, NAMES[:-1])

    def test_numbers_get_names(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "m", mnist())
        assert catalog_of(path, NAMES).classes == NAMES
        with pytest.raises(SourceError, match="image 1 has the label 9, which is none of the 9"):
            catalog_of(path, NAMES[:9])


class TestIsSomethingElse:
    def test_none(self, tmp_path: Path) -> None:
        (tmp_path / "images").mkdir()
        for name in ("train", "test", "meta", "a.jpg", "train.bin", "a.tar.gz"):
            (tmp_path / "images" / name).write_bytes(b"no")
        (tmp_path / "images" / "meta").unlink()
        (tmp_path / "folders" / "train").mkdir(parents=True)
        paths = ["images", "images/train", "images/train.bin", "images/a.jpg", "images/a.tar.gz"]
        for path in [*paths, "folders", "folders/train", "folders/test", "gone", "gone/train", ""]:
            assert read_pixels([str(tmp_path / path)], None) is None
        for path in ("", "train", "gone", "/", "/train"):
            assert read_pixels([path], None) is None


class TestChanges:
    def test_a_file_that_was_cut(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "m", mnist())
        catalog = catalog_of(path / "test")
        with (path / "t10k-images-idx3-ubyte").open("r+b") as file:
            file.truncate(30)
        first, second = catalog.reader.read(catalog.rows())
        assert isinstance(first, bytes)
        assert isinstance(second, BadSample)

    def test_a_batch_that_was_cut(self, tmp_path: Path) -> None:
        path = write_directory(tmp_path / "bin", cifar10_binary())
        catalog = catalog_of(path / "test")
        problem = "has changed since it was listed"
        for size in (4000, 3073):
            with (path / "test_batch.bin").open("r+b") as file:
                file.truncate(size)
            with pytest.raises(SourceError, match=problem):
                list(catalog.reader.read(catalog.rows()))
            with pytest.raises(SourceError, match=problem):
                catalog.reader.write_spool(0, str(tmp_path / "0"))

    def test_a_source_that_is_gone(self, tmp_path: Path) -> None:
        archive = write_archive(tmp_path / "c.tar.gz", "cifar-10-batches-bin", cifar10_binary())
        catalog = catalog_of(archive)
        archive.unlink()
        with pytest.raises(SourceError, match=r"c\.tar\.gz: cannot be read"):
            list(catalog.reader.read(catalog.rows()))
        with pytest.raises(SourceError, match=r"c\.tar\.gz: cannot be read"):
            catalog.reader.write_spool(0, str(tmp_path / "0"))

    def test_an_archive_that_became_shorter(self, tmp_path: Path) -> None:
        archive = write_archive(tmp_path / "c.tar.gz", "cifar-10-batches-bin", cifar10_binary())
        catalog = catalog_of(archive)
        write_archive(archive, "cifar-10-batches-bin", {"test_batch.bin": b"x"})
        for call in (
            lambda: list(catalog.reader.read(catalog.rows())),
            lambda: catalog.reader.write_spool(0, str(tmp_path / "0")),
        ):
            with pytest.raises(SourceError, match="has changed; give the same command again"):
                call()


def test_png_is_the_same_every_time(tmp_path: Path) -> None:
    catalog = catalog_of(write_directory(tmp_path / "bin", cifar10_binary()))
    rows = catalog.rows()
    assert list(catalog.reader.read(rows)) == list(catalog.reader.read(rows))
    assert catalog.reader.encodes


def test_a_batch_without_images(tmp_path: Path) -> None:
    empty = {b"data": Array([]), b"labels": []}
    path = tmp_path / "data_batch_1"
    path.write_bytes(python2(empty))
    with pytest.raises(SourceError, match="data_batch_1: holds no"):
        read_pixels([str(path)], None)

"""Small data sets laid out as CIFAR and MNIST are downloaded."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FINE = tuple(f"fine {number}" for number in range(100))
COARSE = tuple(f"coarse {number}" for number in range(20))
NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SIDE = 32
PIXELS = 3 * SIDE * SIDE


def pixels(seed: int, size: int = PIXELS) -> bytes:
    """Bytes that are those of no other image."""
    return random.Random(seed).randbytes(size)


def python2(value: object) -> bytes:
    """A pickle as Python 2's cPickle wrote it, in protocol 2."""
    return b"\x80\x02" + _python2(value) + b"."


def _python2(value: object) -> bytes:
    if isinstance(value, dict):
        items = b"".join(_python2(key) + _python2(each) for key, each in value.items())
        return b"}q\x01(" + items + b"u"
    if isinstance(value, list):
        return b"]q\x02(" + b"".join(_python2(each) for each in value) + b"e"
    if isinstance(value, Array):
        return value.pickled()
    if isinstance(value, bytes):
        if len(value) < 256:
            return b"U" + bytes([len(value)]) + value + b"r" + struct.pack("<I", 3)
        return b"T" + struct.pack("<I", len(value)) + value + b"q\x04"
    assert isinstance(value, int)
    return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)


class Array:
    """A NumPy array of bytes with 3072 columns, as a part of such a pickle."""

    def __init__(self, rows: Sequence[bytes], *, by_column: bool = False) -> None:
        self.rows = rows
        self.by_column = by_column

    def pickled(self) -> bytes:
        data = b"".join(self.rows)
        if self.by_column:
            data = b"".join(data[at::PIXELS] for at in range(PIXELS))
        shape = b"J" + struct.pack("<i", len(self.rows)) + b"M" + struct.pack("<H", PIXELS)
        return (
            b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87R("
            + (b"K\x01" + shape + b"\x86")
            + b"cnumpy\ndtype\nq\x07U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xff"
            + b"J\xff\xff\xff\xffK\x00tb"
            + (b"\x88" if self.by_column else b"\x89")
            + (b"T" + struct.pack("<I", len(data)) + data + b"tb")
        )


Images = Sequence[tuple[int, int]]
"""The label and the seed of each image."""

TRAIN: tuple[Images, ...] = (((6, 0), (9, 1), (9, 2)), ((4, 3), (1, 4)))
TEST: Images = ((3, 5), (8, 6))


def file_name(number: int, seed: int) -> str:
    return f"{NAMES[number % 10]}_s_{seed:06d}.png"


def cifar10_binary() -> dict[str, bytes]:
    def batch(images: Images) -> bytes:
        return b"".join(bytes([label]) + pixels(seed) for label, seed in images)

    files = {f"data_batch_{at}.bin": batch(images) for at, images in enumerate(TRAIN, 1)}
    files["test_batch.bin"] = batch(TEST)
    files["batches.meta.txt"] = "\n".join([*NAMES, "", ""]).encode()
    files["readme.html"] = b"<a>"
    return files


def cifar10_python(*, by_column: bool = False) -> dict[str, bytes]:
    def batch(images: Images) -> bytes:
        return python2(
            {
                b"batch_label": b"training batch 1 of 2",
                b"labels": [label for label, _ in images],
                b"data": Array([pixels(seed) for _, seed in images], by_column=by_column),
                b"filenames": [file_name(*each).encode() for each in images],
            }
        )

    files = {f"data_batch_{at}": batch(images) for at, images in enumerate(TRAIN, 1)}
    files["test_batch"] = batch(TEST)
    files["batches.meta"] = python2(
        {
            b"num_cases_per_batch": 10000,
            b"label_names": [name.encode() for name in NAMES],
            b"num_vis": 3072,
        }
    )
    return files


def cifar100_binary() -> dict[str, bytes]:
    def batch(images: Images) -> bytes:
        return b"".join(bytes([label % 20, label * 9]) + pixels(seed) for label, seed in images)

    return {
        "train.bin": batch(TRAIN[0]),
        "test.bin": batch(TEST),
        "fine_label_names.txt": "".join(f"{name}\n" for name in FINE).encode(),
        "coarse_label_names.txt": "".join(f"{name}\n" for name in COARSE).encode(),
    }


def cifar100_python() -> dict[str, bytes]:
    def batch(images: Images) -> bytes:
        return python2(
            {
                b"filenames": [file_name(*each).encode() for each in images],
                b"batch_label": b"training batch 1 of 1",
                b"fine_labels": [label * 9 for label, _ in images],
                b"coarse_labels": [label % 20 for label, _ in images],
                b"data": Array([pixels(seed) for _, seed in images]),
            }
        )

    names = {
        b"fine_label_names": [name.encode() for name in FINE],
        b"coarse_label_names": [name.encode() for name in COARSE],
    }
    return {"train": batch(TRAIN[0]), "test": batch(TEST), "meta": python2(names)}


def write_directory(directory: Path, files: Mapping[str, bytes]) -> Path:
    directory.mkdir(parents=True)
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return directory


def write_archive(
    path: Path, directory: str, files: Mapping[str, bytes], mode: str = "w:gz", mtime: float = 0
) -> Path:
    """A tar as those that are downloaded: the directory first, then its files in no order.

    With a fraction in ``mtime``, PAX headers come first, as `tarfile` writes them for files on a
    disk.
    """
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        top = tarfile.TarInfo(directory + "/")
        top.type, top.mtime = tarfile.DIRTYPE, mtime
        tar.addfile(top)
        for name in sorted(files, key=lambda name: name[::-1]):
            member = tarfile.TarInfo(f"{directory}/{name}")
            member.size, member.mtime = len(files[name]), mtime
            tar.addfile(member, io.BytesIO(files[name]))
    return path


def write_zip(path: Path, directory: str, files: Mapping[str, bytes], method: int = 8) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(f"{directory}/{name}".removeprefix("/"), data)
    return path


def idx(data: bytes, *shape: int) -> bytes:
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + data


def mnist(prefix: str = "", suffix: str = "", test: str = "t10k") -> dict[str, bytes]:
    """Images of 4 by 3 pixels: five to train with, two to test."""
    files = {}
    for part, images in (("train", [*TRAIN[0], *TRAIN[1]]), (test, TEST)):
        data = b"".join(pixels(seed, 12) for _, seed in images)
        labels = bytes(label for label, _ in images)
        count = len(images)
        files[f"{prefix}{part}-images-idx3-ubyte{suffix}"] = idx(data, count, 3, 4)
        files[f"{prefix}{part}-labels-idx1-ubyte{suffix}"] = idx(labels, count)
    if suffix == ".gz":
        files = {name: gzip.compress(data, mtime=0) for name, data in files.items()}
    return files


def qmnist() -> dict[str, bytes]:
    """The same images; a label is a row of eight numbers."""
    files = mnist("qmnist-", ".gz", "test")
    for part, images in (("train", [*TRAIN[0], *TRAIN[1]]), ("test", TEST)):
        rows = [(label, 4, 1000 + seed, 7, seed, seed, 0, 0) for label, seed in images]
        numbers = b"".join(struct.pack(">8i", *row) for row in rows)
        del files[f"qmnist-{part}-labels-idx1-ubyte.gz"]
        head = bytes((0, 0, 12, 2)) + struct.pack(">2I", len(images), 8)
        files[f"qmnist-{part}-labels-idx2-int.gz"] = gzip.compress(head + numbers, mtime=0)
    return files


def write_digits(path: Path, count: int, *, labels: bool = True) -> list[bytes]:
    """Write a table as Kaggle's digits have it, a column a pixel; return the pixels."""
    images = [pixels(seed, 784) for seed in range(count)]
    lines = [",".join(("label",) * labels + tuple(f"pixel{at}" for at in range(784)))]
    for number, image in enumerate(images):
        lines.append(",".join([str(number % 10)] * labels + list(map(str, image))))
    path.write_text("\n".join(lines) + "\n")
    return images


def write_faces(path: Path, count: int) -> list[bytes]:
    """Write a table as FER-2013 has it, all pixels in a cell; return the pixels."""
    images = [pixels(seed, 48 * 48) for seed in range(count)]
    uses = ("Training", "Training", "PublicTest", "PrivateTest")
    lines = ["emotion,pixels,Usage"]
    for number, image in enumerate(images):
        lines.append(f"{number % 7},{' '.join(map(str, image))},{uses[number % 4]}")
    path.write_text("\n".join(lines) + "\n")
    return images

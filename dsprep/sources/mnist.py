"""MNIST-style idx files: images in one, their labels in another.

The format is that of http://yann.lecun.com/exdb/mnist/: two zeros, the type of the numbers (8 is an
unsigned byte), the number of dimensions, each as a big-endian u32, then the numbers. Fashion-MNIST,
KMNIST and EMNIST are made of such files, too; gzip, mostly.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from dsprep.errors import SourceError
from dsprep.formats.stream import compression_of
from dsprep.sources.pixel_reader import Batch, BatchFile, LabeledBatch
from dsprep.storage.location import is_s3

_HEAD = 16
"""Bytes before the pixels."""

_MOST_IMAGES = 10_000_000
_MOST_PIXELS = 100_000_000
_FILE = re.compile(
    r"(?:(?P<set>.*)-)?(?P<part>train|test|t10k)-images[-.]idx3-ubyte(?:\.gz)?"
    r"|(?:(?P<single>.*)-)?images[-.]idx3-ubyte(?:\.gz)?"
)
_PARTS = {"train": "train", "test": "test", "t10k": "test"}


@dataclass(frozen=True)
class IdxBatch(Batch):
    """An idx file of images."""

    compressed: bool

    @property
    def start(self) -> int | None:
        """Where pixels begin, if it is a plain file on a disk."""
        plain = not self.compressed and self.file.member is None and not is_s3(self.file.path)
        return _HEAD if plain else None

    def pixels(self) -> Iterator[bytes]:
        """Read the file from front to back: some have more images than fit the memory."""
        passed = 0
        for block in self.file.blocks():
            yield block[max(_HEAD - passed, 0) :]
            passed += len(block)


class ImagesFile(NamedTuple):
    """An idx file of images."""

    file: BatchFile
    labels: BatchFile | None  # the file of their labels; None if there is none
    set: str  # what its name begins with, such as `emnist-letters`; mostly nothing
    part: str  # `train`, `test`, or empty if its name does not say


def is_part(name: str) -> bool:
    """Return whether a file is one of images or labels, by its name."""
    images = "images".join(name.rsplit("labels", 1)).replace("idx1", "idx3")
    return _FILE.fullmatch(images) is not None


def images_files(files: Sequence[BatchFile], name: str | None = None) -> list[ImagesFile]:
    """Return the files of images among those of one directory."""
    known = {file.name: file for file in files}
    found = []
    for each in sorted(known):
        match = _FILE.fullmatch(each)
        bare = each.removesuffix(".gz")
        if match is None or (bare in known.keys() - {each} if name is None else each != name):
            continue
        beside = "labels".join(bare.rsplit("images", 1)).replace("idx3", "idx1")
        labels = known.get(beside) or known.get(beside + ".gz")
        prefix = match["set"] or match["single"] or ""
        found.append(ImagesFile(known[each], labels, prefix, _PARTS.get(match["part"], "")))
    return found


def read_batch(images: ImagesFile) -> LabeledBatch:
    """Read the head of a file of images, and all of their labels."""
    file = images.file
    (count, height, width), compressed = _read_head(file, 3)
    if not height or not width or height * width > _MOST_PIXELS:
        raise SourceError(
            f"{file}: its images have {width} by {height} pixels, which dsprep does not read"
        )
    labels = None
    if images.labels is not None:
        (listed,), _ = _read_head(images.labels, 1)
        if listed != count:
            raise SourceError(f"{images.labels}: has {listed} labels, but there are {count} images")
        labels = list(b"".join(images.labels.blocks())[8:])
    batch = IdxBatch(file, 1, width, height, count, compressed)
    return LabeledBatch(batch, images.part, labels)


def _read_head(file: BatchFile, dimensions: int) -> tuple[tuple[int, ...], bool]:
    """Return the dimensions in the head, which the size has to match, and if it is compressed."""
    blocks = file.blocks()
    first = next(blocks, b"")
    length = 4 + 4 * dimensions
    while len(first) < length and (block := next(blocks, b"")):
        first += block
    head = first[:length]
    if head[:4] != bytes((0, 0, 8, dimensions)):
        raise SourceError(
            f"{file}: is not an idx file of bytes in {dimensions} dimensions: it begins with "
            f"{head[:4].hex(' ')}"
        )
    if len(head) < length:
        raise SourceError(f"{file}: ends within its head; download it again")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", head[4:])
    if shape[0] > _MOST_IMAGES:
        raise SourceError(f"{file}: says it has {shape[0]} images; the maximum is {_MOST_IMAGES}")
    wanted, size = len(head) + prod(shape), len(first)
    compressed = compression_of(file.head(6)) is not None
    if not compressed:
        size = file.size
    while compressed and size <= wanted and (block := next(blocks, b"")):
        size += len(block)
    if size != wanted:
        raise SourceError(
            f"{file}: says it has {' x '.join(map(str, shape))} bytes, so {wanted} with its head, "
            f"but {'there are more' if size > wanted else f'ends after {size}'}; download it again"
        )
    return shape, compressed

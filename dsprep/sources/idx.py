"""MNIST-style idx files: images in one, their labels in another.

The format is that of http://yann.lecun.com/exdb/mnist/: two zeros, the type of the numbers (8 is an
unsigned byte), the number of dimensions, each as a big-endian u32, then the numbers. Fashion-MNIST,
KMNIST and EMNIST are made of such files, too; gzip, mostly.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from math import prod
from typing import NamedTuple

from dsprep.errors import DamagedShard, SourceError
from dsprep.readers.pixels import PixelFile
from dsprep.sources.batches import Batch
from dsprep.sources.held import is_compressed, open_any
from dsprep.stores.paths import facts, is_file

_BLOCK = 1 << 20
_MOST_IMAGES = 10_000_000
_MOST_PIXELS = 100_000_000
_FILE = re.compile(
    r"(?:(?P<set>.*)-)?(?P<part>train|test|t10k)-images[-.]idx3-ubyte(?:\.gz)?"
    r"|(?:(?P<single>.*)-)?images[-.]idx3-ubyte(?:\.gz)?"
)
_PARTS = {"train": "train", "test": "test", "t10k": "test"}


class ImagesFile(NamedTuple):
    """An idx file of images, by its name.

    Attributes:
        path: The file.
        set: What its name begins with, ``emnist-letters``; mostly nothing.
        part: ``train``, ``test``, or nothing if its name does not tell.
    """

    path: str
    set: str
    part: str


def images_file(path: str) -> ImagesFile | None:
    """What the name of a file tells, if it is that of such images."""
    match = _FILE.fullmatch(os.path.basename(path))
    if match is None:
        return None
    return ImagesFile(path, match["set"] or match["single"] or "", _PARTS.get(match["part"], ""))


def images_files(directory: str, names: Iterable[str]) -> list[ImagesFile]:
    """The files of images among those in a directory; a compressed one only if it is alone."""
    there = set(names)
    chosen = [name for name in sorted(there) if name.removesuffix(".gz") not in there - {name}]
    found = (images_file(os.path.join(directory, name)) for name in chosen)
    return [each for each in found if each is not None]


def read_batch(images: ImagesFile) -> Batch:
    """Look into a file of images, and read their labels.

    Raises:
        SourceError: If it, or the file of its labels, is damaged or cannot be read.
    """
    path = images.path
    (count, height, width), size = _look_into(path, 3)
    if not height or not width or height * width > _MOST_PIXELS:
        raise SourceError(f"{path}: holds images of {width} by {height} pixels, it says")
    file = PixelFile(path, is_compressed(path), size, "L", width, height)
    labels = _read_labels(path, count)
    mtime = facts(path).mtime_ns
    return Batch(path, images.part, file, mtime, 16, height * width, labels, count)


def _read_labels(images: str, count: int) -> list[int] | None:
    """The labels in the file beside the images; None if there is none."""
    directory, name = os.path.split(images)
    name = name.removesuffix(".gz").replace("images", "labels").replace("idx3", "idx1")
    for path in (os.path.join(directory, name), os.path.join(directory, name + ".gz")):
        if is_file(path):
            (labels,), _ = _look_into(path, 1)
            if labels != count:
                raise SourceError(f"{path}: has {labels} labels, but there are {count} images")
            return list(b"".join(_blocks(path))[8:])
    return None


def _look_into(path: str, dimensions: int) -> tuple[tuple[int, ...], int]:
    """The dimensions that a file says it has, and its (decompressed) size, which has to fit."""
    blocks = _blocks(path)
    first = next(blocks, b"")
    head = first[: 4 + 4 * dimensions]
    if head[:4] != bytes((0, 0, 8, dimensions)):
        raise SourceError(
            f"{path}: is no idx file of bytes in {dimensions} dimensions: its first bytes are "
            f"{head[:4].hex(' ')}"
        )
    if len(head) < 4 + 4 * dimensions:
        raise SourceError(f"{path}: ends within its head: download it again")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", head[4:])
    if shape[0] > _MOST_IMAGES:
        raise SourceError(f"{path}: says it has {shape[0]} images; {_MOST_IMAGES} are the most")
    wanted, size = len(head) + prod(shape), len(first)
    if not is_compressed(path):
        size = facts(path).size
    else:
        while size <= wanted and (block := next(blocks, b"")):
            size += len(block)
    if size != wanted:
        raise SourceError(
            f"{path}: says it has {' x '.join(map(str, shape))} bytes, so {wanted} with its head, "
            f"but {'there are more' if size > wanted else f'ends after {size}'}: download it again"
        )
    return shape, size


def _blocks(path: str) -> Iterator[bytes]:
    """The (decompressed) bytes of a file."""
    try:
        with open_any(path) as file:
            while block := file.read(_BLOCK):
                yield block
    except DamagedShard as damage:
        raise SourceError(f"{damage}: download it again") from None
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from None

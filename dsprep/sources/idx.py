"""MNIST-style idx files: images in one, their labels in another.

The format is that of http://yann.lecun.com/exdb/mnist/: two zeros, the type of the numbers (8 is an
unsigned byte), the number of dimensions, each as a big-endian u32, then the numbers. Fashion-MNIST,
KMNIST and EMNIST are made of such files, too; gzip, mostly.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from dsprep.errors import SourceError
from dsprep.sources.batches import Batch
from dsprep.sources.held import Held, blocks_of, is_compressed
from dsprep.sources.pixel_reader import PixelFile

_MOST_IMAGES = 10_000_000
_MOST_PIXELS = 100_000_000
_FILE = re.compile(
    r"(?:(?P<set>.*)-)?(?P<part>train|test|t10k)-images[-.]idx3-ubyte(?:\.gz)?"
    r"|(?:(?P<single>.*)-)?images[-.]idx3-ubyte(?:\.gz)?"
)
_PARTS = {"train": "train", "test": "test", "t10k": "test"}


class ImagesFile(NamedTuple):
    """An idx file of images."""

    held: Held  # the file
    labels: Held | None  # the file of their labels; None if there is none
    set: str  # what its name begins with, `emnist-letters`; mostly nothing
    part: str  # `train`, `test`, or nothing if its name does not tell


def is_part(name: str) -> bool:
    """Whether a file is one of images or labels, by its name."""
    return _FILE.fullmatch(_images_name(name)) is not None


def images_files(held: Sequence[Held], name: str | None = None) -> list[ImagesFile]:
    """Return the files of images among those of one directory."""
    there = {each.name: each for each in held}
    found = []
    for each in sorted(there):
        match = _FILE.fullmatch(each)
        bare = each.removesuffix(".gz")
        if match is None or (bare in there.keys() - {each} if name is None else each != name):
            continue
        labels = there.get(_labels_name(bare)) or there.get(_labels_name(bare) + ".gz")
        prefix = match["set"] or match["single"] or ""
        found.append(ImagesFile(there[each], labels, prefix, _PARTS.get(match["part"], "")))
    return found


def _labels_name(images: str) -> str:
    return "labels".join(images.rsplit("images", 1)).replace("idx3", "idx1")


def _images_name(labels: str) -> str:
    return "images".join(labels.rsplit("labels", 1)).replace("idx1", "idx3")


def read_batch(images: ImagesFile) -> Batch:
    """Look into a file of images, and read their labels."""
    held = images.held
    (count, height, width), size = _look_into(held, 3)
    if not height or not width or height * width > _MOST_PIXELS:
        raise SourceError(f"{held}: holds images of {width} by {height} pixels, it says")
    file = PixelFile(held.path, is_compressed(held), size, "L", width, height, member=held.member)
    labels = None if images.labels is None else _read_labels(images.labels, count)
    step = height * width
    return Batch(str(held), images.part, file, held.mtime, 16, step, labels, count)


def _read_labels(held: Held, count: int) -> list[int]:
    (labels,), _ = _look_into(held, 1)
    if labels != count:
        raise SourceError(f"{held}: has {labels} labels, but there are {count} images")
    return list(b"".join(blocks_of(held))[8:])


def _look_into(held: Held, dimensions: int) -> tuple[tuple[int, ...], int]:
    """The dimensions that a file says it has, and its (decompressed) size, which has to fit."""
    blocks = blocks_of(held)
    first = next(blocks, b"")
    head = first[: 4 + 4 * dimensions]
    if head[:4] != bytes((0, 0, 8, dimensions)):
        raise SourceError(
            f"{held}: is no idx file of bytes in {dimensions} dimensions: its first bytes are "
            f"{head[:4].hex(' ')}"
        )
    if len(head) < 4 + 4 * dimensions:
        raise SourceError(f"{held}: ends within its head: download it again")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", head[4:])
    if shape[0] > _MOST_IMAGES:
        raise SourceError(f"{held}: says it has {shape[0]} images; {_MOST_IMAGES} are the most")
    wanted, size = len(head) + prod(shape), len(first)
    if not is_compressed(held):
        size = held.size
    else:
        while size <= wanted and (block := next(blocks, b"")):
            size += len(block)
    if size != wanted:
        raise SourceError(
            f"{held}: says it has {' x '.join(map(str, shape))} bytes, so {wanted} with its head, "
            f"but {'there are more' if size > wanted else f'ends after {size}'}: download it again"
        )
    return shape, size

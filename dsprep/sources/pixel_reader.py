"""Images that are bare pixels, as CIFAR and MNIST have them: how a worker reads them, as PNG.

A batch is read whole. For a run in random order the workers first write the pixels of each batch to
a spool file, where the images lie at equal distances.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import BinaryIO, ClassVar, NamedTuple

from dsprep.errors import BadSample, DamagedShard, SourceError
from dsprep.formats.stream import Decompressor, Readable, compression_of
from dsprep.rows import Reader, Rows
from dsprep.sample import Blobs, Ints, Sample, Value
from dsprep.schema import IMAGE_NAMES, PIXEL_SIZES, is_image
from dsprep.sources.archive_reader import ArchiveMember, read_members
from dsprep.sources.prefetch import OpenFiles, read_at
from dsprep.storage.files import OpenFile, open_file

_BLOCK = 1 << 20

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
"""Pillow's modes, by number of channels."""

_CIFAR = (32, 32, 3)
"""Height, width and channels."""


class BatchFile(NamedTuple):
    """A file of a known data set: a file of its own, or a member of an archive."""

    name: str  # without a directory
    directory: str  # the directory in the archive; empty for a file of its own
    path: str  # the file, or the archive
    size: int
    mtime: int  # of the file or the archive, in nanoseconds since 1970
    member: ArchiveMember | None = None

    def __str__(self) -> str:
        return self.path if self.path.endswith(self.name) else f"{self.path}: {self.name}"

    def head(self, count: int) -> bytes:
        """Read the first bytes as they are stored."""
        with self._open() as file:
            return file.read(count) or b""

    def blocks(self) -> Iterator[bytes]:
        """Read the file from front to back, decompressed if it is compressed itself."""
        with self._open() as file:
            block = file.read(_BLOCK) or b""
            stream: Readable = file
            if compression_of(block):
                stream = Decompressor(str(self), stream, block)
                block = stream.read(_BLOCK)
            while block:
                yield block
                block = stream.read(_BLOCK)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO | OpenFile]:
        try:
            if self.member is None:
                with open_file(self.path) as file:
                    yield file
            else:
                yield io.BytesIO(next(read_members([self.member])))
        except DamagedShard as damage:
            raise SourceError(f"{damage}; download it again") from None
        except OSError as error:
            raise SourceError(f"{self}: cannot be read ({error.strerror})") from None


@dataclass(frozen=True)
class Batch(ABC):
    """A file of images, all of one size. Plain data: it is pickled for the workers."""

    file: BatchFile
    channels: int
    width: int
    height: int
    images: int

    @property
    def size(self) -> int:
        """Bytes of one image."""
        return self.width * self.height * self.channels

    @property
    def start(self) -> int | None:
        """Where pixels begin in a file whose images can be read one by one; else None."""
        return None

    @abstractmethod
    def pixels(self) -> Iterator[bytes]:
        """Read the pixels of all images, one image after another, in blocks of any size."""

    def pick(self, offsets: Sequence[int]) -> dict[int, bytes]:
        """Read the images at some offsets in the pixels, without keeping others."""
        found, blocks = {}, self.pixels()
        block, start = b"", 0
        for offset in sorted(set(offsets)):
            while start + len(block) < offset + self.size:
                passed = min(offset - start, len(block))
                more = next(blocks, b"")
                if not more:
                    raise self.changed()
                block, start = block[passed:] + more, start + passed
            found[offset] = block[offset - start : offset - start + self.size]
        return found

    def changed(self) -> SourceError:
        """The error for a file that has other pixels than when it was listed."""
        return SourceError(
            f"{self.file.path}: has changed since it was listed; give the command again"
        )


class LabeledBatch(NamedTuple):
    """A batch with what a scan finds out about its images."""

    batch: Batch
    directory: str  # what the paths of its images begin with: the part, or the part and the batch
    labels: Sequence[int] | None  # the class number of each image; None if they have none
    names: Sequence[str] | None = None  # the original file name of each image, if known


@dataclass(frozen=True)
class PixelReader(Reader):
    """Reads the images of batches; the offset of a row counts in the pixels of its batch."""

    encodes: ClassVar[bool] = True
    batches: tuple[Batch, ...]
    directory: str | None = None  # the directory of the spools; None if there are none yet

    def sources(self) -> Sequence[str]:
        """The file of each batch."""
        return [batch.file.path for batch in self.batches]

    def _spooled(self) -> list[int]:
        return [number for number, batch in enumerate(self.batches) if batch.start is None]

    def spools(self) -> Sequence[int]:
        """The bytes of pixels of each batch whose images cannot be read one by one."""
        return [self.batches[at].images * self.batches[at].size for at in self._spooled()]

    def write_spool(self, number: int, path: str) -> None:
        """Write the pixels of a batch."""
        batch = self.batches[self._spooled()[number]]
        with open(path, "wb") as spool:
            for block in batch.pixels():
                spool.write(block)
            if spool.tell() != batch.images * batch.size:
                raise batch.changed()

    def spooled(self, directory: str) -> PixelReader:
        """Return the reader that reads from the spools."""
        return replace(self, directory=directory)

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        """Read images in the order of the rows."""
        assert rows.files is not None and rows.offsets is not None
        paths = [batch.file.path for batch in self.batches]
        starts = [batch.start for batch in self.batches]
        if self.directory is not None:
            for number, at in enumerate(self._spooled()):
                paths[at], starts[at] = os.path.join(self.directory, str(number)), 0
        places = list(zip(rows.files, rows.offsets, strict=True))
        last = {number: at for at, (number, _) in enumerate(places)}
        picked: dict[int, dict[int, bytes]] = {}  # images of the batches that were read whole
        with OpenFiles(tuple(paths)) as opened:
            for at, (number, offset) in enumerate(places):
                batch, start = self.batches[number], starts[number]
                if start is not None:
                    pixels = read_at(opened[number], batch.size, start + offset)
                else:
                    if number not in picked:
                        offsets = [offset for other, offset in places if other == number]
                        picked[number] = batch.pick(offsets)
                    pixels = picked[number][offset]
                    if at == last[number]:
                        del picked[number]
                if len(pixels) == batch.size:
                    yield encode_raw(pixels, batch.height, batch.width, batch.channels, True)
                else:
                    yield BadSample("has changed: its file is shorter than when it was listed")


def encode_raw(
    pixels: bytes, height: int, width: int, channels: int, channels_first: bool
) -> bytes:
    """Make a PNG of bare pixels."""
    from PIL import Image

    mode, size, plane = _MODES[channels], (width, height), width * height
    if channels_first:
        bands = [
            Image.frombytes("L", size, pixels[start : start + plane])
            for start in range(0, len(pixels), plane)
        ]
        image = Image.merge(mode, bands)
    else:
        image = Image.frombytes(mode, size, pixels)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


class RawPixels(NamedTuple):
    """Where raw samples have an image as bare pixels. Plain data: it is pickled for the workers."""

    place: str  # the raw name of the pixels
    # the raw names of height, width and channels; empty for those of CIFAR, which are 32 by 32
    # pixels, all red bytes first
    sizes: tuple[str, ...] = ()

    def encoded(self, sample: Sample) -> Sample:
        """Make the pixels of a raw sample a PNG, which tells their sizes, too."""
        fields = dict(sample.fields)
        pixels = _bytes_of(fields.get(self.place))
        if pixels is None or is_image(pixels):
            return sample
        geometry = [_number_of(fields.get(name)) for name in self.sizes] or _CIFAR
        if not _fits(pixels, geometry):
            sizes = " x ".join(map(str, geometry))
            raise BadSample(f"has {len(pixels):,} bytes of pixels, and not {sizes}")
        height, width, channels = geometry
        fields[self.place] = encode_raw(pixels, height, width, channels, not self.sizes)
        sample.fields = {name: fields[name] for name in fields if name not in self.sizes}
        return sample


def raw_pixels(samples: Iterable[Sample]) -> RawPixels | None:
    """Return where raw samples have bare pixels; None if that is not the same in all of them.

    These are the bytes of a field that is called like an image: as many as height, width and depth
    that stand beside them say, or as many as an image of CIFAR has.
    """
    found = {_pixels_of(sample.fields) for sample in samples}
    return found.pop() if len(found) == 1 else None


def _pixels_of(fields: Mapping[str, Value]) -> RawPixels | None:
    named = {name: _bytes_of(fields[name]) for name in IMAGE_NAMES if name in fields}
    sizes = tuple(next((name for name in names if name in fields), "") for names in PIXEL_SIZES)
    geometry = tuple(_number_of(fields.get(name)) for name in sizes)
    for name, pixels in named.items():
        if pixels is None or is_image(pixels):
            continue
        if _fits(pixels, geometry):
            return RawPixels(name, sizes)
        if _fits(pixels, _CIFAR):
            return RawPixels(name)
    return None


def _fits(pixels: bytes, geometry: Sequence[int]) -> bool:
    return 0 < len(pixels) == prod(geometry) and geometry[2] in _MODES


def _bytes_of(value: Value) -> bytes | None:
    value = value[0] if isinstance(value, Blobs) and len(value) == 1 else value
    return value if isinstance(value, bytes) else None


def _number_of(value: Value) -> int:
    value = value[0] if isinstance(value, Ints) and len(value) == 1 else value
    return value if isinstance(value, int) and value > 0 else 0

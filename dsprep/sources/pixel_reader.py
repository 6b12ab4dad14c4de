"""Images that a file holds as bare pixels, such as those of CIFAR and MNIST: made PNGs.

Where such files are compressed, or on S3, they are laid out on the disk once for all workers.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import BinaryIO, ClassVar, NamedTuple

from dsprep.errors import BadSample, DamagedShard, SourceError
from dsprep.rows import Reader, Rows
from dsprep.sample import Blobs, Ints, Sample, Value
from dsprep.schema import IMAGE_NAMES, PIXEL_SIZES, is_image
from dsprep.sources.archive_reader import ArchiveReader
from dsprep.sources.compressed import open_compressed
from dsprep.sources.prefetch import OpenFiles, read_at
from dsprep.storage.opened import OpenFile, open_file
from dsprep.storage.urls import is_s3

_BLOCK = 1 << 20

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
"""Pillow's names for the kinds of pixel, by the number of channels."""

_CIFAR = (32, 32, 3)
"""Height, width and channels."""


class Array(NamedTuple):
    """Pixels in a pickle that do not lie there one image after the other."""

    start: int  # where they begin in the (decompressed) file
    stop: int  # where they end
    images: int  # how many they are of
    text: bool  # whether the bytes are text: the UTF-8 of characters with the bytes' numbers
    by_column: bool  # whether the first byte of every image comes before the second one of any


class Member(NamedTuple):
    """A member of an archive."""

    archive: ArchiveReader  # reads the archive
    offset: int  # where it lies there, as `archive` wants it
    stored: int  # how many bytes it takes there
    size: int  # how many bytes it has


def read_members(members: Sequence[Member]) -> Iterator[bytes]:
    """Read members of one archive whole, in the order in which they lie there."""
    archives, offsets, stored, sizes = zip(
        *sorted(members, key=lambda each: each.offset), strict=True
    )
    rows = Rows([0] * len(sizes), [""] * len(sizes), sizes, None, None, offsets, stored)
    for data in archives[0].read(rows):
        if not isinstance(data, bytes):
            raise SourceError(f"{archives[0].path}: a file in it cannot be read: {data}")
        yield data


class PixelFile(NamedTuple):
    """A file that holds images."""

    path: str  # the file
    compressed: bool  # whether it is compressed; offsets are then those of the decompressed bytes
    size: int  # how many bytes there have to be; or how many the array has
    mode: str  # pillow's name for the kind of pixel, `L` or `RGB`; the latter in planes
    width: int  # of each image
    height: int  # of each image
    array: Array | None = None  # where the pixels are, if offsets are those in an array
    # the member of an archive that is the file; `path` is then the archive
    member: Member | None = None

    @property
    def is_laid_out(self) -> bool:
        """Whether images, which are small, can be read from it at random."""
        apart = self.compressed or self.array is not None or self.member is not None
        return not apart and not is_s3(self.path)


@dataclass(frozen=True)
class PixelReader(Reader):
    """Reads images that are bare pixels, and makes PNGs of them."""

    encodes: ClassVar[bool] = True
    files: tuple[PixelFile, ...]  # the files that hold them
    # where the spools of those lie that cannot be read at random; None if there are none yet
    directory: str | None = None

    @cached_property
    def _spooled_files(self) -> tuple[int, ...]:
        return tuple(at for at, file in enumerate(self.files) if not file.is_laid_out)

    def sources(self) -> Sequence[str]:
        """The files, an archive once for each of its arrays."""
        return [file.path for file in self.files]

    def spools(self) -> Sequence[int]:
        """The size of each file that is compressed or on S3, and of each array."""
        return [self.files[at].size for at in self._spooled_files]

    def write_spool(self, number: int, path: str) -> None:
        """Decompress or fetch a file, or put the bytes of an array into their order."""
        file = self.files[self._spooled_files[number]]
        with open(path, "wb", buffering=0) as spool:
            for block in _contents(file):
                view = memoryview(block)
                while view:
                    view = view[spool.write(view) :]

    def spooled(self, directory: str) -> PixelReader:
        """The reader that reads from the spools."""
        return replace(self, directory=directory)

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        """Read the images one after the other."""
        assert rows.files is not None and rows.offsets is not None and rows.stored is not None
        found = self._decompress(rows) if self.directory is None else {}
        with OpenFiles(self._paths) as opened:
            for number, offset, stored in zip(rows.files, rows.offsets, rows.stored, strict=True):
                file = self.files[number]
                pixels = found.get((number, offset))
                if pixels is None:
                    pixels = read_at(opened[number], stored, offset)
                if len(pixels) != stored:
                    yield BadSample("has changed: its file is shorter than when it was listed")
                else:
                    channels = len(file.mode)
                    yield encode_raw(pixels, file.height, file.width, channels, True)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        paths = [file.path for file in self.files]
        if self.directory is not None:
            for number, at in enumerate(self._spooled_files):
                paths[at] = os.path.join(self.directory, str(number))
        return tuple(paths)

    def _decompress(self, rows: Rows) -> dict[tuple[int, int], bytes]:
        """The pixels of those rows that cannot be read at random, by file and offset.

        For a few samples only: it takes a whole file to read the last of its images.
        """
        assert rows.files is not None and rows.offsets is not None and rows.stored is not None
        wanted: dict[int, dict[int, int]] = {}
        for number, offset, stored in zip(rows.files, rows.offsets, rows.stored, strict=True):
            if not self.files[number].is_laid_out:
                wanted.setdefault(number, {})[offset] = stored
        return {
            (number, offset): pixels
            for number, places in wanted.items()
            for offset, pixels in _pick(_contents(self.files[number]), places)
        }


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


def _contents(file: PixelFile) -> Iterator[bytes]:
    """What the offsets of a file's images count in, from front to back."""
    if file.array is None:
        yield from _blocks(file, 0, file.size)
        return
    start, stop, images, text, by_column = file.array
    data = b"".join(_blocks(file, start, stop))
    if text:
        try:
            data = data.decode().encode("latin-1")
        except UnicodeError:
            data = b""
    if len(data) != file.size:
        raise _changed(file.path)
    if not by_column:
        yield data
    else:
        yield from (data[number::images] for number in range(images))


def _blocks(file: PixelFile, start: int, stop: int) -> Iterator[bytes]:
    """The bytes of a file from ``start`` to ``stop``."""
    try:
        with _open(file) as stream:
            at = 0
            while at < stop:
                block = stream.read(min(_BLOCK, (start if at < start else stop) - at)) or b""
                if not block:
                    raise _changed(file.path)
                if at >= start:
                    yield block
                at += len(block)
    except DamagedShard as damage:
        raise SourceError(str(damage)) from None
    except OSError as error:
        raise SourceError(f"{file.path}: cannot be read ({error.strerror})") from None


def _open(file: PixelFile) -> BinaryIO | OpenFile:
    stream = None if file.member is None else io.BytesIO(next(read_members([file.member])))
    if file.compressed:
        return open_compressed(file.path, stream)
    return open_file(file.path) if stream is None else stream


def _changed(path: str) -> SourceError:
    return SourceError(f"{path}: has changed since it was listed; give the command again")


def _pick(blocks: Iterator[bytes], places: dict[int, int]) -> Iterator[tuple[int, bytes]]:
    """The bytes at some places, given their sizes by offset; nothing else is kept."""
    held, start = b"", 0
    for offset, size in sorted(places.items()):
        while start + len(held) < offset + size:
            passed = min(offset - start, len(held))
            start, held = start + passed, held[passed:]
            block = next(blocks, b"")
            if not block:
                break
            held += block
        yield offset, held[offset - start : offset - start + size]

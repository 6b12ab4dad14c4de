"""Images that are bare pixels, encoded as PNG, also where samples have them in a field."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from dsprep.errors import BadSample
from dsprep.sample import Blobs, Ints, Sample, Value
from dsprep.schema import IMAGE_NAMES, PIXEL_SIZES, is_image

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
"""Pillow's modes, by number of channels."""

_CIFAR = (32, 32, 3)
"""Height, width and channels."""


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

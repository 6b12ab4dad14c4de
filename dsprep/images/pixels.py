"""Bare pixels: a byte for each channel of each pixel, row by row, without an encoding.

Programs of the first years of TensorFlow write and read images so. Most of them have the channels
of a pixel side by side (height x width x channels); CIFAR has a plane for each channel (channels x
height x width). The bytes do not tell their shape, except in NumPy's ``.npy``.
"""

from __future__ import annotations

import io
import re
import struct

from dsprep.errors import OptionError
from dsprep.patterns import pattern
from dsprep.tuples import NamedTuple

RAW, RAW_CHW = "raw", "raw-chw"  # types of fields, and what `--encode` takes
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # Pillow's, by number of channels
_PORTABLE = {1: b"P5", 3: b"P6"}  # PGM and PPM: bare pixels behind a short head
_GIVEN = pattern(r"[1-9]\d{0,5}x[1-9]\d{0,5}(x[1-9]\d{0,5})?")
# what NumPy writes of an array of bytes, in version 1.0 of its format
_NPY = pattern(
    rb"\x93NUMPY\x01\x00..\{'descr': '\|u1', 'fortran_order': False, "
    rb"'shape': \((\d{1,6}), (\d{1,6})(?:, (\d{1,6}))?\), \} *\n",
    re.DOTALL,
)


class Shape(NamedTuple):
    """The shape of bare pixels."""

    height: int
    width: int
    channels: int
    planes: bool = False  # whether they are planes: channels x height x width

    @property
    def type(self) -> str:
        return RAW_CHW if self.planes else RAW

    @property
    def bytes(self) -> int:
        return self.height * self.width * self.channels

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The sizes of an array of them, the outermost first."""
        height, width, channels, planes = self
        return (channels, height, width) if planes else (height, width, channels)

    def __str__(self) -> str:
        return " x ".join(map(str, self.sizes))


def shape_of(*sizes: int, planes: bool | None = None) -> Shape | None:
    """Return the shape of an array, None if it is no image's.

    Unless it is known whether there are planes, the sizes must tell which are the channels.
    """
    first, second, last = (*sizes, 1)[:3]
    if planes is None:
        planes = last not in _MODES
        if first in _MODES and last in _MODES and len(sizes) > 2 and first != 1 != last:
            return None
    shape = Shape(second, last, first, True) if planes else Shape(first, second, last)
    return shape if shape.channels in _MODES and shape.bytes else None


def parse_shape(given: str) -> Shape:
    """Return the shape that ``--raw-image`` gives."""
    shape = shape_of(*map(int, given.split("x"))) if _GIVEN.fullmatch(given) else None
    if shape is None:
        raise OptionError(
            f"--raw-image {given}: give HEIGHTxWIDTHxCHANNELS, such as 32x32x3, or "
            "CHANNELSxHEIGHTxWIDTH, such as 3x32x32; channels are 1 to 4, height and width more"
        )
    return shape


def pack_npy(pixels: bytes, shape: Shape) -> bytes:
    """Return pixels as NumPy saves them."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape.sizes}, }}"
    text = text.ljust(-(len(text) + 11) % 64 + len(text)) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + pixels


def unpack_npy(data: bytes, planes: bool | None = None) -> tuple[bytes, Shape] | None:
    """Return the pixels that NumPy saved, and their shape; None if these are others."""
    match = _NPY.match(data) if data[:1] == b"\x93" else None
    if match is None:
        return None
    shape = shape_of(*(int(size) for size in match.groups() if size), planes=planes)
    return None if shape is None else (data[match.end() :], shape)


def encode_raw(pixels: bytes, shape: Shape, quickly: bool = False) -> bytes:
    """Make a PNG of bare pixels; ``quickly`` if it will be decoded at once, and encoded again."""
    height, width, channels, planes = shape
    if planes and channels > 1:
        plane, mixed = width * height, bytearray(len(pixels))
        for channel in range(channels):
            mixed[channel::channels] = pixels[channel * plane : (channel + 1) * plane]
        pixels = bytes(mixed)
    if quickly and channels in _PORTABLE:
        return b"%b %d %d 255\n%b" % (_PORTABLE[channels], width, height, pixels)
    from PIL import Image

    file = io.BytesIO()
    Image.frombytes(_MODES[channels], (width, height), pixels).save(file, "PNG")
    return file.getvalue()

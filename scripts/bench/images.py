"""Pictures that a JPEG codec finds as hard as photographs, made from a seed.

Two properties of natural images decide what a codec and a resize have to do: amplitudes that fall
as 1/frequency, and sharp outlines of objects of all sizes, which cover one another.
"""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

_CHROMA = np.array([[1.0, 0.0, -1.0], [-0.5, 1.0, -0.5]], dtype=np.float32)
_SOI = b"\xff\xd8"
_COM = b"\xff\xfe"


def picture(rng: np.random.Generator, width: int, height: int, grain: float) -> Image.Image:
    """Draw one picture.

    Args:
        rng: Where every choice comes from.
        width: In pixels.
        height: In pixels.
        grain: Standard deviation of the texture, in gray levels of 0..255.

    Returns:
        An RGB image.
    """
    objects = Image.new("RGB", (width, height), _color(rng))
    draw = ImageDraw.Draw(objects)
    for _ in range(120):
        radius = min(width, height) * 0.02 / rng.uniform(0.04, 1.0)
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        flat = rng.uniform(0.4, 1.0)
        box = (x - radius, y - radius * flat, x + radius, y + radius * flat)
        (draw.ellipse if rng.random() < 0.7 else draw.rectangle)(box, fill=_color(rng))
    objects = objects.filter(ImageFilter.GaussianBlur(0.6))

    pixels = np.array(objects, dtype=np.float32)
    pixels += grain * _pink(rng, width, height)[..., None]
    for axis in _CHROMA:
        pixels += 0.2 * grain * _pink(rng, width, height)[..., None] * axis
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def jpeg_of_size(image: Image.Image, size: int) -> bytes:
    """Encode with the highest quality of 30 to 98 whose file is not above `size` bytes."""
    low, high = 30, 98
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if len(_jpeg(image, middle)) <= size else (low, middle - 1)
    return _jpeg(image, low)


def with_comment(jpeg: bytes, text: bytes) -> bytes:
    """Insert a comment segment: the same picture in a file of its own bytes.

    A segment is a marker, two bytes of big-endian length that count themselves, and the data
    (ITU-T T.81, B.1.1.4).
    """
    segment = _COM + (len(text) + 2).to_bytes(2, "big") + text
    return _SOI + segment + jpeg[len(_SOI) :]


def _jpeg(image: Image.Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


def _color(rng: np.random.Generator) -> tuple[int, int, int]:
    gray = rng.uniform(30, 225)
    r, g, b = (gray + rng.normal(0, 20, 3)).clip(0, 255).astype(int).tolist()
    return r, g, b


def _pink(rng: np.random.Generator, width: int, height: int) -> NDArray[np.float32]:
    """Noise of zero mean and unit deviation whose amplitude falls as 1/frequency."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(rng.standard_normal((height, width))) / frequency
    noise = np.fft.irfft2(spectrum, s=(height, width))
    return np.asarray(noise / noise.std(), dtype=np.float32)

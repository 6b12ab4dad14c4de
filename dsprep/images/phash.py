"""Hashes of what images show: those of images that look alike differ in few of 64 bits.

A hash is the `phash` of the library `imagehash`: which of the 64 lowest frequencies of the image,
scaled to 32 x 32 pixels of gray, are above their median. No other frequency is computed here.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dsprep.images.transform import converted, load, upright_pixels

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

# An image is flat, and shows nothing to compare, if it deviates by fewer levels of 255 from its
# mean, as a white page does; or if half of its frequencies are fainter, as those of a gradient are.
# Then rounding and the noise of JPEG decide the bits, or different images have the same bits.
_FLAT, _FAINT = 4.0, 2.0


def can_hash() -> bool:
    """Return whether numpy is there, which this needs."""
    return find_spec("numpy") is not None


def quick_hash(image: ImageFile, orientation: int) -> int | None:
    """Decode and hash an opened image; call inside :func:`~dsprep.images.transform.pillow`.

    A JPEG is decoded at a fraction of its size, so that a few bits may differ.
    """
    image.draft("L", (256, 256))  # 8 times what the hash sees
    load(image)
    return perceptual_hash(converted(image, "gray", alpha=False), orientation)


def perceptual_hash(luma: Image, orientation: int) -> int | None:
    """Return the hash of an image of gray, turned upright; None if it is flat.

    Args:
        luma: The image, of the mode ``L``, as it is stored.
        orientation: The EXIF orientation, 1 to 8, that it has.
    """
    import numpy as np
    from PIL.Image import Resampling

    # A box filter does most of the scaling, which is far faster.
    small = luma.resize((32, 32), Resampling.LANCZOS, reducing_gap=2.0)
    pixels = np.asarray(upright_pixels(small, orientation), dtype=np.float64)
    mean = pixels.sum() / pixels.size
    if (pixels * pixels).sum() / pixels.size - mean * mean < _FLAT**2:
        return None
    waves = _waves()
    low = (waves @ pixels @ waves.T).ravel()
    if np.sort(abs(low))[32] < 16 * _FAINT:  # an orthonormal DCT is smaller by a factor of 16
        return None
    median = np.sort(low)[31:33].sum() / 2
    return int.from_bytes(np.packbits(low > median).tobytes(), "big")


@cache
def _waves() -> Any:
    """Return the 8 lowest frequencies of the discrete cosine transform of 32 values."""
    import numpy as np

    return np.cos(np.pi / 64 * np.arange(8)[:, None] * (2 * np.arange(32) + 1))

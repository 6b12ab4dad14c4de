"""The bilinear filter for JPEGs, by libraries that are installed with ``dsprep[fast]``.

simplejpeg decodes and encodes, and OpenCV resizes, as MXNet's im2rec does. On photographs that
takes two thirds of Pillow's time. OpenCV looks at four pixels, whatever the scale, so this is only
for what stays above half the size, where that costs no quality.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def libraries() -> tuple[Any, Any] | None:
    """Return the modules simplejpeg and OpenCV; None if one of them is not installed."""
    try:
        import cv2
        import simplejpeg
    except ImportError:
        return None
    cv2.setNumThreads(1)  # by default, OpenCV starts a thread for every core in each worker
    return simplejpeg, cv2


def versions() -> dict[str, str]:
    """Return the versions of the libraries, which the bytes depend on; empty if not in use."""
    if (found := libraries()) is None:
        return {}
    simplejpeg, cv2 = found
    return {"simplejpeg": simplejpeg.__version__, "OpenCV": cv2.__version__}


def resize_jpeg(
    data: bytes, size: tuple[int, int], window: tuple[int, int, int, int], quality: int | None
) -> bytes | None:
    """Resize a JPEG in color and cut a part out; None if the libraries cannot, or find damage."""
    if (found := libraries()) is None:
        return None
    simplejpeg, cv2 = found
    try:
        # Strictly: libjpeg's warnings are errors, so that Pillow alone decides about damage.
        pixels = simplejpeg.decode_jpeg(data, "RGB")
        left, top, right, bottom = window
        pixels = cv2.resize(pixels, size)[top:bottom, left:right]
        encoded: bytes = simplejpeg.encode_jpeg(pixels, quality, "RGB", "420")
        return encoded
    except (ValueError, cv2.error):
        return None

"""Checking and opening images: the kinds that dsprep knows, quietly, with one kind of error."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, cast

from dsprep.errors import BadImage
from dsprep.images import structure
from dsprep.images.header import (
    NAMES,
    PLUGINS,
    ImageHeader,
    read_header,
    require_checksums,
    require_whole,
)

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile
    from PIL.JpegImagePlugin import JpegImageFile

# Pillow's own limit, twice its `MAX_IMAGE_PIXELS`: above it a training job that opens images with
# Pillow fails. Decoded, an image of this size takes 0.7 GB.
DEFAULT_MAX_PIXELS = 178_956_970


def make_check(
    level: str, *, readable: frozenset[str] | None = None, max_pixels: int = DEFAULT_MAX_PIXELS
) -> Callable[[bytes], ImageHeader]:
    """Return the check of ``--check LEVEL``, which each image passes before it is packed."""

    def check(data: bytes) -> ImageHeader:
        header = read_header(data)
        require_readable(header.kind, readable)
        require_pixels(header.width, header.height, max_pixels)
        require_whole(data, header)
        if level == "structure" and header.kind in structure.KINDS:
            structure.require_structure(data, header)
        elif level in ("structure", "decode"):
            require_decodable(data, header, max_pixels)
        return header

    return check


def require_readable(kind: str, readable: frozenset[str] | None) -> None:
    """Refuse a kind of image that the readers of the output do not decode."""
    if readable is not None and kind not in readable:
        names = ", ".join(name for other, name in NAMES.items() if other in readable)
        raise BadImage(
            f"{NAMES[kind]}, which readers of this format do not decode (only {names}): "
            "use --encode jpeg"
        )


def require_pixels(width: int, height: int, max_pixels: int) -> None:
    """Refuse an image that is too large to decode, such as a decompression bomb."""
    if width * height > max_pixels:
        raise BadImage(f"{width}x{height} pixels are more than --max-pixels {max_pixels}")


@contextmanager
def pillow(what: str, max_pixels: int) -> Iterator[None]:
    """Run Pillow with its warnings silenced, and whatever it raises made a ``BadImage``."""
    # Changes settings of the process while it runs, so only one thread at a time may use it.
    from PIL import Image

    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, max_pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BadImage:
        raise
    except Image.DecompressionBombError:
        raise BadImage(f"it has more pixels than --max-pixels {max_pixels}") from None
    except Exception as error:  # on hostile bytes Pillow's plugins raise nearly anything
        reason = re.sub(r"<.*?>", "", str(error)).strip()
        if isinstance(error, MemoryError):
            reason = "not enough memory"
        elif not reason or not isinstance(error, OSError | SyntaxError | ValueError):
            reason = f"damaged ({type(error).__name__})"  # which says more
        raise BadImage(f"{what}: {reason}") from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def open_image(data: bytes, header: ImageHeader, max_pixels: int) -> ImageFile:
    """Open an image, not yet decoded, inside :func:`pillow`, as the kind that its header tells."""
    # Of an animation this is the first frame.
    require_pixels(header.width, header.height, max_pixels)
    image = _opener(header.kind)(BytesIO(data))
    # Once more, as files can be made that two readers understand differently.
    require_pixels(*image.size, max_pixels)
    return image


def require_decodable(data: bytes, header: ImageHeader, max_pixels: int) -> None:
    """Refuse an image that cannot be decoded. The pixels are thrown away."""
    # JPEG is decoded to gray at an eighth of its size: every bit passes the Huffman decoder, the
    # only place where libjpeg finds damage, and most of the work after it is saved. Damage that
    # libjpeg makes do with is not found, here as with a full decoding.
    require_checksums(data, header)
    with pillow(f"cannot decode this {NAMES[header.kind]}", max_pixels):
        image = open_image(data, header, max_pixels)
        image.draft("L", (1, 1))
        load(image)


def load(image: ImageFile) -> None:
    """Decode an opened image, inside :func:`pillow`."""
    with _no_stderr() if image.format == "TIFF" else nullcontext():
        image.load()


def orientation_of(image: ImageFile) -> int:
    """Return the EXIF orientation of an opened image, 1 to 8; 1 (upright) if none is valid."""
    if image.format == "PNG":  # where it may come after the pixels
        image.load()
    try:
        orientation: object = image.getexif().get(0x0112)
    except Exception:  # damaged EXIF data does no harm to the image
        return 1
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def stores_luma(image: ImageFile) -> bool:
    """Whether an opened image is a JPEG in YCbCr, which most of those with three channels are."""
    # libjpeg takes the others for RGB because an Adobe marker says so, or their channels' names do.
    if image.format != "JPEG" or image.mode != "RGB":
        return False
    names = bytes(layer[0] for layer in cast("JpegImageFile", image).layer)
    return image.info.get("adobe_transform") != 0 and names != b"RGB"


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Send the process's stderr nowhere: libtiff writes its errors there, too."""
    try:
        stderr = os.dup(2)
    except OSError:  # closed
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@cache
def _opener(kind: str) -> type[ImageFile]:
    # Pillow logs some errors besides raising them; without a handler they reach the terminal.
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    name = PLUGINS[kind]
    opener: type[ImageFile] = getattr(import_module(f"PIL.{name}ImagePlugin"), f"{name}ImageFile")
    return opener

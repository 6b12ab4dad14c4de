"""Hashes of files: of their bytes, and of their looks, which differ in few bits if they are alike.

Workers call this, so nothing heavy is imported before the first image.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from hashlib import blake2b, file_digest
from importlib.util import find_spec
from typing import TYPE_CHECKING

from dsprep.errors import BadImage, OptionError, SourceError
from dsprep.images.header import DEFAULT_MAX_PIXELS, NAMES, read_header, require_whole
from dsprep.images.transform import converted, open_image, pillow, upright_pixels
from dsprep.storage.files import read_bytes
from dsprep.storage.local import LARGEST_TABLE, open_regular
from dsprep.storage.location import is_s3
from dsprep.storage.pool import ahead
from dsprep.storage.s3.read import read_object

if TYPE_CHECKING:
    from PIL.Image import Image

_HASH = partial(blake2b, digest_size=16)

# An image is flat if its thumbnail deviates by fewer levels of 255 from its mean, as a white page
# does, or if half of its low frequencies are weaker, as those of a gradient are. Then rounding and
# the noise of JPEG decide the bits of its hash, or different images have the same hash.
_EVEN, _FAINT = 4.0, 2.0


def require_imagehash() -> None:
    """Refuse to go on without the library that hashes images."""
    if find_spec("imagehash") is None:
        raise OptionError("--near: imagehash is not installed; pip install 'dsprep[near]'")


def hash_images(task: tuple[str, Sequence[str]], report: Callable[..., None]) -> list[int | None]:
    """Hash images by what they show: upright, in gray, small."""
    from PIL import ImageOps

    root, paths = task
    hashes: list[int | None] = []
    for path in paths:
        try:
            data = read_bytes(os.path.join(root, path), LARGEST_TABLE)
            header = read_header(data)
            require_whole(data, header)
            with pillow(f"cannot decode this {NAMES[header.kind]}", DEFAULT_MAX_PIXELS):
                image = open_image(data, header, DEFAULT_MAX_PIXELS)
                image.draft("L", (256, 256))  # decodes a JPEG faster, at 8 times what the hash sees
                upright = ImageOps.exif_transpose(image)
                hashes.append(hash_pixels(converted(upright, "gray", alpha=False)))
        except (BadImage, OSError):
            hashes.append(None)
    report(len(paths), 0)
    return hashes


def hash_pixels(luma: Image, orientation: int = 1) -> int | None:
    """Return the perceptual hash of a gray image, upright; None for one that is flat.

    It is the `phash` of the library `imagehash`: which of the 64 lowest frequencies of a 32 x 32
    thumbnail are above their median.
    """
    import imagehash
    from PIL.Image import Resampling
    from scipy.fft import dctn

    # A box filter does most of the scaling down, which takes a fifth of the time.
    small = luma.resize((32, 32), Resampling.LANCZOS, reducing_gap=2.0)
    strengths = abs(dctn(small, norm="ortho"))
    deviation = ((strengths**2).sum() - strengths[0, 0] ** 2) ** 0.5 / 32
    if deviation < _EVEN or sorted(strengths[:8, :8].ravel())[32] < _FAINT:
        return None
    return int(str(imagehash.phash(upright_pixels(small, orientation))), 16)


def digest_files(
    task: tuple[str, Sequence[tuple[str, int]]], report: Callable[..., None]
) -> list[bytes]:
    """Hash the bytes of files, given with their sizes; some are read at once."""
    root, files = task
    # An object is in memory as a whole.
    calls = (
        (size if is_s3(root) else 0, partial(_digest, os.path.join(root, path), size))
        for path, size in files
    )
    with closing(ahead(calls)) as found:
        digests = list(found)
    report(len(files), sum(size for _, size in files))
    return digests


def _digest(path: str, size: int) -> bytes:
    try:
        if is_s3(path):
            data = read_object(path, size)
            if data is not None:
                return _HASH(data).digest()
        else:
            with open(path, "rb", buffering=0, opener=open_regular) as file:
                if os.fstat(file.fileno()).st_size == size:
                    return file_digest(file, _HASH).digest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    raise SourceError(f"{path}: has changed; give the same command again")

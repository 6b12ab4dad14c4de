"""What an image looks like, as 64 bits: alike images have hashes that differ in few of them.

Workers call this, so nothing heavy is imported before the first image.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from dsprep.errors import BadImage, OptionError
from dsprep.images.header import DEFAULT_MAX_PIXELS, NAMES, read_header, require_whole
from dsprep.images.transform import open_image, pillow
from dsprep.storage.files import read_bytes
from dsprep.storage.local import LARGEST_TABLE


def require_imagehash() -> None:
    """Refuse to go on without the library that hashes images."""
    if find_spec("imagehash") is None:
        raise OptionError("--near: imagehash is not installed; pip install 'dsprep[near]'")


def hash_images(task: tuple[str, Sequence[str]], report: Callable[..., None]) -> list[int | None]:
    """Hash images by what they show: upright, in gray, small."""
    # This is the `phash` of the library `imagehash`: which of the 64 lowest frequencies of a 32 x
    # 32 thumbnail are above their median.
    import imagehash
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
                hashes.append(int(str(imagehash.phash(ImageOps.exif_transpose(image))), 16))
        except (BadImage, OSError):
            hashes.append(None)
    report(len(paths), 0)
    return hashes

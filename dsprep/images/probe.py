"""Would another machine make the same images of a transform? A built-in image tells.

Equal versions of libraries are not enough: builds of a codec differ, and processors do.
"""

from __future__ import annotations

import platform
from base64 import b64decode
from dataclasses import replace
from hashlib import sha256

from dsprep.errors import BadImage, DsprepError
from dsprep.images import bilinear
from dsprep.images.transform import Transform

_SIZE, _CROP = 21, (17, 19)  # smaller than the image, so that resizing and cropping change it
_MAX_PIXELS = 10_000


def probe(transform: Transform) -> str:
    """Return the SHA-256 of what a transform, at another size, makes of the built-in image."""
    resize = transform.resize if transform.resize is None else _SIZE
    crop = transform.crop if transform.crop is None else _CROP
    smaller = replace(transform, resize=resize, crop=crop)
    try:
        return sha256(smaller.apply(b64decode(_IMAGE), _MAX_PIXELS).data).hexdigest()
    except BadImage as error:
        raise DsprepError(
            f"{platform.node()}: its libraries do not make a built-in image ({error}): install "
            f"Pillow again there; it has {versions(transform)}"
        ) from None


def versions(transform: Transform) -> str:
    """Return what the bytes of images depend on, for people."""
    from PIL import __version__, features

    codecs = {"libjpeg": "jpg", "libjpeg-turbo": "libjpeg_turbo", "zlib": "zlib", "webp": "webp"}
    found = {"Pillow": __version__}
    if transform.filter == "bilinear":
        found |= bilinear.versions()
    for name, feature in codecs.items():
        known = features.check(feature) and features.version(feature)
        found |= {name: str(known)} if known else {}
    return ", ".join([platform.machine(), *(f"{name} {text}" for name, text in found.items())])


def differing(here: str, theirs: str, other: str) -> str:
    """Say how the versions here differ from those of another machine, which makes other images."""
    if here == theirs:
        return f"has the same versions as {other} ({here}), but other builds of them: install the "
    return f"has {here}; {other} has {theirs}: use the "


_IMAGE = """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWG
kJ6jq62rZ4C8ybqmx5moq6T/2wBDARweHigjKE4rK06kbl1upKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSk
pKSkpKSkpKSkpKSkpKT/wAARCAAgACgDASIAAhEBAxEB/8QAGQAAAQUAAAAAAAAAAAAAAAAAAAECAwQF/8QAKRAAAgEEAAUD
BAMAAAAAAAAAAQIDAAQRIRITIjFBBWFxQkNRcpGhsf/EABcBAQEBAQAAAAAAAAAAAAAAAAMBAgD/xAAmEQABAwMCBQUAAAAA
AAAAAAABAAIhEWHwElETMUGRsQMUIjLR/9oADAMBAAIRAxEAPwDWMkDx9LAZ8VjXPp8lxPkDKjeBVblwSnEF4UJ8HvV+KO9t
LcmOaOTPjOzWWs4UtM3zNlkO1O+Jo0TMLOAkiundkOIxrWqv2PqCAQq+O5c57UpmuUtgs9nxmQ/TUcz2LtJxwvGUQKNaBpHH
XBHbMskLuIKvF4vPgK+WjniBVxngZsn3orOFtblyIL3h2qdRx70UVNHI53/UPtS+GupSynVEG3azf9gVJqGZEnlVEt48Z+1O
M0st8SNTHf5lQ/6KW2QBTKwDfMcbE/wa2AWyc8ZulLmuPDZA64FJy2Fwqqt5GsYzhSGFMEshVQbiTrkziWDwKakfDDJJyQC+
hiFwf6NOJMRAyy8uPsJJF2fkVx2zMopUOnfOtgm81X6mNnIep9gr7UUpkyOHnZwqrjmoRv5FFUEDmoW+qfp5X//Z
"""

"""The facts of an encoded image that fields of a data set may hold: its sizes, kind and digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from dsprep.errors import BadImage
from dsprep.images.decode import DEFAULT_MAX_PIXELS, open_image
from dsprep.images.header import read_header
from dsprep.images.transform import Encoded
from dsprep.sample import FORMAT_NAMES

_COLORSPACES = {1: "Grayscale", 3: "RGB", 4: "RGBA"}


def _channels(image: Encoded) -> int | None:
    try:
        with open_image(image.data, read_header(image.data), DEFAULT_MAX_PIXELS) as opened:
            return len(opened.getbands())
    except BadImage:
        return None


FACTS_OF: Mapping[str, Callable[[Encoded], int | str | None]] = {
    "width": lambda image: image.width or None,
    "height": lambda image: image.height or None,
    "channels": _channels,
    "colorspace": lambda image: _COLORSPACES.get(_channels(image) or 0),
    "format": lambda image: FORMAT_NAMES.get(image.kind),
    "sha256": lambda image: hashlib.sha256(image.data).hexdigest(),
}
"""What makes each of :data:`dsprep.schema.FACTS`; None if the image does not tell it."""

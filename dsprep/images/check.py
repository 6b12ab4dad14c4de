"""Whether an image may be packed: the levels of ``--check``."""

from __future__ import annotations

from collections.abc import Callable

from dsprep.errors import BadImage
from dsprep.images.decode import DEFAULT_MAX_PIXELS as DEFAULT_MAX_PIXELS
from dsprep.images.decode import require_decodable, require_pixels
from dsprep.images.header import NAMES, ImageHeader, read_header, require_whole


def make_check(
    level: str,
    *,
    readable: frozenset[str] | None = None,
    max_pixels: int = DEFAULT_MAX_PIXELS,
) -> Callable[[bytes], ImageHeader]:
    """Make the function that every image goes through before it is packed."""

    def check(data: bytes) -> ImageHeader:
        header = read_header(data)
        require_readable(header.kind, readable)
        require_pixels(header.width, header.height, max_pixels)
        require_whole(data, header)
        if level == "decode":
            require_decodable(data, header, max_pixels)
        return header

    return check


def require_readable(kind: str, readable: frozenset[str] | None) -> None:
    """Refuse a kind of image that the readers of the output do not decode."""
    if readable is not None and kind not in readable:
        names = ", ".join(NAMES[each] for each in NAMES if each in readable)
        raise BadImage(
            f"{NAMES[kind]}, which readers of this format do not decode (only {names}): "
            "use --encode jpeg"
        )

"""Masks: images whose pixels are numbers of classes, and the runs of one object.

A palette image is read as its indices. Readers of training data decode a palette into colors, so a
mask that goes into another format becomes gray PNG of the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from itertools import cycle
from math import ceil
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from dsprep.annotations.objects import Box, Move, Polygon, Rle, Warp
from dsprep.errors import BadSample
from dsprep.units import format_some

if TYPE_CHECKING:
    from PIL.Image import Image

IGNORED = 255  # the number of pixels that belong to no class: borders, and what nobody judged

Color = tuple[int, int, int]
_MOST_COLORS = 1 << 16  # in a mask


def numbers_of(
    image: Image, colors: Mapping[Color, int] | None, values: Mapping[int, int] | None
) -> Image:
    """Return a decoded mask as a gray image, given class numbers of colors, or of other values."""
    from PIL import Image as PillowImage

    if colors is not None:
        found = _of_colors(image.convert("RGB"), colors)
    elif image.mode in ("L", "P"):
        found = PillowImage.frombytes("L", image.size, image.tobytes())
    elif image.mode == "1":
        if values is None:
            raise BadSample(
                "its mask has 1 bit, which readers take for 0 and 255: give --mask-values 255=1"
            )
        found = image.convert("L")
    elif image.mode.startswith("I"):
        return _of_wide(image, values or {})
    else:
        raise BadSample(
            "its mask has colors: give --mask-colors FILE, with the color of each class"
        )
    if values:
        found = found.point([values.get(value, value) for value in range(256)])
    return found


def _of_wide(image: Image, values: Mapping[int, int]) -> Image:
    """Return a mask of 16 bits or more, whose class numbers have to fit into 8."""
    wide = image.convert("I")
    counted: Any = wide.getcolors(1 << 16) or [(0, value) for value in wide.getextrema()]
    lost = sorted(value for _, value in counted if not 0 <= values.get(value, value) <= IGNORED)
    if lost:
        is_given = 0 <= lost[0] <= lost[-1] < 1 << 16
        advice = f"give --mask-values {lost[0]}=NUMBER, for each of them"
        raise BadSample(
            f"its mask has the values {format_some([*map(str, lost)])}, and class numbers are 0 to "
            f"255: {advice if is_given else 'write it with 8 bits'}"
        )
    numbers = [values.get(value, min(value, IGNORED)) for value in range(1 << 16)]
    return wide.point(numbers, "L")


def _of_colors(image: Image, colors: Mapping[Color, int]) -> Image:
    known = _colors_of(image)
    unknown = [color for color in known or () if color not in colors]
    if known is None or unknown:
        some = format_some([f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in unknown])
        raise BadSample(f"its mask has colors that are those of no class: {some or 'many'}")
    return _painted(image, {color: colors[color] for color in known})


def numbers_of_segments(image: Image, numbers: Mapping[int, int]) -> tuple[Image, Collection[int]]:
    """Return the mask of COCO's panoptic segmentation as a gray image of class numbers.

    The id of a pixel's segment is R + 256 G + 65536 B, and 0 where there is no segment
    (cocodataset.org, "Data format", 4. Panoptic Segmentation).

    Args:
        image: The decoded mask.
        numbers: The class number of each segment, by its id.

    Returns:
        A gray image, in which pixels of no segment have the number `IGNORED`; and the ids of the
        segments that have pixels.

    Raises:
        BadSample: The mask is gray, or has segments without a class number.
    """
    if image.mode not in ("RGB", "RGBA", "P"):
        raise BadSample(f"its mask is gray ({image.mode}), and colors tell the ids of segments")
    image = image.convert("RGB")
    known = _colors_of(image)
    if known is None:
        raise BadSample(f"its mask has more than {_MOST_COLORS:,} segments")
    ids = {color: color[0] + (color[1] << 8) + (color[2] << 16) for color in known}
    numbers = {0: IGNORED, **numbers}
    if unknown := sorted(id for id in ids.values() if id not in numbers):
        some = format_some([*map(str, unknown)])
        raise BadSample(f"its mask has segments that segments_info lacks: {some}")
    painted = _painted(image, {color: numbers[id] for color, id in ids.items()})
    return painted, frozenset(ids.values())


def _colors_of(image: Image) -> list[Color] | None:
    """Return the colors of an RGB image; None if they are many."""
    counted: Any = image.getcolors(_MOST_COLORS)
    return None if counted is None else [color for _, color in counted]


def _painted(image: Image, numbers: Mapping[Color, int]) -> Image:
    """Return a gray image of the numbers that the colors of an RGB image stand for."""
    from PIL import Image as PillowImage

    # Eight colors at a time: each has a bit, which is set where all three channels are its own.
    # This takes a third of the time of comparing whole images, color by color.
    channels = [image.getchannel(at).tobytes() for at in range(3)]
    size, found, colors = image.width * image.height, 0, list(numbers)
    for start in range(0, len(colors), 8):
        some = colors[start : start + 8]
        bits = -1
        for at, channel in enumerate(channels):
            table = bytearray(256)
            for bit, color in enumerate(some):
                table[color[at]] |= 1 << bit
            bits &= int.from_bytes(channel.translate(table), "little")
        table = bytearray(256)
        for bit, color in enumerate(some):
            table[1 << bit] = numbers[color]
        found |= int.from_bytes(bits.to_bytes(size, "little").translate(table), "little")
    return PillowImage.frombytes("L", image.size, found.to_bytes(size, "little"))


def used_in(mask: Image) -> list[int]:
    """Return the class numbers that a mask has."""
    return [number for number, count in enumerate(mask.histogram()) if count]


def png_of(mask: Image) -> bytes:
    """Write a mask as gray PNG."""
    out = BytesIO()
    mask.save(out, "PNG", compress_level=6)
    return out.getvalue()


def mask_of(runs: Rle) -> Image:
    """Return the mask of an object: 1 inside, 0 outside."""
    from PIL import Image

    bits = cycle((b"\0", b"\1"))
    pixels = b"".join(bit * count for bit, count in zip(bits, runs.counts, strict=False))
    columns = Image.frombytes("L", (runs.height, runs.width), pixels)
    return columns.transpose(Image.Transpose.TRANSPOSE)


def runs_of(mask: Image) -> Rle:
    """Return the runs of an object's mask, in which every number but 0 is inside."""
    from PIL import Image

    pixels = mask.transpose(Image.Transpose.TRANSPOSE).tobytes()
    runs = [run.end() - run.start() for run in re.finditer(rb"\0+|[^\0]+", pixels)]
    starts_inside = bool(pixels) and pixels[0] != 0
    return Rle(mask.height, mask.width, (*([0] if starts_inside else []), *runs))


def moved_mask(mask: Image, move: Move) -> Image:
    """Resize a mask to the nearest pixels, by their centers, and crop it."""
    from PIL.Image import Resampling

    if move.scaled != move.size:
        mask = mask.resize(move.scaled, Resampling.NEAREST)
    return mask if move.window == (0, 0, *move.scaled) else mask.crop(move.window)


def warped_mask(mask: Image, warp: Warp) -> Image:
    """Warp a mask by the nearest pixels."""
    from PIL.Image import Resampling, Transform

    data, fill = (*warp.inverse,), warp.mask_fill
    return mask.transform(mask.size, Transform.AFFINE, data, Resampling.NEAREST, fillcolor=fill)


def turned_mask(mask: Image, across: bool, down: bool, swaps: bool) -> Image:
    """Mirror a mask from left to right, from top to bottom, then swap its axes."""
    from PIL.Image import Transpose

    turns = (across, Transpose.FLIP_LEFT_RIGHT), (down, Transpose.FLIP_TOP_BOTTOM)
    for applies, turn in (*turns, (swaps, Transpose.TRANSPOSE)):
        mask = mask.transpose(turn) if applies else mask
    return mask


def mask_of_polygons(polygons: Sequence[Polygon], box: Box, size: tuple[int, int]) -> Image:
    """Return the mask of an object: 1 in pixels whose centers are in its polygons, or its box."""
    # Pillow would paint the outline as well, and so a pixel too many on two sides.
    from PIL import Image

    width, height = size
    x0, y0, x1, y1 = box
    pixels = bytearray(width * height)
    for corners in polygons or ((x0, y0, x1, y0, x1, y1, x0, y1),):
        points = list(zip(corners[::2], corners[1::2], strict=True))
        crossings: dict[int, list[float]] = {}  # of the edges with the middle of each row
        for one, other in zip(points, points[1:] + points[:1], strict=True):
            (left, top), (right, bottom) = sorted((one, other), key=itemgetter(1))
            for row in range(max(0, ceil(top - 0.5)), min(height, ceil(bottom - 0.5))):
                share = (row + 0.5 - top) / (bottom - top)
                crossings.setdefault(row, []).append(left + share * (right - left))
        for row, places in crossings.items():
            ends = [min(max(ceil(each - 0.5), 0), width) for each in sorted(places)]
            for start, stop in zip(ends[::2], ends[1::2], strict=True):
                pixels[row * width + start : row * width + stop] = b"\1" * (stop - start)
    return Image.frombytes("L", size, bytes(pixels))

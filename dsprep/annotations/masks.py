"""Masks: images whose pixels are numbers of classes, and the runs of one object."""

from __future__ import annotations

import re
from itertools import cycle
from typing import TYPE_CHECKING

from dsprep.annotations.objects import Rle

if TYPE_CHECKING:
    from PIL.Image import Image

    from dsprep.annotations.geometry import Move

IGNORED = 255  # the number of pixels that belong to no class: borders, and what nobody judged


def mask_of(runs: Rle) -> Image:
    """Return the mask of an object: 1 inside, 0 outside."""
    from PIL import Image

    pixels = b"".join(bit * count for bit, count in zip(cycle((b"\0", b"\1")), runs.counts))
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


def turned_mask(mask: Image, across: bool, down: bool, swaps: bool) -> Image:
    """Mirror a mask from left to right, from top to bottom, then swap its axes."""
    from PIL.Image import Transpose

    turns = (across, Transpose.FLIP_LEFT_RIGHT), (down, Transpose.FLIP_TOP_BOTTOM)
    for applies, turn in (*turns, (swaps, Transpose.TRANSPOSE)):
        mask = mask.transpose(turn) if applies else mask
    return mask

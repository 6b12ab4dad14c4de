"""What moves with the image of a sample: its objects, its masks and its further images.

A transform of images changes them, too, so that boxes are around what they were around. Images with
objects or masks are always written upright, without an EXIF orientation: some readers of training
data follow it and others do not, but all of them have the same boxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from dsprep.annotations.geometry import Move, measured_on, moved
from dsprep.annotations.objects import SHARES, Objects
from dsprep.errors import BadSample
from dsprep.images.transform import Encoded, Transform, is_turned
from dsprep.sample import Sample
from dsprep.schema import Schema

MIN_VISIBLE = 0.3  # the share of an object's area that is left of it at least

Mover: TypeAlias = Callable[[Sample, bytes, Encoded], Encoded]
"""Changes the fields of a sample as its image was changed, given the image before and after.

Returns the image to write, which is another one if the first was not upright. A BadSample says why
a sample cannot be moved.
"""

_UPRIGHT = Transform()
_TURNED = "image turned upright, because it has boxes or masks"


def make_mover(
    schema: Schema, transform: Transform | None, max_pixels: int, min_visible: float = MIN_VISIBLE
) -> Mover | None:
    """Return what moves the fields of samples with their images; None if there are none to move."""
    objects = [each.name for each in schema.fields if each.type == "objects"]
    if not objects:
        return None

    def move(sample: Sample, data: bytes, image: Encoded) -> Encoded:
        effects = sample.effects = sample.effects or Counter()
        if transform is None and _may_be_turned(data) and is_turned(data):
            image = _UPRIGHT.apply(data, max_pixels)
            effects[_TURNED] += 1
        before = image.before or (image.width, image.height)
        scaled, window = transform.move(before) if transform else (before, (0, 0, *before))
        step = Move(before, scaled, window)
        for name in objects:
            if (value := sample.fields.get(name)) is not None:
                value = _measured(value, before)
                if transform is not None:
                    value = moved(value, step, min_visible, effects)
                sample.fields[name] = value
        return image

    return move


def _measured(value: Objects, size: tuple[int, int]) -> Objects:
    """Return objects in the pixels of an image of this size, which must be that of annotations."""
    extent = value.extent
    if extent not in (None, SHARES, size):
        width, height = extent or SHARES
        raise BadSample(
            f"its annotations are for an image of {width:g}x{height:g} pixels, and it has "
            f"{size[0]}x{size[1]}: give --annotation-size {width:g}x{height:g} if images are "
            "smaller copies of what was annotated"
        )
    return measured_on(value, size)


def _may_be_turned(data: bytes) -> bool:
    """Return whether an image may have an EXIF orientation, which few have: known at once."""
    return b"Exif" in data or b"eXIf" in data or data[:2] in (b"II", b"MM")

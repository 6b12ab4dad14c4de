"""What moves with the image of a sample: its objects, its masks and its further images.

A transform of images changes them, too, so that boxes are around what they were around. Images with
objects or masks are always written upright, without an EXIF orientation: some readers of training
data follow it and others do not, but all of them have the same boxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeAlias

from dsprep.annotations.geometry import measured_on, moved, turned, turns_of, warped
from dsprep.annotations.masks import (
    IGNORED,
    moved_mask,
    numbers_of,
    png_of,
    turned_mask,
    used_in,
    warped_mask,
)
from dsprep.annotations.objects import SHARES, BoxesAlone, Extent, Move, Objects, Warp
from dsprep.errors import BadSample
from dsprep.images.header import may_turn, sniff
from dsprep.images.transform import (
    Encoded,
    Transform,
    decoded,
    loses_bits,
    orientation_in,
    pillow,
    upright_size,
)
from dsprep.sample import Sample
from dsprep.schema import Schema
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from PIL.Image import Image

MIN_VISIBLE = 0.3  # the share of an object's area that is left of it at least

Mover: TypeAlias = Callable[[Sample, bytes, Encoded, Warp | None], Encoded]
"""Changes the fields of a sample as its image was changed, given the image before and after.

A warp was done to the image after the transform.
Returns the image to write, which is another one if the first was not upright. A BadSample says why
a sample cannot be moved.
"""


class Frame(NamedTuple):
    """The picture of an image that annotations are about, as far as a user says so."""

    size: str | None = None  # `--annotation-size`
    turn: str | None = None  # `--boxes-frame`

    @property
    def extent(self) -> Extent | None:
        """The size of all images that were annotated; None if it is not given, or is listed."""
        if self.size in (None, "listed"):
            return None
        width, _, height = str(self.size).partition("x")
        return float(width), float(height)


AS_SHOWN = Frame()  # all images as they are displayed
_UPRIGHT = Transform()
_UPRIGHT_PNG = Transform(encode="png")  # of all kinds but JPEG, as WebP, too, may be lossless
_GRAY = "mask written as gray PNG of the same class numbers"
_BEYOND = (
    "object with a box beyond the edge of its image: give --annotation-size if images are smaller "
    "copies of what was annotated"
)
_FLAT = "object with a box of no width or no height, which trainers refuse or leave out"
_SLACK = 1  # pixels by which a box may reach over the edge, as boxes do that a tool has rounded
TURNED = "image turned upright, as boxes and masks need, without other EXIF data"


def make_mover(
    schema: Schema,
    transform: Transform | None,
    max_pixels: int,
    frame: Frame = AS_SHOWN,
    kept: Collection[str] = (),
) -> Mover | None:
    """Return what moves the fields of samples with their images; None if there are none to move.

    Those of ``kept`` stay as they are. Of further images, those that are JPEG get the same
    transform; others may be masks that nobody declared, and are moved as masks are.
    """
    objects = [each.name for each in schema.fields if each.type == "objects"]
    masks = {each.name: len(each.names) for each in schema.fields if each.type == "mask"}
    others = further_images(schema, kept) if transform is not None else []
    if not (objects or masks or others):
        return None

    def move(sample: Sample, data: bytes, image: Encoded, warp: Warp | None) -> Encoded:
        effects = sample.effects = sample.effects or Counter()
        turn = orientation_in(data) if may_turn(data) else 1
        if transform is None and turn != 1:
            turning = _UPRIGHT if image.kind == "jpg" else _UPRIGHT_PNG
            image = turning.upright(data, max_pixels)
            effects[TURNED] += 1
        before = image.before or (image.width, image.height)
        scaled, window = transform.move(before) if transform else (before, (0, 0, *before))
        step, size = Move(before, scaled, window), (image.width, image.height)
        change = _ImageChange(step, turn, warp, size, effects)
        for name in objects:
            if (value := sample.fields.get(name)) is not None:
                if name in kept:
                    sample.fields[name] = _kept_objects(value, change)
                else:
                    sample.fields[name] = _moved_objects(value, change, transform, frame)
        for name in others:
            if transform is not None and (other := sample.fields.get(name)) is not None:
                if sniff(other) == "jpg":
                    sample.fields[name] = _transformed(other, name, change, transform, max_pixels)
                elif transform.moves:
                    sample.fields[name] = _moved_image(other, name, change)
        for name, classes in masks.items():
            if (mask := sample.fields.get(name)) is not None:
                if name in kept:
                    sample.fields[name] = _kept_mask(mask, change, classes, max_pixels)
                else:
                    sample.fields[name] = _moved_mask(mask, change, classes, frame)
        return image

    return move


class _ImageChange(NamedTuple):
    """What was done to the image of a sample."""

    step: Move
    turn: int  # its EXIF orientation before
    warp: Warp | None  # what was done after the step
    size: tuple[int, int]  # size of the image that is written
    effects: Counter[str]  # what happens to the sample on the way, to be counted


def _kept_objects(value: Objects, change: _ImageChange) -> Objects:
    """Return objects that stay, with the size of the image that they are measured on."""
    is_measured = value.extent not in (None, SHARES)
    return value if is_measured else measured_on(value, change.step.size)


def _moved_objects(
    value: Objects, change: _ImageChange, transform: Transform | None, frame: Frame
) -> Objects:
    """Return objects in the pixels of the image that is written."""
    value = _measured(value, change.step.size, change.turn, frame)
    _count_odd(value, change.step.size, change.effects)
    if transform is None:
        return value
    least = MIN_VISIBLE if transform.min_visible is None else transform.min_visible
    value = moved(value, change.step, least, change.effects)
    if change.warp is None:
        return value
    return warped(value, change.warp, change.size, least, change.effects)


def further_images(schema: Schema, kept: Collection[str] = ()) -> list[str]:
    """Return the images of samples that a transform changes, besides the image."""
    images = (each.name for each in schema.fields if each.type == "image")
    return [name for name in images if name not in (schema.image, *kept)]


def _transformed(
    data: bytes, name: str, change: _ImageChange, transform: Transform, max_pixels: int
) -> bytes:
    """Return a further image that is no mask, with the same transform."""
    step = change.step.scaled, change.step.window
    if transform.crop and transform.move(upright_size(data)) != step:
        raise BadSample(
            f"its {name} has another size than its image, so that --crop would cut "
            f"out another part of it: {_remedy(name)}"
        )
    return transform.apply(data, max_pixels).data


def _moved_image(data: bytes, name: str, change: _ImageChange) -> bytes:
    """Return a further image that may be a mask, moved as one; the file itself if it stays."""
    remedy, step = _remedy(name), change.step
    if change.turn != 1:
        raise BadSample(
            f"its EXIF orientation turns the image, and nothing tells whether also {name}: {remedy}"
        )
    image: Image = decoded(data, f"its image {name!r}", step.size[0] * step.size[1])
    if image.size != step.size:
        size = _text(image.size)
        raise BadSample(f"its {name} has {size} pixels, and its image {_text(step.size)}: {remedy}")
    if _stays(step):
        return data
    if loses_bits(data):
        raise BadSample(f"its {name} has colors of 16 bits, which cannot be resized: {remedy}")
    how = "by nearest neighbor and written as PNG, in case it is a mask"
    change.effects[f"image {name!r} changed {how}"] += 1
    with pillow(f"cannot write its {name} as PNG", step.size[0] * step.size[1]):
        return png_of(moved_mask(image, step))


def _remedy(name: str) -> str:
    return f"give --keep-fields {name} if it does not depend on the image, or --drop {name}"


def _stays(step: Move) -> bool:
    return step.scaled == step.size and step.window == (0, 0, *step.size)


def _kept_mask(data: bytes, change: _ImageChange, classes: int, max_pixels: int) -> bytes:
    """Return a mask that stays, as gray PNG; the file itself if it is that already."""
    image, mask = read_mask(data, None, classes, max_pixels, change.turn)
    return data if _is_gray(image) else _gray(mask, image, change)


def _moved_mask(data: bytes, change: _ImageChange, classes: int, frame: Frame) -> bytes:
    """Return a mask as gray PNG, turned and moved; the file itself if it is that already."""
    step, stored = change.step, frame.turn == "stored"
    most = step.size[0] * step.size[1]
    image, mask = read_mask(data, step.size, classes, most, change.turn, stored)
    turn = change.turn if stored else 1
    stays = _stays(step)
    if _is_gray(image) and stays and turn == 1 and change.warp is None:
        return data
    mask = turned_mask(mask, *turns_of(turn))
    mask = mask if stays else moved_mask(mask, step)
    return _gray(mask if change.warp is None else warped_mask(mask, change.warp), image, change)


def _is_gray(image: Image) -> bool:
    return image.format == "PNG" and image.mode == "L"


def _gray(mask: Image, before: Image, change: _ImageChange) -> bytes:
    """Return a mask as gray PNG, and count it if it was none before."""
    change.effects[_GRAY] += not _is_gray(before)
    return png_of(mask)


def read_mask(
    data: bytes,
    size: tuple[int, int] | None,
    classes: int,
    max_pixels: int,
    turn: int = 1,
    stored: bool = False,
) -> tuple[Image, Image]:
    """Return a mask as it was stored, and as class numbers; refuse another size, and others.

    The size is that of the upright image, which ``turn`` made of the one that is stored.
    """
    image = decoded(data, "its mask", max_pixels)
    expected = size[::-1] if size is not None and stored and turn > 4 else size
    if expected is not None and image.size != expected:
        hint = " as it is stored" if stored and turn > 4 else ""
        if turn > 4 and not stored and image.size == expected[::-1]:
            hint = ": give --boxes-frame stored"
        own = _text(image.size)
        raise BadSample(f"its mask has {own} pixels, and its image {_text(expected)}{hint}")
    mask = numbers_of(image, None, None)
    if classes:
        outside = [number for number in used_in(mask) if classes <= number != IGNORED]
        if outside:
            names = format_some(list(map(str, outside)))
            raise BadSample(
                f"its mask has the class numbers {names}, and there are "
                f"{format_count(classes, 'class')}"
            )
    return image, mask


def _measured(value: Objects, size: tuple[int, int], turn: int, frame: Frame) -> Objects:
    """Return objects in the pixels of an upright image of this size."""
    extent = value.extent
    stored = (size[1], size[0]) if turn > 4 else size  # orientations above 4 swap width and height
    framed = stored if frame.turn == "stored" else size
    if frame.extent is not None and extent != SHARES:
        if extent not in (None, frame.extent):
            raise BadSample(f"its annotations are for an image of {_text(extent)} pixels, not of "
                            f"--annotation-size {frame.size}: give listed")  # fmt: skip
        extent = frame.extent
    if frame.size is None and extent not in (None, framed, SHARES):
        if stored == size or extent not in (size, stored):
            raise BadSample(
                f"its annotations are for an image of {_text(extent)} pixels, and it has "
                f"{_text(size)}: give --annotation-size listed if images are smaller copies of "
                "what was annotated"
            )
        if frame.turn is None:
            raise BadSample(
                f"its annotations are for an image of {_text(stored)} pixels, as it is stored, and "
                f"its EXIF orientation makes it {_text(size)}: give --boxes-frame stored, or "
                "displayed if boxes are for the upright image all the same"
            )
        extent = framed
    value = value if extent is value.extent else value._replace(extent=extent)
    value = measured_on(value, framed)
    for each in () if isinstance(value.items, BoxesAlone) else value.items:
        if each.rle is not None and (each.rle.width, each.rle.height) != framed:
            own = _text((each.rle.width, each.rle.height))
            raise BadSample(f"has a mask of {own} pixels for an object, but {_text(framed)} itself")
    return turned(value, turn) if frame.turn == "stored" and turn != 1 else value


def _count_odd(value: Objects, size: tuple[int, int], effects: Counter[str]) -> None:
    """Count boxes that nobody draws, which are kept."""
    right, bottom = size[0] + _SLACK, size[1] + _SLACK
    if isinstance(value.items, BoxesAlone):
        _, left, top, across, down, flat, _, _ = value.items.summary
        if left >= -_SLACK and top >= -_SLACK and across <= right and down <= bottom:
            if flat:
                effects[_FLAT] += flat
            return
    for each in value.items:
        x0, y0, x1, y1 = each.box
        if x0 < -_SLACK or y0 < -_SLACK or x1 > right or y1 > bottom:
            effects[_BEYOND] += 1
        if x0 >= x1 or y0 >= y1:
            effects[_FLAT] += 1


def _text(extent: Extent | None) -> str:
    width, height = extent or SHARES
    return f"{width:g}x{height:g}"

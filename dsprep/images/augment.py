"""Copies of images that differ from them by chance: which operations, by how much, and how.

What a copy looks like depends on the key of its sample, the number of the copy and the seed alone.
The geometry is one map from the pixels of the copy to those of the image, as Keras composes it, so
that pixels are interpolated once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from dsprep.errors import OptionError
from dsprep.frozen import Frozen
from dsprep.patterns import pattern
from dsprep.tuples import NamedTuple

if TYPE_CHECKING:
    from PIL.Image import Image

Affine: TypeAlias = tuple[float, float, float, float, float, float]
"""Where a point x, y comes from: a·x + b·y + c and d·x + e·y + f, in pixels."""

Params: TypeAlias = Mapping[str, float]
"""The random parameters of a copy, by name."""

FILLS = ("nearest", "reflect", "wrap", "constant")
IDENTITY: Affine = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
_LEAST = 0.001  # the smallest value of an operation: a map of six digits can still be inverted


class Op(NamedTuple):
    """An operation: what its value means, and what is drawn for each copy."""

    params: Sequence[str]  # the names of what is drawn
    unit: str
    most: float  # the largest value, which leaves something of each image
    default: float | None  # the value if none is given; None if one must be
    drawn: str  # what is drawn, from which range
    effect: str  # what a positive or a larger value does


# NAME: PARAMETERS | unit | largest value | what is drawn
#     what it does
_OPS = """
crop: crop crop_x crop_y | share of the sides | 0.99 | share from V to 1; place from −1 to 1
    cuts out this share of both sides and enlarges it; place 1 is the right or lower edge
rotate: rotate | degrees | 180 | −V to V
    turns counterclockwise
shift: shift_x shift_y | share of the side | 0.99 | −V to V, for each axis
    moves the content right or down
shear: shear | degrees | 60 | −V to V
    tilts vertical lines so that their lower ends go right; horizontal lines stay horizontal
zoom: zoom | factor | 0.99 | 1−V to 1+V, the same for both axes
    a factor above 1 enlarges the content
hflip: hflip | probability | 1 | 0 or 1
    mirrors left and right
vflip: vflip | probability | 1 | 0 or 1
    mirrors top and bottom
brightness: brightness | factor | 0.99 | 1−V to 1+V
    multiplies each level
contrast: contrast | factor | 0.99 | 1−V to 1+V
    multiplies the difference from the mean gray level
color: color | factor | 1 | 1−V to 1+V
    multiplies the difference from the gray image: 0 is gray
blur: blur | pixels | 100 | 0 to V
    standard deviation of a Gaussian blur
noise: noise | levels | 100 | 0 to V
    standard deviation of Gaussian noise, separate for each channel
cutout: cutout_x cutout_y | share of the sides | 0.99 | place from 0 to 1
    blackens a rectangle of the share V of both sides; boxes and masks stay
"""


def _parse_table() -> Iterator[tuple[str, Op]]:
    lines = _OPS.strip().splitlines()
    for head, effect in zip(lines[::2], lines[1::2], strict=True):
        name, _, rest = head.partition(": ")
        params, unit, most, drawn = rest.split(" | ")
        default = 0.5 if unit == "probability" else None
        yield name, Op(params.split(), unit, float(most), default, drawn, effect.strip())


OPS = dict(_parse_table())
"""The operations, in the order in which they are applied."""

FORMS = " ".join(
    name if op.default else f"{name}={op.unit.split()[0].upper()}" for name, op in OPS.items()
)
"""The forms of all operations on the command line, for help."""

_MOVING = frozenset({"crop", "rotate", "shift", "shear", "zoom", "hflip", "vflip"})
_FORM = pattern(r"([a-z]+)(?:=(.*))?")


def parse_ops(text: str) -> dict[str, float]:
    """Read ``rotate=40,hflip``; the operations stand in the order in which they are applied."""
    found: dict[str, float] = {}
    for each in filter(None, map(str.strip, text.split(","))):
        match = _FORM.fullmatch(each)
        name = match[1] if match else each
        if match is None or name not in OPS:
            raise OptionError(f"{each}: no such operation; there are {', '.join(OPS)}")
        if name in found:
            raise OptionError(f"{text}: {name} is given twice")
        op = OPS[name]
        try:
            value = float(match[2]) if match[2] else op.default
        except ValueError:
            value = math.nan
        if value is None:
            raise OptionError(f"{name}: give a value ({op.unit}), as in {name}={op.most / 5:g}")
        if not _LEAST <= value <= op.most:
            raise OptionError(f"{each}: give a number from {_LEAST} to {op.most:g} ({op.unit})")
        found[name] = value
    if not found:
        raise OptionError("give at least one operation, such as rotate=40,hflip")
    return {name: found[name] for name in OPS if name in found}


class Augment(Frozen):
    """What is done to each copy of an image. Plain data, pickled for the workers."""

    ops: Mapping[str, float]  # operations and their strengths, which `parse_ops` returns
    seed: int = 0
    fill: str = "nearest"  # what is beyond the edges of an image: see FILLS
    mask_fill: int = 255  # the class number of that in masks
    # Without a transform, which has both, the quality of copies that are JPEG or WebP, and the
    # share of an object's area that is left of it at least; None means what a transform has.
    quality: int | None = None
    min_visible: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what a manifest records."""
        ops = {name: float(value) for name, value in self.ops.items()}
        values = {"ops": ops, "seed": self.seed, "fill": self.fill, "mask_fill": self.mask_fill}
        rare = {"quality": self.quality, "min_visible": self.min_visible}
        return values | {name: value for name, value in rare.items() if value is not None}

    @property
    def moves(self) -> bool:
        """Whether it changes the geometry of images."""
        return not _MOVING.isdisjoint(self.ops)

    def draw(self, key: str, copy: int) -> dict[str, float]:
        """Return the parameters of a copy of the sample with this key."""
        found: dict[str, float] = {}
        for name, most in self.ops.items():
            # Each operation has draws of its own, which others do not change. Six digits are what
            # `augment.parquet` and other programs reproduce exactly.
            one, two, three, _ = _uniform(self.seed, key, copy, name)
            values: tuple[float, ...]
            if name in ("rotate", "shear", "shift"):
                values = most * (2 * one - 1), most * (2 * two - 1)
            elif name in ("hflip", "vflip"):
                values = (float(one < most),)
            elif name in ("blur", "noise"):
                values = (most * one,)
            elif name == "crop":
                values = 1 - one * (1 - most), 2 * two - 1, 2 * three - 1
            elif name == "cutout":
                values = one, two
            else:
                values = (1 + most * (2 * one - 1),)
            # a shear or a rotation has one parameter, and its second number is not used
            found |= {each: round(value, 6) for each, value in zip(OPS[name].params, values)}  # noqa: B905
        return found

    def apply(self, image: Image, params: Params, key: str, copy: int) -> Image:
        """Return a copy of a decoded image, in the same size and the same colors."""
        affine = affine_of(params, image.size)
        if affine != IDENTITY:
            image = _warped(image, affine, self.fill)
        if not {"brightness", "contrast", "color", "blur", "noise", "cutout"}.isdisjoint(self.ops):
            image = self._recolored(image, params, key, copy)
        return image

    def _recolored(self, image: Image, params: Params, key: str, copy: int) -> Image:
        from PIL import ImageEnhance, ImageFilter

        alpha = image.getchannel("A") if image.mode in ("LA", "RGBA") else None
        if alpha is not None:
            image = image.convert(image.mode.removesuffix("A"))
        for name in self.ops:
            if name in ("brightness", "contrast", "color"):
                enhance = getattr(ImageEnhance, name.capitalize())
                image = enhance(image).enhance(params[name])
            elif name == "blur":
                image = image.filter(ImageFilter.GaussianBlur(params["blur"]))
            elif name == "noise":
                image = _noisy(image, params["noise"], f"{self.seed}\0{copy}\0pixels\0{key}")
            elif name == "cutout":
                width, height = (max(1, round(side * self.ops["cutout"])) for side in image.size)
                left = round(params["cutout_x"] * (image.width - width))
                top = round(params["cutout_y"] * (image.height - height))
                image = image.copy()
                image.paste(0, (left, top, left + width, top + height))
        if alpha is not None:
            image.putalpha(alpha)
        return image


def _uniform(seed: int, key: str, copy: int, name: str) -> Sequence[float]:
    """Return four numbers from 0 to less than 1."""
    import hashlib  # hashlib is slow to load, and --help imports this module

    digest = hashlib.sha256(f"{seed}\0{copy}\0{name}\0{key}".encode("utf-8", "surrogateescape"))
    parts = (digest.digest()[at : at + 8] for at in range(0, 32, 8))
    return [(int.from_bytes(part, "big") >> 11) / (1 << 53) for part in parts]


# Geometry


def affine_of(params: Params, size: tuple[int, int]) -> Affine:
    """Return where the pixels of a copy come from, in an image of this size.

    It composes as ``apply_affine_transform`` of Keras does, around the center: what is done first
    stands on the left.
    """
    width, height = size
    drawn = params.get
    share, zoom = drawn("crop", 1.0), 1 / drawn("zoom", 1.0)
    place = (1 - share) / 2
    angle, shear = (math.radians(drawn(name, 0.0)) for name in ("rotate", "shear"))
    sine, cosine = math.sin(angle), math.cos(angle)
    across, down = ((-1.0 if drawn(name) else 1.0) * zoom for name in ("hflip", "vflip"))
    steps: Sequence[Affine] = (
        (1.0, 0.0, width / 2, 0.0, 1.0, height / 2),
        (
            *(share, 0.0, drawn("crop_x", 0.0) * place * width),
            *(0.0, share, drawn("crop_y", 0.0) * place * height),
        ),
        (cosine, -sine, 0.0, sine, cosine, 0.0),
        (1.0, 0.0, -drawn("shift_x", 0.0) * width, 0.0, 1.0, -drawn("shift_y", 0.0) * height),
        (1.0, -math.sin(shear), 0.0, 0.0, math.cos(shear), 0.0),
        (across, 0.0, 0.0, 0.0, down, 0.0),
        (1.0, 0.0, -width / 2, 0.0, 1.0, -height / 2),
    )
    found = IDENTITY
    for a, b, c, d, e, f in steps:
        p, q, r, s, t, u = found
        found = (
            p * a + q * d,
            p * b + q * e,
            p * c + q * f + r,
            s * a + t * d,
            s * b + t * e,
            (s * c + t * f + u),
        )
    # The last digits of sines differ between C libraries.
    return tuple(round(each, 9) + 0.0 for each in found)  # type: ignore[return-value]


def _warped(image: Image, affine: Affine, fill: str) -> Image:
    """Return an image of the same size, interpolated between the four pixels around each point."""
    from PIL.Image import Resampling, Transform, Transpose

    size = width, height = image.size
    flips: dict[Affine, Transpose] = {
        (-1, 0, width, 0, 1, 0): Transpose.FLIP_LEFT_RIGHT,
        (1, 0, 0, 0, -1, height): Transpose.FLIP_TOP_BOTTOM,
        (-1, 0, width, 0, -1, height): Transpose.ROTATE_180,
    }
    if (flip := flips.get(affine)) is not None:  # the same pixels in a tenth of the time
        return image.transpose(flip)
    if (factor := int(math.sqrt(abs(affine[0] * affine[4] - affine[1] * affine[3])))) > 1:
        # Padding for what becomes much smaller would take the square of this in memory.
        image = image.reduce(factor)
        affine = tuple(each / factor for each in affine)  # type: ignore[assignment]
    a, b, c, d, e, f = affine
    if fill != "constant":
        width, height = image.size
        corners = [(x, y) for x in (0, size[0]) for y in (0, size[1])]
        xs, ys = ([p * x + q * y + r for x, y in corners] for p, q, r in ((a, b, c), (d, e, f)))
        # A pixel more on each side, as pixels beyond the edge count at the edge.
        left, top = (max(0, 1 - math.floor(min(each))) for each in (xs, ys))
        right, bottom = (
            max(0, math.ceil(max(each)) + 1 - side) for each, side in ((xs, width), (ys, height))
        )
        image = _padded(image, (left, top, right, bottom), fill)
        return image.transform(
            size, Transform.AFFINE, (a, b, c + left, d, e, f + top), Resampling.BILINEAR
        )
    return image.transform(size, Transform.AFFINE, affine, Resampling.BILINEAR, fillcolor=0)


def _padded(image: Image, edges: tuple[int, int, int, int], fill: str) -> Image:
    """Return an image with more pixels on the left, the top, the right and the bottom."""
    from PIL import Image as PillowImage
    from PIL.Image import Resampling, Transpose

    for axis in (0, 1):
        side, before, after = image.size[axis], edges[axis], edges[axis + 2]
        if not before and not after:
            continue
        sizes = list(image.size)
        sizes[axis] += before + after
        padded = PillowImage.new(image.mode, (sizes[0], sizes[1]))

        def put(piece: Image, at: int, axis: int = axis, padded: Image = padded) -> None:
            padded.paste(piece, (at, 0) if axis == 0 else (0, at))

        if fill == "nearest":
            for at, count, line in ((0, before, 0), (before + side, after, side - 1)):
                box, size = [0, 0, *image.size], list(image.size)
                box[axis], box[axis + 2], size[axis] = line, line + 1, count
                if count:
                    strip = image.crop((box[0], box[1], box[2], box[3]))
                    put(strip.resize((size[0], size[1]), Resampling.NEAREST), at)
            put(image, before)
        else:
            flip = (Transpose.FLIP_LEFT_RIGHT, Transpose.FLIP_TOP_BOTTOM)[axis]
            mirrored = image.transpose(flip) if fill == "reflect" else image
            for number in range(-math.ceil(before / side), 1 + math.ceil(after / side)):
                put(mirrored if number % 2 else image, before + number * side)
        image = padded
    return image


# Noise


@cache
def _quantiles() -> Sequence[float]:
    """The middles of 65,536 equal parts of the normal distribution, cut to 256 by 256."""
    from statistics import NormalDist  # slow to load

    found = [NormalDist().inv_cdf((number + 0.5) / 256) for number in range(256)]
    scale = math.sqrt(sum(each * each for each in found) / 256)
    return [each / scale for each in found]


def _noisy(image: Image, deviation: float, seed: str) -> Image:
    """Add noise to each level. A hash makes it: the generators of libraries change."""
    import hashlib

    from PIL import Image as PillowImage
    from PIL import ImageChops

    stream = hashlib.shake_128(seed.encode("utf-8", "surrogateescape"))
    count = image.width * image.height * len(image.getbands())
    noise = PillowImage.frombytes(image.mode, image.size, stream.digest(count))
    levels = [min(255, max(0, round(128 + deviation * each))) for each in _quantiles()]
    noise = noise.point(levels * len(image.getbands()))
    return ImageChops.add(image, noise, 1, -128)

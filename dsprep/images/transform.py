"""What happens to an image on its way into a shard: check, resize, crop, convert, encode.

Pillow opens images of the kinds that dsprep knows, quietly, with one kind of error. An image that
already is what was asked for keeps its bytes. The others are decoded, turned upright as their EXIF
orientation says, and encoded without any metadata: the same image and options give the same bytes.
Color profiles are dropped without being applied, as readers of training data ignore them. Images
that are only turned upright keep theirs, as the images beside them do that are not turned.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from dsprep.arguments import accept
from dsprep.errors import BadImage, OptionError, SourceError
from dsprep.frozen import Frozen
from dsprep.images import bilinear, structure
from dsprep.images.header import (
    DEFAULT_MAX_PIXELS,
    NAMES,
    PLUGINS,
    ImageHeader,
    may_turn,
    read_header,
    require_checksums,
    require_whole,
)
from dsprep.images.pixels import RAW, RAW_CHW, Shape
from dsprep.options import given_options, require_effect
from dsprep.sample import FORMAT_NAMES
from dsprep.tuples import NamedTuple

Size = tuple[int, int]
Window = tuple[int, int, int, int]
Extent = tuple[float, float]

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile
    from PIL.JpegImagePlugin import JpegImageFile


def make_check(
    level: str, *, readable: frozenset[str] | None = None, max_pixels: int = DEFAULT_MAX_PIXELS
) -> Callable[[bytes], ImageHeader]:
    """Return the check of ``--check LEVEL``, which each image passes before it is packed."""

    def check(data: bytes) -> ImageHeader:
        header = read_header(data)
        kind, width, height, _ = header
        # nearly all images pass, without a call for each
        if readable is not None and kind not in readable:
            require_readable(kind, readable)
        if width * height > max_pixels:
            require_pixels(width, height, max_pixels)
        if level == "structure" and kind == "jpg":
            try:
                # checks the structure up to the end of the file
                structure.require_structure(data, header)
            except BadImage:
                require_whole(data, header)  # a truncated image gets a message of its own
                raise
            return header
        require_whole(data, header)
        if level == "structure" and kind == "png":
            structure.require_structure(data, header)
        elif level in ("structure", "decode"):
            require_decodable(data, header, max_pixels)
        return header

    return check


def require_readable(kind: str, readable: frozenset[str] | None) -> None:
    """Refuse a kind of image that the readers of the output do not decode."""
    if readable is not None and kind not in readable:
        names = ", ".join(name for other, name in NAMES.items() if other in readable)
        raise BadImage(
            f"{NAMES[kind]}, which readers of this format do not decode (only {names}): "
            "use --encode jpeg"
        )


def require_pixels(width: int, height: int, max_pixels: int) -> None:
    """Refuse an image that is too large to decode, such as a decompression bomb."""
    if width * height > max_pixels:
        raise BadImage(f"{width}x{height} pixels are more than --max-pixels {max_pixels}")


@contextmanager
def pillow(what: str, max_pixels: int) -> Iterator[None]:
    """Run Pillow without its warnings, and raise any of its exceptions as ``BadImage``."""
    # Changes settings of the process while it runs, so only one thread at a time may use it.
    from PIL import Image

    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, max_pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except BadImage:
        raise
    except Image.DecompressionBombError:
        raise BadImage(f"it has more pixels than --max-pixels {max_pixels}") from None
    except Exception as error:  # on hostile bytes Pillow's plugins raise nearly anything
        reason = re.sub(r"<.*?>", "", str(error)).strip()
        if isinstance(error, MemoryError):
            reason = "not enough memory"
        elif not reason or not isinstance(error, OSError | SyntaxError | ValueError):
            # the type of the error says more than its empty text
            reason = f"damaged ({type(error).__name__})"
        raise BadImage(f"{what}: {reason}") from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def open_image(data: bytes, header: ImageHeader, max_pixels: int) -> ImageFile:
    """Open an image of the kind in its header, without decoding it; call inside :func:`pillow`."""
    # Of an animation this is the first frame.
    require_pixels(header.width, header.height, max_pixels)
    image = _opener(header.kind)(BytesIO(data))
    # Once more, as files can be made that two readers understand differently.
    require_pixels(*image.size, max_pixels)
    return image


def require_decodable(data: bytes, header: ImageHeader, max_pixels: int) -> None:
    """Refuse an image that cannot be decoded. The pixels are thrown away."""
    # JPEG is decoded to gray at an eighth of its size: every bit passes the Huffman decoder, the
    # only place where libjpeg finds damage, and most of the work after it is saved. Damage that
    # libjpeg tolerates is not found; a full decoding would not find it either.
    require_checksums(data, header)
    with pillow(f"cannot decode this {NAMES[header.kind]}", max_pixels):
        image = open_image(data, header, max_pixels)
        image.draft("L", (1, 1))
        load(image)


def load(image: ImageFile) -> None:
    """Decode an opened image, inside :func:`pillow`."""
    with _no_stderr() if image.format == "TIFF" else nullcontext():
        image.load()


def orientation_of(image: ImageFile) -> int:
    """Return the EXIF orientation of an opened image, 1 to 8; 1 (upright) if none is valid."""
    if image.format == "PNG":  # PNG may have its EXIF data after the pixels
        image.load()
    try:
        orientation: object = image.getexif().get(0x0112)
    except Exception:  # damaged EXIF data does no harm to the image
        return 1
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


def stores_luma(image: ImageFile) -> bool:
    """Whether an opened image is a JPEG in YCbCr, which most of those with three channels are."""
    # libjpeg takes the others for RGB because an Adobe marker says so, or their channels' names do.
    if image.format != "JPEG" or image.mode != "RGB":
        return False
    names = bytes(layer[0] for layer in cast("JpegImageFile", image).layer)
    return image.info.get("adobe_transform") != 0 and names != b"RGB"


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Send the process's stderr nowhere: libtiff writes its errors there, too."""
    try:
        stderr = os.dup(2)
    except OSError:  # stderr is closed
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@cache
def _opener(kind: str) -> type[ImageFile]:
    import logging  # slow to load

    # Pillow logs some errors besides raising them; without a handler they reach the terminal.
    logging.getLogger("PIL").addHandler(logging.NullHandler())
    name = PLUGINS[kind]
    opener: type[ImageFile] = getattr(import_module(f"PIL.{name}ImagePlugin"), f"{name}ImageFile")
    return opener


# Resizing, cropping, converting and encoding


# What an EXIF orientation does to the stored image (CIPA DC-008, 4.6.4, tag 274).
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_MIRRORED_ACROSS = frozenset({2, 3, 6, 7})
_MIRRORED_DOWN = frozenset({3, 4, 7, 8})
_ON_ITS_SIDE = frozenset({5, 6, 7, 8})

# Whole blocks of pixels are averaged, which is cheap, while this many times the size is left.
_REDUCING_GAP = 1.5

_GRAY = frozenset({"1", "L", "LA", "La"})
_ALPHA = frozenset({"LA", "La", "PA", "RGBA", "RGBa"})

_QUALITY = 90  # where nobody gave one
ENCODINGS = ("keep", "jpeg", "png", "webp", RAW, RAW_CHW)
COLORS = ("keep", "rgb", "gray")
FILTERS = ("lanczos", "bicubic", "hamming", "bilinear")
_KINDS = {"jpeg": "jpg", "png": "png", "webp": "webp"}


class Encoded(NamedTuple):
    """An image as it is stored in a shard."""

    kind: str  # `jpg`, `png`, … as in `ImageHeader`
    data: bytes  # its bytes
    width: int  # in pixels
    height: int  # in pixels
    # whether it is the first frame of an animation, or the first page of several
    lost_frames: bool = False
    # width and height before, upright; None for one that was not looked at
    before: Size | None = None
    shape: Shape | None = None  # the shape of bare pixels


class Decoded(NamedTuple):
    """An image before it is encoded."""

    pixels: Image  # upright
    kind: str  # what it will be encoded as
    before: Size  # the size of the upright image before the transform
    lost_frames: bool


class Transform(Frozen):
    """What to do to each image. Sizes are (width, height) in pixels, of the upright image.

    Only the first frame of an animation is kept, unless the image is copied without changes.

    Raises:
        OptionError: If an attribute has a value that it cannot have.
    """

    # a number is the length of the shorter edge, and the longer one follows, rounded down (as
    # im2rec does). A size is the size itself; the aspect ratio is not kept. Nothing is enlarged: an
    # image whose shorter edge is below the number keeps its size, and where the size is longer than
    # the image's edge, that edge stays.
    resize: int | Size | None = None
    crop: Size | None = None  # size to cut out of the center after resizing; shorter edges stay
    enlarge: bool = False  # let `resize` enlarge, too
    # `jpeg`, `png` or `webp`: encode every image so. `raw`, `raw-chw`: make all bare pixels.
    # `keep`: encode only what has to change, as what it was, or as PNG if that is not JPEG, PNG or
    # WebP.
    encode: str = "keep"
    # JPEG and WebP quality, 1 to 100; 90 by default, and None where no image can become either.
    # JPEG's colors are halved in both directions (4:2:0) at any quality, as im2rec's are.
    quality: int | None = None
    # `rgb` and `gray` convert, and put transparent images on white. `keep` leaves gray images gray
    # and, unless they become JPEG, transparent ones transparent.
    color: str = "keep"
    # the resampling filter of `resize`; bicubic by default, and None without `resize`
    filter: str | None = None

    # an object is dropped if a crop leaves less than this share of its area; None means 0.3
    min_visible: float | None = None

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(Transform).items():
            object.__setattr__(self, name, accept(name, hint, getattr(self, name)))
        for name, size in (("resize", self.resize), ("crop", self.crop)):
            if size is not None and min(size if isinstance(size, tuple) else (size,)) < 1:
                raise OptionError(f"--{name}: an edge has at least 1 pixel")
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise OptionError(f"--quality {self.quality}: it can be 1 to 100")
        for name, choices in (("encode", ENCODINGS), ("color", COLORS), ("filter", FILTERS)):
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise OptionError(f"--{name} {value}: it can be {', '.join(choices)}")
        # Commands check these, which may be about augmented copies.
        unchecked = {"min_visible": None} | ({"quality": None} if self.is_copy else {})
        require_effect("pack", given_options(vars(self) | unchecked))
        if self.filter is None and self.resize is not None:
            object.__setattr__(self, "filter", "bicubic")
        if self.quality is None and not self.is_copy and self.encode not in ("png", RAW, RAW_CHW):
            object.__setattr__(self, "quality", _QUALITY)

    def to_json(self) -> dict[str, Any]:
        names = ("resize", "crop", "enlarge", "encode", "quality", "color", "filter")
        values = {name: getattr(self, name) for name in names}
        rare = {"min_visible": self.min_visible}
        return values | {name: value for name, value in rare.items() if value is not None}

    @classmethod
    def from_json(cls, values: Any) -> Transform:
        """Return the transform that a manifest records; refuse other values."""
        try:
            made = cls(**values)
            told = made.to_json()
            # Numbers like 2.0 are accepted from callers, but dsprep never wrote them.
            given = {**told, **values, "quality": values.get("quality") or made.quality}
            if json.dumps(given) != json.dumps(told):
                raise ValueError("edges and the quality are whole numbers")
            return made
        except (TypeError, ValueError, OptionError) as error:
            raise SourceError(f"the transform is not one that dsprep knows ({error})") from None

    @property
    def is_copy(self) -> bool:
        """Whether it changes no image at all."""
        return (self.resize, self.crop, self.encode, self.color) == (None, None, "keep", "keep")

    @property
    def is_raw(self) -> bool:
        """Whether it makes bare pixels of images."""
        return self.encode in (RAW, RAW_CHW)

    @property
    def moves(self) -> bool:
        """Whether it changes the geometry of images, besides turning them upright."""
        return self.resize is not None or self.crop is not None

    @property
    def moving_option(self) -> str:
        return "--crop" if self.resize is None else "--resize"

    def apply(self, data: bytes, max_pixels: int = DEFAULT_MAX_PIXELS) -> Encoded:
        """Transform one image. The image is always decoded, even if it is returned unchanged.

        Args:
            data: The encoded image.
            max_pixels: The most pixels that it may have, before and after.

        Returns:
            The new image; its ``data`` is the argument itself if nothing had to change.

        Raises:
            BadImage: If the image is damaged, too large, or cannot be what was asked for.
        """
        made = self._made(data, max_pixels)
        return made if isinstance(made, Encoded) else self.encoded(made, max_pixels)

    def decoded(self, data: bytes, max_pixels: int = DEFAULT_MAX_PIXELS) -> Decoded:
        """Decode an image to gray or RGB, upright, resized and cropped, without encoding it."""
        made = self._made(data, max_pixels, only_decodes=True)
        assert isinstance(made, Decoded)
        return made

    def _made(
        self, data: bytes, max_pixels: int, *, only_decodes: bool = False
    ) -> Encoded | Decoded:
        header = read_header(data)
        require_whole(data, header)
        kind = _KINDS.get(self.encode, header.kind if header.kind in _KINDS.values() else "png")
        kind = "png" if self.is_raw else kind  # bare pixels become PNG, which keeps all channels
        with pillow(f"cannot decode this {NAMES[header.kind]}", max_pixels):
            image = open_image(data, header, max_pixels)
            orientation = orientation_of(image)
            # Pillow turns TIFF upright by itself, and its size is the upright one.
            turn = 1 if header.kind == "tif" else orientation
            upright = _stored_size(image.size, turn)
            size, window = self.move(upright)
            moved = orientation != 1 or size != upright or window != (0, 0, *upright)
            mode = {"rgb": "RGB", "gray": "L", "keep": image.mode}[self.color]
            recolors = image.mode != mode or (self.color != "keep" and "transparency" in image.info)
            if not (moved or recolors or self.encode != "keep" or only_decodes):
                require_decodable(data, header, max_pixels)
                return Encoded(header.kind, data, *upright)
            require_pixels(window[2] - window[0], window[3] - window[1], max_pixels)
            window = _stored_window(window, size, turn)
            size = _stored_size(size, turn)
            if turn == 1 and not only_decodes and self._is_bilinear(image, kind, size):
                made = bilinear.resize_jpeg(data, size, window, self.quality)
                if made is not None:
                    edges = window[2] - window[0], window[3] - window[1]
                    return Encoded(kind, made, *edges, before=upright)
            pixels = self._pixels(image, kind, size, window, luma=not only_decodes)
            pixels = upright_pixels(pixels, turn)
            return Decoded(pixels, kind, upright, bool(getattr(image, "is_animated", False)))

    def upright(self, data: bytes, max_pixels: int = DEFAULT_MAX_PIXELS) -> Encoded:
        """Transform one image as `apply` does, and keep its color profile."""
        made = self._made(data, max_pixels)
        if isinstance(made, Encoded):
            return made
        return self.encoded(made, max_pixels, _profile_of(made.pixels))

    def encoded(
        self, image: Decoded, max_pixels: int = DEFAULT_MAX_PIXELS, profile: bytes | None = None
    ) -> Encoded:
        """Encode an image, or return its bare pixels, as the transform says."""
        pixels, kind, upright, lost_frames = image
        if self.is_raw:
            bands = pixels.split() if self.encode == RAW_CHW else [pixels]
            shape = Shape(*pixels.size[::-1], len(pixels.getbands()), self.encode == RAW_CHW)
            data = b"".join(band.tobytes() for band in bands)
            return Encoded(self.encode, data, *pixels.size, lost_frames, upright, shape)
        with pillow(f"cannot write it as {NAMES[kind]}", max_pixels):
            pixels.info.clear()  # Pillow would write comments and profiles from there
            out, quality = BytesIO(), self.quality or _QUALITY
            if kind == "png":
                pixels.save(out, "PNG", compress_level=6, icc_profile=profile)
            elif kind == "webp":
                pixels.save(out, "WEBP", quality=quality, method=4, icc_profile=profile)
            else:
                halved = {} if pixels.mode == "L" else {"subsampling": "4:2:0"}
                pixels.save(out, "JPEG", quality=quality, icc_profile=profile, **halved)
        return Encoded(kind, out.getvalue(), *pixels.size, lost_frames, upright)

    def move(self, upright: Size) -> tuple[Size, Window]:
        """Return to which size an upright image is resized, and the window that is left of that."""
        size = self._resized(upright)
        return size, self._window(size)

    def _resized(self, upright: Size) -> Size:
        width, height = upright
        if self.resize is None:
            return upright
        if isinstance(self.resize, tuple):
            if self.enlarge:
                return self.resize
            return min(width, self.resize[0]), min(height, self.resize[1])
        edge = self.resize
        if min(upright) <= edge and not self.enlarge:
            return upright
        return (edge, height * edge // width) if width < height else (width * edge // height, edge)

    def too_small(self, upright: Size) -> str:
        """Say that an image stays below the size of `resize`; empty if it does not."""
        if self.resize is None or self.enlarge:
            return ""
        edges = self.resize if isinstance(self.resize, tuple) else (self.resize,) * 2
        if upright[0] >= edges[0] and upright[1] >= edges[1]:
            return ""
        size = "x".join(map(str, edges[: 2 if isinstance(self.resize, tuple) else 1]))
        advice = "not enlarged: give --enlarge to do as im2rec does"
        return f"image smaller than --resize {size}, {advice}"

    def _window(self, size: Size) -> Window:
        if self.crop is None:
            return 0, 0, *size
        width, height = min(size[0], self.crop[0]), min(size[1], self.crop[1])
        left, top = (size[0] - width) // 2, (size[1] - height) // 2
        return left, top, left + width, top + height

    def _is_bilinear(self, image: ImageFile, kind: str, size: Size) -> bool:
        """Whether :mod:`dsprep.images.bilinear` can do it."""
        if self.filter != "bilinear" or self.color == "gray" or kind != "jpg":
            return False
        return stores_luma(image) and all(
            new <= old < 2 * new for old, new in zip(image.size, size, strict=True)
        )

    def _pixels(
        self, image: ImageFile, kind: str, size: Size, window: Window, *, luma: bool
    ) -> Image:
        """Decode an opened image, convert, resize and crop it: all as it is stored, not upright."""
        ratio = min(image.width / size[0], image.height / size[1])
        # What is JPEG before and after stays in luma and chroma, which saves time.
        luma = luma and kind == "jpg" and self.color != "gray" and ratio >= 1 and stores_luma(image)
        # JPEG is decoded at a half, a quarter or an eighth of its size if that is enough.
        draft = image.draft("YCbCr" if luma else "L" if self.color == "gray" else None, size)
        extent = draft[1][2:] if draft else image.size
        load(image)
        alpha = kind != "jpg" and self.color == "keep"
        pixels = image if luma else converted(image, self.color, alpha=alpha)
        return _resample(pixels, size, window, extent, self.filter)


class Geometry(Transform):
    """What a transform does to sizes; the bytes of images stay."""

    def apply(self, data: bytes, max_pixels: int = DEFAULT_MAX_PIXELS) -> Encoded:
        upright = upright_size(data)
        left, top, right, bottom = self.move(upright)[1]
        kind = read_header(data).kind
        return Encoded(kind, data, right - left, bottom - top, before=upright)


def decoded(data: bytes, what: str, max_pixels: int) -> ImageFile:
    """Decode an image; a BadSample says which, ``its mask``, cannot be."""
    try:
        header = read_header(data)
    except BadImage as error:
        raise BadImage(f"{what}: {error}") from None
    with pillow(f"cannot decode {what}", max_pixels):
        image = open_image(data, header, max_pixels)
        load(image)
    return image


def loses_bits(data: bytes) -> bool:
    """Return whether Pillow decodes the colors of an image, which have 16 bits, to 8."""
    header = read_header(data)
    with pillow(f"cannot decode this {NAMES[header.kind]}", header.width * header.height):
        image = open_image(data, header, header.width * header.height)
        modes = " ".join(str(tile[3]) for tile in image.tile)
    return not image.mode.startswith("I") and (";16" in modes or "65535" in modes)


def orientation_in(data: bytes) -> int:
    """Return the EXIF orientation of an image, 1 to 8; 1 is upright."""
    header = read_header(data)
    with pillow(f"cannot decode this {NAMES[header.kind]}", header.width * header.height):
        return orientation_of(open_image(data, header, header.width * header.height))


def _profile_of(image: Image) -> bytes | None:
    """Return the color profile of an image; None if it has none, or one of other colors."""
    profile = image.info.get("icc_profile")
    if not isinstance(profile, bytes):
        return None
    # ICC.1:2022, 7.2.6; one of CMYK would be false once the image is RGB
    colors = b"GRAY" if image.mode in _GRAY else b"RGB "
    return profile if profile[16:20] == colors else None


def upright_pixels(image: Image, orientation: int) -> Image:
    """Turn an image as its EXIF orientation says."""
    from PIL.Image import Transpose

    return image if orientation == 1 else image.transpose(Transpose[_TURNS[orientation]])


def upright_size(data: bytes) -> Size:
    """Return the size of an image as it is displayed."""
    header = read_header(data)
    return _stored_size((header.width, header.height), orientation_in(data))


def size_either_way(head: bytes) -> tuple[float, float] | tuple[None, None]:
    """Return a size that both the stored image and the displayed one lie in; None if unknown.

    Args:
        head: How the image begins.
    """
    try:
        header = read_header(head)
    except BadImage:
        return None, None
    if may_turn(head) and _may_lie_on_its_side(head):
        return (max(header.width, header.height),) * 2
    return header.width, header.height


def _may_lie_on_its_side(head: bytes) -> bool:
    try:
        return orientation_in(head) in _ON_ITS_SIDE
    except BadImage:  # the head alone cannot be opened
        return True


# Pixels of a decoded image: colors, number, and which way is up


def _stored_size(size: Size, orientation: int) -> Size:
    """The size of the stored image of an upright one, or the other way round."""
    return (size[1], size[0]) if orientation in _ON_ITS_SIDE else size


def _stored_window(window: Window, size: Size, orientation: int) -> Window:
    """Where a part of an upright image is in the stored one."""
    left, top, right, bottom = window
    if orientation in _MIRRORED_ACROSS:
        left, right = size[0] - right, size[0] - left
    if orientation in _MIRRORED_DOWN:
        top, bottom = size[1] - bottom, size[1] - top
    return (top, left, bottom, right) if orientation in _ON_ITS_SIDE else (left, top, right, bottom)


def converted(image: Image, color: str, *, alpha: bool) -> Image:
    """Convert an image to channels of eight bits: gray or RGB, each with or without alpha."""
    from PIL import Image as PillowImage

    if image.mode == "F":
        raise BadImage("floating-point pixels have no defined range to scale to 8 bits")
    if image.mode.startswith("I"):
        # Gray of 16 bits is scaled to 8; Pillow's own conversion would clip it.
        image = image.convert("I")
        low, high = cast(tuple[int, int], image.getextrema())
        if low < 0 or high > 0xFFFF:
            raise BadImage("32-bit pixels have no defined range to scale to 8 bits")
        image = image.point(lambda level: level * (1 / 257) + 0.5).convert("L")
        image.info.pop("transparency", None)  # a level of 16 bits
    gray = image.mode in _GRAY
    if image.mode in _ALPHA or "transparency" in image.info:
        image = image.convert("LA" if gray else "RGBA")
        if not alpha:
            opaque = image.convert("L" if gray else "RGB")
            white = PillowImage.new(opaque.mode, image.size, "white")
            white.paste(opaque, mask=image.getchannel("A"))
            image = white
    wanted = {"rgb": "RGB", "gray": "L", "keep": "L" if gray else "RGB"}[color]
    if image.mode in _ALPHA:
        wanted = {"RGB": "RGBA", "L": "LA"}[wanted]
    return image if image.mode == wanted else image.convert(wanted)


def _resample(
    image: Image, size: Size, window: Window, extent: Extent, filter: str | None
) -> Image:
    """Resize an image and cut a part out of the result, without computing the rest of it."""
    # Of an image in YCbCr only luma is filtered; chroma is the nearest pixel's. Such an image
    # becomes a JPEG, whose encoder averages the chroma of four pixels anyway. On photographs it
    # costs two thirds of the time, and 0.01 dB.
    from PIL.Image import Resampling, merge

    if extent == size:
        return image if window == (0, 0, *size) else image.crop(window)
    left, top, right, bottom = window
    across, down = extent[0] / size[0], extent[1] / size[1]
    box = (left * across, top * down, right * across, bottom * down)
    target = (right - left, bottom - top)
    assert filter is not None  # the size changes only with --resize, which sets a filter
    method = Resampling[filter.upper()]
    if image.mode != "YCbCr":
        return image.resize(target, method, box, _REDUCING_GAP)
    luma = image.getchannel("Y").resize(target, method, box, _REDUCING_GAP)
    nearest = across < 2 and down < 2
    chroma = image.resize(target, Resampling.NEAREST if nearest else Resampling.BOX, box)
    return merge("YCbCr", (luma, chroma.getchannel("Cb"), chroma.getchannel("Cr")))


# Facts of a transformed image

_COLORSPACES = {1: "Grayscale", 3: "RGB", 4: "RGBA"}


def _channels(image: Encoded) -> int | None:
    if image.shape is not None:
        return image.shape.channels
    try:
        with open_image(image.data, read_header(image.data), DEFAULT_MAX_PIXELS) as opened:
            return len(opened.getbands())
    except BadImage:
        return None


def _sha256(image: Encoded) -> str:
    import hashlib  # slow to load

    return hashlib.sha256(image.data).hexdigest()


# what makes each of `dsprep.schema.FACTS`; None if the image does not tell it
FACTS_OF: Mapping[str, Callable[[Encoded], int | str | None]] = {
    "width": lambda image: image.width or None,
    "height": lambda image: image.height or None,
    "channels": _channels,
    "colorspace": lambda image: _COLORSPACES.get(_channels(image) or 0),
    "format": lambda image: image.shape.type if image.shape else FORMAT_NAMES.get(image.kind),
    "sha256": _sha256,
}

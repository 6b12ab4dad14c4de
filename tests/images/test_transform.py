"""What is done to images: the sizes, the pixels, the bytes, and what is left alone."""

from __future__ import annotations

import io
import math
import random
import struct
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageOps

from dsprep.errors import BadImage, OptionError
from dsprep.images.header import read_header
from dsprep.images.transform import Encoded, Transform
from tests.images import bmp, bomb, draw, encode, gif, jpeg, png, truncated, webp

Pixels = NDArray[np.float64]

EXACT = Transform(encode="png")  # lossless, so that pixels can be compared


def open_(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def pixels(image: Image.Image | bytes) -> Pixels:
    """An image's channels as numbers."""
    return np.asarray(open_(image) if isinstance(image, bytes) else image).astype(float)


def psnr(one: Pixels, other: Pixels) -> float:
    """Peak signal to noise ratio in dB."""
    return 10 * math.log10(255**2 / max(1e-10, np.mean((one - other) ** 2)))


def textured(seed: int, size: tuple[int, int]) -> Image.Image:
    """A picture with detail at all scales, as photographs have it."""
    rng = random.Random(seed)
    picture = draw(seed, size)
    for scale in (64, 16, 4, 2, 1):
        grid = (size[0] // scale + 1, size[1] // scale + 1)
        gray = Image.frombytes("L", grid, rng.randbytes(grid[0] * grid[1])).convert("RGB")
        color = Image.frombytes("RGB", grid, rng.randbytes(3 * grid[0] * grid[1]))
        noise = Image.blend(gray, color, 0.25).resize(size, Image.Resampling.BICUBIC)
        picture = Image.blend(picture, noise, 0.15)
    return picture


def refuse(transform: Transform, data: bytes, **options: Any) -> str:
    """Transform an image; return why it was refused."""
    with pytest.raises(BadImage) as refused:
        transform.apply(data, **options)
    return str(refused.value)


# Options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resize": 0}, "--resize"),
        ({"resize": (0, 5)}, "--resize"),
        ({"resize": (5, -1)}, "--resize"),
        ({"crop": (0, 5)}, "--crop"),
        ({"enlarge": True}, "--enlarge has no effect: it says how to resize"),
        ({"encode": "jpg"}, "--encode jpg: it can be keep, jpeg, png, webp"),
        ({"quality": 0}, "--quality 0"),
        ({"quality": 101}, "--quality 101"),
        ({"quality": 50, "resize": 9, "encode": "png"}, "--quality 50 has no effect"),
        ({"color": "cmyk"}, "--color cmyk: it can be keep, rgb, gray"),
        ({"filter": "nearest"}, "--filter nearest: it can be lanczos, bicubic, hamming, bilinear"),
        ({"filter": "lanczos"}, "--filter lanczos has no effect: it says how to resize"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Transform(**options)


def test_is_copy() -> None:
    assert Transform().is_copy
    for options in ({"resize": 9}, {"crop": (9, 9)}, {"encode": "jpeg"}, {"color": "rgb"}):
        assert not Transform(**options).is_copy


# Sizes


@pytest.mark.parametrize(
    ("size", "options", "expected"),
    [
        ((500, 375), {"resize": 256}, (341, 256)),
        ((375, 500), {"resize": 256}, (256, 341)),
        ((300, 300), {"resize": 256}, (256, 256)),
        ((200, 100), {"resize": 256}, (200, 100)),
        ((200, 100), {"resize": 256, "enlarge": True}, (512, 256)),
        ((300, 200), {"resize": (100, 100)}, (100, 100)),
        ((300, 50), {"resize": (100, 100)}, (100, 50)),
        ((60, 50), {"resize": (100, 100)}, (60, 50)),
        ((60, 50), {"resize": (100, 100), "enlarge": True}, (100, 100)),
        ((300, 200), {"crop": (224, 224)}, (224, 200)),
        ((300, 200), {"resize": 100, "crop": (80, 80)}, (80, 80)),
        ((1, 4000), {"resize": 256}, (1, 4000)),
        ((3000, 2), {"resize": 1}, (1500, 1)),
    ],
)
def test_sizes(size: tuple[int, int], options: dict[str, Any], expected: tuple[int, int]) -> None:
    for data in (jpeg(size=size), png(size=size)):
        made = Transform(**options).apply(data)
        assert (made.width, made.height) == expected == open_(made.data).size


def test_the_size_is_im2recs() -> None:
    """`newsize` of im2rec's image_encode, in mxnet 1.9.1."""
    rng = random.Random(0)
    for _ in range(50):
        width, height = rng.randint(40, 400), rng.randint(40, 400)
        edge = rng.randint(1, 39)
        if height > width:
            expected = (edge, height * edge // width)
        else:
            expected = (width * edge // height, edge)
        made = Transform(resize=edge).apply(jpeg(size=(width, height)))
        assert (made.width, made.height) == expected


edges = st.integers(1, 90)
boxes = st.tuples(edges, edges)


@given(
    size=boxes,
    resize=st.none() | edges | boxes,
    crop=st.none() | boxes,
    enlarge=st.booleans(),
    encoding=st.sampled_from(["JPEG", "PNG", "WEBP"]),
    orientation=st.integers(0, 8),
)
def test_any_sizes(
    size: tuple[int, int],
    resize: int | tuple[int, int] | None,
    crop: tuple[int, int] | None,
    enlarge: bool,
    encoding: str,
    orientation: int,
) -> None:
    upright = size[::-1] if orientation >= 5 else size
    transform = Transform(resize, crop, enlarge=enlarge and resize is not None)
    made = transform.apply(encode(draw(size=size), encoding, orientation=orientation))
    with open_(made.data) as image:
        image.load()
        assert (made.width, made.height) == image.size
    if crop is not None:
        assert made.width <= crop[0]
        assert made.height <= crop[1]
    if not transform.enlarge:
        assert made.width <= upright[0]
        assert made.height <= upright[1]
    if transform.enlarge and crop is None:
        full = (made.width, made.height)
        assert full == resize if isinstance(resize, tuple) else min(full) == resize


# What is left alone


@pytest.mark.parametrize(
    "data",
    [jpeg(), jpeg(mode="CMYK"), png(mode="P"), png(mode="I;16"), webp(), gif(frames=2), bmp()],
    ids=["jpg", "cmyk", "palette", "16 bits", "webp", "gif", "bmp"],
)
@pytest.mark.parametrize(
    "options", [{"resize": 256}, {"resize": (64, 48)}, {"resize": 48}, {"crop": (99, 48)}]
)
def test_an_image_that_needs_no_change_keeps_its_bytes(
    data: bytes, options: dict[str, Any]
) -> None:
    made = Transform(**options, quality=5).apply(data)
    assert made == Encoded(read_header(data).kind, data, 64, 48)
    assert made.data is data


@pytest.mark.parametrize(
    ("data", "color", "kept"),
    [
        (jpeg(), "rgb", True),
        (jpeg(mode="L"), "gray", True),
        (jpeg(), "gray", False),
        (jpeg(mode="L"), "rgb", False),
        (jpeg(mode="CMYK"), "rgb", False),
        (png(mode="RGBA"), "rgb", False),
        (png(mode="P"), "rgb", False),
        (png(transparency=(1, 2, 3)), "rgb", False),
        (png(mode="L"), "gray", True),
        (png(mode="1"), "gray", False),
        (png(mode="I;16"), "gray", False),
    ],
)
def test_an_image_with_the_colors_asked_for_keeps_its_bytes(
    data: bytes, color: str, kept: bool
) -> None:
    made = Transform(color=color).apply(data)
    assert (made.data is data) == kept
    assert open_(made.data).mode == ("RGB" if color == "rgb" else "L")


def test_what_keeps_its_bytes_was_decoded() -> None:
    data = bytearray(png())
    data[data.index(b"IDAT") + 60] ^= 1
    assert "cannot decode this PNG" in refuse(Transform(resize=256), bytes(data))


def test_encode_means_every_image() -> None:
    data = jpeg(quality=100)
    made = Transform(encode="jpeg", quality=60).apply(data)
    assert made.kind == "jpg"
    assert len(made.data) < len(data)


# Kinds


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (jpeg(), "jpg"),
        (png(), "png"),
        (webp(), "webp"),
        (gif(), "png"),
        (bmp(), "png"),
        (encode(draw(), "TIFF"), "png"),
    ],
)
def test_kinds(data: bytes, kept: str) -> None:
    kinds = {"keep": kept, "jpeg": "jpg", "png": "png", "webp": "webp"}
    for encoding, kind in kinds.items():
        made = Transform(resize=20, encode=encoding).apply(data)
        assert read_header(made.data)[:3] == (kind, 26, 20) == (made.kind, made.width, made.height)


def test_the_first_frame_of_an_animation() -> None:
    made = EXACT.apply(gif(frames=3))
    assert np.array_equal(pixels(made.data), pixels(open_(gif()).convert("RGB")))


# Orientation

LOSS = {"JPEG": {"quality": 95}, "PNG": {}, "WEBP": {"lossless": True}, "TIFF": {}}
TURNED = {
    kind: [encode(draw(3, (50, 34)), kind, orientation=each, **options) for each in range(9)]
    for kind, options in LOSS.items()
}


@pytest.mark.parametrize("orientation", range(9))
@pytest.mark.parametrize("kind", TURNED)
def test_images_are_turned_upright(kind: str, orientation: int) -> None:
    data = TURNED[kind][orientation]
    made = EXACT.apply(data)
    assert np.array_equal(pixels(made.data), pixels(ImageOps.exif_transpose(open_(data))))
    assert open_(made.data).getexif().get(0x0112) is None


@pytest.mark.parametrize("orientation", range(9))
@pytest.mark.parametrize("kind", TURNED)
def test_resized_and_cropped_as_if_it_had_been_upright(kind: str, orientation: int) -> None:
    data = TURNED[kind][orientation]
    transform = Transform(resize=29, crop=(22, 21), encode="png", filter="bicubic")
    made = transform.apply(data)
    upright = encode(ImageOps.exif_transpose(open_(data)), "PNG")
    expected = pixels(transform.apply(upright).data)
    # One axis is resized before the other, and rounded; which comes first depends on the turn.
    assert np.abs(pixels(made.data) - expected).max() <= 2


def test_a_turned_image_is_turned_even_if_it_is_small_enough() -> None:
    data = TURNED["JPEG"][6]
    made = Transform(resize=256).apply(data)
    assert (made.kind, made.width, made.height) == ("jpg", 34, 50)


@pytest.mark.parametrize("orientation", [9, 77])
def test_an_orientation_that_does_not_exist(orientation: int) -> None:
    data = jpeg(orientation=orientation)
    assert Transform(resize=256).apply(data).data is data


def test_damaged_exif_data_does_no_harm() -> None:
    data = jpeg(orientation=6)
    at = data.index(b"Exif\0\0") + 6
    broken = data[:at] + b"\xff" * 8 + data[at + 8 :]
    assert Transform(resize=256).apply(broken).data is broken


# Crop


def test_the_crop_is_the_center_of_the_resized_image() -> None:
    for size in ((101, 67), (67, 101)):
        data = png(seed=5, size=size)
        whole = open_(Transform(resize=50, encode="png").apply(data).data)
        left, top = (whole.width - 31) // 2, (whole.height - 40) // 2
        expected = pixels(whole.crop((left, top, left + 31, top + 40)))
        made = Transform(resize=50, crop=(31, 40), encode="png").apply(data)
        assert np.abs(pixels(made.data) - expected).max() <= 1


def test_a_crop_alone_changes_no_pixel() -> None:
    made = Transform(crop=(31, 20)).apply(png(size=(64, 48)))
    assert np.array_equal(pixels(made.data), pixels(png(size=(64, 48)))[14:34, 16:47])


# Colors


def luma(rgb: Pixels) -> Pixels:
    """ITU-R BT.601, as in JFIF."""
    return rgb @ np.array([0.299, 0.587, 0.114])


def rgb_of(y: Pixels, cb: Pixels, cr: Pixels) -> Pixels:
    """JFIF's conversion."""
    red = y + 1.402 * (cr - 128)
    green = y - 0.344136 * (cb - 128) - 0.714136 * (cr - 128)
    blue = y + 1.772 * (cb - 128)
    return np.stack([red, green, blue], axis=-1).clip(0, 255)


def cmyk_jpeg() -> tuple[bytes, Pixels]:
    """A JPEG in CMYK, and the numbers that it stores: inks inverted, as Adobe writes them."""
    picture = textured(1, (40, 32)).convert("RGB")
    inks = Image.merge("CMYK", (*picture.split(), draw(2, (40, 32), "L")))
    data = encode(inks, "JPEG", quality=95)
    return data, 255 - pixels(open_(data))


def test_cmyk() -> None:
    data, stored = cmyk_jpeg()
    assert open_(data).mode == "CMYK"
    expected = stored[..., :3] * stored[..., 3:] / 255
    assert np.abs(pixels(EXACT.apply(data).data) - expected).max() <= 1


def test_ycck() -> None:
    """The same numbers, of which an Adobe marker says that the first three are YCbCr."""
    data, stored = cmyk_jpeg()
    at = data.index(b"Adobe")
    assert data[at + 11] == 0
    data = data[: at + 11] + b"\2" + data[at + 12 :]
    # What is stored becomes RGB, and inks are its inverse, which Adobe stores inverted once more.
    color = rgb_of(stored[..., 0], stored[..., 1], stored[..., 2])
    expected = (255 - color) * stored[..., 3:] / 255
    made = pixels(EXACT.apply(data).data)
    assert np.abs(made - expected).max() <= 3


@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp"])
def test_rgb_stored_as_such_in_a_jpeg(encoding: str) -> None:
    picture = draw(4, (80, 60))
    data = encode(picture, "JPEG", keep_rgb=True, quality=95)
    quality = 95 if encoding == "jpeg" else None
    made = Transform(resize=30, encode=encoding, quality=quality).apply(data)
    resized = picture.resize((40, 30), Image.Resampling.LANCZOS)
    expected = open_(encode(resized, encoding, quality=95)).convert("RGB")
    assert psnr(pixels(open_(made.data).convert("RGB")), pixels(expected)) > 30


def test_palette() -> None:
    data = png(mode="P")
    image = open_(data)
    palette = np.array(image.getpalette()).reshape(-1, 3)
    assert np.array_equal(pixels(EXACT.apply(data).data), palette[np.asarray(image)])


def with_transparent_colors() -> tuple[bytes, Pixels]:
    """A palette PNG with an alpha for each color; and its RGBA values."""
    image = draw(mode="P")
    alphas = bytes(i * 7 % 256 for i in range(256))
    data = encode(image, "PNG", transparency=alphas)
    palette = np.array(image.getpalette()).reshape(-1, 3)
    colors = np.column_stack([palette, np.frombuffer(alphas, np.uint8)[: len(palette)]])
    return data, colors[np.asarray(image)].astype(float)


def on_white(rgba: Pixels) -> Pixels:
    alpha = rgba[..., -1:] / 255
    return rgba[..., :-1] * alpha + 255 * (1 - alpha)


def test_palette_with_transparency() -> None:
    data, rgba = with_transparent_colors()
    assert np.array_equal(pixels(EXACT.apply(data).data), rgba)
    flat = pixels(replace(EXACT, color="rgb").apply(data).data)
    assert np.abs(flat - on_white(rgba)).max() <= 1


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha(mode: str) -> None:
    data = png(mode=mode)
    stored = pixels(data)
    assert stored[..., -1].min() < 10 < 240 < stored[..., -1].max()
    assert np.array_equal(pixels(EXACT.apply(data).data), stored)

    flat = on_white(stored)
    flat = flat[..., 0] if mode == "LA" else flat
    made = Transform(encode="jpeg", quality=100).apply(data)
    assert open_(made.data).mode == ("L" if mode == "LA" else "RGB")
    expected = encode(Image.fromarray(flat.round().astype(np.uint8)), "JPEG", quality=100)
    assert psnr(pixels(made.data), pixels(expected)) > 45
    gray = pixels(replace(EXACT, color="gray").apply(data).data)
    assert np.abs(gray - (flat if mode == "LA" else luma(flat))).max() <= 1.5


def test_alpha_in_webp() -> None:
    made = Transform(encode="webp").apply(png(mode="RGBA"))
    assert open_(made.data).mode == "RGBA"
    made = Transform(encode="webp", color="rgb").apply(png(mode="RGBA"))
    assert open_(made.data).mode == "RGB"


def test_transparent_pixels_do_not_shine_through_when_resized() -> None:
    image = Image.new("RGBA", (40, 40), (255, 0, 0, 0))
    image.paste((0, 0, 255, 255), (0, 0, 20, 40))
    made = pixels(Transform(resize=11, encode="png").apply(encode(image, "PNG")).data)
    assert (made[made[..., 3] > 8][:, 0] < 8).all()


@pytest.mark.parametrize(
    "data", [png(transparency=(9, 9, 9)), png(mode="L", transparency=9)], ids=["RGB", "L"]
)
def test_one_transparent_color(data: bytes) -> None:
    stored = pixels(data)
    key = (stored == 9).all(axis=-1) if stored.ndim == 3 else stored == 9
    made = pixels(EXACT.apply(data).data)
    assert np.array_equal(made[..., -1] == 0, key)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "TIFF big-endian"])
def test_sixteen_bits_are_scaled(kind: str) -> None:
    levels = [*range(0, 65536, 257), 0, 1, 127, 128, 129, 255, 256, 385, 386, 32767, 65534, 65535]
    order = ">" if "big" in kind else "<"
    packed = struct.pack(f"{order}{len(levels)}H", *levels)
    image = Image.frombytes("I;16B" if "big" in kind else "I;16", (len(levels), 1), packed)
    data = encode(image, kind.split()[0])
    made = open_(EXACT.apply(data).data)
    assert made.mode == "L"
    assert list(made.tobytes()) == [math.floor(level / 257 + 0.5) for level in levels]


def test_32_bits_that_hold_16() -> None:
    levels = [0, 300, 65535]
    image = Image.frombytes("I", (3, 1), struct.pack("<3i", *levels))
    assert list(open_(EXACT.apply(encode(image, "TIFF")).data).tobytes()) == [0, 1, 255]


@pytest.mark.parametrize(
    ("mode", "packed"),
    [("I", struct.pack("<i", 65536)), ("I", struct.pack("<i", -1)), ("F", struct.pack("<f", 0.5))],
)
def test_pixels_of_no_defined_range(mode: str, packed: bytes) -> None:
    data = encode(Image.frombytes(mode, (1, 1), packed), "TIFF")
    assert "no defined range" in refuse(EXACT, data)


def test_one_bit() -> None:
    data = png(mode="1")
    made = open_(EXACT.apply(data).data)
    assert made.mode == "L"
    assert np.array_equal(pixels(made), pixels(open_(data)) * 255)
    assert set(made.tobytes()) == {0, 255}


@pytest.mark.parametrize("encoding", ["jpeg", "png"])
def test_gray_stays_gray(encoding: str) -> None:
    for data in (jpeg(mode="L"), png(mode="L"), png(mode="I;16"), png(mode="1")):
        made = Transform(resize=20, encode=encoding).apply(data)
        assert open_(made.data).mode == "L"


@pytest.mark.parametrize("encoding", ["jpeg", "png"])
def test_gray_made_rgb(encoding: str) -> None:
    made = Transform(encode=encoding, color="rgb").apply(png(mode="L"))
    image = pixels(made.data)
    assert image.shape == (48, 64, 3)
    assert psnr(image, pixels(png(mode="L"))[..., None]) > 40


@pytest.mark.parametrize("data", [png(), jpeg(), jpeg(keep_rgb=True)], ids=["png", "jpg", "rgb"])
def test_rgb_made_gray(data: bytes) -> None:
    made = pixels(replace(EXACT, color="gray").apply(data).data)
    assert np.abs(made - luma(pixels(data))).max() <= 2.5


# Quality


@pytest.mark.parametrize(
    ("size", "edge"),
    [
        ((500, 375), 256),
        ((500, 375), 300),
        ((500, 375), 184),
        ((640, 480), 224),
        ((1024, 768), 256),
        ((1111, 777), 85),
    ],
)
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0"])
def test_as_close_to_the_original_as_im2rec(
    size: tuple[int, int], edge: int, subsampling: str
) -> None:
    """Against full decoding and Lanczos; im2rec decodes, resizes and encodes with OpenCV."""
    ours, theirs = [], []
    for seed in range(3):
        data = encode(textured(seed, size), "JPEG", quality=93, subsampling=subsampling)
        made = Transform(resize=edge, encode="jpeg").apply(data)
        with open_(data) as image:
            best = image.resize((made.width, made.height), Image.Resampling.LANCZOS)
        ours.append(psnr(pixels(made.data), pixels(best)))
        small = cv2.resize(cv2.imdecode(np.frombuffer(data, np.uint8), 1), best.size)
        jpg = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()
        theirs.append(psnr(pixels(jpg), pixels(best)))
    assert np.mean(ours) >= np.mean(theirs)


@pytest.mark.parametrize("edge", [300, 256, 120, 40, 20])
def test_filtering_luma_alone_costs_nothing(edge: int) -> None:
    picture = textured(7, (500, 375))
    data = encode(picture, "JPEG", quality=95, subsampling="4:4:4")
    size = (500 * edge // 375, edge)
    best = pixels(open_(data).resize(size, Image.Resampling.LANCZOS))
    quick = Transform(resize=edge, encode="jpeg", quality=95).apply(data)
    image = Transform(resize=edge, encode="png").apply(data)  # all channels filtered
    full = encode(open_(image.data), "JPEG", quality=95)
    assert psnr(pixels(quick.data), best) > psnr(pixels(full), best) - 0.3


def test_a_png_is_resized_as_well_as_a_jpeg() -> None:
    picture = textured(8, (800, 600))
    for edge in (400, 250, 120, 37):
        made = Transform(resize=edge, filter="lanczos").apply(encode(picture, "PNG"))
        best = pixels(picture.resize((made.width, made.height), Image.Resampling.LANCZOS))
        assert psnr(pixels(made.data), best) > 40


@pytest.mark.parametrize("name", ["bilinear", "hamming", "bicubic", "lanczos"])
def test_the_filter_is_the_one_asked_for(name: str) -> None:
    picture = draw(1, (64, 48))
    made = Transform(resize=32, encode="png", filter=name).apply(encode(picture, "PNG"))
    expected = picture.resize((42, 32), Image.Resampling[name.upper()])
    assert np.array_equal(pixels(made.data), pixels(expected))


def test_quality_is_libjpegs() -> None:
    data = jpeg()
    for quality in (1, 50, 90, 100):
        made = Transform(encode="jpeg", quality=quality).apply(data)
        with open_(made.data) as image, open_(jpeg(quality=quality)) as same:
            assert image.quantization == same.quantization
            assert [layer[1:3] for layer in image.layer] == [(2, 2), (1, 1), (1, 1)]


# Bytes


@pytest.mark.parametrize("encoding", ["jpeg", "png", "webp"])
def test_nothing_but_pixels_gets_into_the_bytes(encoding: str) -> None:
    picture = draw(2)
    exif = Image.Exif()
    exif[0x010E] = "SECRET"
    plain = encode(picture, "PNG")
    for kind, options in {
        "PNG": {"dpi": (300, 300), "exif": exif, "icc_profile": b"SECRET"},
        "TIFF": {"dpi": (300, 300), "description": "SECRET", "icc_profile": b"SECRET"},
    }.items():
        marked = encode(picture, kind, **options)
        assert b"SECRET" in marked or kind == "PNG"
        assert len(marked) != len(plain)
        for transform in (Transform(encode=encoding), Transform(resize=20, encode=encoding)):
            assert transform.apply(marked).data == transform.apply(plain).data


def test_a_jpegs_comment_and_exif_are_dropped() -> None:
    exif = Image.Exif()
    exif[0x010E] = "SECRET"
    marked = jpeg(comment=b"SECRET", exif=exif, icc_profile=b"SECRET", dpi=(300, 300))
    assert marked.count(b"SECRET") == 3
    for encoding in ("jpeg", "png", "webp"):
        transform = Transform(encode=encoding)
        assert transform.apply(marked).data == transform.apply(jpeg()).data


SRGB, GRAY_PROFILE, CMYK_PROFILE = (
    bytes(16) + name + b"mntr" for name in (b"RGB ", b"GRAY", b"CMYK")
)


@pytest.mark.parametrize(
    ("mode", "profile", "kept"),
    [
        ("RGB", SRGB, True),
        ("L", GRAY_PROFILE, True),
        ("CMYK", CMYK_PROFILE, False),
        ("L", SRGB, False),
        ("RGB", b"damaged", False),
    ],
)
@pytest.mark.parametrize("encoding", ["keep", "png"])
def test_an_image_that_is_only_turned_keeps_its_color_profile(
    mode: str, profile: bytes, kept: bool, encoding: str
) -> None:
    data = jpeg(mode=mode, orientation=6, icc_profile=profile)
    made = Transform(encode=encoding).upright(data).data
    plain = Transform(encode=encoding).apply(data).data
    with Image.open(io.BytesIO(made)) as image:
        assert image.info.get("icc_profile") == (profile if kept else None)
        assert image.getexif().get(0x0112) is None
        with Image.open(io.BytesIO(plain)) as other:
            assert image.tobytes() == other.tobytes()


# Bad images


@pytest.mark.parametrize(
    "data", [jpeg(), png(), webp(), gif(), bmp()], ids=["jpg", "png", "webp", "gif", "bmp"]
)
def test_truncated(data: bytes) -> None:
    assert "truncated" in refuse(Transform(resize=20), truncated(data))


def test_no_image() -> None:
    assert refuse(Transform(resize=20), b"") == "empty file"


def test_too_many_pixels_before() -> None:
    assert "60000x60000" in refuse(Transform(resize=20), bomb())
    assert "64x48" in refuse(Transform(resize=20), jpeg(), max_pixels=3071)


def test_too_many_pixels_after() -> None:
    thin = png(size=(1, 90))
    assert "4000x360000" in refuse(Transform(resize=4000, enlarge=True), thin)
    # Only what is left after the crop is ever computed.
    made = Transform(resize=4000, enlarge=True, crop=(10, 10)).apply(thin)
    assert (made.width, made.height) == (10, 10)


def test_too_large_for_the_kind() -> None:
    wide = png(size=(16_400, 1), mode="1")
    assert "cannot write it as WebP" in refuse(Transform(encode="webp"), wide)
    wider = png(size=(65_600, 1), mode="1")
    assert "cannot write it as JPEG" in refuse(Transform(encode="jpeg"), wider)


def test_damage_that_shows_while_looking_for_an_orientation() -> None:
    """Of a PNG, Pillow decodes the pixels to get at EXIF data behind them."""
    data = bytearray(png())
    at = data.index(b"IDAT")
    data[at + 30 : at + 60] = bytes(30)
    assert "cannot decode this PNG" in refuse(EXACT, bytes(data))


@given(
    st.sampled_from(
        [
            *(jpeg(), jpeg(orientation=6), jpeg(mode="CMYK"), png(mode="P"), png(mode="RGBA")),
            *(webp(), gif(), bmp(), encode(draw(), "TIFF", compression="tiff_lzw")),
        ]
    ),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6))),
    st.sampled_from(
        [
            Transform(resize=20),
            Transform(crop=(30, 30), encode="jpeg", color="gray"),
            Transform(resize=(50, 50), enlarge=True, encode="webp"),
        ]
    ),
)
def test_damaged_images(
    data: bytes, changes: list[tuple[float, bytes]], transform: Transform
) -> None:
    changed = bytearray(data)
    for place, written in changes:
        at = int(place**2 * len(changed))
        changed[at : at + len(written)] = written
    try:
        made = transform.apply(bytes(changed), max_pixels=1_000_000)
    except BadImage as error:
        assert str(error)
    else:
        with open_(made.data) as image:
            image.load()
            assert image.size == (made.width, made.height)

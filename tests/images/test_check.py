"""Which images may be packed: the levels of the check, and MXNet as the judge of what it reads."""

from __future__ import annotations

import io
import logging
import pickle
import random
import re
import struct
import warnings
import zlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dsprep.errors import BadImage
from dsprep.formats.recordio import RecordIO
from dsprep.formats.webdataset import WebDataset
from dsprep.images.header import DEFAULT_MAX_PIXELS
from dsprep.images.transform import Encoded, make_check, require_readable
from dsprep.pipeline import Images, Pipeline, image_maker
from dsprep.schema import Schema
from dsprep.sources.readers import FileReader
from tests.images import bmp, bomb, draw, encode, gif, jpeg, png, truncated, webp

KINDS = {
    "jpg": jpeg(),
    "png": png(),
    "webp": webp(),
    "gif": gif(),
    "bmp": bmp(),
    "tif": encode(draw(), "TIFF"),
    "avif": encode(draw(), "AVIF"),
    "jp2": encode(draw(), "JPEG2000"),
    "ppm": encode(draw(), "PPM"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)

check_header = make_check("header")
check_decode = make_check("decode")


def refuse(data: bytes, level: str = "decode", **options: object) -> str:
    """Check an image; return why it was refused."""
    with pytest.raises(BadImage) as refused:
        make_check(level, **options)(data)
    return str(refused.value)


def passes(data: bytes) -> bool:
    """Whether an image passes the decoding check; anything but a BadImage is an error."""
    try:
        check_decode(data)
    except BadImage:
        return False
    return True


def damaged(data: bytes, at: float = 0.6, count: int = 20) -> bytes:
    """An image with random bytes somewhere in the middle."""
    start = int(at * len(data))
    return data[:start] + random.Random(0).randbytes(count) + data[start + count :]


def without_huffman_codes(data: bytes) -> bytes:
    """A JPEG with all its segments, of which the codes' tables say nothing useful."""
    at = data.index(b"\xff\xc4")
    (length,) = struct.unpack_from(">H", data, at + 2)
    return data[: at + 5] + bytes(length - 3) + data[at + 2 + length :]


def with_frame(data: bytes, width: int, height: int) -> bytes:
    """A GIF whose first frame is larger than its screen."""
    at = data.index(b",\0\0\0\0")
    return data[: at + 5] + struct.pack("<HH", width, height) + data[at + 9 :]


def decodes(mxnet: ModuleType, data: bytes) -> bool:
    """Whether MXNet decodes an image of our size; it only says so when the pixels are fetched."""
    try:
        return mxnet.image.imdecode(data).asnumpy().shape == (48, 64, 3)
    except mxnet.MXNetError:
        return False


# Levels


@every_kind
@pytest.mark.parametrize("level", ["header", "structure", "decode"])
def test_a_good_image(kind: str, level: str) -> None:
    assert make_check(level)(KINDS[kind])[:3] == (kind, 64, 48)


@pytest.mark.parametrize("data", [b"", bomb()], ids=["empty", "bomb"])
def test_none_looks_at_nothing(data: bytes) -> None:
    images = Images(check="none", max_pixels=1)
    pipeline = Pipeline(FileReader(""), Schema(()), WebDataset(), images)
    assert image_maker(pipeline)("a.png", data) == Encoded("png", data, 0, 0)


@every_kind
@pytest.mark.parametrize("level", ["header", "structure", "decode"])
def test_truncated(kind: str, level: str) -> None:
    assert "truncated" in refuse(truncated(KINDS[kind]), level)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("JPEG", without_huffman_codes(jpeg())),
        ("PNG", damaged(png())),
        ("WebP", damaged(webp(), at=0.1)),
        ("GIF", damaged(gif(), at=0.9)),
        ("TIFF", damaged(encode(draw(), "TIFF", compression="tiff_adobe_deflate"), at=0.1)),
    ],
)
def test_damage_in_the_middle_shows_when_decoding(
    name: str, data: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    check_header(data)
    reason = refuse(data)
    assert reason.startswith(f"cannot decode this {name}: ")
    assert not re.search(r"0x|<|\n", reason)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("chunk", [b"IDAT", b"IEND"])
def test_a_png_with_a_wrong_checksum(mxnet: ModuleType, chunk: bytes) -> None:
    """Pillow does not mind, and MXNet cannot read it."""
    data = bytearray(png())
    at = data.index(chunk)
    (length,) = struct.unpack_from(">I", data, at - 4)
    data[at + 4 + length] ^= 1
    with Image.open(io.BytesIO(data)) as image:
        image.load()
    assert not decodes(mxnet, bytes(data))
    check_header(bytes(data))
    assert refuse(bytes(data)) == (f"cannot decode this PNG: wrong checksum in chunk {chunk!r}")


@given(
    st.sampled_from([jpeg(), jpeg(progressive=True), jpeg(mode="L"), jpeg(mode="CMYK")]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8))),
    st.floats(0, 1),
    st.booleans(),
)
def test_a_jpeg_is_decoded_cheaply_but_as_strictly(
    data: bytes, changes: list[tuple[float, bytes]], keep: float, ended: bool
) -> None:
    changed = bytearray(data)
    for place, written in changes:
        at = int(place * len(changed))
        changed[at : at + len(written)] = written
    del changed[int(keep * len(changed)) :]
    whole = bytes(changed) + b"\xff\xd9" * ended
    try:
        check_header(whole)
    except BadImage:
        return
    try:
        with Image.open(io.BytesIO(whole), formats=["JPEG"]) as image:
            image.load()
        decodes = True
    except Exception:
        decodes = False
    assert passes(whole) == decodes


@given(
    st.sampled_from([*KINDS.values(), encode(draw(), "TIFF", compression="tiff_lzw")]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6))),
)
def test_damaged_images(data: bytes, changes: list[tuple[float, bytes]]) -> None:
    changed = bytearray(data)
    for place, written in changes:
        at = int(place**2 * len(changed))
        changed[at : at + len(written)] = written
    passes(bytes(changed))


# Kinds that the readers of the output know


@every_kind
def test_readable_kinds(kind: str) -> None:
    check = make_check("header", readable=frozenset({kind}))
    assert check(KINDS[kind])[:3] == (kind, 64, 48)
    require_readable(kind, None)


def test_another_kind_is_refused_with_advice() -> None:
    reason = refuse(KINDS["webp"], "header", readable=frozenset({"jpg", "png"}))
    assert reason == (
        "WebP, which readers of this format do not decode (only JPEG, PNG): use --encode jpeg"
    )


# Size


@pytest.mark.parametrize("level", ["header", "decode"])
def test_a_decompression_bomb(level: str) -> None:
    assert refuse(bomb(), level) == (
        f"60000x60000 pixels are more than --max-pixels {DEFAULT_MAX_PIXELS}"
    )


def test_exactly_the_most_pixels() -> None:
    assert make_check("decode", max_pixels=64 * 48)(jpeg())[:3] == ("jpg", 64, 48)
    assert "64x48" in refuse(jpeg(), max_pixels=64 * 48 - 1)


def test_a_bomb_behind_a_small_header() -> None:
    data = with_frame(gif(), 40_000, 40_000)
    assert check_header(data)[:3] == ("gif", 64, 48)
    assert "--max-pixels" in refuse(data)
    assert "--max-pixels" in refuse(with_frame(gif(), 100, 100), max_pixels=9_999)


def test_the_limit_is_ours_not_pillows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    for data in KINDS.values():
        check_decode(data)
    assert Image.MAX_IMAGE_PIXELS == 100


# Quiet


def test_no_warnings_and_no_log(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # An APNG that tells no number of frames makes Pillow warn; a TIFF of many channels, log.
    animated = bytearray(png())
    body = b"acTL" + bytes(8)
    chunk = struct.pack(">I", 8) + body + struct.pack(">I", zlib.crc32(body))
    animated[33:33] = chunk
    many = encode(draw(), "TIFF")
    at = many.index(struct.pack("<HHI", 277, 3, 1))
    many = many[: at + 8] + struct.pack("<H", 500) + many[at + 10 :]

    with pytest.warns(UserWarning, match="APNG"), Image.open(io.BytesIO(animated)):
        pass
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_decode(bytes(animated))
        assert not passes(many)
        assert warnings.filters[0][0] == "error"
    assert capfd.readouterr() == ("", "")


def test_a_reason_travels_between_processes() -> None:
    with pytest.raises(BadImage) as refused:
        check_decode(damaged(png()))
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


# MXNet

VARIANTS = {
    **{f"jpeg {mode}": jpeg(mode=mode) for mode in ("RGB", "L", "CMYK")},
    "jpeg progressive": jpeg(progressive=True),
    "jpeg rgb": jpeg(keep_rgb=True),
    "jpeg 4:2:2": jpeg(subsampling="4:2:2"),
    "jpeg 4:4:4": jpeg(subsampling="4:4:4"),
    "jpeg restarts": jpeg(restart_marker_blocks=2),
    "jpeg upside down": jpeg(orientation=3),
    **{f"png {mode}": png(mode=mode) for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")},
    **{f"bmp {mode}": bmp(mode=mode) for mode in ("RGB", "L", "P")},
    "bmp 1": encode(draw(mode="1"), "BMP"),
    "bmp RGBA": encode(draw(mode="RGBA"), "BMP"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_mxnet_decodes_what_passes(mxnet: ModuleType, name: str) -> None:
    for level in ("structure", "decode"):
        make_check(level, readable=RecordIO.limits.images)(VARIANTS[name])
    assert decodes(mxnet, VARIANTS[name])


@pytest.mark.parametrize(
    "data",
    [KINDS["webp"], KINDS["gif"], encode(draw(), "TIFF", compression="tiff_adobe_deflate")],
    ids=["webp", "gif", "tif"],
)
def test_mxnet_does_not_decode_the_other_kinds(mxnet: ModuleType, data: bytes) -> None:
    check_decode(data)
    assert not decodes(mxnet, data)
    assert "--encode jpeg" in refuse(data, readable=RecordIO.limits.images)


@pytest.mark.parametrize("level", ["structure", "decode"])
def test_mxnet_decodes_whatever_passes_damaged(mxnet: ModuleType, level: str) -> None:
    check = make_check(level, readable=RecordIO.limits.images, max_pixels=1_000_000)
    rng = random.Random(0)
    passed = 0
    for _ in range(300):
        data = bytearray(rng.choice(list(VARIANTS.values())))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        try:
            check(bytes(data))
        except BadImage:
            continue
        passed += 1
        try:
            mxnet.image.imdecode(bytes(data)).asnumpy()
        except mxnet.MXNetError:
            pytest.fail(f"MXNet cannot decode {bytes(data)!r}")
    assert passed > 30

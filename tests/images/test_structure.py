"""The structural check: it takes what encoders write, and finds what decoders stop at."""

from __future__ import annotations

import itertools
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import BadImage
from dsprep.images.header import read_header
from dsprep.images.structure import require_structure
from tests.images import draw, encode, jpeg, png

FRAME, TABLE, HUFFMAN, SCAN = b"\xff\xc0", b"\xff\xdb", b"\xff\xc4", b"\xff\xda"


def check(data: bytes) -> None:
    require_structure(data, read_header(data))


def segment(data: bytes, marker: bytes) -> slice:
    start = data.index(marker)
    return slice(start, start + 2 + int.from_bytes(data[start + 2 : start + 4], "big"))


def replaced(data: bytes, marker: bytes, at: int, value: int) -> bytes:
    """A JPEG with one byte of a segment's body, counted from its start or its end, replaced."""
    place = segment(data, marker)
    at = place.start + 4 + at if at >= 0 else place.stop + at
    return data[:at] + bytes([value]) + data[at + 1 :]


def removed(data: bytes, marker: bytes) -> bytes:
    place = segment(data, marker)
    return data[: place.start] + data[place.stop :]


def in_scan(data: bytes, inserted: bytes) -> bytes:
    return data[:-20] + inserted + data[-20:]


def without_tables(data: bytes) -> bytes:
    while HUFFMAN in data:
        data = removed(data, HUFFMAN)
    return data


JPEG, PROGRESSIVE = jpeg(), jpeg(progressive=True)
JPEGS: dict[str, tuple[bytes, str]] = {
    "no quantization table": (removed(JPEG, TABLE), "no quantization table 0"),
    "one Huffman table is missing": (removed(JPEG, HUFFMAN), "no dc table 0"),
    "a table of a kind that is none": (replaced(JPEG, TABLE, 0, 0x20), "quantization table"),
    "a Huffman table with too many codes": (
        replaced(replaced(JPEG, HUFFMAN, 1, 5), HUFFMAN, 3, 0),  # five codes of one bit, not three
        "too many codes",
    ),
    "a DC symbol that is none": (replaced(JPEG, HUFFMAN, 17, 16), "a symbol that is none"),
    "two components": (replaced(JPEG, FRAME, 5, 2), "components"),
    "two components of one name": (replaced(JPEG, FRAME, 9, 1), "components"),
    "a sampling factor of 5": (replaced(JPEG, FRAME, 7, 0x51), "sampling factors"),
    "factors that do not divide": (replaced(JPEG, FRAME, 10, 0x31), "fractions of sampling"),
    "a component's table is not there": (replaced(JPEG, FRAME, 8, 3), "no quantization table 3"),
    "a component's table has a number of no table": (
        replaced(JPEG, FRAME, 8, 4),  # there is a DC table 0
        "no quantization table 4",
    ),
    "70,000 lines": (replaced(JPEG, FRAME, 1, 255), "pixels"),
    "a scan of another component": (replaced(JPEG, SCAN, 1, 9), "a component that is none"),
    "a scan's tables are not there": (replaced(JPEG, SCAN, 2, 0x22), "no dc table 2"),
    "no such progression": (replaced(PROGRESSIVE, SCAN, -2, 9), "progression"),
    "two frames": (in_scan(JPEG, JPEG[segment(JPEG, FRAME)]), "two frames"),
    "a reserved marker": (in_scan(JPEG, b"\xff\xf0\0\2"), "a segment of the kind f0"),
    "a start in the pixels": (in_scan(JPEG, b"\xff\xd8\0\2"), "a segment of the kind d8"),
    "pixels that are missing": (JPEG[: segment(JPEG, SCAN).stop] + b"\xff\xd9", "too few bytes"),
    "a length that is cut off": (JPEG[:-2] + b"\xff\xe0\x02", "a segment of the wrong length"),
    "a scan that never ends": (JPEG[:-2] + b"\0", "no end marker"),
    "a component without a scan": (
        PROGRESSIVE[: segment(PROGRESSIVE, SCAN).start] + b"\xff\xd9",
        "a component without a scan",
    ),
}


@pytest.mark.parametrize("name", JPEGS)
def test_a_damaged_jpeg(name: str) -> None:
    data, reason = JPEGS[name]
    with pytest.raises(BadImage, match=rf"damaged JPEG: .*{reason}"):
        check(data)


def test_motion_jpeg() -> None:
    """It has no Huffman tables, and libjpeg takes those of T.81."""
    check(without_tables(JPEG))


def test_what_decoders_skip() -> None:
    check(JPEG + b"behind the end")
    start = JPEG.index(TABLE)
    check(JPEG[:start] + b"junk" + JPEG[start:])
    check(JPEG[:start] + b"\xff\xff" + JPEG[start:])


@pytest.mark.parametrize("size", [(1, 1), (7, 9), (17, 33), (640, 3)])
def test_every_jpeg_that_pillow_writes(size: tuple[int, int]) -> None:
    choices = itertools.product(
        ("RGB", "L", "CMYK"), (1, 50, 100), (True, False), ("4:4:4", "4:2:2", "4:2:0"), (0, 1)
    )
    for mode, quality, progressive, subsampling, restart in choices:
        options = {"progressive": progressive, "subsampling": subsampling}
        check(jpeg(0, size, mode, quality=quality, restart_marker_rows=restart, **options))


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def a_png(bits: int = 8, color: int = 2, interlace: int = 0, **chunks: bytes) -> bytes:
    """A PNG of 2 x 2 pixels, with right checksums."""
    header = struct.pack(">IIBBBBB", 2, 2, bits, color, 0, 0, interlace)
    parts = {"IHDR": header, "IDAT": zlib.compress(bytes(14)), "IEND": b""} | chunks
    order = sorted(parts, key=["IHDR", "CgBI", "PLTE", "aaAa", "IDAT", "IEND"].index)
    body = b"".join(chunk(name.encode(), parts[name]) for name in order)
    return b"\x89PNG\r\n\x1a\n" + body


PNGS: dict[str, tuple[bytes, str]] = {
    "bits that the color does not have": (a_png(bits=4), "header"),
    "a color type that is none": (a_png(color=5), "header"),
    "an interlace that is none": (a_png(interlace=2), "header"),
    "a header of another length": (a_png(IHDR=struct.pack(">IIBBBBBB", 2, 2, 8, 2, *[0] * 4)), "h"),
    "no palette": (a_png(color=3), "palette"),
    "half a color in the palette": (a_png(color=3, PLTE=b"1234"), "palette"),
    "an unknown chunk that matters": (a_png(CgBI=b"1234"), "chunks"),
    "pixels that do not decompress": (a_png(IDAT=b"not zlib"), "compressed pixels"),
    "too few pixels": (a_png(IDAT=zlib.compress(bytes(13))), "too few pixels"),
    "a filter that is none": (a_png(IDAT=zlib.compress(bytes(7) + b"\5" + bytes(6))), "filter"),
    "a wrong checksum": (a_png().replace(zlib.compress(bytes(14)), bytes(9)), "checksum|chunks"),
}


@pytest.mark.parametrize("name", PNGS)
def test_a_damaged_png(name: str) -> None:
    data, reason = PNGS[name]
    with pytest.raises(BadImage, match=rf"PNG: .*({reason})"):
        check(data)


def test_a_good_png() -> None:
    check(a_png())
    check(a_png(aaAa=b"what readers skip"))
    check(a_png(color=3, PLTE=bytes(6), IDAT=zlib.compress(bytes(6))))
    for width, height in itertools.product(range(1, 10), repeat=2):
        passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4))
        rows = 0
        for left, top, right, down in (*passes, (1, 0, 2, 2), (0, 1, 1, 2)):
            columns = len(range(left, width, right))
            rows += (1 + columns) * len(range(top, height, down)) if columns else 0
        header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 1)
        check(a_png(IHDR=header, IDAT=zlib.compress(bytes(rows))))
        with pytest.raises(BadImage, match="too few pixels"):
            check(a_png(IHDR=header, IDAT=zlib.compress(bytes(rows - 1))))


@pytest.mark.parametrize("size", [(1, 1), (7, 9), (64, 48)])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"])
def test_every_png_that_pillow_writes(size: tuple[int, int], mode: str) -> None:
    check(encode(draw(0, size, mode), "PNG"))


@given(
    st.sampled_from([JPEG, PROGRESSIVE, jpeg(restart_marker_blocks=2), png(), png(mode="P")]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6))),
)
def test_anything(data: bytes, changes: list[tuple[float, bytes]]) -> None:
    """Whatever the bytes are, the check ends, and says what is wrong by its own error."""
    changed = bytearray(data)
    for place, written in changes:
        at = int(place**2 * len(changed))
        changed[at : at + len(written)] = written
    try:
        check(bytes(changed))
    except BadImage as reason:
        assert len(str(reason)) < 200

"""Image headers: kind and size, whether the end is there, and no harm from hostile bytes."""

from __future__ import annotations

import io
import struct
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dsprep.errors import BadImage
from dsprep.images.header import may_turn, read_header, require_whole, sniff
from dsprep.images.transform import orientation_in, size_either_way
from tests.images import bmp, draw, encode, gif, jpeg, png, webp

SIZE = (37, 23)


def old_bmp() -> bytes:
    """A BMP with the header of OS/2: 12 bytes, sizes of 16 bits."""
    rows = bytes((SIZE[0] * 3 + 3) // 4 * 4 * SIZE[1])
    header = struct.pack("<IHHHH", 12, *SIZE, 1, 24)
    return struct.pack("<2sIHHI", b"BM", 26 + len(rows), 0, 0, 26) + header + rows


def top_down_bmp() -> bytes:
    """A BMP whose negative height says that its first row is the top one."""
    data = bytearray(bmp(size=SIZE))
    struct.pack_into("<i", data, 22, -SIZE[1])
    return bytes(data)


def tiff(mode: str = "RGB", **options: object) -> bytes:
    return encode(draw(size=SIZE, mode=mode), "TIFF", **options)


def segment(marker: int, body: bytes) -> bytes:
    """A segment of a JPEG."""
    return bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body


def after_start(data: bytes, inserted: bytes) -> bytes:
    """A JPEG with something inserted after its first marker."""
    return data[:2] + inserted + data[2:]


def with_thumbnail() -> bytes:
    """A JPEG whose EXIF data holds a whole JPEG."""
    exif = b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0" + jpeg(seed=1, size=(16, 12))
    return after_start(jpeg(size=SIZE), segment(0xE1, exif))


IMAGES = {
    "jpeg": ("jpg", jpeg(size=SIZE)),
    "jpeg progressive": ("jpg", jpeg(size=SIZE, progressive=True)),
    "jpeg gray": ("jpg", jpeg(size=SIZE, mode="L")),
    "jpeg cmyk": ("jpg", jpeg(size=SIZE, mode="CMYK")),
    "jpeg with exif": ("jpg", jpeg(size=SIZE, orientation=6)),
    "jpeg with thumbnail": ("jpg", with_thumbnail()),
    "png": ("png", png(size=SIZE)),
    "png palette": ("png", png(size=SIZE, mode="P")),
    "png 16 bits": ("png", png(size=SIZE, mode="I;16")),
    "webp lossy": ("webp", webp(size=SIZE)),
    "webp lossless": ("webp", webp(size=SIZE, lossless=True)),
    "webp alpha": ("webp", webp(size=SIZE, mode="RGBA")),
    "gif": ("gif", gif(size=SIZE)),
    "gif animated": ("gif", gif(size=SIZE, frames=3)),
    "bmp": ("bmp", bmp(size=SIZE)),
    "bmp gray": ("bmp", bmp(size=SIZE, mode="L")),
    "bmp of os/2": ("bmp", old_bmp()),
    "bmp top down": ("bmp", top_down_bmp()),
    "tiff": ("tif", tiff()),
    "tiff big-endian": ("tif", tiff(mode="I;16B")),
    "tiff lzw": ("tif", tiff(compression="tiff_lzw")),
    "tiff strips": ("tif", tiff(strip_size=400)),
    "avif": ("avif", encode(draw(size=SIZE), "AVIF")),
    "avif alpha": ("avif", encode(draw(size=SIZE, mode="RGBA"), "AVIF")),
    "avif turned": ("avif", encode(draw(size=SIZE), "AVIF", orientation=6)),
    "avif animated": (
        "avif",
        encode(draw(size=SIZE), "AVIF", save_all=True, append_images=[draw(1, SIZE)]),
    ),
    "jpeg 2000": ("jp2", encode(draw(size=SIZE), "JPEG2000")),
    "jpeg 2000 codestream": ("jp2", encode(draw(size=SIZE), "JPEG2000", no_jp2=True)),
    "jpeg 2000 tiles": (
        "jp2",
        encode(draw(size=SIZE, mode="L"), "JPEG2000", tile_size=(16, 16), offset=(3, 2)),
    ),
    "ppm": ("ppm", encode(draw(size=SIZE), "PPM")),
    "pgm": ("ppm", encode(draw(size=SIZE, mode="L"), "PPM")),
    "pgm 16 bits": ("ppm", encode(draw(size=SIZE, mode="I;16"), "PPM")),
    "pbm": ("ppm", encode(draw(size=SIZE, mode="1"), "PPM")),
}
TEXTS = [
    b"P1\n37 23\n" + b"01 1" * 284,
    b"P2 # by hand\n37\n# tall\n23 255 " + b"17 " * 851,
    b"P3 37 23 255\n" + b"17\n" * 851 * 3,
]
every_image = pytest.mark.parametrize(("kind", "data"), list(IMAGES.values()), ids=list(IMAGES))


def refuse(data: bytes) -> str:
    """Read a header and look for the end; return why that was refused."""
    with pytest.raises(BadImage) as refused:
        require_whole(data, read_header(data))
    return str(refused.value)


def looks_whole(data: bytes) -> bool:
    """Whether header and end are there; anything but a BadImage is an error."""
    try:
        require_whole(data, read_header(data))
    except BadImage as error:
        assert str(error)
        return False
    return True


# What is an image


@every_image
def test_kind_and_size(kind: str, data: bytes) -> None:
    assert sniff(data) == kind
    assert read_header(data)[:3] == (kind, *SIZE)
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == SIZE


def png_of_chunks(*chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG with further chunks behind its header."""
    parts = ((struct.pack(">I", len(body)), name + body) for name, body in chunks)
    made = (size + body + struct.pack(">I", zlib.crc32(body)) for size, body in parts)
    return png(size=SIZE)[:33] + b"".join(made) + png(size=SIZE)[33:]


XMP = b'<x:xmpmeta><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
EXIF = Image.Exif()
EXIF[0x0112] = 6
HEX = f"\nexif\n{len(EXIF.tobytes()):8}\n{EXIF.tobytes().hex()}\n".encode()
TURNED = {
    "jpeg, xmp": jpeg(size=SIZE, xmp=XMP),
    "webp": webp(size=SIZE, orientation=6),
    "webp, xmp": webp(size=SIZE, xmp=XMP),
    "avif": encode(draw(size=SIZE), "AVIF", orientation=6),
    "avif, mirrored": encode(draw(size=SIZE), "AVIF", orientation=2),
    "avif, xmp": encode(draw(size=SIZE), "AVIF", xmp=XMP),
    "png": png(size=SIZE, orientation=6),
    "png, xmp": png_of_chunks((b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP)),
    "png, xmp packed": png_of_chunks(
        (b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(XMP))
    ),
    "png, hex": png_of_chunks((b"tEXt", b"Raw profile type exif\0" + HEX)),
    "png, hex packed": png_of_chunks((b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(HEX))),
    "png, exif as text": png_of_chunks((b"tEXt", b"exif\0" + EXIF.tobytes())),
}


@pytest.mark.parametrize("data", TURNED.values(), ids=TURNED)
def test_what_pillow_turns_may_have_an_orientation(data: bytes) -> None:
    assert orientation_in(data) != 1
    assert may_turn(data)


@pytest.mark.parametrize("keep", [1.0, 0.8])
@pytest.mark.parametrize("name", TURNED)
def test_boxes_of_either_frame_lie_in_the_size_of_a_head(name: str, keep: float) -> None:
    data = TURNED[name]
    size = SIZE if "mirrored" in name else (max(SIZE),) * 2
    assert size_either_way(data[: int(len(data) * keep)]) == size


@pytest.mark.parametrize("data", [jpeg(size=SIZE), png(size=SIZE), webp(size=SIZE)])
def test_the_size_of_a_head_without_an_orientation(data: bytes) -> None:
    assert size_either_way(data[:-9]) == SIZE


@pytest.mark.parametrize(
    ("data", "may"),
    [
        (jpeg(size=SIZE, orientation=6), True),
        (with_thumbnail(), True),
        (after_start(jpeg(size=SIZE), segment(0xE0, b"\xff\xda")), False),
        (after_start(jpeg(size=SIZE, orientation=6), segment(0xE0, b"\xff\xda")), True),
        (jpeg(size=SIZE) + b"Exif", False),  # behind its pixels, where no decoder looks
        (b"\xff\xd8\xff\xe1\0\x0aExif", True),  # cut off
        (png(size=SIZE), False),
        (png_of_chunks((b"tEXt", b"Comment\0Exif")), False),
        (png_of_chunks((b"IDAT", b"an Exif and tiff:Orientation")), False),
        (webp(size=SIZE, mode="RGBA"), False),
        (webp(size=SIZE)[:20], False),  # cut off
        (encode(draw(size=SIZE), "AVIF"), False),
        (encode(draw(size=SIZE), "AVIF") + b"\0\0\0\x0cmdatExif", False),  # among its pixels
        (tiff(), True),
        (gif(size=SIZE), False),
        (b"no image", False),
    ],
)
def test_what_may_have_an_orientation(data: bytes, may: bool) -> None:
    assert may_turn(data) == may


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (255, 256), (16383, 1)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_sizes_of_all_lengths(kind: str, size: tuple[int, int]) -> None:
    data = encode(Image.new("RGB", size), kind)
    header = read_header(data)
    assert (header.width, header.height) == size
    require_whole(data, header)


@pytest.mark.parametrize("size", [(9001, 3), (3, 9001)])
def test_a_large_lossless_webp_has_all_its_bits(size: tuple[int, int]) -> None:
    data = webp(size=size, lossless=True, method=0, quality=0)
    assert read_header(data)[:3] == ("webp", *size)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (bytes(100_000), "only zero bytes"),
        (b"<!DOCTYPE html><title>404", "HTML page, not an image"),
        (b"\xef\xbb\xbf \n<html lang=en>", "HTML page, not an image"),
        (b'<?xml version="1.0"?><Error>', "XML or SVG text, not an image of pixels"),
        (b"<svg xmlns=", "XML or SVG text, not an image of pixels"),
        (b"PK\x03\x04more", "not an image of a known kind (starts with b'PK\\x03\\x04more')"),
        (b"BMW makes cars", "BMP header cut short"),
        (b"BMW makes cars and motorcycles", "starts with b'BMW make'"),
        (b"\xff\xd8", "starts with"),
        (b"\xff\xd8\xff", "JPEG header cut short"),
        (b"\xff\xd8\xff\xd9 and more", "JPEG without an image in it"),
        (b"\x89PNG\r\n\x1a\n", "PNG header cut short"),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "PNG that does not begin with its header"),
        (b"GIF89a\1", "GIF header cut short"),
        (b"GIF89a\0\0\1\0\0\0\0;", "GIF without pixels (0x1)"),
        (b"RIFF\x20\0\0\0WEBP", "WebP header cut short"),
        (b"RIFF\x20\0\0\0WEBPALPH" + bytes(30), "WebP without an image in it"),
        (b"RIFF\x20\0\0\0WEBPVP8 " + bytes(30), "WebP without an image in it"),
        (b"II*\0\x08\0\0\0", "TIFF header cut short"),
        (b"II*\0\x08\0\0\0\0\0\0\0\0\0", "TIFF that does not tell its size"),
    ],
)
def test_what_is_no_image_is_called_what_it_is(data: bytes, reason: str) -> None:
    with pytest.raises(BadImage) as refused:
        read_header(data)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("marker", "bits", "reason"),
    [(0xC3, 8, "lossless"), (0xC5, 8, "hierarchical"), (0xC1, 12, "12 bits")],
)
def test_jpeg_that_nothing_decodes(marker: int, bits: int, reason: str) -> None:
    data = jpeg(size=SIZE)
    start = data.index(b"\xff\xc0")
    changed = data[: start + 1] + bytes([marker]) + data[start + 2 : start + 4] + bytes([bits])
    assert reason in refuse(changed + data[start + 5 :])


def test_jpeg_with_arithmetic_coding_is_a_jpeg() -> None:
    data = jpeg(size=SIZE).replace(b"\xff\xc0", b"\xff\xc9", 1)
    assert read_header(data)[:3] == ("jpg", *SIZE)


@pytest.mark.parametrize(
    "inserted",
    [
        b"\xff\xff\xff",  # padding before the next marker
        b"junk",
        segment(0xFE, b"a comment with \xff\xc0 and \xff\xda in it"),
        segment(0xE2, bytes(65533)) * 20,
    ],
    ids=["padding", "junk", "comment", "profile"],
)
def test_jpeg_as_tolerant_as_its_readers(inserted: bytes) -> None:
    data = after_start(jpeg(size=SIZE), segment(0xEF, b"") + inserted)
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        assert image.size == SIZE
    assert read_header(data)[:3] == ("jpg", *SIZE)
    assert looks_whole(data)


# What is whole


@every_image
def test_cut_anywhere(kind: str, data: bytes) -> None:
    assert looks_whole(data)
    for size in range(len(data)):
        assert not looks_whole(data[:size]), f"{size} of {len(data)} bytes"


@every_image
def test_bytes_after_the_end(kind: str, data: bytes) -> None:
    assert looks_whole(data + bytes(4096))
    assert looks_whole(data + b"more")


JPEGS = [
    *(data for kind, data in IMAGES.values() if kind == "jpg"),
    after_start(jpeg(size=SIZE), b"junk" + segment(0xFE, b"\xff\xc0\xff\xda") + b"\xff\xff"),
]


@given(st.sampled_from(JPEGS), st.data())
def test_a_jpeg_is_whole_wherever_the_look_for_its_scan_begins(
    data: bytes, choice: st.DataObject
) -> None:
    changed = bytearray(data)
    for _ in range(choice.draw(st.integers(0, 3))):
        at = choice.draw(st.integers(2, len(changed) - 1))
        changed[at] = choice.draw(st.sampled_from([0xFF, 0xD9, 0xDA, 0xC0, 0xC4, 0, 2]))
    changed = changed[: choice.draw(st.integers(3, len(changed)))]
    try:
        header = read_header(bytes(changed))
    except BadImage:
        return
    found = []
    for each in (header, header._replace(frame=0)):
        try:
            found.append(require_whole(bytes(changed), each))
        except BadImage as error:
            found.append(str(error))
    assert header.frame > 0
    assert found[0] == found[1]


def test_a_thumbnail_has_an_end_of_its_own() -> None:
    data = with_thumbnail()
    assert data.count(b"\xff\xd9") == 2
    assert refuse(data[: data.index(b"\xff\xd9") + 2]) == "JPEG header cut short"
    assert refuse(data[:-2]) == "truncated JPEG: no end marker"
    assert refuse(data[:-2] + bytes(1000)) == "truncated JPEG: no end marker"


@pytest.mark.parametrize(
    ("data", "cut", "reason"),
    [
        (jpeg(size=SIZE), 1, "truncated JPEG: no end marker"),
        (png(size=SIZE), 1, "truncated PNG: no end chunk"),
        (gif(size=SIZE), 1, "truncated GIF: no trailer"),
        (webp(size=SIZE), 9, "truncated WebP: "),
        (bmp(size=SIZE), 9, "truncated BMP: 2621 of 2630 bytes"),
        (tiff(), 9, "truncated TIFF: "),
    ],
    ids=["jpg", "png", "gif", "webp", "bmp", "tif"],
)
def test_the_reason_says_what_is_missing(data: bytes, cut: int, reason: str) -> None:
    assert refuse(data[:-cut]).startswith(reason)


def test_png_is_whole_by_its_lengths_not_by_its_last_bytes() -> None:
    data = png(size=SIZE)
    end = data[-12:]
    assert refuse(data[: len(data) // 2] + end) == "truncated PNG: no end chunk"


def test_a_bmp_with_a_wrong_size_in_its_file_header() -> None:
    data = bytearray(bmp(size=SIZE))
    struct.pack_into("<I", data, 2, 0xFFFFFFFF)
    assert looks_whole(bytes(data))


@pytest.mark.parametrize("frames", [1, 3])
def test_a_gif_is_whole_by_its_blocks_not_by_its_last_bytes(frames: int) -> None:
    data = gif(size=SIZE, frames=frames)
    for size in range(len(data)):
        cut = data[:size] + b"!"  # a byte after which no cut ends in a trailer
        assert not looks_whole(cut), f"{size} of {len(data)} bytes"


def test_a_gif_with_junk_between_blocks_and_after_its_end() -> None:
    data = gif(size=SIZE, frames=2)
    at = data.index(b"!\xf9")
    assert looks_whole(data[:at] + bytes(9) + data[at:] + b"<more>")


# Hostile bytes


def test_a_gif_of_endless_blocks() -> None:
    start = gif(size=SIZE)[:10] + bytes(3)
    for filler in (b"!\xfe\0", b"!", b"\0", b",", b"!\xfe" + b"\1x" * 9):
        assert refuse(start + filler * 100_000 + b"x").startswith("truncated GIF")


def test_a_jpeg_of_endless_segments() -> None:
    for filler in (segment(0xE0, b"") * 200_000, b"\xff" * 1_000_000, b"\xff\x01" * 500_000):
        assert refuse(after_start(jpeg(size=SIZE), filler)).startswith("JPEG with more than")


@pytest.mark.parametrize("count", [2**32 - 1, 2**31, 2**16])
@pytest.mark.parametrize("tag", [256, 273, 279])
def test_a_tiff_that_claims_many_values(tag: int, count: int) -> None:
    data = bytearray(tiff())
    (directory,) = struct.unpack_from("<I", data, 4)
    (entries,) = struct.unpack_from("<H", data, directory)
    for at in range(directory + 2, directory + 2 + 12 * entries, 12):
        if struct.unpack_from("<H", data, at) == (tag,):
            struct.pack_into("<HI", data, at + 2, 4, count)
    assert "TIFF" in refuse(bytes(data))


def test_a_bmp_of_the_most_negative_size() -> None:
    data = bytearray(bmp(size=SIZE))
    struct.pack_into("<ii", data, 18, 2**31 - 1, -(2**31))
    assert read_header(bytes(data))[:3] == ("bmp", 2**31 - 1, 2**31)
    assert "truncated BMP" in refuse(bytes(data))
    struct.pack_into("<ii", data, 18, -(2**31), 5)
    assert refuse(bytes(data)).startswith("BMP without pixels")


starts = st.sampled_from(
    [data[:length] for _, data in IMAGES.values() for length in (2, 3, 4, 8, 12, 16, 30, 64)]
)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    looks_whole(data)


@given(starts, st.binary(max_size=200))
def test_any_bytes_after_a_signature(start: bytes, rest: bytes) -> None:
    looks_whole(start + rest)


@given(
    st.sampled_from([data for _, data in IMAGES.values()]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=6)), max_size=4),
    st.floats(0, 1),
)
def test_damaged_images(data: bytes, changes: list[tuple[float, bytes]], keep: float) -> None:
    damaged = bytearray(data)
    for place, written in changes:
        at = int(place**3 * len(damaged))  # headers are where a change does most
        damaged[at : at + len(written)] = written
    looks_whole(bytes(damaged))
    looks_whole(bytes(damaged[: int(keep * len(damaged))]))


@pytest.mark.parametrize("data", TEXTS)
def test_ppm_as_text(data: bytes) -> None:
    header = read_header(data)
    assert header[:3] == ("ppm", *SIZE)
    assert Image.open(io.BytesIO(data)).size == SIZE
    require_whole(data, header)
    with pytest.raises(BadImage, match=r"truncated PPM: \d+ of \d+ values"):
        require_whole(data[:-8], header)


@pytest.mark.parametrize(
    "data",
    [
        b"P5 " + b"#" * 1_000_000,
        b"P5 " + b" " * 1_000_000,
        b"P5 " + b"1" * 1_000_000,
        b"P2 1 1 1 " + b"x" * 1_000_000,
        b"\0\0\0\x0cftypavif" + b"\0\0\0\x08free" * 100_000,
        b"\0\0\0\x0cftypavif" + b"\0\0\0\x01free\0\0\0\0\0\0\0\x10" * 100_000,
        b"\xff\xff\xff\xffftypavif" + bytes(1_000_000),
        b"\0\0\0\x0cjP  \r\n\x87\n" + b"\0\0\0\x08free" * 100_000,
    ],
)
def test_hostile_lengths_take_no_time(data: bytes) -> None:
    began = time.process_time()
    with pytest.raises(BadImage):
        require_whole(data, read_header(data))
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(90), "HEIC"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heix" + bytes(90), "HEIC"),
        (b"\xff\x0a" + bytes(90), "JPEG XL"),
        (b"8BPS\0\1" + bytes(90), "a Photoshop file"),
        (bytes(128) + b"DICM" + bytes(90), "DICOM"),
    ],
)
def test_images_that_dsprep_does_not_decode_are_named(data: bytes, name: str) -> None:
    with pytest.raises(BadImage, match=f"^{name}, which dsprep does not decode: convert it to"):
        read_header(data)

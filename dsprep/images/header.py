"""Find the kind and the size of an image, and whether it is complete, without decoding it.

Pure functions on bytes, a few microseconds each, as they run on every sample that is packed. The
bytes are not trusted: nothing is read past their end, every loop moves forward, and any
defect is a ``BadImage`` whose message describes it.

Sources of the facts: JPEG, ITU-T T.81; PNG, W3C PNG (third edition); GIF89a; WebP, RFC 9649; BMP,
BITMAPFILEHEADER and BITMAPINFOHEADER of the Windows SDK; TIFF, revision 6.0; AVIF, ISO/IEC 14496-12
and 23008-12; JPEG 2000, ITU-T T.800; PPM, PGM and PBM, Netpbm's manual.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from zlib import crc32

from dsprep.errors import BadImage
from dsprep.patterns import pattern
from dsprep.tuples import NamedTuple

# Pillow's own limit, twice its `MAX_IMAGE_PIXELS`: above it a training job that opens images with
# Pillow fails. Decoded, an image of this size takes 0.7 GB.
DEFAULT_MAX_PIXELS = 178_956_970


class ImageHeader(NamedTuple):
    """The kind and the size of an image, from its header."""

    kind: str  # a key of `NAMES`
    width: int  # in pixels, as stored: an EXIF orientation is not applied
    height: int  # in pixels, as stored
    frame: int = 0  # where a JPEG's frame header begins, from which its scan is looked for


# without the Python code of a NamedTuple's own constructor, which takes as long as `sniff`
_header: Callable[[tuple[Any, ...]], ImageHeader] = partial(tuple.__new__, ImageHeader)

_JP2_SIGNATURE = b"\0\0\0\x0cjP  \r\n\x87\n"
_JP2_CODESTREAM = b"\xff\x4f\xff\x51"
# the kinds whose first bytes are always the same, the most frequent first
_STARTS: tuple[tuple[str, bytes | tuple[bytes, ...]], ...] = (
    ("jpg", b"\xff\xd8\xff"),
    ("png", b"\x89PNG\r\n\x1a\n"),
    ("gif", (b"GIF87a", b"GIF89a")),
    ("tif", (b"II*\0", b"MM\0*")),
    ("bmp", b"BM"),
    ("jp2", (_JP2_SIGNATURE, _JP2_CODESTREAM)),
)


def sniff(data: bytes) -> str | None:
    """Tell the kind of an image from its first bytes; None if it is none that dsprep knows."""
    for kind, starts in _STARTS:
        if data.startswith(starts):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp" and _brands(data) & _AVIF_BRANDS:
        return "avif"
    return "ppm" if _PPM_BEGIN.match(data) else None


def read_header(data: bytes) -> ImageHeader:
    """Read kind and size from an image's bytes."""
    kind = sniff(data)
    if kind is None:
        raise BadImage(_what_else(data))
    try:
        size = _KINDS[kind].size(data)
    except struct.error:
        raise BadImage(f"{NAMES[kind]} header cut short") from None
    if size[0] < 1 or size[1] < 1:
        raise BadImage(f"{NAMES[kind]} without pixels ({size[0]}x{size[1]})")
    return _header((kind, *size, 0)[:4])


def may_turn(data: bytes) -> bool:
    """Return whether an image with a valid header may have an orientation, as few have.

    Pillow takes it from EXIF data and, where that has none, from XMP.
    """
    kind = sniff(data)
    return kind is not None and _KINDS[kind].may_turn(data)


def require_whole(data: bytes, header: ImageHeader) -> None:
    """Refuse an image whose end is missing."""
    # This follows lengths and looks for end marks. It reads neither pixels nor PNG's checksums: a
    # cut shows without reading every byte, and damage in the middle is for a decoder to find. Bytes
    # after the end are tolerated, as cameras and editors write them.
    try:
        find = _KINDS[header.kind].missing
        missing = find(data, header.frame) if header.frame else find(data)
    except struct.error:
        missing = "ends in its header"
    if missing:
        raise BadImage(f"truncated {NAMES[header.kind]}: {missing}")


def require_checksums(data: bytes, header: ImageHeader) -> None:
    """Refuse a PNG in which a checksum is wrong of a chunk that readers need."""
    # Pillow does not look at those of the pixels. libpng does, and so OpenCV, MXNet and TensorFlow.
    if header.kind != "png":
        return
    view = memoryview(data)
    for name, start, checksum in png_chunks(data):
        # An upper-case first letter marks the chunks that a reader must understand.
        if name[:1].isupper() and crc32(view[start - 4 : checksum]) != int.from_bytes(
            view[checksum : checksum + 4], "big"
        ):
            raise BadImage(f"cannot decode this PNG: wrong checksum in chunk {name!r}")
        if name == b"IEND":
            return


NOT_DECODED = "which dsprep does not decode: convert it to JPEG or PNG first"
_OTHERS = {  # how images begin that dsprep does not decode
    b"\xff\x0a": "JPEG XL",
    b"\0\0\0\x0cJXL \r\n\x87\n": "JPEG XL",
    b"8BPS": "a Photoshop file",
    b"\0\0\1\0": "an icon",
    b"v/1\x01": "OpenEXR",
    b"qoif": "QOI",
    b"DDS ": "DDS",
}


def _what_else(data: bytes) -> str:
    """Say what bytes are that are no image."""
    if not data:
        return "empty file"
    if data.count(0) == len(data):
        return "only zero bytes"
    text = data[:256].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head")):
        return "HTML page, not an image"
    if text.startswith((b"<svg", b"<?xml")):
        return "XML or SVG text, not an image of pixels"
    name = next((name for start, name in _OTHERS.items() if data.startswith(start)), None)
    if data[4:8] == b"ftyp" and _brands(data) & _HEIC_BRANDS:
        name = "HEIC"
    if data[128:132] == b"DICM":
        name = "DICOM"
    if name is not None:
        return f"{name}, {NOT_DECODED}"
    return f"not an image of a known kind (starts with {data[:8]!r})"


# JPEG: segments of marker, length (which counts itself) and data; then scans; then an end marker.
# A frame header says the size. Decoders know those for baseline, extended and progressive JPEG, and
# the last two with arithmetic coding; the others are lossless and hierarchical JPEG.
_JPEG_OTHER_FRAMES = frozenset({0xC3, 0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF})
JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC9, 0xCA})
_JPEG_ALL_FRAMES = JPEG_FRAMES | _JPEG_OTHER_FRAMES
_JPEG_SCAN = frozenset({0xDA})
_JPEG_SCAN_OR_END = frozenset({0xDA, 0xD9})
_JPEG_WITHOUT_LENGTH = frozenset({0x00, 0x01, *range(0xD0, 0xD9)})
_JPEG_UNLIKE_OTHERS = _JPEG_SCAN_OR_END | _JPEG_WITHOUT_LENGTH | {0xFF}
JPEG_SEGMENT = struct.Struct(">BBH")  # 0xff, marker, length
_JPEG_FRAME = struct.Struct(">BHH")  # bits of a sample, height, width

# Above what any camera writes; only there to end early on files made to take long.
JPEG_MAX_SEGMENTS = 10_000  # up to the frame header, and from there up to the scan


def _jpeg_find(data: bytes, wanted: frozenset[int], position: int = 2) -> tuple[int, int]:
    """Find the first segment with a wanted marker; return the marker and where the data begins."""
    for _ in range(JPEG_MAX_SEGMENTS):
        start, marker, length = JPEG_SEGMENT.unpack_from(data, position)
        if start != 0xFF:  # decoders skip junk between segments
            position = data.find(b"\xff", position)
            if position < 0:
                raise struct.error
        elif marker in wanted:
            return marker, position + 4
        elif marker not in _JPEG_UNLIKE_OTHERS:
            position += 2 + length
        elif marker in _JPEG_SCAN_OR_END:
            raise BadImage("JPEG without an image in it")
        else:
            position += 1 if marker == 0xFF else 2  # padding before a marker, or a lone marker
    raise BadImage(f"JPEG with more than {JPEG_MAX_SEGMENTS} segments")


def _jpeg_size(data: bytes) -> tuple[int, int, int]:
    """Return the width, the height, and where the frame header begins that tells them."""
    marker, position = _jpeg_find(data, _JPEG_ALL_FRAMES)
    if marker in _JPEG_OTHER_FRAMES:
        raise BadImage("lossless or hierarchical JPEG, which readers of images do not decode")
    bits, height, width = _JPEG_FRAME.unpack_from(data, position)
    if bits != 8:
        raise BadImage(f"JPEG of {bits} bits, which readers of images do not decode")
    return width, height, position - JPEG_SEGMENT.size


def _jpeg_missing(data: bytes, frame: int = 2) -> str | None:
    # From the scan on, as a thumbnail in the EXIF data before it has an end marker of its own.
    # Among the pixels' bytes there is none: T.81, B.1.1.5, has a zero follow each 0xff.
    _, scan = _jpeg_find(data, _JPEG_SCAN, frame)
    return _no_end_marker(data, scan)


def _jpeg_may_turn(data: bytes) -> bool:
    try:  # what describes it stands before its pixels, which may be many bytes
        _, scan = _jpeg_find(data, _JPEG_SCAN)
    except (struct.error, BadImage):
        scan = len(data)
    return any(data.find(mark, 0, scan) >= 0 for mark in (b"Exif", b"tiff:Orientation"))


def _no_end_marker(data: bytes, start: int) -> str | None:
    return "no end marker" if data.rfind(b"\xff\xd9", start) < 0 else None


# PNG: chunks of length, name, data, checksum. The first is IHDR, the last IEND.
_PNG_HEADER = struct.Struct(">I4sII")
_PNG_CHUNK = struct.Struct(">I4s")
# keywords of texts, which may be compressed, in which Pillow looks for an orientation
_PNG_TURNING = b"XML:com.adobe.xmp\0", b"Raw profile type exif\0", b"exif\0"


def _png_size(data: bytes) -> tuple[int, int]:
    _, name, width, height = _PNG_HEADER.unpack_from(data, 8)
    if name != b"IHDR":
        raise BadImage("PNG that does not begin with its header")
    return width, height


def png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, start and end of the data of each chunk; the last may end after the bytes."""
    position = 8
    while position <= len(data) - _PNG_CHUNK.size:
        length, name = _PNG_CHUNK.unpack_from(data, position)
        yield name, position + 8, position + 8 + length
        position += length + 12


def _png_missing(data: bytes) -> str | None:
    for name, _, checksum in png_chunks(data):
        if name == b"IEND" and checksum + 4 <= len(data):
            return None
    return "no end chunk"


def _png_may_turn(data: bytes) -> bool:
    chunks = png_chunks(data)
    return any(name == b"eXIf" or data.startswith(_PNG_TURNING, at) for name, at, _ in chunks)


# GIF: the size of the screen that frames are drawn on and its color table; blocks; a semicolon. A
# block is an extension, or a frame with its color table and pixels; either ends in pieces of up to
# 255 bytes, each behind its length, the last one empty.
_GIF_SCREEN_FLAGS, _GIF_SCREEN_END = 10, 13
_GIF_FRAME_FLAGS, _GIF_FRAME_END = 9, 10  # offsets in an image block, counted from its comma
_GIF_FRAME, _GIF_TRAILER = b",;"
_GIF_BLOCK = re.compile(b"[!,;]")


def _gif_colors(flags: int) -> int:
    """Return the size in bytes of the color table of a screen or frame with these flags."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _gif_missing(data: bytes) -> str | None:
    if data.endswith(b"\0;"):  # nearly all GIFs end so; only others are read block by block
        return None
    try:
        position = _GIF_SCREEN_END + _gif_colors(data[_GIF_SCREEN_FLAGS])
        while block := _GIF_BLOCK.search(data, position):  # decoders skip junk between blocks
            position = block.start()
            if data[position] == _GIF_TRAILER:
                return None
            if data[position] == _GIF_FRAME:
                colors = _gif_colors(data[position + _GIF_FRAME_FLAGS])
                position += _GIF_FRAME_END + colors + 1  # plus a byte for the bits of a pixel
            else:
                position += 2
            while data[position]:
                position += data[position] + 1
            position += 1
    except IndexError:
        pass
    return "no trailer"


# WebP: a RIFF file whose first chunk is VP8 (lossy), VP8L (lossless), or VP8X (more chunks follow).
_WEBP_EXIF_OR_XMP = 8 | 4  # flags of VP8X: which chunks follow


def _webp_size(data: bytes) -> tuple[int, int]:
    chunk = data[12:16]
    if chunk == b"VP8X":
        width, width_high, height, height_high = struct.unpack_from("<HBHB", data, 24)
        return (width_high << 16) + width + 1, (height_high << 16) + height + 1
    if chunk == b"VP8L":
        signature, bits = struct.unpack_from("<BI", data, 20)
        if signature == 0x2F:
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    elif chunk == b"VP8 ":
        start, width, height = struct.unpack_from("<3sHH", data, 23)
        if start == b"\x9d\x01\x2a":
            return width & 0x3FFF, height & 0x3FFF
    elif len(chunk) < 4:
        raise struct.error
    raise BadImage("WebP without an image in it")


def _webp_may_turn(data: bytes) -> bool:
    return data[12:16] == b"VP8X" and len(data) > 20 and data[20] & _WEBP_EXIF_OR_XMP > 0


def _webp_missing(data: bytes) -> str | None:
    return _fewer_bytes(data, 8 + int.from_bytes(data[4:8], "little"))


# BMP: file header, information header (the oldest has 12 bytes and 16-bit sizes), pixels. A
# negative height means that the first row is the top one.
_BMP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})


def _bmp_size(data: bytes) -> tuple[int, int]:
    (header,) = struct.unpack_from("<I", data, 14)
    if header not in _BMP_HEADERS:  # a text file may begin with "BM", too
        raise BadImage(_what_else(data))
    width, height = struct.unpack_from("<HH" if header == 12 else "<ii", data, 18)
    return width, abs(height)


def _bmp_missing(data: bytes) -> str | None:
    # The size in the file header is often wrong in files that every reader reads.
    start, header = struct.unpack_from("<II", data, 10)
    width, height = _bmp_size(data)
    (bits,) = struct.unpack_from("<H", data, 24 if header == 12 else 28)
    compression, packed = (0, 0) if header < 40 else struct.unpack_from("<II", data, 30)
    if compression in (0, 3, 6):  # uncompressed
        packed = (width * bits + 31) // 32 * 4 * height
    return _fewer_bytes(data, start + packed)


# TIFF: a directory of entries of tag, type, count, and the values or, if they take more than four
# bytes, where they are. A type is a number; these are their sizes and, of integers, their codes.
_TIFF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_TIFF_INTEGERS = {1: "B", 3: "H", 4: "I"}
_TIFF_WIDTH, _TIFF_HEIGHT = 256, 257


def _tiff_integers(data: bytes) -> tuple[dict[int, tuple[str, int, int]], int]:
    """The integers of the first directory: format, count and offset by tag; and where all end."""
    order = "<" if data.startswith(b"II") else ">"
    (start,) = struct.unpack_from(order + "I", data, 4)
    (entries,) = struct.unpack_from(order + "H", data, start)
    entry = struct.Struct(order + "HHII")
    found, end = {}, 0
    for position in range(start + 2, start + 2 + 12 * entries, 12):
        tag, code, count, offset = entry.unpack_from(data, position)
        size = _TIFF_SIZES.get(code, 1) * count
        offset = offset if size > 4 else position + 8
        end = max(end, offset + size)
        if code in _TIFF_INTEGERS and count:
            found[tag] = f"{order}%d{_TIFF_INTEGERS[code]}", count, offset
    return found, end


def _tiff_size(data: bytes) -> tuple[int, int]:
    found, _ = _tiff_integers(data)
    if not found.keys() >= {_TIFF_WIDTH, _TIFF_HEIGHT}:
        raise BadImage("TIFF that does not tell its size")
    edges = (found[_TIFF_WIDTH], found[_TIFF_HEIGHT])
    (width,), (height,) = (struct.unpack_from(form % 1, data, at) for form, _, at in edges)
    return width, height


def _tiff_missing(data: bytes) -> str | None:
    found, end = _tiff_integers(data)
    # where they are and how many bytes: of strips, of tiles
    for tags in ((273, 279), (324, 325)):
        if end <= len(data) and found.keys() >= set(tags):
            pieces = [found[tag] for tag in tags]
            columns = (struct.unpack_from(form % count, data, at) for form, count, at in pieces)
            end = max(end, *map(sum, zip(*columns, strict=False)))
    return _fewer_bytes(data, end)


# AVIF: boxes of size, name and content, as in MP4. The first, "ftyp", tells the brands; "meta" has
# the properties of images. Of these, "ispe" is a size, and the largest is that of the whole image.
_BOX = struct.Struct(">I4s")
_BOX_NAME = pattern(rb"[a-zA-Z0-9 ]{4}")
_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_HEIC_BRANDS = frozenset({b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"})
_MAX_BRANDS = 64
_MAX_BOXES = 10_000
# properties that turn an image, and the types of its EXIF data and of its XMP
_AVIF_TURNING = b"irot", b"imir", b"Exif", b"application/rdf+xml"


def _brands(data: bytes) -> set[bytes]:
    stop = min(int.from_bytes(data[:4], "big"), 8 + 4 * _MAX_BRANDS)
    return {data[start : start + 4] for start in (8, *range(16, stop, 4))}


def _boxes(data: bytes, start: int, stop: int) -> Iterator[tuple[bytes, int, int]]:
    """The boxes between two places: name, and where the content begins and, cut or not, ends."""
    # What has no name that a box can have ends them, as bytes after an image are tolerated.
    for _ in range(_MAX_BOXES):
        if start + _BOX.size > stop:
            return
        size, name = _BOX.unpack_from(data, start)
        begin = start + _BOX.size
        if size == 1:  # a size of 1 means that a 64-bit size follows
            (size,) = struct.unpack_from(">Q", data, begin)
            begin += 8
        if not _BOX_NAME.fullmatch(name) or (size and size < begin - start):
            return
        start = start + size if size else stop
        yield name, begin, start
    raise BadImage(f"AVIF or JPEG 2000 with more than {_MAX_BOXES} boxes")


def _avif_size(data: bytes) -> tuple[int, int]:
    found = [(0, len(data))]
    for wanted in (b"meta", b"iprp", b"ipco", b"ispe"):
        found = [
            # `meta` has a version of 4 bytes before its boxes
            (begin + 4 * (wanted == b"meta"), min(end, len(data)))
            for start, stop in found
            for name, begin, end in _boxes(data, start, stop)
            if name == wanted
        ]
    if not found:
        raise BadImage("AVIF that does not tell its size")
    edges = [struct.unpack_from(">II", data, begin + 4) for begin, _ in found]
    width, height = max(edges, key=lambda edge: edge[0] * edge[1])
    return width, height


def _avif_may_turn(data: bytes) -> bool:
    # what describes it stands in other boxes than its pixels, which may be many bytes
    boxes = _boxes(data, 0, len(data))
    parts = (data[begin:end] for name, begin, end in boxes if name != b"mdat")
    return any(mark in part for part in parts for mark in _AVIF_TURNING)


def _avif_missing(data: bytes) -> str | None:
    boxes = list(_boxes(data, 0, len(data)))
    if not any(name == b"mdat" for name, _, _ in boxes):
        return "no image data"
    return _fewer_bytes(data, max(stop for _, _, stop in boxes))


# JPEG 2000: a codestream, mostly in a box "jp2c". Its second marker has the place of the image on a
# grid: right, bottom, left and top. No other bytes can be like its last marker.


def _jp2_codestream(data: bytes) -> int:
    if data.startswith(_JP2_CODESTREAM):
        return 0
    for name, start, _ in _boxes(data, 0, len(data)):
        if name == b"jp2c" and data.startswith(_JP2_CODESTREAM, start):
            return start
    raise BadImage("JPEG 2000 without an image in it")


def _jp2_size(data: bytes) -> tuple[int, int]:
    right, bottom, left, top = struct.unpack_from(">IIII", data, _jp2_codestream(data) + 8)
    return right - left, bottom - top


# PBM, PGM and PPM: the kind of pixel; width, height and, except for PBM, the largest value, with
# blanks or comments before each; one blank; the pixels, which are text in the first three kinds.
_PPM_BEGIN = pattern(rb"P[1-6][ \t\r\n#]")
_PPM_NUMBER = pattern(rb"(?:[ \t\r\n]|#[^\r\n]*[\r\n])+([0-9]{1,9})(?=[ \t\r\n#])")


def _ppm_header(data: bytes) -> tuple[int, int, int, int]:
    """The width, the height, the largest value, and where the pixels begin."""
    numbers, position = [], 2
    for _ in range(2 if data[1:2] in b"14" else 3):
        match = _PPM_NUMBER.match(data, position)
        if match is None:
            raise struct.error
        numbers.append(int(match[1]))
        position = match.end()
    width, height, largest = (*numbers, 1)[:3]
    return width, height, largest, position + 1


def _ppm_missing(data: bytes) -> str | None:
    width, height, largest, start = _ppm_header(data)
    kind = data[1:2]
    if kind in b"123":
        wanted = width * height * (3 if kind == b"3" else 1)
        digits = rb"[01]" if kind == b"1" else rb"[0-9]+"
        found = sum(1 for _ in re.compile(digits).finditer(data, start))
        return f"{found} of {wanted} values" if found < wanted else None
    row = width * (3 if kind in b"36" else 1) * (2 if largest > 255 and kind in b"56" else 1)
    row = (width + 7) // 8 if kind == b"4" else row
    return _fewer_bytes(data, start + row * height)


def _fewer_bytes(data: bytes, size: int) -> str | None:
    return f"{len(data)} of {size} bytes" if len(data) < size else None


class _Kind(NamedTuple):
    name: str  # what people call it
    plugin: str  # what the names of Pillow's module and class for it begin with
    size: Callable[[bytes], tuple[int, ...]]  # the width and the height; and `ImageHeader.frame`
    # says what is missing at the end; takes `ImageHeader.frame` if that is not 0
    missing: Callable[..., str | None]
    may_turn: Callable[[bytes], bool] = lambda data: False  # whether it may have an orientation


_KINDS = {
    "jpg": _Kind("JPEG", "Jpeg", _jpeg_size, _jpeg_missing, _jpeg_may_turn),
    "png": _Kind("PNG", "Png", _png_size, _png_missing, _png_may_turn),
    "webp": _Kind("WebP", "WebP", _webp_size, _webp_missing, _webp_may_turn),
    "gif": _Kind("GIF", "Gif", lambda data: struct.unpack_from("<HH", data, 6), _gif_missing),
    "bmp": _Kind("BMP", "Bmp", _bmp_size, _bmp_missing),
    "tif": _Kind("TIFF", "Tiff", _tiff_size, _tiff_missing, lambda data: True),
    "avif": _Kind("AVIF", "Avif", _avif_size, _avif_missing, _avif_may_turn),
    "jp2": _Kind(
        "JPEG 2000", "Jpeg2K", _jp2_size, lambda it: _no_end_marker(it, _jp2_codestream(it))
    ),
    "ppm": _Kind("PPM", "Ppm", lambda data: _ppm_header(data)[:2], _ppm_missing),
}

NAMES = {kind: each.name for kind, each in _KINDS.items()}
PLUGINS = {kind: each.plugin for kind, each in _KINDS.items()}

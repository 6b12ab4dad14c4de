"""Whether decoders get to the end of a JPEG or PNG, found without decoding its pixels.

libjpeg and libpng give up on an image when a table, a header or a marker makes no sense; they
accept wrong pixels. So this check finds the images at which the readers of frameworks stop, in
much less time than decoding takes. A PNG is decompressed, as libpng also gives up on compressed
data that makes no sense.

Sources: JPEG, ITU-T T.81, and what is an error in libjpeg-turbo; PNG, W3C PNG (third edition), and
what is an error in libpng. The bytes are not trusted, as in :mod:`dsprep.images.header`.
"""

from __future__ import annotations

import re
import struct
from functools import lru_cache
from itertools import takewhile
from zlib import decompressobj
from zlib import error as ZlibError

from dsprep.errors import BadImage
from dsprep.frozen import Frozen
from dsprep.images.header import (
    JPEG_FRAMES,
    JPEG_MAX_SEGMENTS,
    JPEG_SEGMENT,
    ImageHeader,
    png_chunks,
    require_checksums,
)
from dsprep.tuples import NamedTuple


def require_structure(data: bytes, header: ImageHeader) -> None:
    """Refuse a JPEG or PNG at which decoders give up."""
    if header.kind == "png":
        _require_png(data, header)
    else:
        _require_jpeg(data)


_END, _SCAN, _QUANTIZATION, _HUFFMAN, _RESTART = 0xD9, 0xDA, 0xDB, 0xC4, 0xDD
_WITHOUT_SEGMENT = frozenset({0x00, 0x01, *range(0xD0, 0xD8), 0xFF})
# arithmetic conditioning, number of lines, restart interval, application data, comment
_OTHERS = frozenset({0xCC, 0xDC, _RESTART, *range(0xE0, 0xF0), 0xFE})
# What ends the pixels of a scan. In them a zero follows each 0xff (T.81, B.1.1.5), except in the
# markers of restarts and in fill bytes.
_SCAN_END = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_PROGRESSIVE, _ARITHMETIC = frozenset({0xC2, 0xCA}), frozenset({0xC9, 0xCA})
_FRAME = struct.Struct(">BHHB")  # bits of a value, height, width, components
_MAX_EDGE = 65_500  # pixels: JPEG_MAX_DIMENSION of libjpeg
_MAX_BLOCKS = 10  # maximum number of blocks in a unit of a scan: D_MAX_BLOCKS_IN_MCU of libjpeg


class _Component(NamedTuple):
    across: int  # sampling factors
    down: int
    quantization: int  # the number of its table


class _Frame(Frozen, eq=False):
    height: int
    width: int
    progressive: bool
    arithmetic: bool
    components: dict[int, _Component]


def _require_jpeg(data: bytes) -> None:
    tables, scanned, frame = 0, frozenset[int](), None
    segment_at, size, position = JPEG_SEGMENT.unpack_from, len(data), 2
    for _ in range(JPEG_MAX_SEGMENTS):
        if position + JPEG_SEGMENT.size <= size:
            start, marker, length = segment_at(data, position)
        else:  # the end marker has no length
            start, marker, length = segment_at(data[position:] + bytes(JPEG_SEGMENT.size))
        if start != 0xFF:  # decoders skip junk between segments
            position = data.find(b"\xff", position)
            if position < 0:
                raise _damaged("no end marker")
        elif marker == _END:
            if frame is None or len(scanned) < len(frame.components):
                raise _damaged("a component without a scan")
            return
        elif marker in _WITHOUT_SEGMENT:
            position += 1 if marker == 0xFF else 2
        else:
            begin, position = position + JPEG_SEGMENT.size, position + 2 + length
            if length < 2 or position > size:
                raise _damaged("a segment of the wrong length")
            if marker == _HUFFMAN:
                tables |= _huffman_tables(data[begin:position])
            elif marker == _QUANTIZATION:
                tables |= _quantization_tables(data[begin:position])
            elif marker in JPEG_FRAMES:
                if frame is not None:
                    raise _damaged("two frames")
                frame = _frame(marker, data[begin:position])
            elif marker == _SCAN:
                end = _SCAN_END.search(data, position)
                if frame is None or end is None:
                    raise _damaged("a scan without a frame" if frame is None else "no end marker")
                components, least = _scan(frame, data[begin:position], tables)
                if 8 * (end.start() - position) < least:
                    raise _damaged("too few bytes for its pixels")
                scanned |= components
                position = end.start()
            elif marker not in _OTHERS or (marker == _RESTART and length != 4):
                raise _damaged(f"a segment of the kind {marker:02x}")
    raise _damaged(f"more than {JPEG_MAX_SEGMENTS} segments")


def _damaged(what: str) -> BadImage:
    return BadImage(f"damaged JPEG: {what}")


# The tables that are there are a whole number with a bit for each: faster to join than a set.
_TABLES = ("quantization", "dc", "ac")
_NUMBERS = 256  # of tables of a kind that a frame or a scan can name; those that are there have 4


def _table(kind: str, number: int) -> int:
    """Return the bit of a table."""
    return 1 << _NUMBERS * _TABLES.index(kind) + number


_HUFFMAN_TABLES = sum(_table(kind, number) for kind in ("dc", "ac") for number in range(4))

# Small images of one data set mostly share their tables.


@lru_cache(maxsize=64)
def _quantization_tables(body: bytes) -> int:
    found = position = 0
    while position < len(body):
        wide, number = divmod(body[position], 16)
        position += 1 + 64 * (1 + wide)
        if wide > 1 or number > 3 or position > len(body):
            raise _damaged("quantization table")
        found |= _table("quantization", number)
    return found


@lru_cache(maxsize=64)
def _huffman_tables(body: bytes) -> int:
    found = position = 0
    while position < len(body):
        kind, number = divmod(body[position], 16)
        counts = body[position + 1 : position + 17]
        symbols = body[position + 17 : position + 17 + sum(counts)]
        position += 17 + sum(counts)
        if kind > 1 or number > 3 or position > len(body) or len(symbols) > 256:
            raise _damaged("Huffman table")
        code = 0
        for bits, count in enumerate(counts[: len(counts.rstrip(b"\0"))], 1):
            code += count
            if code >= 1 << bits:  # JPEG reserves the code of all ones
                raise _damaged("Huffman table with too many codes")
            code <<= 1
        if kind == 0 and max(symbols, default=0) > 15:
            raise _damaged("Huffman table with a symbol that is none")
        found |= _table("ac" if kind else "dc", number)
    return found


@lru_cache(maxsize=64)
def _frame(marker: int, body: bytes) -> _Frame:
    if len(body) < _FRAME.size:
        raise _damaged("frame header")
    _, height, width, count = _FRAME.unpack_from(body)
    fields = body[_FRAME.size :]
    components = {
        name: _Component(*divmod(sampling, 16), table)
        for name, sampling, table in zip(fields[::3], fields[1::3], fields[2::3], strict=False)
    }
    if count not in (1, 3, 4) or len(components) != count or len(fields) != 3 * count:
        raise _damaged("components")
    if not (0 < height <= _MAX_EDGE and 0 < width <= _MAX_EDGE):
        raise _damaged(f"{width}x{height} pixels")
    across, down = _largest_sampling(components)
    for component in components.values():
        factors = component.across, component.down
        if not all(1 <= factor <= 4 for factor in factors):
            raise _damaged("sampling factors")
        if across % component.across or down % component.down:
            raise _damaged("fractions of sampling factors")
    return _Frame(height, width, marker in _PROGRESSIVE, marker in _ARITHMETIC, components)


def _largest_sampling(components: dict[int, _Component]) -> tuple[int, int]:
    across, down, _ = zip(*components.values(), strict=True)
    return max(across), max(down)


@lru_cache(maxsize=64)
def _scan(frame: _Frame, body: bytes, tables: int) -> tuple[frozenset[int], int]:
    """Check the header of a scan; return its components, and how few bits its pixels can have."""
    names = body[1:-3:2]
    if len(body) < 6 or body[0] != len(names) or len(body) != 4 + 2 * len(names):
        raise _damaged("scan header")
    if len(set(names)) < len(names) or not frame.components.keys() >= set(names):
        raise _damaged("scan of a component that is none")
    first, last, approximation = body[-3:]
    high, low = divmod(approximation, 16)
    if frame.progressive and (
        low > 13
        or (high and high != low + 1)
        or (last != 0 if first == 0 else len(names) > 1 or not first <= last < 64)
    ):
        raise _damaged("progression of scans")
    needed = [("quantization", frame.components[name].quantization) for name in names]
    # Motion-JPEG has no Huffman tables at all, and decoders take those of T.81.
    if not frame.arithmetic and tables & _HUFFMAN_TABLES:
        for numbers in body[2:-3:2]:
            dc, ac = divmod(numbers, 16)
            needed += [("dc", dc)] * (not frame.progressive or first == high == 0)
            needed += [("ac", ac)] * (not frame.progressive or first > 0)
    for kind, number in needed:
        if not tables & _table(kind, number):
            raise _damaged(f"no {kind} table {number}")
    # Huffman codes of a block of a sequential scan are at least two bits: DC, and end of block.
    least = 2 * _blocks(frame, names)
    return frozenset(names), 0 if frame.progressive or frame.arithmetic else least


def _blocks(frame: _Frame, names: bytes) -> int:
    """How many blocks of 8 x 8 values a scan of these components has."""
    most_across, most_down = _largest_sampling(frame.components)
    components = [frame.components[name] for name in names]
    if len(components) == 1:  # T.81, A.2.2: blocks of the component; else units of all of them
        across, down, _ = components[0]
        columns = -(-frame.width * across // most_across)
        rows = -(-frame.height * down // most_down)
        return -(-columns // 8) * -(-rows // 8)
    unit = sum(across * down for across, down, _ in components)
    if unit > _MAX_BLOCKS:
        raise _damaged("sampling factors")
    return -(-frame.width // (8 * most_across)) * -(-frame.height // (8 * most_down)) * unit


# By color type, the values of a pixel and the bits that one may have: gray, RGB, palette, gray with
# alpha, RGB with alpha.
_PNG_COLORS = {0: (1, (1, 2, 4, 8, 16)), 2: (3, (8, 16)), 3: (1, (1, 2, 4, 8))}
_PNG_COLORS |= {4: (2, (8, 16)), 6: (4, (8, 16))}
_PNG_PALETTE = 3
_PNG_PALETTE_SIZES = range(3, 769, 3)
# width, height, bits, color type, methods of compression and filtering, interlace
_PNG_FIELDS = struct.Struct(">IIBBBBB")
_PNG_FILTERS = 5
# first column and row, and steps, of the passes of an interlaced image
_PNG_PASSES = (
    *((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4)),
    *((0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)),
)


def _require_png(data: bytes, header: ImageHeader) -> None:
    require_checksums(data, header)
    chunks = list(takewhile(lambda chunk: chunk[0] != b"IEND", png_chunks(data)))
    names = [name for name, _, _ in chunks]
    # An upper-case first letter marks the chunks that a reader must understand.
    others = {name for name in names if name[:1].isupper()} - {b"IHDR", b"PLTE", b"IDAT"}
    if others or names.count(b"IHDR") > 1 or b"IDAT" not in names:
        raise BadImage("damaged PNG: chunks that do not belong in one, or none of pixels")
    _, start, stop = chunks[0]
    if stop - start != _PNG_FIELDS.size:
        raise BadImage("damaged PNG: header")
    width, height, bits, color, *methods, interlace = _PNG_FIELDS.unpack_from(data, start)
    channels, all_bits = _PNG_COLORS.get(color, (0, ()))
    if bits not in all_bits or any(methods) or interlace > 1:
        raise BadImage("damaged PNG: header")
    first = names.index(b"IDAT")
    palettes = [stop - start for name, start, stop in chunks[:first] if name == b"PLTE"]
    if color == _PNG_PALETTE and (
        names.count(b"PLTE") != 1 or not palettes or palettes[0] not in _PNG_PALETTE_SIZES
    ):
        raise BadImage("damaged PNG: palette")
    rows = []  # how many, and of how many bytes
    for left, top, right, down in _PNG_PASSES if interlace else ((0, 0, 1, 1),):
        columns, count = -(-(width - left) // right), -(-(height - top) // down)
        if columns > 0 and count > 0:
            rows.append((count, 1 + -(-columns * channels * bits // 8)))
    # readers ignore IDAT chunks after another chunk
    pixels = takewhile(lambda chunk: chunk[0] == b"IDAT", chunks[first:])
    compressed = b"".join(data[start:stop] for _, start, stop in pixels)
    size = sum(count * length for count, length in rows)
    try:
        filtered = decompressobj().decompress(compressed, size)
    except ZlibError:
        raise BadImage("damaged PNG: compressed pixels") from None
    if len(filtered) < size:
        raise BadImage("damaged PNG: too few pixels")
    position = 0
    for count, length in rows:
        end = position + count * length
        if max(filtered[position:end:length]) >= _PNG_FILTERS:  # the first byte of each row
            raise BadImage("damaged PNG: filter of a row")
        position = end

"""Values in the columns of MDS: each encoding, as bytes and back.

Facts are those of ``streaming/base/format/mds/encodings.py`` of MosaicML Streaming 0.13.0. Numbers
are little-endian. An array has its dtype and its shape before its numbers, as far as the name of
its encoding does not tell them: a byte for the dtype; then ``ndim << 2 | code`` in a byte, and the
dimensions in ``1 << code`` bytes each. Arrays are read as lists of their numbers, row by row.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod

from dsprep.errors import BadSample
from dsprep.sample import Value
from dsprep.schema import OBJECTS
from dsprep.tuples import NamedTuple

_SCALARS = {
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}
"""The letter that :mod:`struct` has for each dtype."""

_DTYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
_LISTS = {"float16": "list<float32>", "float32": "list<float32>", "float64": "list<float64>"}
_IMAGES = ("jpeg", "png", "pil")  # a column of an image; a list of them is `list[jpeg]`
_PIL = struct.Struct("<III")  # width, height, and bytes of the mode


class Coding(NamedTuple):
    """How the values of a column are written and read."""

    size: int | None  # bytes of each value; None if they differ
    type: str | None  # the type of the values, one of `schema.TYPES`; None if values tell it
    encode: Callable[[Value], bytes]  # raises BadSample, struct.error or ValueError
    decode: Callable[[bytes], Value]  # raises struct.error or ValueError


class StoredArray(tuple[int | float, ...]):
    """Raw value: the numbers of an array, and the bytes that it has in its column."""

    data = b""


class StoredImage(bytes):
    """Raw value: an image as a PNG, and the bytes that it has in its column."""

    data = b""


@lru_cache(maxsize=1024)
def coding_of(encoding: str, column: str = "") -> Coding:
    """Return how the values of a column of an encoding are written and read.

    Raises:
        ValueError: MDS has no such encoding, or dsprep does not read it.
    """
    if (encoding, column) == ("json", OBJECTS):
        return _JSON_OF_OBJECTS
    name, _, details = encoding.partition(":")
    if encoding in _PLAIN:
        return _PLAIN[encoding]
    if encoding in _SCALARS:
        kind = "int" if "int" in encoding else "float64" if encoding == "float64" else "float32"
        scalar = struct.Struct(f"<{_SCALARS[encoding]}")
        return Coding(scalar.size, kind, scalar.pack, lambda data: scalar.unpack(data)[0])
    if name == "ndarray":
        return _array_coding(details)
    raise ValueError(f"the encoding {encoding!r:.60} is unknown")


# Arrays


def _array_coding(details: str) -> Coding:
    dtype, _, sizes = details.partition(":")
    try:
        shape = tuple(map(int, sizes.split(","))) if sizes else ()
    except ValueError:
        shape = (0,)
    if (dtype and dtype not in _SCALARS) or (shape and min(shape) < 1):
        raise ValueError(f"the encoding 'ndarray:{details:.60}' is unknown")
    size = prod(shape) * struct.calcsize(_SCALARS[dtype]) if dtype and shape else None
    kind = _LISTS.get(dtype, "list<int>") if dtype else None
    encode, decode = partial(_encode_array, dtype, shape), partial(_decode_array, dtype, shape)
    return Coding(size, kind, encode, decode)


def _encode_array(dtype: str, shape: Sequence[int], values: Value) -> bytes:
    if isinstance(values, StoredArray):
        return values.data
    if not values:
        raise BadSample("is an empty list, which no array of MDS can be")
    if shape and prod(shape) != len(values):
        raise BadSample(f"has {len(values):,} numbers, and its column {prod(shape):,}")
    return _head_of_array(dtype, shape, values) + struct.pack(
        f"<{len(values)}{_SCALARS[dtype or _dtype_of(values)]}", *values
    )


def _head_of_array(dtype: str, shape: Sequence[int], values: Sequence[float]) -> bytes:
    """Return the dtype and the shape of a list, as far as its column does not tell them."""
    head = b""
    if not dtype:
        head += bytes([next(at for at, name in _DTYPES.items() if name == _dtype_of(values))])
    if not shape:
        code = next(code for code in range(4) if len(values) < 1 << (8 << code))
        head += bytes([1 << 2 | code]) + len(values).to_bytes(1 << code, "little")
    return head


def _dtype_of(values: Sequence[float]) -> str:
    return "int64" if all(isinstance(each, int) for each in values) else "float64"


def _decode_array(dtype: str, shape: Sequence[int], data: bytes) -> StoredArray:
    at = 0
    if not dtype:
        dtype, at = _DTYPES.get(data[0] if data else 0, ""), 1
    if not shape:
        ndim, code = (data[at] >> 2, data[at] & 3) if at < len(data) else (0, 0)
        stop = at + 1 + (ndim << code)
        sizes, at = data[at + 1 : stop], stop
        shape = [
            int.from_bytes(sizes[i : i + (1 << code)], "little")
            for i in range(0, len(sizes), 1 << code)
        ]
    if not dtype or not shape or len(data) - at != prod(shape) * struct.calcsize(_SCALARS[dtype]):
        raise ValueError("the array does not have the size that its head says")
    found = StoredArray(struct.unpack_from(f"<{prod(shape)}{_SCALARS[dtype]}", data, at))
    found.data = data
    return found


# Images


def _encode_pil(value: Value) -> bytes:
    if isinstance(value, StoredImage):
        return value.data
    from PIL import Image

    try:
        with Image.open(io.BytesIO(value)) as image:
            mode, pixels = image.mode.encode(), image.tobytes()
            return _PIL.pack(*image.size, len(mode)) + mode + pixels
    except Exception as error:  # on hostile bytes Pillow's plugins raise nearly anything
        raise BadSample(f"cannot be made bare pixels: {error}") from None


def decode_pil(data: bytes) -> StoredImage:
    """Make a PNG of bare pixels, which loses nothing."""
    from PIL import Image

    width, height, length = _PIL.unpack_from(data)
    at = _PIL.size + length
    if width * height > 8 * len(data):  # a mode has at least a bit for each pixel
        raise ValueError("an image of bare pixels that no PNG holds: it has too few bytes")
    try:
        mode = data[_PIL.size : at].decode()
        out = io.BytesIO()
        Image.frombytes(mode, (width, height), data[at:]).save(out, "PNG", compress_level=1)
    except Exception as error:
        raise ValueError(f"an image of bare pixels that no PNG holds: {error}") from None
    found = StoredImage(out.getvalue())
    found.data = data
    return found


def decode_images(head: int, data: bytes) -> tuple[bytes, ...]:
    """Return the images of a list: their number, their sizes, and then they."""
    (count,) = struct.unpack_from("<I", data, head)
    at = head + 4 + 4 * count
    if at > len(data):
        raise ValueError("a list of images is cut off")
    images = []
    for size in struct.unpack_from(f"<{count}I", data, head + 4):
        images.append(data[at : at + size])
        at += size
    if at != len(data):
        raise ValueError("a list of images does not have the size that its head says")
    return tuple(images)


def _encode_images(head: int, images: Sequence[bytes]) -> bytes:
    sizes = struct.pack(f"<{len(images) + 1}I", len(images), *map(len, images))
    return b"".join((bytes(head), sizes, *images))


# All others


def _as_it_is(value: Value) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _encode_json(value: Value) -> bytes:
    """Write what JSON said; text is JSON already."""
    if isinstance(value, bytes):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _encode_plain_json(value: Value) -> bytes:
    return _encode_json(value) if isinstance(value, tuple) else _as_it_is(value)


def _decode_json(data: bytes) -> Value:
    """Return a list of texts, such as captions, as it is; all other JSON as bytes."""
    if data[:2] not in (b'["', b"[]"):
        return data
    try:
        texts = tuple(json.loads(data))
    except (ValueError, RecursionError):
        return data
    if not all(type(each) is str for each in texts):
        return data
    try:
        return texts if _encode_json(texts) == data else data  # written again, the same bytes
    except UnicodeEncodeError:  # half a character
        return data


# the values tell whether they are objects, which other JSON of this name is not
_JSON_OF_OBJECTS = Coding(None, None, _encode_json, json.loads)

_PLAIN: dict[str, Coding] = {
    "bytes": Coding(None, None, _as_it_is, lambda data: data),
    "str": Coding(None, "text", str.encode, bytes.decode),
    "int": Coding(8, "int", struct.Struct("<q").pack, lambda data: struct.unpack("<q", data)[0]),
    "json": Coding(None, "json", _encode_plain_json, _decode_json),
    "str_int": Coding(None, "int", _as_it_is, lambda data: int(data.decode())),
    "str_float": Coding(None, "float64", _as_it_is, lambda data: float(data.decode())),
    "str_decimal": Coding(None, "text", str.encode, bytes.decode),
    "jpeg": Coding(None, "image", _as_it_is, lambda data: data),
    "png": Coding(None, "image", _as_it_is, lambda data: data),
    "pil": Coding(None, "image", _encode_pil, decode_pil),
}
for _name in ("jpeg_array", "jpegarray"):
    _PLAIN[_name] = Coding(
        None, "list<bytes>", partial(_encode_images, 0), partial(decode_images, 0)
    )
for _name in ("list[jpeg]", "list[png]"):
    _PLAIN[_name] = Coding(
        None, "list<bytes>", partial(_encode_images, 4), partial(decode_images, 4)
    )
_PLAIN["list[pil]"] = Coding(
    None,
    "list<bytes>",
    lambda images: _encode_images(4, tuple(map(_encode_pil, images))),
    lambda data: tuple(map(decode_pil, decode_images(4, data))),
)

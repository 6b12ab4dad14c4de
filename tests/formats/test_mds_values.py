"""Values of MDS: bytes of the real encodings, and hostile ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsprep.errors import BadSample
from dsprep.formats.mds_values import coding_of
from tests.images import png

SCALARS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64")


@pytest.mark.parametrize("dtype", [*SCALARS, *FLOATS])
def test_numbers_are_those_of_numpy(dtype: str) -> None:
    coding = coding_of(dtype)
    assert coding.encode(3) == np.dtype(dtype).type(3).tobytes()
    assert coding.decode(coding.encode(3)) == 3
    assert coding.size == np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", [*SCALARS, *FLOATS])
@pytest.mark.parametrize("count", [1, 255, 256, 65_536])
def test_arrays_have_the_head_of_their_size(dtype: str, count: int) -> None:
    coding, values = coding_of(f"ndarray:{dtype}"), np.zeros(count, dtype)
    code = 0 if count < 256 else 1 if count < 65_536 else 2
    head = bytes([4 | code]) + np.array([count], f"<u{1 << code}").tobytes()
    assert coding.encode(tuple(values.tolist())) == head + values.tobytes()
    found = coding.decode(head + values.tobytes())
    assert found == tuple(values.tolist())
    assert coding.encode(found) == head + values.tobytes()


def test_arrays_of_any_dtype_and_shape() -> None:
    values = np.arange(6, dtype=np.int16).reshape(2, 3)
    data = bytes([17, 2 << 2, 2, 3]) + values.tobytes()
    coding = coding_of("ndarray")
    assert coding.decode(data) == tuple(range(6))
    assert coding.encode(coding.decode(data)) == data
    assert coding.encode((1, 2))[:3] == bytes([65, 4, 2])
    assert coding.encode((0.5,))[:3] == bytes([66, 4, 1])


def test_lists_that_no_array_can_be() -> None:
    with pytest.raises(BadSample, match="empty list"):
        coding_of("ndarray:int64").encode(())
    with pytest.raises(BadSample, match="has 2 numbers, and its column 6"):
        coding_of("ndarray:int16:2,3").encode((1, 2))


@pytest.mark.parametrize(
    "encoding", ["", "x", "ndarray:str", "ndarray:int8:0", "ndarray:int8:a", "int:3", "ndarray:x:2"]
)
def test_unknown_encodings(encoding: str) -> None:
    with pytest.raises(ValueError, match="is unknown"):
        coding_of(encoding)


ENCODINGS = [
    *("ndarray", "ndarray:float32", "ndarray:int16:2,3", "list[jpeg]", "list[pil]", "jpeg_array"),
    *("pil", "str", "str_int", "str_float", "int", "float16", "json", "jpeg"),
]


@given(data=st.binary(max_size=40), encoding=st.sampled_from(ENCODINGS))
def test_any_bytes_are_a_value_or_an_error(data: bytes, encoding: str) -> None:
    coding = coding_of(encoding)
    with suppress(ValueError, struct.error, OverflowError):
        coding.decode(data)


def images(sizes: Sequence[int]) -> tuple[bytes, ...]:
    return tuple(png(seed=size, size=(size, 3)) for size in sizes)


@pytest.mark.parametrize("encoding", ["list[jpeg]", "list[png]", "jpeg_array", "jpegarray"])
def test_lists_of_images(encoding: str) -> None:
    coding, several = coding_of(encoding), images((2, 5))
    data: Any = coding.encode(several)
    assert coding.decode(data) == several
    for wrong in (data[:-1], data + b"x", data[:5]):
        with pytest.raises((ValueError, struct.error)):
            coding.decode(wrong)


def test_bare_pixels_are_read_as_png_and_written_as_they_were() -> None:
    coding = coding_of("pil")
    data = struct.pack("<III", 2, 1, 3) + b"RGB" + bytes(range(6))
    found = coding.decode(data)
    assert found[:4] == b"\x89PNG"
    assert coding.encode(found) == data == coding.encode(bytes(found))
    with pytest.raises(ValueError, match="that no PNG holds"):
        coding.decode(data[:-1])
    with pytest.raises(ValueError, match="too few bytes"):  # before memory for it is taken
        coding.decode(struct.pack("<III", 1 << 16, 1 << 16, 1) + b"L")
    with pytest.raises(BadSample, match="cannot be made bare pixels"):
        coding.encode(b"x")

"""A class number or a label as text: what stands in a ``.cls`` or a ``.label.json``."""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import lru_cache

from dsprep.formats.floats import INT64
from dsprep.lst import format_number

_SHORT = 256
"""Bytes of what several samples may share; what is longer is each one's own, and not kept."""


def label_text(value: int | tuple[float, ...]) -> bytes:
    """Write a class number or a label."""
    if isinstance(value, int):
        return str(value).encode()
    # Packed, because 0.0 and -0.0 are the same to a cache, and their texts differ.
    packed = struct.pack(f"{len(value)}d", *value)
    return (_list_text if len(packed) <= _SHORT else _list_text.__wrapped__)(packed)


@lru_cache(maxsize=4096)
def _list_text(packed: bytes) -> bytes:
    values = struct.unpack(f"{len(packed) // 8}d", packed)
    return f"[{','.join(map(_number, values))}]".encode()


def _number(value: float) -> str:
    return "-0.0" if repr(value) == "-0.0" else format_number(value)


def parse_label(data: bytes) -> int | tuple[float, ...] | None:
    """Read the class number or the label whose text this is; None if that would be another text."""
    return (_parse if len(data) <= _SHORT else _parse.__wrapped__)(data)


@lru_cache(maxsize=4096)
def _parse(data: bytes) -> int | tuple[float, ...] | None:
    text = data.decode("ascii", "replace")
    with suppress(ValueError):
        is_list = text.startswith("[")
        value = tuple(map(float, text[1:-1].split(","))) if is_list else int(text)
        if (is_list or value in INT64) and label_text(value) == data:
            return value
    return None

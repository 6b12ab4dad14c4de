"""Typed values as JSON, one text for every value.

A float has a point or an exponent, because readers infer types from texts, and as few digits as
tell its 32 or 64 bits. ``NaN`` and ``Infinity`` are spelled as Python's :mod:`json` reads them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from functools import partial

from dsprep.sample import Value
from dsprep.schema import item_of

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def quote(text: str) -> str:
    """Write text."""
    return json.dumps(text, ensure_ascii=False)


def json_writer(kind: str) -> Callable[[Value], str]:
    """Return the function that writes values of a type as JSON; not for images and bytes."""
    item = item_of(kind)
    if item == "float32":
        return _float32_list
    if item is not None:
        return partial(_list, json_writer(item))
    return _WRITERS.get(kind, str)


def _list(write: Callable[[Value], str], values: Sequence[Value]) -> str:
    return f"[{','.join(map(write, values))}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _float32(value: float) -> str:
    return _float32s((value,))[0]


def _float32_list(values: Sequence[float]) -> str:
    return f"[{','.join(_float32s(values))}]"


def _float64(value: float) -> str:
    return _with_point(repr(value))


_WRITERS: dict[str, Callable[[Value], str]] = {
    "bool": _bool,
    "float32": _float32,
    "float64": _float64,
    "text": quote,
    "json": bytes.decode,
}


def _float32s(values: Sequence[float]) -> list[str]:
    """Write floats of 32 bits, with the fewest of six to nine digits that give the bits back.

    Whole numbers have all their digits: a reader may take them for what they are not otherwise.
    """
    try:
        packed = struct.pack(f"<{len(values)}f", *values)
    except OverflowError:  # a list may say more than 32 bits hold
        return list(map(_float64, values))
    texts = [repr(value) if value.is_integer() else "" for value in values]
    left = [at for at, text in enumerate(texts) if not text]
    for digits in range(6, 10):
        for at in left:
            texts[at] = f"{values[at]:.{digits}g}"
        read = struct.pack(f"<{len(values)}f", *map(float, texts))
        if read == packed:
            break
        left = [at for at in left if read[4 * at : 4 * at + 4] != packed[4 * at : 4 * at + 4]]
    return list(map(_with_point, texts))


def _with_point(text: str) -> str:
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    return text if "." in text or "e" in text else text + ".0"

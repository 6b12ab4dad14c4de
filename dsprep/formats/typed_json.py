"""Typed lists as JSON: what stands in a sample's ``.features.json``.

=============================================  ================================================
value                                          its text
=============================================  ================================================
`Ints`                                         ``[1,-2]``, ``{"ints":[]}``
`Floats`                                       ``[0.5,1e+10,NaN]``, ``{"floats":[]}``
`Floats` with a NaN that is not the usual one  ``{"float32":"0000c0ff"}``, little-endian
`Blobs`                                        ``["text","text"]``, ``[]``
`Blobs` that are not all UTF-8                 ``{"base64":["/w==","YQ=="]}``
bytes                                          ``"text"``, ``{"base64":"/w=="}``
=============================================  ================================================

A float has a point or an exponent and as few digits, of six to nine, as tell its 32 bits. There is
one text for every value: names sorted, no blanks.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, TypeAlias

from dsprep.formats.floats import INT64
from dsprep.sample import Blobs, Floats, Ints

Typed: TypeAlias = bytes | Ints | Floats | Blobs


def encode_typed(fields: Mapping[str, Typed]) -> bytes:
    """Write fields as JSON."""
    texts = (f"{_dumps(name)}:{_text(value)}" for name, value in sorted(fields.items()))
    return ("{" + ",".join(texts) + "}").encode()


def decode_typed(data: bytes) -> dict[str, Typed] | None:
    """Read the fields whose text this is; None if they would be written as another text."""
    try:
        values = json.loads(data.decode())
        fields = {name: _value(value) for name, value in values.items()}
        return fields if encode_typed(fields) == data else None
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, OverflowError):
        return None
    except struct.error:
        return None


def is_usual(values: tuple[float, ...]) -> bool:
    """Whether all NaNs among floats are the one that a text tells."""
    return all(value == value or struct.pack(">f", value) == _NAN for value in values)


_NAN = struct.pack(">f", float("nan"))


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _text(value: Typed) -> str:
    if isinstance(value, Ints):
        return _dumps(value) if value else '{"ints":[]}'
    if isinstance(value, Floats):
        return _floats_text(value)
    if isinstance(value, bytes):
        text = _decoded(value)
        return _dumps({"base64": _base64(value)} if text is None else text)
    texts = [_decoded(each) for each in value]
    return _dumps({"base64": list(map(_base64, value))} if None in texts else texts)


def _floats_text(value: Floats) -> str:
    if not value:
        return '{"floats":[]}'
    packed = struct.pack(f"<{len(value)}f", *value)
    if not is_usual(value):
        return _dumps({"float32": packed.hex()})
    texts = [""] * len(value)
    left = list(range(len(value)))
    for digits in range(6, 10):
        for at in left:
            texts[at] = f"{value[at]:.{digits}g}"
        read = struct.pack(f"<{len(value)}f", *map(float, texts))
        if read == packed:
            break
        left = [at for at in left if read[4 * at : 4 * at + 4] != packed[4 * at : 4 * at + 4]]
    return f"[{','.join(map(_json_float, texts))}]"


def _json_float(text: str) -> str:
    if text[-1] in "nf":
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]
    return text if "." in text or "e" in text else text + ".0"


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _value(value: Any) -> Typed:
    """The value that a text tells.

    Raises:
        ValueError: If it tells none; so do others that :func:`decode_typed` knows.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        ((kind, values),) = value.items()
        if kind == "float32":
            packed = bytes.fromhex(values)
            return Floats(struct.unpack(f"<{len(packed) // 4}f", packed))
        if kind == "base64" and isinstance(values, str):
            return b64decode(values)
        if kind == "base64":
            return Blobs(map(b64decode, values))
        empty: dict[str, Typed] = {"ints": Ints(), "floats": Floats()}
        return empty[kind]
    types = {type(each) for each in value}
    if types <= {str}:
        return Blobs(each.encode() for each in value)
    if types == {int} and all(each in INT64 for each in value):
        return Ints(value)
    if types == {float}:
        return Floats(struct.unpack(f"<{len(value)}f", struct.pack(f"<{len(value)}f", *value)))
    raise ValueError("a list of nothing that a feature holds")

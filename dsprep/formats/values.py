"""Values and names as several formats write them: floats, JSON, labels, ``.lst``, extensions."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from dsprep.annotations.objects import Objects, to_json
from dsprep.errors import BadSample
from dsprep.sample import Value, image_kind_of
from dsprep.schema import Type

_WHOLE = 1 << 24  # up to it, 32-bit floats hold all whole numbers
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def as_floats(values: Sequence[float], what: str) -> tuple[float, ...]:
    """Return numbers as 32-bit floats hold them."""
    # They hold ever fewer whole numbers above. Fractions may be rounded; a whole number that
    # changed would be another class or id.
    layout = f"<{len(values)}f"
    try:
        rounded: tuple[float, ...] = struct.unpack(layout, struct.pack(layout, *values))
    except OverflowError:
        raise BadSample(f"{what} is {values!r:.60}, which is beyond 32-bit floats") from None
    # most lists hold small whole numbers: the fast path
    if values and max(values) <= _WHOLE and min(values) >= -_WHOLE:
        return rounded
    for number, as_float in zip(values, rounded, strict=True):
        if number != as_float and number % 1 == 0:
            raise BadSample(f"{what} is {int(number)}, which 32-bit floats do not hold exactly")
    return rounded


# JSON: one text for every value. A float has a point or an exponent, because readers infer types
# from texts, and as few digits as tell its 32 or 64 bits. Python's json reads NaN and Infinity.


def quote(text: str) -> str:
    """Write text."""
    return json.dumps(text, ensure_ascii=False)


def json_writer(kind: Type) -> Callable[[Value], str]:
    """Return the function that writes values of a type as JSON; not for images and bytes."""
    if kind.of is Objects:
        return to_json
    if kind.is_list and kind.code == "f":
        return lambda values: f"[{','.join(_float32s(values))}]"
    if kind.is_list:
        write = json_writer(kind.item)
        return lambda values: f"[{','.join(map(write, values))}]"
    if kind.of is bool:
        return lambda value: "true" if value else "false"
    if kind.of is float:
        return _float64 if kind.bits == 64 else lambda value: _float32s((value,))[0]
    if kind.of is bytes:
        return bytes.decode
    return quote if kind.of is str else str


def _float64(value: float) -> str:
    return _with_point(repr(value))


def _float32s(values: Sequence[float]) -> list[str]:
    """Write floats of 32 bits, with the fewest of six to nine digits that give the bits back."""
    # Whole numbers keep all digits: with an exponent, a reader may take them for something else.
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


def key_in(name: str) -> str:
    """Return the key that a name tells: after the last slash, without dots and without `.jpg`."""
    directory, slash, base = name.rpartition("/")
    if image_kind_of(base):
        base = base.rpartition(".")[0] or base
    return directory + slash + base.replace(".", "_") if base else ""


# The ``.lst`` that is written beside shards: id, label and path of each sample.


def format_number(value: float) -> str:
    """Write a label: a whole number without a point, any other as its shortest exact decimal."""
    return str(int(value)) if abs(value) < 1e16 and value == int(value) else repr(value)


def fits_lst(path: str) -> bool:
    """Whether a ``.lst`` can name a path: readers split lines at tabs and strip each field."""
    return path == path.strip() and not ("\t" in path or "\n" in path or "\r" in path)


def format_lst(
    ids: Sequence[int],
    labels: Sequence[int] | Sequence[tuple[float, ...]] | None,
    paths: Sequence[str],
) -> str:
    """Write a ``.lst``: id, labels and path of each sample, separated by tabs."""
    lines = []
    column: Sequence[int | tuple[float, ...]] = [0] * len(ids) if labels is None else labels
    for id, label, path in zip(ids, column, paths, strict=True):
        text = str(label) if isinstance(label, int) else "\t".join(map(format_number, label))
        lines.append(f"{id}\t{text}\t{path}\n")
    return "".join(lines)


# Names of fields as extensions of files and members, and back.

MAX_NAME = 1 << 16  # bytes of a key or an extension; readers take a longer one for an attack

_UNFIT = r"[/\x00-\x1f\x7f\ud800-\udfff]"
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_.-")

# Readers of WebDataset make extensions lower case, and a name may not hold a ``/``. A field whose
# name cannot be an extension is escaped: ``image/object/mask`` is ``KEY.image%2fobject%2fmask``.


@lru_cache(maxsize=4096)
def extension_of(name: str) -> str:
    """Return the extension for a field's name: the name itself where possible."""
    if 3 * len(name.encode()) > MAX_NAME:
        raise BadSample(f"a field whose name has {len(name.encode())} bytes")
    if name == name.lower() and not re.search(_UNFIT, name) and field_of(name) == name:
        return name
    return "".join(chr(byte) if byte in _KEPT else f"%{byte:02x}" for byte in name.encode())


@lru_cache(maxsize=4096)
def field_of(extension: str) -> str:
    """Return the name of the field that an extension tells: itself if nothing is escaped in it."""
    if "%" not in extension or len(extension.encode()) > MAX_NAME // 3:
        return extension
    try:
        name = unquote_to_bytes(extension).decode()
    except UnicodeDecodeError:
        return extension
    return name if name != extension and extension_of(name) == extension else extension

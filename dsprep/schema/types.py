"""Types of fields: what a typed value is, and how a raw value becomes one.

A new type of a field is one line of :data:`TYPES`; formats go by its attributes.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from dsprep.sample import Blobs, Value


class Type(NamedTuple):
    """A type of fields."""

    name: str
    what: str  # what users call a value
    # makes a typed value of a raw one; None for a missing value. Raises ValueError.
    convert: Callable[[Value], Value | None]
    of: type  # the Python type of a value, or of the items of a list
    dtype: str  # Arrow's name of a value or an item, which Hugging Face uses, too
    bits: int = 64  # of a float
    is_list: bool = False

    @property
    def item(self) -> Type:
        """The type of the items of a list; any other type itself."""
        return TYPES[self.name[len("list<") : -1]] if self.is_list else self

    @property
    def is_number(self) -> bool:
        """Whether values are numbers or lists of numbers."""
        return self.of in (int, bool, float)

    @property
    def is_integer(self) -> bool:
        """Whether a value is one whole number: a class, a bool or an int."""
        return self.of in (int, bool) and not self.is_list

    @property
    def is_bytes(self) -> bool:
        """Whether a value is one string of bytes: an image, JSON or any other."""
        return self.of is bytes and not self.is_list

    @property
    def is_label(self) -> bool:
        """Whether a label may be of this type."""
        return self.is_number or self.name == "text"

    @property
    def code(self) -> str:
        """The letter that :mod:`struct` has for numbers of this type; empty for other types."""
        return {int: "q", bool: "q", float: "f" if self.bits == 32 else "d"}.get(self.of, "")


def single(value: Value) -> Value | None:
    """Return the one item of a raw list, or None if it is empty."""
    if isinstance(value, tuple | list):
        if len(value) > 1:
            raise ValueError
        return value[0] if value else None
    return value


def _to_bytes(value: Value) -> bytes | None:
    value = single(value)
    if isinstance(value, str):
        return value.encode()
    if value is not None and not isinstance(value, bytes):
        raise ValueError
    return value


def to_text(value: Value) -> str | None:
    """Make text of a raw value."""
    value = single(value)
    if isinstance(value, bytes):
        return value.decode()
    if value is not None and not isinstance(value, str):
        raise ValueError
    return value


def _to_json(value: Value) -> bytes | None:
    if isinstance(value, dict | list) or (isinstance(value, tuple) and type(value) is not Blobs):
        return json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), default=_in_base_64
        ).encode()
    data = _to_bytes(value)
    if data is not None:
        json.loads(data)
    return data


def _in_base_64(value: Value) -> str:
    if not isinstance(value, bytes):
        raise ValueError
    return base64.b64encode(value).decode()


def _to_number(value: Value) -> int | float | None:
    value = single(value)
    if isinstance(value, bytes | str):
        value = single(parse_label(value))
    if value is not None and not isinstance(value, int | float):
        raise ValueError
    return value


def to_int(value: Value) -> int | None:
    """Make a whole number of a raw value."""
    number = _to_number(value)
    if number is None:
        return None
    # Not "in range": that goes through all its numbers to find a float.
    if not -(1 << 63) <= number < 1 << 63 or number != int(number):
        raise ValueError
    return int(number)


def _to_bool(value: Value) -> bool | None:
    number = _to_number(value)
    if number not in (None, 0, 1):
        raise ValueError
    return None if number is None else bool(number)


def _to_float64(value: Value) -> float | None:
    number = _to_number(value)
    if isinstance(number, int) and float(number) != number:
        raise ValueError
    return None if number is None else float(number)


def _to_float32(value: Value) -> float | None:
    number = _to_number(value)
    if number is None:
        return None
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        raise ValueError from None
    # A fraction may be rounded; a whole number that changes would be another class or id.
    if rounded != number and number % 1 == 0:
        raise ValueError
    return rounded


def _are_exact(values: tuple[Value, ...], item: Callable[[Value], Value | None]) -> bool:
    """Whether the items of a list need no conversion, as those of embeddings: many at once."""
    kinds = set(map(type, values))
    if kinds == {int} and item is to_int:
        return bool(min(values) >= -(1 << 63) and max(values) < 1 << 63)
    if kinds != {float} or item is not _to_float32:
        return kinds == {float} and item is _to_float64
    layout = f"<{len(values)}f"
    try:
        return bool(struct.unpack(layout, struct.pack(layout, *values)) == values)
    except OverflowError:
        return False


def _to_list(item: Callable[[Value], Value | None], value: Value) -> tuple[Value, ...] | None:
    if isinstance(value, bytes | str):
        value = parse_label(value) if item is not to_text and item is not _to_bytes else (value,)
    if value is None:
        return None
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    if _are_exact(values, item):
        return values
    items = tuple(map(item, values))
    if None in items:
        raise ValueError
    return items


_SCALARS = (
    Type("image", "an encoded image", _to_bytes, bytes, "binary"),
    Type("class", "a class number", to_int, int, "int64"),
    Type("bool", "true or false", _to_bool, bool, "bool"),
    Type("int", "a whole number from -2^63 to 2^63-1", to_int, int, "int64"),
    Type("float32", "a 32-bit float", _to_float32, float, "float32", bits=32),
    Type("float64", "a 64-bit float", _to_float64, float, "float64"),
    Type("text", "UTF-8 text", to_text, str, "string"),
    Type("json", "JSON", _to_json, bytes, "string"),
    Type("bytes", "bytes", _to_bytes, bytes, "binary"),
)
_ITEMS = ("int", "float32", "float64", "text", "bytes")
TYPES: Mapping[str, Type] = {each.name: each for each in _SCALARS} | {
    f"list<{each.name}>": each._replace(
        name=f"list<{each.name}>",
        what=f"a list in which each item is {each.what}",
        convert=partial(_to_list, each.convert),
        is_list=True,
    )
    for each in _SCALARS
    if each.name in _ITEMS
}
"""Every type by its name."""


_WIDER = {
    frozenset({"class", "int"}): "class",
    frozenset({"bool", "int"}): "int",
    frozenset({"class", "float32"}): "float32",
    frozenset({"class", "float64"}): "float64",
    frozenset({"int", "float32"}): "float32",
    frozenset({"int", "float64"}): "float64",
    frozenset({"float32", "float64"}): "float64",
    frozenset({"text", "bytes"}): "bytes",
    frozenset({"text", "json"}): "text",
    frozenset({"image", "bytes"}): "bytes",
}


def join(one: str, other: str) -> str | None:
    """Return the type that holds the values of two types; None if there is none."""
    if one == other:
        return one
    items = frozenset({TYPES[one].item.name, TYPES[other].item.name})
    joined = next(iter(items)) if len(items) == 1 else _WIDER.get(items)
    if joined is None or "list" not in one + other:
        return joined
    joined = "int" if joined in ("class", "bool") else joined
    return f"list<{joined}>" if f"list<{joined}>" in TYPES else None


def parse_label(data: bytes | str) -> int | float | str | list[Any]:
    r"""Return the number, the numbers, or the name that the text of a label says.

    ``3\n`` and `` 3 `` are 3, as webdataset's ``int(data)`` reads them.
    """
    text = (data.decode() if isinstance(data, bytes) else data).strip()
    if not text:
        raise ValueError("is empty")
    try:
        return int(text)
    except ValueError:
        pass
    if text[0] in "[-+.0123456789" or text in ("NaN", "Infinity"):
        try:
            found = json.loads(text) if text[0] == "[" else float(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(found, float) or all(type(each) in (int, float) for each in found):
            return found
    return text

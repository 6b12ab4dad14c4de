"""Values in chunks of litdata: which fields a sample has, and how their bytes are read.

Facts are those of ``streaming/serializers.py`` and ``utilities/_pytree.py`` of litdata 0.2.76.
Numbers are little-endian, except in the head of a tensor: it is big-endian; until 0.2.45 it was
not. Arrays are read as lists of their numbers, row by row.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

from dsprep.formats.mds_values import decode_images, decode_pil
from dsprep.sample import Floats, Value
from dsprep.tuples import NamedTuple


class TreeColumn(NamedTuple):
    """A field of samples: a leaf of the tree that each is, or several that are one list."""

    name: str
    serializer: str  # what wrote the leaves, such as `int` or `no_header_numpy:9`
    leaves: int | None  # how many are in the list; None for a value that is no list


class Decoding(NamedTuple):
    """How the bytes that a serializer wrote are read."""

    type: str | None  # the type of the values, one of `schema.TYPES`; None if values tell it
    decode: Callable[[bytes], Value]  # raises struct.error, ValueError or RecursionError


@lru_cache(maxsize=1024)
def decoding_of(serializer: str) -> Decoding:
    """Return how the bytes that a serializer wrote are read.

    Raises:
        ValueError: It is unknown, or has pickled them.
    """
    name, _, detail = serializer.partition(":")
    if name in ("pickle", "graph"):
        raise ValueError(
            "is pickled, and reading it would run code that the chunks hold: write numbers, texts, "
            "bytes or arrays"
        )
    if name in _PLAIN:
        return _PLAIN[name]
    letter = _BARE.get(name, {}).get(int(detail) if detail.isdecimal() else -1)
    if letter is None:
        raise ValueError(f"is of the serializer {serializer!r:.60}, which dsprep does not read")
    item = {"e": "float32", "f": "float32", "d": "float64"}.get(letter, "int")
    return Decoding(f"list<{item}>", partial(_numbers, letter, None))


# The tree that a sample is

_KEYED = ("builtins.dict", "collections.OrderedDict")
_DEFAULT_DICT = "collections.defaultdict"
_LISTED = ("builtins.list", "builtins.tuple", "collections.deque", "collections.namedtuple")
_ITEMS = ("int", "float", "str")  # what wrote the items of a list


def columns_of(spec: str | None, serializers: Sequence[str]) -> list[TreeColumn]:
    """Return the columns of samples that are trees.

    The name of a leaf is the keys that lead to it, with ``/`` between; an item of a list or a tuple
    has its position, from 0. Lists of numbers or of texts are one column.

    Args:
        spec: The tree as ``treespec_dumps`` writes it; None for a value alone.
        serializers: What wrote the leaves, in their order.

    Raises:
        ValueError: The tree is none, or has another number of leaves.
    """
    version, root = json.loads(spec) if spec else (1, {"type": None, "children_spec": []})
    if version != 1:
        raise ValueError(f"its tree of values has the version {version!r:.20}")
    left = iter(serializers)
    columns = [*_columns_at(root, (), left)]
    names = {column.name.encode() for column in columns}  # half a surrogate pair is no name
    if next(left, None) is not None or len(names) < len(columns):
        raise ValueError("its tree has too few values, or two of the same name")
    return columns


def _columns_at(
    node: Mapping[str, Any], path: tuple[str, ...], left: Iterator[str]
) -> Iterator[TreeColumn]:
    children = node["children_spec"]
    if node["type"] is None:
        serializer = next(left, None)
        if serializer is None:
            raise ValueError("its tree has more values than there are serializers")
        if not isinstance(serializer, str):
            raise ValueError(f"a serializer is {serializer!r:.60}, which is no text")
        yield TreeColumn("/".join(path) or "0", serializer, None)
        return
    keys = _keys_of(node)
    found = [
        column
        for key, child in zip(keys, children, strict=True)
        for column in _columns_at(child, (*path, str(key)), left)
    ]
    kinds = {column.serializer for column in found}
    are_items = len(found) == len(children) and all(each["type"] is None for each in children)
    if path and node["type"] in _LISTED and are_items and len(kinds) == 1 and kinds <= {*_ITEMS}:
        yield TreeColumn("/".join(path), kinds.pop(), len(found))
    else:
        yield from found


def _keys_of(node: Mapping[str, Any]) -> Sequence[object]:
    kind, context = node["type"], node["context"]
    if kind in _LISTED:
        return range(len(node["children_spec"]))
    if kind in _KEYED or kind == _DEFAULT_DICT:
        keys = context["dict_context"] if kind == _DEFAULT_DICT else json.loads(context)
        if isinstance(keys, list):
            return keys
    raise ValueError(f"its tree has a node of {kind!r:.60}, which dsprep does not know")


# Arrays

# the letters that :mod:`struct` has for the numbers of dtypes (litdata, constants.py); missing are
# those that no list holds: complex numbers, bfloat16, objects
_NUMPY = dict(enumerate("bhiqBHIQefd")) | {13: "B"}
_TORCH = {0: "f", 1: "f", 2: "d", 3: "d", 8: "e", 9: "e"} | dict(enumerate("BbhhiiqqBH", 11))
_BARE = {"no_header_numpy": _NUMPY, "no_header_tensor": _TORCH}
_MOST_DIMENSIONS = 64  # NPY_MAXDIMS of NumPy 2; torch has the same limit


def _decode_array(data: bytes) -> Value:
    return _shaped(_NUMPY, "<", data)


def _decode_tensor(data: bytes) -> Value:
    # the numbers of the dtype and of dimensions are small: three of four bytes are zeros
    is_big = data[:3] == data[4:7] == bytes(3)
    return _shaped(_TORCH, ">" if is_big else "<", data)


def _shaped(letters: Mapping[int, str], order: str, data: bytes) -> Value:
    """Read an array behind its dtype, its number of dimensions, and these."""
    dtype, ndim = struct.unpack_from(f"{order}II", data)
    if ndim > _MOST_DIMENSIONS:  # the product of very many takes hours
        raise ValueError(f"an array of {ndim} dimensions, which no array has")
    if dtype not in letters:
        raise ValueError(f"an array of the dtype {dtype}, which no list of numbers holds")
    shape = struct.unpack_from(f"{order}{ndim}I", data, 8)
    return _numbers(letters[dtype], shape, data[8 + 4 * ndim :])


def _numbers(letter: str, shape: Sequence[int] | None, data: bytes) -> Value:
    count, rest = divmod(len(data), struct.calcsize(letter))
    if rest or (shape is not None and prod(shape) != count):
        raise ValueError("the array does not have the size that its head says")
    found = struct.unpack(f"<{count}{letter}", data)
    if shape == ():
        return found[0]
    return Floats(found) if letter in "ef" else found


# JSON


def _decode_json(data: bytes) -> Value:
    if not data or data[0] > 0x20:  # JSON itself, as older versions wrote it
        return json.loads(data)
    nested = _Nested(data)
    value = nested.value()
    if nested.take(1):
        raise ValueError("bytes follow the value")
    return value


class _Nested:
    """Values that JSON can hold, each behind a byte that tells its kind."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """Return the next bytes; fewer at the end."""
        found = self._data[self._at : self._at + count]
        self._at += len(found)
        return found

    def value(self) -> Value:
        """Read the next value."""
        (kind,) = self._numbers("B")
        if kind in _LISTS_OF_NUMBERS:
            return self._numbers(_LISTS_OF_NUMBERS[kind], self._count())
        if kind == 0:
            return json.loads(self.take(self._count()))
        if kind == 1:
            return [self._text() for _ in range(self._count())]
        if kind == 4:
            return [bool(each) for each in self._numbers("B", self._count())]
        if kind == 5:
            return {self._text(): self.value() for _ in range(self._count())}
        return self._records() if kind == 6 else self._scalar(kind)

    def _records(self) -> Value:
        rows = self._count()
        keys = [self._text() for _ in range(self._count())]
        if not keys:
            raise ValueError("records without keys")
        return [{key: self._scalar(*self._numbers("B")) for key in keys} for _ in range(rows)]

    def _scalar(self, kind: int) -> Value:
        if kind in (11, 16):
            return None
        if kind in (7, 17):
            return self._text()
        if kind in (10, 20):
            return self._numbers("B")[0] != 0
        if kind not in _NUMBERS:
            raise ValueError(f"a value of the kind {kind}")
        return self._numbers(_NUMBERS[kind])[0]

    def _count(self) -> int:
        count: int = self._numbers("I")[0]
        return count

    def _text(self) -> str:
        count = self._count()
        data = self.take(count)
        if len(data) < count:
            raise ValueError("a text is cut off")
        return data.decode()

    def _numbers(self, letter: str, count: int = 1) -> Sequence[Any]:
        return struct.unpack(f"<{count}{letter}", self.take(count * struct.calcsize(f"<{letter}")))


_LISTS_OF_NUMBERS = {2: "q", 3: "d"}
_NUMBERS = {8: "q", 18: "q", 9: "d", 19: "d"}


# All others


def _as_it_is(data: bytes) -> Value:
    return data


def _number(layout: str) -> Callable[[bytes], Value]:
    unpack = struct.Struct(layout).unpack
    return lambda data: unpack(data)[0]


_TEXT, _IMAGE = Decoding("text", bytes.decode), Decoding("image", _as_it_is)
_FILE = Decoding("bytes", _as_it_is)
_PLAIN = {
    "str": _TEXT,
    "text": _TEXT,
    "bool": Decoding("bool", _number("<?")),
    "int": Decoding("int", _number("<q")),
    "float": Decoding("float64", _number("<d")),
    "bytes": Decoding(None, _as_it_is),
    "file": Decoding(None, _as_it_is),
    "jpeg": _IMAGE,
    "image": _IMAGE,
    "tiff": _IMAGE,
    "tifffile": _IMAGE,
    "pil": Decoding("image", decode_pil),
    "jpeg_array": Decoding("list<bytes>", partial(decode_images, 0)),
    "numpy": Decoding(None, _decode_array),
    "tensor": Decoding(None, _decode_tensor),
    "json": Decoding(None, _decode_json),
    **dict.fromkeys(("audio", "mesh", "nifti", "pdf", "video"), _FILE),
}

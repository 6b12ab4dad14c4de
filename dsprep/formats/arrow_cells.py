"""The values of a sample's fields as the cells of a Parquet file's columns."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsprep.errors import BadSample
from dsprep.formats.arrow_columns import KEY, LAST
from dsprep.formats.arrow_types import FILES, FLOATS, INTEGERS, item_of
from dsprep.formats.floats import require_exact
from dsprep.sample import IMAGE_KINDS, UNKNOWN_IMAGE, Blobs, Floats, Ints, Sample, Value, key_of

if TYPE_CHECKING:
    from dsprep.formats.parquet import Parquet

Scalar: TypeAlias = bool | int | float | str | bytes
Cell: TypeAlias = Scalar | list[Scalar] | dict[str, bytes | str | None]
"""A value as Arrow takes it."""

_LARGEST_BYTES = (1 << 31) - (1 << 20)
"""The size of a page of Parquet is a number of 31 bits, and a value lies in one page."""


def cells_of(sample: Sample, layout: Parquet) -> dict[str, Cell]:
    """A sample as a row: the cells by column, none for a null.

    Args:
        sample: The sample.
        layout: Says which columns there are.

    Raises:
        BadSample: If the sample has a field that no column holds.
    """
    kinds = layout.kind_of
    found: dict[str, Cell] = {}
    for name, value in columns_of(sample, layout).items():
        if name in kinds:
            try:
                found[name] = cell_of(value, kinds[name], layout.classes)
            except BadSample as error:
                raise BadSample(f"the field {name!r} {error}") from None
            continue
        owner = name.removesuffix(".path")
        if kinds.get(owner) not in FILES or not isinstance(value, bytes):
            raise BadSample(f"the data set has no column for its field {name!r}")
        cell = found.setdefault(owner, {"bytes": None, "path": None})
        assert isinstance(cell, dict)
        cell["path"] = _utf8(value)
    image = found.get(layout.image)
    if isinstance(image, dict):
        image["path"] = path_of(sample) if image["path"] is None else image["path"]
    return found


def columns_of(sample: Sample, layout: Parquet) -> dict[str, Value]:
    """A sample's fields by the columns that hold them."""
    found: dict[str, Value] = {}
    image = sample.image()
    for name, value in sample.fields.items():
        if image is not None and name == image[0]:
            found[layout.image] = value
        elif name == _label_field(sample, layout):
            found[layout.label] = value
        elif name != "filename" or image is None or "filename" in layout.kind_of:
            found[name] = value
    if image is None or layout.kind_of.get(layout.image) == "binary":
        follows = False
    else:
        follows = key_of(path_of(sample)) == sample.key
    if not follows:
        found[KEY] = sample.key
    return found


def _label_field(sample: Sample, layout: Parquet) -> str | None:
    """The field that is in the column of labels: ``cls`` only where it has no column of its own."""
    if isinstance(sample.fields.get("label"), tuple):
        return "label"
    return "cls" if "cls" not in layout.kind_of else None


def path_of(sample: Sample) -> str:
    """The path of a sample's image: the file's name, or one of key and kind."""
    image, filename = sample.image(), sample.fields.get("filename")
    if isinstance(filename, str) and filename:
        return filename
    return f"{sample.key}.{image[0]}" if image else sample.key


def cell_of(value: Value, kind: str, classes: tuple[str, ...] | None) -> Cell:
    """The cell that holds a value in a column of a type.

    Raises:
        BadSample: If it would be another value there.
    """
    if kind in FILES:
        return {"bytes": _bytes(value), "path": None}
    if kind == "binary":
        return _bytes(value)
    if kind == "string":
        return value if isinstance(value, str) else _utf8(_bytes(value))
    item = item_of(kind)
    if item is None:
        if kind in FLOATS:
            return _float(_only(value, kind), kind)
        return _whole(_only(value, kind), kind, classes)
    if item == "binary" or item == "string":
        if not isinstance(value, Blobs):
            raise BadSample(f"is {_what(value)}, which a column of {kind} cannot hold")
        return [_utf8(each) if item == "string" else _bytes(each) for each in value]
    if not isinstance(value, tuple) or isinstance(value, Blobs):
        raise BadSample(f"is {_what(value)}, which a column of {kind} cannot hold")
    if item in FLOATS:
        return [_float(each, item) for each in value]
    return [_whole(each, item, None) for each in value]


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise BadSample(f"is {_what(value)}, which a column of bytes cannot hold")
    if len(value) > _LARGEST_BYTES:
        raise BadSample(f"has {len(value)} bytes, and Parquet holds at most {_LARGEST_BYTES}")
    return value


def _utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadSample("is not UTF-8, as a column of text has to be") from None


def _only(value: Value, kind: str) -> int | float:
    if isinstance(value, int):
        return value
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], int | float):
        return value[0]
    raise BadSample(f"is {_what(value)}, which a column of {kind} cannot hold")


def _whole(number: int | float, kind: str, classes: tuple[str, ...] | None) -> int | bool:
    lowest, highest = INTEGERS["int64"] if kind == "class" else INTEGERS.get(kind, (0, 1))
    if kind == "class" and classes is not None:
        lowest, highest = -1, len(classes) - 1  # -1 is Hugging Face's "without a class"
    if not isinstance(number, int) or not lowest <= number <= highest:
        raise BadSample(f"is {number!r}, and has to be a whole number from {lowest} to {highest}")
    return bool(number) if kind == "bool" else int(number)


def _float(number: int | float, kind: str) -> float:
    if isinstance(number, int):
        raise BadSample(f"is the whole number {number}, which a column of {kind} would change")
    if kind == "float":
        try:
            require_exact((number,))
            return float(struct.unpack("<f", struct.pack("<f", number))[0])
        except OverflowError:
            raise BadSample(f"is {number!r}, which is beyond 32-bit floats") from None
    return number


def _what(value: Value) -> str:
    if isinstance(value, tuple):
        return f"a list of {len(value)}"
    return {bytes: "bytes", str: "text", int: "a whole number"}[type(value)]


def infer_columns(samples: Iterable[Sample], layout: Parquet) -> tuple[tuple[str, str], ...]:
    """The columns that hold some samples: name and type of each, in a fixed order.

    Bytes that are all UTF-8 become text, and lists that all have one number become numbers, as they
    were in the Parquet file that they may come from; so the more samples are seen, the fewer of the
    others do not fit.

    Args:
        samples: Some samples of the data set, or all.
        layout: What the columns of images and labels are called, and the classes.
    """
    kinds: dict[str, str] = {}
    both = False
    for sample in samples:
        both = both or ("cls" in sample.fields and "label" in sample.fields)
        for name, value in columns_of(sample, layout).items():
            kind = "image" if name == layout.image else _kind_of(value)
            kinds[name] = kind if name not in kinds else _wider(kinds[name], kind)
    if kinds.get(layout.label) == "int64" and not both:
        kinds[layout.label] = "class"
    if both:
        kinds["cls"] = "int64"
    for name in [name for name in kinds if name.endswith(".path")]:
        owner = name.removesuffix(".path")
        if kinds.get(owner) in ("binary", "string", "image") and owner != name:
            kinds[owner] = "image"
            del kinds[name]
    return _ordered(kinds, layout)


def plan_columns(
    fields: Mapping[tuple[str, str], int],
    layout: Parquet,
    known: Mapping[str, str],
) -> tuple[tuple[str, str], ...]:
    """The columns that hold all samples of a data set, of types that hold all values.

    Bytes stay bytes, text or not, and what may be a list is one, unless it is known better.

    Args:
        fields: How many samples have each field, by its name and the name of its values' type.
        layout: What the columns of images and labels are called.
        known: The types of columns, as far as they are known.
    """
    types = dict(fields)
    images = [name for name in types if name[0] in IMAGE_KINDS or name == (UNKNOWN_IMAGE, "bytes")]
    kinds: dict[str, str] = {layout.image: known.get(layout.image, "image")} if images else {}
    both = ("cls", "int") in types and ("label", "tuple") in types
    if both:
        kinds["cls"] = known.get("cls", "int64")
    if ("label", "tuple") in types:
        kinds[layout.label] = known.get(layout.label, "list<double>")
    elif ("cls", "int") in types:
        kinds[layout.label] = known.get(layout.label, "class")
    named = any(name == "filename" for name, _ in types)
    total = max(types.values(), default=0)
    if named or sum(types[name] for name in images) < total:
        kinds[KEY] = "string"
    # Kinds of which each sample has one share the column of images.
    alike = sum(types[name] for name in images) <= total
    gone = {("cls", "int"), ("label", "tuple"), *(images if alike else ())}
    for name, kind in types:
        owner = name.removesuffix(".path")
        is_path = owner != name and known.get(owner) in FILES
        is_name = name == "filename" and images and name not in known
        if (name, kind) not in gone and not is_path and not is_name and name not in kinds:
            kinds[name] = known.get(name, _SAFE.get(kind, "binary"))
    return _ordered(kinds, layout)


_SAFE = {
    "str": "string",
    "int": "int64",
    "tuple": "list<double>",
    "Ints": "list<int64>",
    "Floats": "list<float>",
    "Blobs": "list<binary>",
}


def _ordered(kinds: Mapping[str, str], layout: Parquet) -> tuple[tuple[str, str], ...]:
    """Columns in the order in which they stand in the file."""
    first = [name for name in (layout.image, "cls", layout.label) if name in kinds]
    last = [name for name in (*LAST, KEY) if name in kinds and name not in first]
    others = sorted(set(kinds).difference(first, last))
    return tuple((name, kinds[name]) for name in first + others + last)


def _kind_of(value: Value) -> str:
    if isinstance(value, bytes):
        return "string" if _is_text(value) else "binary"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, Blobs):
        return f"list<{'string' if all(map(_is_text, value)) else 'binary'}>"
    item = (
        "int64" if isinstance(value, Ints) else "float" if isinstance(value, Floats) else "double"
    )
    return item if len(value) == 1 else f"list<{item}>"


def _is_text(value: bytes) -> bool:
    try:
        return "\x00" not in value.decode()
    except UnicodeDecodeError:
        return False


def _wider(one: str, other: str) -> str:
    """The type that holds what either does, where there is one."""
    if one == other:
        return one
    items = {item_of(one) or one, item_of(other) or other}
    is_list = "list" in one or "list" in other
    if items == {"string", "binary"}:
        item = "binary"
    elif len(items) == 1:
        item = items.pop()
    else:
        return one
    return f"list<{item}>" if is_list else item

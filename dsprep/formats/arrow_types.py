"""The types of Parquet's columns, as short texts, and what Hugging Face notes about them.

A type's text is Arrow's own name of it, less what makes no difference to the values (``string`` is
also a ``large_string`` or a dictionary of strings). Two are not Arrow's: ``image`` and ``audio``
are Hugging Face's structs of ``bytes`` and ``path``, and ``class`` is a whole number that has a
name. Hugging Face `datasets` keeps its features as JSON beside the schema, under the key
``huggingface`` (datasets, arrow_writer.py, ``_build_metadata``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dsprep.errors import OptionError

INTEGERS = {
    **{f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << min(bits, 63)) - 1) for bits in (8, 16, 32, 64)},
}
"""The smallest and the largest whole number of each type, as far as 64 bits with a sign go."""

FLOATS = frozenset({"float", "double"})
"""32 and 64 bits; a half fits into either."""

TEXTS = frozenset({"string", "binary"})
FILES = {"image": "Image", "audio": "Audio"}
"""The structs of ``bytes`` and ``path``, and what Hugging Face calls each."""

SCALARS = frozenset({*INTEGERS, *FLOATS, *TEXTS, "bool"})
TYPES = frozenset({*SCALARS, *FILES, "class"}) | {f"list<{each}>" for each in SCALARS}
"""Every type that a column can be written as."""

NOTHING = "null"
"""The type of a column that holds nothing but nulls; it is never written."""

_FEATURES = b"huggingface"
_OWN = b"dsprep"


def arrow() -> Any:
    """The package that reads and writes Parquet, its modules for types, Parquet and IPC loaded.

    Raises:
        OptionError: If it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
        import pyarrow.types  # noqa: F401
    except ModuleNotFoundError as error:
        raise OptionError(
            f"Parquet is read and written by pyarrow ({error}): pip install 'dsprep[parquet]'"
        ) from None
    except ImportError as error:
        raise OptionError(
            f"Parquet is read and written by pyarrow, which does not load ({error}); "
            "beside NumPy 1, which MXNet needs: pip install 'pyarrow<26'"
        ) from None
    return pyarrow


def item_of(text: str) -> str | None:
    """The type of the items of a list, or None for what is no list."""
    return text[len("list<") : -1] if text.startswith("list<") else None


def type_text(kind: Any) -> str | None:
    """The text of an Arrow type; None for one that no field of a sample can hold."""
    types = arrow().types
    if types.is_dictionary(kind):
        return type_text(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or _is(kind, "string_view"):
        return "string"
    if _is_binary(kind):
        return "binary"
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind):
        return str(kind)
    if types.is_floating(kind):
        return "double" if types.is_float64(kind) else "float"
    if types.is_null(kind):
        return NOTHING
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        item = type_text(kind.value_type)
        item = "int64" if item == NOTHING else item  # all of its lists are empty
        return f"list<{item}>" if item in SCALARS else None
    if types.is_struct(kind):
        parts = {kind.field(i).name: type_text(kind.field(i).type) for i in range(kind.num_fields)}
        if len(parts) == kind.num_fields and parts.keys() <= {"bytes", "path"}:
            path_fits = parts.get("path", NOTHING) in ("string", NOTHING)
            return "image" if parts.get("bytes") in ("binary", NOTHING) and path_fits else None
    return None


def _is(kind: Any, name: str) -> bool:
    """Whether a type is one that older versions of pyarrow do not know."""
    test = getattr(arrow().types, f"is_{name}", None)
    return bool(test and test(kind))


def _is_binary(kind: Any) -> bool:
    types = arrow().types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or _is(kind, "binary_view")
    )


def arrow_type(text: str) -> Any:
    """The Arrow type that a column of a type is written as."""
    pa = arrow()
    if text in FILES:
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    if (item := item_of(text)) is not None:
        return pa.list_(arrow_type(item))
    if text == "class":
        return pa.int64()
    names = {"float": "float32", "double": "float64", "bool": "bool_"}
    return getattr(pa, names.get(text, text))()


def schema_of(
    columns: Sequence[tuple[str, str]],
    classes: Sequence[str] | None,
    image: str,
    label: str,
) -> Any:
    """The Arrow schema of columns, with the features that Hugging Face `datasets` wants to find.

    Args:
        columns: Name and type of each.
        classes: The names of those of type ``class``.
        image: Which of them holds images, which is noted, too, for :func:`own_note`.
        label: Which holds labels, likewise.
    """
    pa = arrow()
    features = {name: _feature(text, classes) for name, text in columns}
    noted = json.dumps({"info": {"features": features}})
    fields = [(name, arrow_type(text)) for name, text in columns]
    own = json.dumps({"image": image, "label": label})
    return pa.schema(fields, metadata={_FEATURES: noted.encode(), _OWN: own.encode()})


def own_note(schema: Any) -> Mapping[str, str] | None:
    """What :func:`schema_of` noted of the columns of images and labels; None if it did not."""
    try:
        found = json.loads((schema.metadata or {})[_OWN])
        return {"image": str(found["image"]), "label": str(found["label"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _feature(text: str, classes: Sequence[str] | None) -> dict[str, Any]:
    if text in FILES:
        return {"_type": FILES[text]}
    if text == "class" and classes is not None:
        return {"names": list(classes), "_type": "ClassLabel"}
    if (item := item_of(text)) is not None:
        # Called List since datasets 4, which reads this older name as well.
        return {"feature": _feature(item, None), "_type": "Sequence"}
    dtype = {"class": "int64", "float": "float32", "double": "float64"}.get(text, text)
    return {"dtype": dtype, "_type": "Value"}


def features_of(schema: Any) -> Mapping[str, Mapping[str, Any]]:
    """The features that Hugging Face `datasets` noted beside a schema; none if it did not."""
    try:
        found = json.loads((schema.metadata or {}).get(_FEATURES, b"{}"))["info"]["features"]
        return {str(name): each for name, each in found.items() if isinstance(each, dict)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def names_of_classes(feature: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The class names of a feature, if it is of classes that have names."""
    names = feature.get("names")
    if feature.get("_type") != "ClassLabel" or not isinstance(names, list):
        return None
    return tuple(names) if all(isinstance(name, str) for name in names) else None

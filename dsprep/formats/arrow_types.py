"""What Arrow's types are to a schema, and what Hugging Face notes about them.

Hugging Face `datasets` keeps its features as JSON beside the Arrow schema, under the key
``huggingface`` (datasets, arrow_writer.py, ``_build_metadata``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from dsprep.errors import OptionError, SourceError
from dsprep.schema import IMAGE_NAMES, TYPES, Field, Schema, item_of
from dsprep.units import format_some

DTYPES = {
    "class": "int64",
    "bool": "bool",
    "int": "int64",
    "float32": "float32",
    "float64": "float64",
    "text": "string",
    "json": "string",
    "bytes": "binary",
}
"""What columns of each type but images and lists are written as: Arrow's name, which is Hugging
Face's as well."""

_READ = {
    "boolean": "bool",
    **dict.fromkeys(("integer", "duration"), "int"),
    "float64": "float64",
    "floating": "float32",
    **dict.fromkeys(("string", "large_string", "string_view", "temporal", "decimal"), "text"),
    **dict.fromkeys(("binary", "large_binary", "fixed_size_binary", "binary_view"), "bytes"),
    **dict.fromkeys(("struct", "map"), "json"),
}
"""Arrow's kinds of types, the narrower ones first, and what each is in a schema."""

_LISTS = ("list", "large_list", "fixed_size_list")

BOOKKEEPING = "__index_level_"
"""What the names of columns begin with that hold the row numbers of pandas."""

_FEATURES = b"huggingface"
_SHOWN = 60


def arrow() -> Any:
    """Return the package that reads and writes Parquet, the modules of it that are used loaded."""
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


def _is(kind: Any, *names: str) -> bool:
    """Whether a type is of one of some kinds, which older versions of pyarrow may not know."""
    tests = (getattr(arrow().types, f"is_{name}", None) for name in names)
    return any(test(kind) for test in tests if test)


@lru_cache(256)
def is_file(kind: Any) -> bool:
    """Return whether a type is Hugging Face's of images and sounds: ``bytes`` and ``path``."""
    if kind is None or not _is(kind, "struct"):
        return False
    parts = {part.name: part.type for part in kind}
    return (
        {"bytes"} <= parts.keys() <= {"bytes", "path"}
        and _is(parts["bytes"], "null", "binary", "large_binary", "binary_view")
        and ("path" not in parts or _is(parts["path"], "null", "string", "large_string"))
    )


@lru_cache(256)
def plain_type(kind: Any) -> Any:
    """Return the type that a column is read as: one whose values Python holds exactly.

    Times and decimals become text, as ISO 8601 has them; a dictionary is looked up.
    """
    pa = arrow()
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if _is(kind, "dictionary"):
        return plain_type(kind.value_type)
    if _is(kind, "duration"):
        return pa.int64()
    if _is(kind, "float16"):
        return pa.float32()
    if _is(kind, "temporal", "decimal"):
        return pa.string()
    if _is(kind, "struct"):
        return pa.struct([part.with_type(plain_type(part.type)) for part in kind])
    if _is(kind, "map"):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if _is(kind, *_LISTS):
        item = kind.value_field.with_type(plain_type(kind.value_type))
        if _is(kind, "fixed_size_list"):
            return pa.list_(item, kind.list_size)
        return pa.large_list(item) if _is(kind, "large_list") else pa.list_(item)
    return kind


def type_of_column(kind: Any, feature: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return the type of a column's field, and what is to be said of it."""
    if is_file(kind) and feature.get("_type") == "Audio":
        return "bytes", "bytes without a path"
    if is_file(kind):
        return "image", ""
    plain = plain_type(kind)
    if _is(plain, *_LISTS):
        item, _ = type_of_column(plain.value_type, {})
        item = {"bool": "int", "class": "int", "image": "bytes"}.get(item or "", item)
        item = "int" if _is(plain.value_type, "null") else item  # all of its lists are empty
        if f"list<{item}>" in TYPES:
            said = "a list of bytes without paths" if is_file(plain.value_type) else ""
            return f"list<{item}>", said or _said_of(kind.value_type)
        return (None, "") if item is None else ("json", _as_json(plain))
    found = next((name for test, name in _READ.items() if _is(plain, test)), None)
    if found == "json":
        parts = (plain.field(at).type for at in range(plain.num_fields))
        known = all(type_of_column(each, {})[0] or _is(each, "null") for each in parts)
        return ("json", _as_json(plain)) if known else (None, "")
    if found == "int" and feature.get("_type") == "ClassLabel":
        return "class", ""
    return found, _said_of(kind)


def _as_json(kind: Any) -> str:
    has_bytes = any(is_stored(leaf) for _, leaf in leaves_of("", kind))
    return "JSON with bytes in base 64" if has_bytes else "JSON"


def _said_of(kind: Any) -> str:
    if _is(kind, "duration"):
        return f"a number of {kind.unit}"
    return "text" if _is(kind, "temporal", "decimal") else ""


def features_of(schema: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the features that Hugging Face notes beside an Arrow schema; none if it does not."""
    try:
        found = json.loads((schema.metadata or {}).get(_FEATURES, b"{}"))["info"]["features"]
        return {str(name): each for name, each in found.items() if isinstance(each, dict)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def names_of(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the class names of a feature; none if it has none."""
    names = feature.get("names")
    if feature.get("_type") != "ClassLabel" or not isinstance(names, list):
        return ()
    return tuple(names) if all(isinstance(name, str) for name in names) else ()


def source_schema(
    schema: Any, source: str, images: Collection[str] = (), dropped: Collection[str] = ()
) -> tuple[Schema, list[str]]:
    """Return what Parquet files say of their fields, and what there is to note about it."""
    features = features_of(schema)
    fields: dict[str, Field] = {}
    notes: list[str] = []
    empty: list[str] = []
    for each in schema:
        name, feature = each.name, features.get(each.name, {})
        if name.startswith(BOOKKEEPING) or name in fields and name in dropped:
            continue
        if name in fields:
            raise SourceError(f"{source}: two columns are called {name!r}: --drop {name}")
        kind, said = type_of_column(each.type, feature)
        if not name:
            notes.append("a column is left out, because it has no name")
            continue
        if _is(each.type, "null"):
            empty.append(name)
            continue
        if kind is None and name not in dropped:
            raise SourceError(
                f"{source}: the column {name!r} is of the type {_short(each.type)}, "
                f"which no field can hold: --drop {name}"
            )
        if said and name not in dropped:
            notes.append(f"the column {name!r} ({_short(each.type)}) is {said} in other formats")
        if kind == "bytes" and (name.lower() in IMAGE_NAMES or name in images):
            kind = "image"
        told = "Hugging Face's metadata" if name in features else "the Parquet schema"
        fields[name] = Field(name, kind or "bytes", False, names_of(feature), ((name,),), told)
    if empty:
        notes.append(nulls_note(empty))
    noted = [name for name in fields if features.get(name, {}).get("_type") == "Image"]
    classes = [name for name, field in fields.items() if field.type == "class"]
    image, label = (each[0] if len(each) == 1 else None for each in (noted, classes))
    return Schema(tuple(fields.values()), image, label, "parquet"), notes


def nulls_note(names: Sequence[str]) -> str:
    """Say which columns are left out, because they hold nothing."""
    return f"columns of nulls alone, which other formats do not have: {format_some(names)}"


def _short(kind: Any) -> str:
    text = str(kind)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


# Writing


def arrow_schema(schema: Schema) -> Any:
    """Return the Arrow schema of a schema, with the features that Hugging Face wants to find."""
    features = {each.places[0][0]: _feature(each.type, each.names) for each in schema.fields}
    fields = [(each.places[0][0], arrow_type(each.type)) for each in schema.fields]
    noted = json.dumps({"info": {"features": features}})
    return arrow().schema(fields, metadata={_FEATURES: noted.encode()})


def arrow_type(kind: str) -> Any:
    """Return the Arrow type that a field of a type is written as."""
    pa = arrow()
    if kind == "image":
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    item = item_of(kind)
    return pa.type_for_alias(DTYPES[kind]) if item is None else pa.list_(arrow_type(item))


def _feature(kind: str, names: Sequence[str]) -> dict[str, Any]:
    if kind == "image":
        return {"_type": "Image"}
    if kind == "class" and names:
        # Numbers without a name have an empty one, which Hugging Face takes only once.
        several = names.count("") > 1
        shown = [name or (str(at) if several else "") for at, name in enumerate(names)]
        if len(set(shown)) == len(shown):
            return {"names": shown, "_type": "ClassLabel"}
    if (item := item_of(kind)) is not None:
        # Called List since datasets 4, which reads this older name as well.
        return {"feature": _feature(item, ()), "_type": "Sequence"}
    return {"dtype": DTYPES[kind], "_type": "Value"}


def kept_columns(schema: Any, names: Collection[str]) -> Any:
    """Return an Arrow schema with some of its columns, and with the features of those."""
    columns = [each for each in schema if each.name in names]
    for at, each in enumerate(columns):
        if is_file(each.type) and any(_is(part.type, "null") for part in each.type):
            # Images that lie beside their file are taken in.
            columns[at] = each.with_type(arrow_type("image"))
    kept = arrow().schema(columns, schema.metadata)
    try:
        noted = json.loads((schema.metadata or {})[_FEATURES])
        features = noted["info"]["features"]
        noted["info"]["features"] = {name: features[name] for name in features if name in names}
    except (ValueError, KeyError, TypeError, RecursionError):
        return kept
    return kept.with_metadata(kept.metadata | {_FEATURES: json.dumps(noted).encode()})


def leaves_of(name: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """Return the names that Parquet has for the parts of a column, and the type of each."""
    kind = plain_type(kind)
    if _is(kind, "struct"):
        for part in kind:
            yield from leaves_of(f"{name}.{part.name}", part.type)
    elif _is(kind, "map"):
        yield from leaves_of(f"{name}.key_value.key", kind.key_type)
        yield from leaves_of(f"{name}.key_value.value", kind.item_type)
    elif _is(kind, *_LISTS):
        yield from leaves_of(f"{name}.list.element", kind.value_type)
    else:
        yield name, kind


def is_stored(kind: Any) -> bool:
    """Return whether the values of a leaf are bytes, which are not compressed again."""
    return _is(kind, "binary", "large_binary", "binary_view", "fixed_size_binary")

"""Arrow's types and values: what they are to a schema, and what Hugging Face notes about them.

Hugging Face `datasets` keeps its features as JSON beside the Arrow schema, under the key
``huggingface`` (datasets, arrow_writer.py, ``_build_metadata``).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

from dsprep.annotations import hugging_face
from dsprep.annotations.objects import Objects
from dsprep.errors import BadSample, OptionError, SourceError
from dsprep.extras import pip_install
from dsprep.sample import Sample
from dsprep.schema import IMAGE_NAMES, TYPES, Field, Schema, Type
from dsprep.storage.files import facts, read_bytes, system_path
from dsprep.tuples import NamedTuple
from dsprep.units import format_some

Cell: TypeAlias = Any  # a value of a column as Python has it; None for a null
# a column: its name, its values and, if they are files, their paths
_Part: TypeAlias = tuple[str, list[Cell], list[Cell] | None]

# Arrow's kinds of types, the narrower ones first, and what each is in a schema
_READ = {
    "boolean": "bool",
    **dict.fromkeys(("integer", "duration"), "int"),
    "float64": "float64",
    "floating": "float32",
    **dict.fromkeys(("string", "large_string", "string_view", "temporal", "decimal"), "text"),
    **dict.fromkeys(("binary", "large_binary", "fixed_size_binary", "binary_view"), "bytes"),
    **dict.fromkeys(("struct", "map"), "json"),
}
_LISTS = ("list", "large_list", "fixed_size_list")
BOOKKEEPING = "__index_level_"  # begins the names of columns that hold the row numbers of pandas
_FEATURES = b"huggingface"
_SHOWN = 60

_ELSEWHERE = re.compile(r"/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]*://")
_GOES_UP = re.compile(r"(^|/)\.\.(/|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


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
            f"Parquet is read and written by pyarrow ({error}): {pip_install('pyarrow')}"
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


def is_text(kind: Any) -> bool:
    """Return whether a type is one of texts."""
    return _is(kind, "string", "large_string", "string_view")


@lru_cache(256)
def plain_type(kind: Any) -> Any:
    """Return the type that a column is read as: one whose values Python holds exactly."""
    # Times and decimals become text, as ISO 8601 has them; a dictionary is looked up.
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
    """Return the type of a column's field, and a note about it."""
    if is_file(kind) and feature.get("_type") == "Audio":
        return "bytes", "bytes without a path"
    if is_file(kind):
        return "image", ""
    plain = plain_type(kind)
    if objects_in(plain) is not None:
        return "objects", ""
    if _is(plain, *_LISTS):
        item, _ = type_of_column(plain.value_type, {})
        item = {"bool": "int", "class": "int", "image": "bytes"}.get(item or "", item)
        # a list column of type null: all of its lists are empty
        item = "int" if _is(plain.value_type, "null") else item
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


def are_lists_of_one(one: Any, other: Any) -> bool:
    """Return whether one type is of lists that are all empty, and the other is of any lists."""
    lists = [kind for kind in (one, other) if _is(kind, *_LISTS)]
    return len(lists) == 2 and any(_is(kind.value_type, "null") for kind in lists)


@lru_cache(256)
def objects_in(kind: Any) -> frozenset[str] | None:
    """Return the parts of objects: of a struct of lists, or a list of structs; None for others."""
    inner = kind.value_type if _is(kind, *_LISTS) else kind
    if not _is(inner, "struct"):
        return None
    parts = {part.name: part.type for part in inner}
    category = hugging_face.category_in(parts)
    if inner is kind:
        if not all(_is(each, *_LISTS) for each in parts.values()):
            return None
        parts = {name: each.value_type for name, each in parts.items()}
    is_numbered = category is not None and _is(parts[category], "integer")
    is_box = is_numbered and _is(parts[hugging_face.BOX], *_LISTS)
    return frozenset(parts) if is_box else None


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
    """Return the class names of a feature, or of its objects; none if it has none."""
    inner: Any = feature
    while isinstance(inner, dict | list) and "names" not in inner:
        if isinstance(inner, dict):
            inner = inner.get(hugging_face.category_in(inner) or "feature")
        else:
            inner = inner[0] if inner else None
    names = inner.get("names") if isinstance(inner, dict) else None
    if not isinstance(names, list) or inner.get("_type") != "ClassLabel":
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
        name = each.name
        if name.startswith(BOOKKEEPING) or name in fields and name in dropped:
            continue
        if name in fields:
            raise SourceError(f"{source}: two columns are called {name!r}: --drop {name}")
        if not name:
            notes.append("a column is left out, because it has no name")
        elif _is(each.type, "null"):
            empty.append(name)
        else:
            kind, said = type_of_column(each.type, features.get(name, {}))
            if kind is None and name not in dropped:
                raise SourceError(
                    f"{source}: the column {name!r} is of the type {_short(each.type)}, "
                    f"which no field can hold: --drop {name}"
                )
            if said and name not in dropped:
                shown = f"the column {name!r} ({_short(each.type)})"
                notes.append(f"{shown} is {said} in other formats")
            fields[name] = _field_of(each, kind, features, images)
    if empty:
        notes.append(nulls_note(empty))
    noted = [name for name in fields if features.get(name, {}).get("_type") == "Image"]
    classes = [name for name, field in fields.items() if field.type == "class"]
    image, label = (each[0] if len(each) == 1 else None for each in (noted, classes))
    return Schema(tuple(fields.values()), image, label, "parquet"), notes


def _field_of(
    column: Any, kind: str | None, features: Mapping[str, Any], images: Collection[str]
) -> Field:
    """Return the field of a column; bytes are an image if the name or the content says so."""
    name = column.name
    if kind == "bytes" and (name.lower() in IMAGE_NAMES or name in images):
        kind = "image"
    told_by = "Hugging Face's metadata" if name in features else "the Parquet schema"
    names = names_of(features.get(name, {}))
    found = Field(name, kind or "bytes", False, names, ((name,),), told_by)
    if kind == "objects":
        flags = not hugging_face.APART.isdisjoint(objects_in(plain_type(column.type)) or ())
        found = replace(found, flags=flags)
    return found


def nulls_note(names: Sequence[str]) -> str:
    """Say which columns are left out, because they hold nothing."""
    return f"columns of nulls alone, which other formats do not have: {format_some(names)}"


def _short(kind: Any) -> str:
    text = str(kind)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


# Writing


def arrow_schema(schema: Schema) -> Any:
    """Return the Arrow schema of a schema, with the features that Hugging Face wants to find."""
    features = {each.places[0][0]: _feature(each.kind, each.names) for each in schema.fields}
    fields = [(each.places[0][0], arrow_type(each.kind)) for each in schema.fields]
    noted = json.dumps({"info": {"features": features}})
    return arrow().schema(fields, metadata={_FEATURES: noted.encode()})


# the parts of objects: a name of Arrow's; a list of what is in a list, or a struct
_PARTS: Mapping[str, Any] = {
    "id": "int64",
    "area": "double",
    "bbox": ["double"],
    "category": "int64",
    **dict.fromkeys(("iscrowd", "difficult", "truncated", "group_of"), "bool"),
    "segmentation": [["double"]],
    "rle": {"size": ["int64"], "counts": ["int64"]},
    "keypoints": ["double"],
    "more": "string",
}


def _part_type(part: Any) -> Any:
    pa = arrow()
    if isinstance(part, list):
        return pa.list_(_part_type(part[0]))
    if isinstance(part, dict):
        return pa.struct([(name, _part_type(each)) for name, each in part.items()])
    return pa.type_for_alias(part)


def _part_feature(part: Any) -> Any:
    if isinstance(part, list):
        return {"feature": _part_feature(part[0]), "_type": "Sequence"}
    if isinstance(part, dict):
        return {name: _part_feature(each) for name, each in part.items()}
    return {"dtype": part.replace("double", "float64"), "_type": "Value"}


def arrow_type(kind: Type) -> Any:
    """Return the Arrow type that a field of a type is written as."""
    pa = arrow()
    if kind.of is Objects:
        return pa.struct([(name, pa.list_(_part_type(part))) for name, part in _PARTS.items()])
    if kind.is_image or kind.is_raw:
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    item = pa.type_for_alias(kind.dtype)
    return pa.list_(item) if kind.is_list else item


def _feature(kind: Type, names: Sequence[str]) -> dict[str, Any]:
    if kind.of is Objects:
        category = {hugging_face.CATEGORIES[0]: _feature(TYPES["class"], names)}
        parts = {name: _part_feature(part) for name, part in _PARTS.items()} | category
        return {name: {"feature": part, "_type": "Sequence"} for name, part in parts.items()}
    if kind.is_image:
        return {"_type": "Image"}
    if kind.is_raw:  # bare pixels are not marked as Image: `datasets` would try to decode them
        return {"bytes": _part_feature("binary"), "path": _part_feature("string")}
    if kind.name == "class" and names:
        # Numbers without a name have an empty one, which Hugging Face takes only once.
        several = names.count("") > 1
        shown = [name or (str(at) if several else "") for at, name in enumerate(names)]
        if len(set(shown)) == len(shown):
            return {"names": shown, "_type": "ClassLabel"}
    value = {"dtype": kind.dtype, "_type": "Value"}
    # Called List since datasets 4, which reads this older name as well.
    return {"feature": value, "_type": "Sequence"} if kind.is_list else value


def kept_columns(schema: Any, names: Collection[str]) -> Any:
    """Return an Arrow schema with some of its columns, and with the features of those."""
    columns = [each for each in schema if each.name in names]
    for at, each in enumerate(columns):
        if is_file(each.type) and any(_is(part.type, "null") for part in each.type):
            # The column has images in separate files; their bytes are stored in it.
            columns[at] = each.with_type(arrow_type(TYPES["image"]))
    return _noted(columns, schema.metadata)


def with_files(schema: Any, names: Collection[str]) -> Any:
    """Return an Arrow schema in which columns of texts are images in separate files."""
    if not names:
        return schema
    pa = arrow()
    named = pa.struct([("bytes", pa.null()), ("path", pa.string())])
    columns = [each.with_type(named) if each.name in names else each for each in schema]
    return _noted(columns, schema.metadata, images=names)


def _noted(columns: Sequence[Any], metadata: Any, images: Collection[str] = ()) -> Any:
    """Return an Arrow schema of columns, with what Hugging Face notes of these alone."""
    made = arrow().schema(columns, metadata)
    try:
        noted = json.loads((metadata or {})[_FEATURES])
        features = noted["info"]["features"]
        features |= {name: {"_type": "Image"} for name in images}
        noted["info"]["features"] = {
            name: features[name] for name in features if name in made.names
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        return made
    return made.with_metadata(made.metadata | {_FEATURES: json.dumps(noted).encode()})


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


# Rows


class ParquetColumns(NamedTuple):
    """What is read of Parquet files. Plain data: it is pickled for the workers."""

    names: tuple[str, ...]  # the columns
    # the one of the images, whose paths are those of the samples; None if there is none
    image: str | None = None
    label: str | None = None  # the one of the labels, if its numbers are read as names
    classes: tuple[str, ...] = ()  # names of the class numbers
    files: tuple[str, ...] = ()  # the ones of texts that name files of images beside the table


def plain_batch(batch: Any, names: tuple[str, ...], files: Collection[str] = ()) -> Any:
    """Return rows with some of their columns, as far as there are such, of plain types.

    Of ``files``, the texts are the paths of images that the rows do not hold.
    """
    found = [name for name in names if batch.schema.get_field_index(name) >= 0]
    columns = [plain(batch.column(name)) for name in found]
    columns = [
        _as_files(column) if name in files else column
        for name, column in zip(found, columns, strict=True)
    ]
    return arrow().RecordBatch.from_arrays(columns, found)


def _as_files(paths: Any) -> Any:
    """Return texts as a column of images in separate files; other columns stay as they are."""
    if not is_text(paths.type):
        return paths
    paths = paths.cast("string")
    parts = [arrow().nulls(len(paths)), paths]
    return arrow().StructArray.from_arrays(parts, ["bytes", "path"], mask=paths.is_null())


def plain(column: Any) -> Any:
    """Return a column as :func:`plain_type` has it."""
    kind = plain_type(column.type)
    if kind == column.type:
        return column
    if isinstance(column, arrow().ExtensionArray):
        return plain(column.storage)
    is_time = arrow().types.is_timestamp(column.type)
    column = column.cast(kind)
    return arrow().compute.replace_substring(column, " ", "T") if is_time else column


def restored(column: Any, kind: Any) -> Any:
    """Return a plain column as a type has it, the reverse of :func:`plain`."""
    pa = arrow()
    if column.type == kind:
        return column
    if pa.types.is_struct(kind):
        # Not a cast, which takes what lies below a null for a value.
        parts = [
            restored(part, each.type) for part, each in zip(column.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = pa.ListArray if pa.types.is_list(kind) else pa.LargeListArray
        items = restored(column.values, kind.value_type)
        return made.from_arrays(column.offsets, items, type=kind, mask=column.is_null())
    if pa.types.is_time(kind):
        day = pa.compute.binary_join_element_wise("1970-01-01", column, "T")
        column = day.cast(pa.timestamp(kind.unit))
    return column.cast(kind)


def decode(
    batch: Any, columns: ParquetColumns, folder: str, raw: bool = False
) -> Iterator[Sample | BadSample]:
    """Make raw samples, without keys, of rows."""
    parts: list[_Part] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if is_file(column.type):
            data, paths = map(cells_of, file_parts(column))
            parts.append((name, data, paths))
            continue
        cells = cells_of(column)
        if name == columns.label:
            known = range(len(columns.classes))
            cells = [columns.classes[each] if each in known else each for each in cells]
        elif not raw and is_file(getattr(column.type, "value_type", None)):
            cells = [each and [item and item["bytes"] for item in each] for each in cells]
        parts.append((name, cells, None))
    for row in range(len(batch)):
        try:
            yield _sample(parts, row, columns.image, folder, raw)
        except BadSample as error:
            yield error


def _sample(parts: list[_Part], row: int, image: str | None, folder: str, raw: bool) -> Sample:
    sample = Sample("", {})
    for name, cells, paths in parts:
        value = cells[row]
        if paths is not None:
            path = paths[row]
            if isinstance(path, bytes):
                raise BadSample(f"the path in its column {name!r} is not UTF-8")
            if value is None and path:
                full, size = find_beside(folder, path)
                try:
                    value = read_bytes(full, size)
                except OSError as error:
                    raise BadSample(f"{path!r} cannot be read ({error.strerror})") from None
            if name == image:
                sample.path = (path if raw else plain_path(path)) or ""
            elif raw and value is not None:
                value = {"bytes": value, "path": path}
        if value is not None:
            sample.fields[name] = value
    return sample


def file_parts(column: Any) -> tuple[Any, Any]:
    """Return the bytes and the paths of a column of files."""
    parts = dict(zip([part.name for part in column.type], column.flatten(), strict=True))
    nothing = arrow().nulls(len(column))
    return parts["bytes"].cast("large_binary"), parts.get("path", nothing).cast("large_string")


def cells_of(column: Any) -> list[Cell]:
    """Return the values of a column; bytes for text that is not UTF-8, which no text type takes."""

    def cell(scalar: Any) -> Cell:
        try:
            return scalar.as_py()
        except ValueError:
            return scalar.as_buffer().to_pybytes() if hasattr(scalar, "as_buffer") else b"\xff"

    try:
        cells: list[Cell] = column.to_pylist()
    except ValueError:
        return list(map(cell, column))
    return cells


def plain_path(path: str | None) -> str | None:
    """Return what a file says of an image's place as a path below a root; None if it says none."""
    if not path or _CONTROL.search(path):
        return None
    if _ELSEWHERE.match(path) or _GOES_UP.search(path):
        path = re.split(r"[/\\]", path)[-1]
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/".join(parts) if parts and parts[-1] != ".." else None


# Images that a file names and does not hold


def find_beside(folder: str, path: str) -> tuple[str, int]:
    """Find an image that a file names and does not hold: where it is, and its bytes."""
    problem = f"the file only names its image, and {path[:500]!r}"
    try:
        if (top := system_path(folder)) is None:
            parts = [part for part in path.split("/") if part != "."]
            if ".." in parts or not all(parts):
                raise FileNotFoundError
            full = "/".join((folder.rstrip("/"), *parts))
            return full, facts(full).size
        root = os.path.realpath(top)
        full = os.path.realpath(os.path.join(root, path))
        found = os.stat(full)
    except (OSError, ValueError):
        raise BadSample(f"{problem} is not there") from None
    if not full.startswith(root.rstrip("/") + "/") or not stat.S_ISREG(found.st_mode):
        raise BadSample(f"{problem} is no file in its folder")
    return full, found.st_size

"""TensorFlow Datasets' description of the records in a directory: features, classes, counts.

``features.json`` is a tree; records hold its leaves by their names, with ``/`` between. A look at
the records settles what it leaves open, such as tensors of text and nested sequences.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dsprep.errors import SourceError
from dsprep.schema import Field, Schema, Table
from dsprep.storage.files import is_file, read_bytes

FEATURES = "features.json"

_SHARD = re.compile(r"(?:.*-)?([^-.]+)\.tfrecord-(\d+)-of-\d+")
_ARRAY_RECORD = re.compile(r"\.array_record(-\d+-of-\d+)?$")

# The type of a feature, by its kind.
_LEAVES = {
    "image": "image",
    "classLabel": "class",
    "text": "text",
    "boundingBox": "list<float32>",
    "video": "bytes",
}
# The type of numbers in a record, by that of a tensor.
_NUMBERS = {
    **dict.fromkeys(("float16", "bfloat16", "float32", "float64"), "float32"),
    **{f"{sign}int{bits}": "int" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "bool",
}


def require_records(files: Sequence[str]) -> None:
    """Refuse files of ArrayRecord."""
    for path in filter(_ARRAY_RECORD.search, files):
        raise SourceError(
            f"{path}: is an ArrayRecord, which dsprep does not read: write the data set as "
            "TFRecord, with download_and_prepare(file_format='tfrecord') or "
            "tfds convert_format --out_file_format=tfrecord"
        )


def read_features(directory: str, files: Sequence[str], table: Table) -> Schema | None:
    """Read the schema of the records in a directory; None if nothing describes them."""
    if not all(_SHARD.fullmatch(os.path.basename(path)) for path in files):
        return None
    tree = _read_json(os.path.join(directory, FEATURES))
    if not isinstance(tree, dict) or "featuresDict" not in tree:
        return None
    try:
        stated = list(leaves(tree))
    except (AttributeError, TypeError):
        raise SourceError(f"{directory}/{FEATURES}: is not what TFDS writes") from None
    from dsprep.lists.store import read_classes  # not before polars is there

    fields = []
    for name, kind, missing in stated:
        if table.meaning(name).field:
            labels = os.path.join(directory, f"{name.replace('/', '-')}.labels.txt")
            names = read_classes(labels) if kind == "class" and is_file(labels) else ()
            fields.append(Field(name, kind, missing, names, ((name,),), told=FEATURES))
    types = {each.name: each.type for each in fields}
    keys: list[str] = []  # the names of the inputs, and of the target
    info = _read_json(os.path.join(directory, "dataset_info.json"))
    with suppress(TypeError, LookupError):
        keys = [item["featureKey"] for item in info["supervisedKeys"]["tuple"]["items"]]
    image = next((key for key in keys if types.get(key) == "image"), None)
    label = next((key for key in keys if types.get(key, "image") != "image"), None)
    return Schema(tuple(fields), image, label, table.name)


def leaves(
    tree: Mapping[str, Any], name: str = "", depth: int = 0
) -> Iterator[tuple[str, str, bool]]:
    """Find the features of a tree whose type it states."""
    if "featuresDict" in tree:
        for below, feature in tree["featuresDict"].get("features", {}).items():
            yield from leaves(feature, f"{name}/{below}".lstrip("/"), depth)
    elif "sequence" in tree:
        yield from leaves(tree["sequence"].get("feature", {}), name, depth + 1)
    elif "optional" in tree:
        for below, kind, _ in leaves(tree["optional"].get("feature", {}), name, depth):
            yield below, kind, True
    elif stated := _type_of(tree, depth):
        yield name, stated, False


def _type_of(feature: Mapping[str, Any], depth: int) -> str | None:
    """Return the type of a leaf; None if a look has to settle it."""
    kind = next((_LEAVES[each] for each in _LEAVES if each in feature), None)
    if kind is None:
        tensor = feature.get("tensor", {})
        kind = _NUMBERS.get(tensor.get("dtype", ""))
        dimensions = tensor.get("shape", {}).get("dimensions", [])
        if kind is None or tensor.get("encoding", "none").lower() != "none":
            return None
        if dimensions.count("-1") > 1:
            return None
        kind = _list_of(kind) if dimensions else kind
    depth += "video" in feature  # a sequence of images
    return None if depth > 1 else _list_of(kind) if depth else kind


def _list_of(kind: str) -> str:
    item = {"class": "int", "bool": "int", "image": "bytes"}.get(kind, kind)
    return kind if kind.startswith("list<") else f"list<{item}>"


def read_counts(directory: str, files: Sequence[str]) -> dict[str, int]:
    """Read how many samples shards hold, by their paths."""
    info = _read_json(os.path.join(directory, "dataset_info.json"))
    counts: dict[str, int] = {}
    try:
        lengths = {split["name"]: split["shardLengths"] for split in info["splits"]}
        for path in files:
            if shard := _SHARD.fullmatch(os.path.basename(path)):
                counts[path] = int(lengths[shard[1]][int(shard[2])])
    except (TypeError, LookupError, ValueError):
        return {}
    return counts


def _read_json(path: str) -> Any:
    """Read a JSON file; None if there is none."""
    if not is_file(path):
        return None
    try:
        return json.loads(read_bytes(path))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise SourceError(f"{path}: is not JSON: correct it, or move it away") from None

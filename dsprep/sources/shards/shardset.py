"""The shards that a user names: by a file, a pattern, a directory or a manifest."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain
from typing import Any

from dsprep.dataset.find import (
    DataSet,
    Place,
    data_set_at,
    data_set_beside,
    data_set_inside,
    data_set_of,
)
from dsprep.dataset.names import MANIFEST, manifest_beside
from dsprep.errors import DamagedShard, SourceError, source_errors
from dsprep.formats import FORMATS, IN_SPANS, TABLES, format_of_file, format_of_source
from dsprep.formats.base import Format
from dsprep.formats.listed_shards import INDEX, read_index, refuse_unread
from dsprep.formats.stream import ShardStream
from dsprep.frozen import Frozen
from dsprep.patterns import pattern
from dsprep.places.names import (
    by_directory,
    expand,
    files_of_sides,
    require_one_split,
    require_there,
    sides_of_files,
)
from dsprep.sample import image_kind_of
from dsprep.schema import IMAGE, Field, Schema, Table
from dsprep.storage.files import entries, exists, is_dir, is_file, open_file, read_bytes
from dsprep.units import format_count, format_some

# Files beside records that number class names: Object Detection API's, slim's.
NUMBERED = ("label_map.pbtxt", "labels.txt")

_PREPARED = ".nv-meta"  # what Megatron-Energon writes beside shards
_PART_OF_ENERGON = pattern(r"^ +([\w.-]+):\n *- ", re.MULTILINE)  # in its `split.yaml`
_LARGEST_SPLIT = 1 << 24


class ShardSet(Frozen):
    """Shards of one data set, or of several."""

    name: str  # the name that the user gave
    files: tuple[str, ...]  # their paths, in order
    layout: Format
    classes: tuple[str, ...] | None = None  # from a file beside them; a gap in numbers is empty
    known: bool = False  # whether a manifest or the user says that these are shards
    samples: Mapping[str, int] = field(default_factory=dict)  # known counts, by path
    unused_classes: str = ""  # a file of class names beside them that may belong to others
    schema: Schema | None = None  # the fields as far as something beside them declares these
    enforced: bool = False  # whether every sample was checked by this schema
    notes: tuple[str, ...] = ()  # for the report, a line each
    sides: tuple[str, ...] = ()  # the side of each file; empty if there are no sides

    @property
    def known_classes(self) -> tuple[str, ...] | None:
        label = self.schema.label_field if self.schema else None
        return self.classes or (label.names if label else None) or None

    @property
    def is_unlabeled(self) -> bool:
        return self.schema is not None and self.schema.label is None


def joined(sets: Sequence[ShardSet], name: str | None = None) -> ShardSet:
    """Join several sets of shards."""
    first = sets[0]
    for other in sets[1:]:
        if other.layout != first.layout:
            raise SourceError(
                f"{other.name}: is {other.layout.name} with other options than {first.name}"
                if other.layout.name == first.layout.name
                else f"{other.name}: is {other.layout.name}, but {first.name} {first.layout.name}"
            )
        if other.known_classes != first.known_classes:
            raise SourceError(
                f"{other.name}: has other classes than {first.name}; bring them to one order first"
            )
        if first.layout.placeholders(Schema(())) and other.is_unlabeled != first.is_unlabeled:
            without, labeled = (other, first) if other.is_unlabeled else (first, other)
            raise SourceError(
                f"{first.name}: the samples of {without.files[0]} have no labels, and those of "
                f"{labeled.files[0]} have; read them one after the other"
            )
    sides = tuple(chain.from_iterable(one.sides for one in sets))
    for other in sets if sides else ():
        if not other.sides:
            raise SourceError(
                f"{other.name}: tells no side of its samples, and others have "
                f"{format_some([*dict.fromkeys(sides)])}: name shards of one side, as patterns"
            )
    same = all(other.schema == first.schema for other in sets)
    return replace(
        first,
        name=first.name if name is None else name,
        files=tuple(chain.from_iterable(one.files for one in sets)),
        samples={path: count for one in sets for path, count in one.samples.items()},
        schema=first.schema if same else None,
        enforced=same and all(one.enforced for one in sets),
        notes=tuple(dict.fromkeys(chain.from_iterable(one.notes for one in sets))),
        sides=sides,
    )


def find_shards(source: str, format_name: str | None = None) -> ShardSet | None:
    """Return the shards that a name means; None if it is something else."""
    if not exists(source):
        files = expand(source)
        if len(files) == 1 and not exists(files[0]):
            return None
        return _of_files(source, files, format_name)
    if is_dir(source):
        return _of_directory(source, format_name)
    if source.endswith("manifest.json"):
        return _of_data_set(data_set_at(source))
    return _of_files(source, [source], format_name, alone=True)


def _of_files(
    name: str, files: Sequence[str], format_name: str | None, *, alone: bool = False
) -> ShardSet | None:
    """Describe shards that the user named, those of one directory at a time."""
    formats = {format_of_source(os.path.basename(path)) for path in files}
    if formats == {None} and _are_tables(files):
        formats = {format_of_file(os.path.basename(path)) for path in files}
    if format_name is None and None in formats:
        return None
    require_there(files, name)
    require_records(files)
    if format_name is None and len(formats) > 1:
        names = " and ".join(sorted(kind.name for kind in formats if kind))
        raise SourceError(f"{name}: shards of {names}; name those of one format")
    layout = IN_SPANS[format_name] if format_name else formats.pop()
    assert layout is not None
    notes: list[str] = []

    def on_error(found: DataSet) -> None:
        if found.is_of_other_version:
            notes.append(f"{found.error}; it is taken for absent")
        elif found.error and found.path.removesuffix(f".{MANIFEST}") in files:
            raise found.error  # manifests of other names may be files of other programs

    sets = []
    for own in by_directory(files):
        if recorded := data_set_of(own, alone, layout.name, on_error):
            found = _recorded(recorded, own, alone)
        else:
            found = _of_others(own, layout(), alone)
        sets.append(replace(found, known=found.known or format_name is not None))
    found = joined(sets, name)
    return replace(found, files=tuple(files), notes=(*notes, *found.notes))


def _are_tables(files: Sequence[str]) -> bool:
    """Return whether a manifest says that files, which it names, are shards."""
    formats = {format_of_file(os.path.basename(path)) for path in files}
    return all(each is not None and each.name in TABLES for each in formats) and all(
        data_set_of(own, len(files) == 1, each.name)
        for own in by_directory(files)
        for each in formats
        if each
    )


def _recorded(data_set: DataSet, files: Sequence[str], alone: bool = False) -> ShardSet:
    manifest, made = data_set.manifest, data_set.recorded
    counts = {os.path.basename(shard.name): shard.samples for shard in manifest.shards}
    samples = {file: counts[os.path.basename(file)] for file in files}
    if not made.known:  # indexed shards of other programs
        found = _of_others(files, made.layout, alone)
        return replace(found, name=data_set.path, known=True, samples=samples)
    layout = replace(made.layout, schema=None)
    return ShardSet(
        *(data_set.path, tuple(files), layout, manifest.classes, True, samples),
        schema=manifest.schema,
        enforced=manifest.enforced,
    )


def _of_others(files: Sequence[str], layout: Format, alone: bool) -> ShardSet:
    """Describe shards that something else wrote, by the files beside them."""
    layout, directory = layout.told_by(files), os.path.dirname(files[0])
    found = ShardSet(files[0], tuple(files), layout)
    schema = read_features(directory, files, layout)
    if schema is not None:
        return replace(found, schema=schema, samples=read_counts(directory, files), known=True)
    own = [f"{os.path.basename(files[0])}.classes.txt"] if alone else ["classes.txt"]
    if beside := manifest_beside(directory or "."):
        own.append(beside.removesuffix(MANIFEST) + "classes.txt")
    for name in (*own, *NUMBERED, "classes.txt"):
        path = os.path.join(directory, name)
        if not is_file(path):
            continue
        from dsprep.lists.store import read_classes  # polars is slow to import
        from dsprep.sources.labels.classes import read_numbered

        if name in own:
            return replace(found, classes=read_classes(path, gaps=True))
        try:
            numbered = read_numbered(path) if name in NUMBERED else None
        except SourceError as error:
            return replace(found, notes=(f"{error}; no class names are read from it",))
        if numbered:
            return replace(found, classes=numbered)
        found = replace(found, unused_classes=path)
    return found


def _of_directory(directory: str, format_name: str | None) -> ShardSet | None:
    place = Place(directory)
    inside = data_set_inside(place)
    if inside is not None and not inside.is_of_other_version:
        return _of_data_set(inside)
    if indexed := _of_index(directory, format_name):
        return indexed
    paths, known, counts = list[str](), dict[str, str](), dict[str, int]()
    is_prepared = False
    for entry in entries(directory):
        if entry.name.startswith("."):
            is_prepared |= entry.name == _PREPARED
            continue
        if image_kind_of(entry.name):
            return None
        if entry.is_dir():  # a tree of images, however many there are, or a directory for each side
            known, counts = _by_indexes(files_of_sides(directory))
            paths = [*known]
            break
        paths.append(entry.path)
    files = []
    for path in paths if known else sorted(paths):
        layout = format_of_source(os.path.basename(path))
        if layout and layout.in_spans and format_name in (None, layout.name):
            files.append(path)
    if any(format_of_file(os.path.basename(path)) for path in paths):
        beside = data_set_beside(place)
        is_known = beside is not None and not beside.is_of_other_version
        if beside is not None and is_known and beside.manifest.directory:
            return _of_data_set(beside)
    if not files:
        return None
    sides = sides_of_files(files, known)
    if not sides:
        require_one_split(directory, files)
    found = _of_files(directory, files, format_name)
    if found and INDEX in found.layout.dataset_index("", ()):
        refuse_unread(files)
    found = found and replace(found, sides=sides, samples={**found.samples, **counts})
    if found is None:
        return None
    notes = [*found.notes]
    if is_prepared and not sides:
        notes += _parts_of_energon(directory)
    if tables := sum(path.endswith(".parquet") for path in paths):
        count = format_count(tables, "Parquet table")
        notes.append(f"{count} beside the shards passed over: --from parquet reads the tables")
    return replace(found, notes=tuple(notes))


def _parts_of_energon(directory: str) -> Iterator[str]:
    """Say that Megatron-Energon divides shards whose names tell no sides."""
    path = os.path.join(directory, _PREPARED, "split.yaml")
    if is_file(path):
        with source_errors(path), open_file(path) as file:
            text = file.pread(_LARGEST_SPLIT, 0).decode("utf-8", "replace")
        if len(parts := _PART_OF_ENERGON.findall(text)) > 1:
            yield (
                f"all shards are one side: {path} divides them into {format_some(parts)}, which "
                "is not read; to keep these sides, name the shards of each, one at a time"
            )


def _of_index(directory: str, format_name: str | None) -> ShardSet | None:
    """Return the shards that an index names; None if there is none of a format like this."""
    indexed = read_index(directory)
    if indexed is None or indexed.format not in IN_SPANS:
        return None
    if format_name not in (None, indexed.format):
        return None
    found = _of_files(directory, [each.path for each in indexed.shards], indexed.format)
    counts = {each.path: each.samples for each in indexed.shards}
    return found and replace(found, samples={**found.samples, **counts})


def _by_indexes(known: Mapping[str, str]) -> tuple[dict[str, str], dict[str, int]]:
    """Return the sides of files, and how many samples these hold as far as indexes tell.

    Of a directory that has an index, the files are those that it names, in its order.
    """
    sides: dict[str, str] = {}
    counts: dict[str, int] = {}
    for own in by_directory([*known]):
        indexed = read_index(os.path.dirname(own[0]))
        listed = indexed.shards if indexed else ()
        counts |= {each.path: each.samples for each in listed}
        sides |= dict.fromkeys([each.path for each in listed] or own, known[own[0]])
    return sides, counts


def _of_data_set(found: DataSet) -> ShardSet | None:
    """Return the shards that a manifest names; None if they are Parquet or files."""
    path, manifest = found.path, found.manifest
    if manifest.format in FORMATS and not FORMATS[manifest.format].in_spans:
        return None  # folders and Parquet are other kinds of sources
    directory = os.path.dirname(path)
    files = [os.path.join(directory, shard.name) for shard in manifest.shards]
    require_there(files, path)
    sides = sides_of_files(files, manifest.sides_of(files))
    if not sides and manifest.options.get("indexed"):
        require_one_split(path, files)
    return replace(_recorded(found, files), sides=sides)


def require_no_index(shards: ShardSet) -> None:
    """Refuse shards that begin with a record of ranges of records, as InsightFace writes it."""
    for path in shards.files:
        with suppress(DamagedShard), ShardStream(path, headers=True) as stream:
            first = next(iter(shards.layout.spans(stream)), None)
            names = first.fields or () if first else ()
            roles = {shards.layout.meaning(name).role for name in names}
            if first is not None and first.label is not None and IMAGE not in roles:
                raise SourceError(
                    f"{path}: its first record has no image, and names ranges of records, as "
                    "InsightFace writes it; these would be wrong in other shards: use dsprep "
                    "convert, which leaves such records out"
                )


# What TensorFlow Datasets says of the records in a directory: features, classes, counts. The file
# features.json is a tree; records hold its leaves by their names, with `/` between. A look at the
# records settles what it leaves open, such as tensors of text and nested sequences.

FEATURES = "features.json"

_SHARD = pattern(r"(?:.*-)?([^-.]+)\.tfrecord-(\d+)-of-\d+")
_ARRAY_RECORD = pattern(r"\.array_record(-\d+-of-\d+)?$")

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
    from dsprep.lists.store import read_classes  # imported late: loads polars

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
        is_plain = tensor.get("encoding", "none").lower() == "none"
        if kind is None or not is_plain or dimensions.count("-1") > 1:
            return None
        kind = _list_of(kind) if dimensions else kind
    depth += "video" in feature  # TFDS's Video is a sequence of images
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

"""The catalog of files of Parquet or Arrow with a row for each sample.

Hugging Face `datasets` writes both, with the same types and the same notes of its features.
"""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import polars as pl

from dsprep.catalog import COLUMNS, PLACE_COLUMNS, Catalog, SourceScan
from dsprep.dataset.find import data_set_of
from dsprep.errors import BadSample, SourceError
from dsprep.findings import Finding
from dsprep.formats.arrow import (
    Cell,
    ParquetColumns,
    are_lists_of_one,
    arrow,
    features_of,
    find_beside,
    is_file,
    is_text,
    names_of,
    nulls_note,
    plain_path,
    source_schema,
    type_of_column,
    with_files,
)
from dsprep.formats.listed_shards import INDEX
from dsprep.formats.parquet import ROWS_OF_BATCH, Parquet, columns_of, settled
from dsprep.numbering import Known, number_classes, numbers_of, require_lines, unknown_classes
from dsprep.places.scan import RunAll
from dsprep.sample import image_kind_of, key_of
from dsprep.schema import Choice, Field, Schema, SettledSchema, is_image, join, select
from dsprep.sources.labels.classes import label_lists
from dsprep.sources.look import raw_field
from dsprep.sources.tables.parquet_rows import (
    IndexedRows,
    ParquetReader,
    index_rows,
    open_or_refuse,
)
from dsprep.sources.tables.versions import newest_rows
from dsprep.storage.files import common_path, short_names
from dsprep.units import format_count

_EXTENSION = re.compile(r"\.(?:parquet|arrow|feather|bin)$")
_NO_CHOICE = Choice()
_WITHOUT_CLASS = -1  # Hugging Face's number of an unknown class, as in most test sets


def read_parquet(
    paths: Sequence[str],
    classes: tuple[str, ...] | None,
    *,
    choice: Choice = _NO_CHOICE,
    versions: tuple[str, ...] | None = None,
    counts: Mapping[str, int] = {},
    run_all: RunAll = map,
) -> SourceScan:
    """Make the catalog of such files, with the samples in the order of the files and rows.

    What says how many rows files have, by ``counts``, must be right.
    """
    # The images' paths give the keys (of a path that leads elsewhere, the file's name) if all are
    # different; otherwise the file's name and the number of the row. Labels that some rows lack are
    # in the samples alone, not in the catalog; so are those of a test set whose classes are all -1.
    # Rows without an image are no samples, unless samples need none.
    root = paths[0] if len(paths) == 1 else common_path(paths)
    shared = _shared_schema(paths, choice)
    recorded = data_set_of(paths)
    known = recorded.manifest.schema if recorded else None
    raw = _raw_image(choice, known)
    images = _images(paths, shared) | {name for (name, *_) in (raw.places if raw else ())}
    named = _named_files(paths, shared, images)
    shared = with_files(shared, named)
    declared, notes = source_schema(shared, root, images, choice.drop)
    columns, label = _columns_to_read(declared, choice, root)
    columns = columns._replace(files=named)
    newest, only, more = _newest(paths, versions, run_all)
    notes += more
    imageless = known is not None and known.image is None
    wanted = columns, label and label.places[0][0], choice.no_image or imageless
    tasks = [(path, *wanted, rows) for path, rows in zip(paths, only, strict=True)]
    indexed: list[IndexedRows] = list(run_all(index_rows, tasks))
    _require_counts(indexed, counts)
    findings = _damage(indexed)
    _require_rows(indexed, findings, root)
    own = _joined(indexed, "paths") if newest is None else _paths_of_records(newest, indexed)
    table = _table(_names(paths, indexed, own), indexed)
    if label is not None:
        numbered, series = _number(label, classes, _joined(indexed, "labels"), choice, root)
        table = table if series is None else table.with_columns(series)
        numbered = _with_tags(numbered, known)
        columns = _with_names_of_file(columns, label, numbered)
        classes = classes or numbered.names or None
        declared = _with_label(declared, label, numbered)
    declared, more = _completed(declared, known, set(columns.names), indexed)
    findings += [Finding("note", "", note) for note in notes + more]
    declared = _with_raw_image(declared, raw)
    reader = ParquetReader(Parquet.of(shared), columns, tuple(rows.file for rows in indexed))
    # Numbers that are others than in the file are no copies of its columns.
    changed = frozenset({"label"} if columns.label else ())
    # No column says what the four numbers of its boxes are, so that samples are looked at.
    is_known = declared.objects is None or known is not None
    told = (declared, is_known, imageless)
    catalog = Catalog(table, root, classes, reader, *told, overridden=changed)
    return catalog, findings


def _require_counts(indexed: Sequence[IndexedRows], counts: Mapping[str, int]) -> None:
    for each in indexed:
        count = each.file.groups[-1]
        if count != counts.get(each.file.path, count):
            raise SourceError(
                f"{each.file.path}: has {format_count(count, 'row')}, not "
                f"{counts[each.file.path]:,} as {INDEX} says: copy both again"
            )


def _require_rows(indexed: Sequence[IndexedRows], damage: Sequence[Finding], root: str) -> None:
    if not any(rows.rows for rows in indexed):
        why = f": {damage[0].path}: {damage[0].detail}" if damage else ""
        raise SourceError(f"{root}: holds no rows that can be read{why}")


def _raw_image(choice: Choice, known: Schema | None) -> Field | None:
    """Return the field of bare pixels that a schema, or the manifest, tells."""
    raw = raw_field(choice.schema or known)
    return raw if raw and raw.places else None


def _columns_to_read(
    declared: Schema, choice: Choice, root: str
) -> tuple[ParquetColumns, Field | None]:
    """Return the columns that are read, and the label; None if only samples have it."""
    in_json = bool(choice.label) and declared.named(str(choice.label)) is None
    schema = settled(declared, replace(choice, label=None) if in_json else choice, root)
    if not in_json:  # only samples have it, which are then read in full
        schema = select(SettledSchema(schema), choice)[0].schema
    label = schema.label_field
    if label is not None and (in_json or len(label.places[0]) > 1):
        label = None
    return columns_of(schema), label


def _newest(
    paths: Sequence[str], versions: tuple[str, ...] | None, run_all: RunAll
) -> tuple[pl.DataFrame | None, Sequence[Sequence[int] | None], list[str]]:
    """Return the newest version of each record, the rows of each file that these are, and notes.

    Without versions, all rows of each file are read.
    """
    if versions is None:
        return None, [None] * len(paths), []
    key, latest, *as_of = versions
    newest, notes = newest_rows(paths, key, latest, "".join(as_of), run_all)
    chosen = [array("q") for _ in paths]
    for file, row in newest.select("file", "row").iter_rows():
        chosen[file].append(row)
    return newest, chosen, notes


def _damage(indexed: Sequence[IndexedRows]) -> list[Finding]:
    """Return what is damaged in files, and how many of their rows have no image."""
    findings: list[Finding] = []
    for rows in indexed:
        name = os.path.basename(rows.file.path)
        findings += [Finding("damaged", name, damage) for damage in rows.damage]
        if rows.without_image:
            count = format_count(rows.without_image, "row")
            detail = f"{count} without an image, as of downloads that failed; --no-image keeps them"
            findings.append(Finding("keyless", name, detail))
    return findings


def _joined(indexed: Sequence[IndexedRows], name: str) -> list[Any]:
    """Return what is known of the rows of all files, one after another."""
    return list(chain.from_iterable(getattr(rows, name) for rows in indexed))


def _table(names: Sequence[str], indexed: Sequence[IndexedRows]) -> pl.DataFrame:
    """Return a row for each sample, without labels."""
    return pl.DataFrame(
        {
            "index": range(len(names)),
            "path": names,
            "size": _joined(indexed, "sizes"),
            "mtime": [rows.file.mtime for rows in indexed for _ in rows.rows],
            "file": [number for number, rows in enumerate(indexed) for _ in rows.rows],
            "offset": _joined(indexed, "rows"),
            "stored": [0] * len(names),
        },
        schema=COLUMNS | PLACE_COLUMNS,
    )


def _with_tags(label: Field, known: Schema | None) -> Field:
    """Return a label of numbers with the names of tags in the manifest; no column has these."""
    own = known.label_field.names if known and known.label_field else ()
    if label.kind.is_list and not label.names and len(own) == label.width:
        return replace(label, names=own)
    return label


def _with_names_of_file(columns: ParquetColumns, label: Field, numbered: Field) -> ParquetColumns:
    """Let workers read the names of a label, where the numbers in the file mean other classes."""
    if label.names and (numbered.names != label.names or numbered.type == "text"):
        return columns._replace(label=label.places[0][0], classes=label.names)
    return columns


def _with_label(declared: Schema, label: Field, numbered: Field) -> Schema:
    """Return the schema with the type and the names that a label has got."""
    if numbered == label:
        return declared
    own = declared.by_place[label.places[0]]
    return declared.with_field(replace(own, type=numbered.type, names=numbered.names))


def _with_raw_image(declared: Schema, raw: Field | None) -> Schema:
    """Return the schema whose image is bare pixels, if a field of them is there."""
    image = None if raw is None else declared.by_place.get(raw.places[0])
    if raw is None or image is None:
        return declared
    declared = declared.with_field(replace(image, type=raw.type))
    return replace(declared, image=image.name)


def _shared_schema(paths: Sequence[str], choice: Choice) -> Any:
    """Return the Arrow schema that holds the columns of all files."""
    shared: Any = None
    for path in paths:
        with open_or_refuse(path) as file:
            schema = file.schema_arrow
        if shared is None:
            shared = schema
        elif not schema.equals(shared, check_metadata=True):
            shared = _with_columns(shared, schema, path, paths[0], choice.drop)
    return shared


def _with_columns(shared: Any, schema: Any, path: str, first: str, dropped: Collection[str]) -> Any:
    """Return an Arrow schema with the columns of another file."""
    others, own = features_of(shared), features_of(schema)
    columns = list(shared)
    for each in schema:
        at = shared.get_field_index(each.name)
        if at < 0 or each.name in dropped:
            columns += [each] if each.name not in dropped else []
            continue
        other, feature = others.get(each.name, {}), own.get(each.name, {})
        if names_of(feature) != names_of(other) and feature and other:
            raise SourceError(
                f"{path}: the column {each.name!r} names other classes than in {first}: read one "
                f"at a time, or --drop {each.name}"
            )
        if each.type == columns[at].type:
            continue
        kind, _ = type_of_column(each.type, feature)
        before, _ = type_of_column(columns[at].type, other)
        is_joined = are_lists_of_one(each.type, columns[at].type)
        if kind and before and join(kind, before) is None and not is_joined:
            raise SourceError(
                f"{path}: the column {each.name!r} is of the type {each.type}, and of "
                f"{columns[at].type} in {first}: --drop {each.name}"
            )
        with suppress(
            arrow().ArrowException
        ):  # the first type stays if the two have none in common
            pair = (arrow().schema([column]) for column in (columns[at], each))
            columns[at] = arrow().unify_schemas(list(pair), promote_options="permissive").field(0)
    return arrow().schema(columns, shared.metadata if others else schema.metadata)


def _images(paths: Sequence[str], schema: Any) -> set[str]:
    """Return the columns of bytes that hold images, as the first rows show."""
    kinds = {each.name: type_of_column(each.type, {})[0] for each in schema}
    names = [name for name in kinds if kinds[name] == "bytes" and schema.names.count(name) == 1]
    first = _first_cells(paths[0], names)
    return {name for name, cells in first.items() if cells and all(map(is_image, cells))}


def _named_files(paths: Sequence[str], schema: Any, images: Collection[str]) -> tuple[str, ...]:
    """Return the columns of texts that name images beside the table, if it holds no images.

    Each of the first rows names an image by its extension, and the first of these is there.
    """
    if images or any(is_file(each.type) for each in schema):
        return ()
    names = [each.name for each in schema if is_text(each.type)]
    names = [name for name in names if schema.names.count(name) == 1]
    folder = os.path.dirname(paths[0])
    return tuple(
        name
        for name, cells in _first_cells(paths[0], names).items()
        if cells and all(map(image_kind_of, cells)) and _is_beside(folder, cells[0])
    )


def _is_beside(folder: str, path: str) -> bool:
    try:
        find_beside(folder, path)
    except (BadSample, OSError):
        return False
    return True


def _first_cells(path: str, names: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """Return the values of some columns in the first rows that have them; none if it is damaged."""
    first: dict[str, list[Any]] = {}
    if not names:
        return first
    with open_or_refuse(path) as file:
        try:
            groups = [0][: file.num_row_groups]
            for batch in file.iter_batches(ROWS_OF_BATCH, groups, columns=names, use_threads=False):
                for name in batch.schema.names:
                    first[name] = first.get(name) or batch.column(name).drop_null().to_pylist()
                if all(first.values()):
                    break
        except (arrow().ArrowException, OSError, UnicodeDecodeError):
            return {}  # indexing reports the damage
    return first


def _completed(
    declared: Schema, recorded: Schema | None, read: set[str], indexed: Sequence[IndexedRows]
) -> tuple[Schema, list[str]]:
    """Drop the fields that no row has, with a note, and mark those that some rows lack."""
    # Texts are JSON if a manifest says so: columns of Parquet have no such type.
    counts = sum((rows.counts for rows in indexed), Counter[str]())
    count = sum(len(rows.rows) for rows in indexed)
    noted = recorded.fields if recorded is not None else ()
    json_places = {each.places for each in noted if each.type == "json"}
    class_ids = {each.names: each.ids for each in noted if each.type == "objects"}
    facts = {(each.places, each.type): each.fact for each in noted}
    fields, gone = list[Field](), list[str]()
    for each in declared.fields:
        if each.name in read and not counts[each.name]:
            gone.append(each.name)
            continue
        kind = "json" if each.type == "text" and each.places in json_places else each.type
        missing = each.name in read and counts[each.name] < count
        ids = class_ids.get(each.names, ()) if kind == "objects" else each.ids
        fact = facts.get((each.places, kind), "")
        fields.append(replace(each, type=kind, missing=missing, ids=ids, fact=fact))
    image, label = (None if name in gone else name for name in (declared.image, declared.label))
    schema = Schema(tuple(fields), image, label, declared.format)
    return schema, [nulls_note(gone)] if gone else []


def _number(
    label: Field, classes: tuple[str, ...] | None, labels: Sequence[Any], choice: Choice, root: str
) -> tuple[Field, pl.Series | None]:
    """Number the classes of a label; the column is None unless every sample has a label."""
    if label.type == "text" and (choice.label_type == "text" or choice.schema is not None):
        return label, None
    if label.type == "text":
        label = _named_by_texts(label, classes, labels, root)
    elif label.type == "class":
        if classes and label.names:  # the numbers mean other classes than the user named
            names = dict(enumerate(label.names))
            labels = [names.get(each, each) for each in labels]
        label = replace(label, names=classes or label.names)
    if not label.kind.is_integer:
        lists = label_lists(labels) if label.kind.is_number else None
        width = 0 if lists is None or lists.is_empty() else len(lists[0])
        return replace(label, width=width) if label.kind.is_number else label, lists
    numbers = _class_numbers(label, labels, root)
    if None in numbers or (label.names and _WITHOUT_CLASS in numbers):
        return label, None
    if max(numbers) >= 1 << 63:
        raise SourceError(f"{root}: the label {max(numbers)} is beyond 64 bits with a sign")
    return label, pl.Series("cls", list(map(int, numbers)), dtype=pl.Int64)


def _named_by_texts(
    label: Field, classes: tuple[str, ...] | None, labels: Sequence[Any], root: str
) -> Field:
    """Return a label of texts as a class with these names."""
    known = {each for each in labels if each is not None}
    if not all(isinstance(each, str) for each in known):
        raise SourceError(f"{root}: the column {label.name!r} is not UTF-8")
    names = number_classes(known, Known(classes), root, unknown=None)
    return replace(label, type="class", names=names)


def _class_numbers(label: Field, labels: Sequence[Any], root: str) -> list[Any]:
    """Return the numbers of names and numbers of classes, each of which has to be known."""
    column = f"the column {label.name!r}"
    if len(set(label.names)) < len(label.names):
        raise SourceError(f"{root}: two classes in {column} have one name")
    require_lines(sorted(label.names), root)
    by_name = numbers_of(label.names)
    if unknown := sorted({each for each in labels if isinstance(each, str)} - by_name.keys()):
        raise unknown_classes(f"{root}: {column}", unknown, label.names)
    numbers = [by_name[each] if isinstance(each, str) else each for each in labels]
    known = range(_WITHOUT_CLASS, len(label.names))
    for row, number in enumerate(numbers if label.names else ()):
        if number is not None and number not in known:
            raise SourceError(
                f"{root}: row {row}: {number} is none of the {len(label.names)} classes"
            )
    return numbers


def _paths_of_records(newest: pl.DataFrame, indexed: Sequence[IndexedRows]) -> list[str]:
    """Return a path for each record, whose key is that of the record."""
    places = [(number, row) for number, each in enumerate(indexed) for row in each.rows]
    table = pl.DataFrame(places, {"file": newest["file"].dtype, "row": pl.Int64}, orient="row")
    found = table.join(newest, on=("file", "row"), how="left", maintain_order="left")["key"]
    kinds = (kind for each in indexed for kind in each.kinds)
    # The key of a path without dots is the path.
    keys = (key_of(f"{name}.") for name in found.cast(pl.String))
    return [f"{key}.{kind}".rstrip(".") for key, kind in zip(keys, kinds, strict=True)]


def _names(paths: Sequence[str], indexed: Sequence[IndexedRows], own: Sequence[Cell]) -> list[str]:
    """Return a path for each sample; the keys that follow from them are all different."""
    plain = [plain_path(path) if isinstance(path, str) else None for path in own]
    names = [name for name in plain if name is not None]
    if len({key_of(name) for name in names}) == len(plain):
        return names
    # The key of a path without dots is the path.
    stems = [key_of(f"{_EXTENSION.sub('', name)}.") for name in short_names(paths)]
    return [
        f"{stem}-{row:07d}.{kind}".rstrip(".")
        for stem, rows in zip(stems, indexed, strict=True)
        for row, kind in zip(rows.rows, rows.kinds, strict=True)
    ]

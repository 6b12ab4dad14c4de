"""The catalog of Parquet files of a row for each sample, as Hugging Face `datasets` writes them."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import polars as pl

from dsprep.catalog import COLUMNS, PLACE_COLUMNS, Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.formats.arrow_columns import KEY, Columns, choose_columns
from dsprep.formats.arrow_types import FILES
from dsprep.readers.parquet import ParquetFile, ParquetReader
from dsprep.sample import key_of
from dsprep.sources.classes import number_classes
from dsprep.sources.parquet_rows import IndexedRows, RowsTask, index_rows, open_or_refuse
from dsprep.sources.scan import RunAll
from dsprep.stores.paths import common_path

_ELSEWHERE = re.compile(r"/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]*://")
_GOES_UP = re.compile(r"(^|/)\.\.(/|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LARGEST_EXACT = 1 << 53
_WITHOUT_CLASS = -1
"""What Hugging Face writes where the class is not known, as in most test sets."""


def read_parquet(
    paths: Sequence[str],
    classes: tuple[str, ...] | None,
    *,
    dropped: frozenset[str] = frozenset(),
    rounded: frozenset[str] = frozenset(),
    image_column: str | None = None,
    label_column: str | None = None,
    run_all: RunAll = map,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of Parquet files.

    The samples are in the order of the files and their rows. Their keys are those that a column
    ``__key__`` tells or that follow from the images' paths (of a path that leads elsewhere, from
    the file's name), if every sample has one of its own; else the numbers of the rows, from 0,
    with nine digits. Labels that some rows lack are in the samples alone, not in the catalog; so
    are those of a test set whose classes are all -1.

    Args:
        paths: The files.
        classes: The classes and their order, if they are fixed already; those that the files name
            are numbered anew then.
        dropped: Columns that are not read.
        rounded: Columns of 64-bit floats that are rounded to 32 bits, which is what samples have.
            Others keep all digits, for another Parquet file; most formats reject these.
        image_column: The column of images, if the user named it.
        label_column: The column of labels, if the user named it.
        run_all: Runs calls, here or in workers.

    Returns:
        The catalog, and what was noticed: row groups that are damaged.

    Raises:
        OptionError: If pyarrow is not installed, or a column to round is not of 64-bit floats.
        SourceError: If a file cannot be read, has other columns than the first, or columns that no
            sample can hold; if a class is not among those given; or if there are no rows.
    """
    columns, left_out = _shared_columns(paths, dropped, image_column, label_column)
    columns = replace(columns, rounded=_require_doubles(rounded, columns, paths[0]))
    indexed = list(run_all(index_rows, [RowsTask(path, columns) for path in paths]))
    findings = [
        Finding("damaged", os.path.basename(path), damage)
        for path, rows in zip(paths, indexed, strict=True)
        for damage in rows.damage
    ]
    root = paths[0] if len(paths) == 1 else common_path(paths)
    if not any(rows.rows for rows in indexed):
        why = f": {findings[0].path}: {findings[0].detail}" if findings else ""
        raise SourceError(f"{root}: holds no rows that can be read{why}")
    columns, classes, labels = _number_labels(columns, classes, indexed, root)
    names = _names(indexed, root)
    table = pl.DataFrame(
        {
            "index": range(len(names)),
            "path": names,
            "size": _joined(indexed, "sizes"),
            "mtime": [rows.mtime for rows in indexed for _ in rows.rows],
            "file": [number for number, rows in enumerate(indexed) for _ in rows.rows],
            "offset": _joined(indexed, "rows"),
            "stored": [0] * len(names),
        },
        schema=COLUMNS | PLACE_COLUMNS,
    )
    if labels is not None:
        table = table.with_columns(labels)
    files = tuple(
        ParquetFile(path, rows.size, rows.mtime, tuple(rows.groups), rows.spool)
        for path, rows in zip(paths, indexed, strict=True)
    )
    fields = _fields(columns, indexed, names)
    fields.update({(name, ""): len(names) for name in left_out})
    return Catalog(table, root, classes, ParquetReader(files, columns), fields), findings


def _joined(indexed: Sequence[IndexedRows], name: str) -> list[Any]:
    return list(chain.from_iterable(getattr(rows, name) for rows in indexed))


def _shared_columns(
    paths: Sequence[str], dropped: frozenset[str], image: str | None, label: str | None
) -> tuple[Columns, set[str]]:
    """The columns that all files have, and those of the dropped ones that there are.

    Raises:
        SourceError: If they do not have the same.
    """
    shared: Columns | None = None
    first = ""
    empty, left_out = set[str](), set[str]()
    for path in paths:
        with open_or_refuse(path) as file:
            schema = file.schema_arrow
        names = {each.name for each in schema}
        left_out |= names & dropped
        wanted = (image if image in names else None, label if label in names else None)
        found = choose_columns(schema, path, dropped=dropped, image=wanted[0], label=wanted[1])
        nulls = names.difference(found.kind_of, dropped)
        if shared is None:
            shared, first, empty = found, path, nulls
            continue
        for name in sorted(shared.kind_of.keys() ^ found.kind_of.keys()):
            if name not in empty | nulls:
                only = path if name in found.kind_of else first
                raise SourceError(
                    f"{path}: has other columns than {first}: only {only} has {name!r}: "
                    f"--drop {name}"
                )
        for name, kind in found.kinds:
            if shared.kind_of.get(name, kind) != kind:
                raise SourceError(
                    f"{path}: the column {name!r} is of the type {kind}, and of "
                    f"{shared.kind_of[name]} in {first}: --drop {name}"
                )
        if found.names != shared.names and found.label and shared.label:
            raise SourceError(f"{path}: names other classes than {first}")
        added = tuple(each for each in found.kinds if each[0] not in shared.kind_of)
        shared = Columns(
            shared.kinds + added,
            shared.image or found.image,
            shared.label or found.label,
            shared.names or found.names,
        )
        empty |= nulls
    assert shared is not None
    for asked in filter(None, (image, label)):
        if asked not in shared.kind_of:
            raise SourceError(f"{first}: has no column {asked!r} that holds values")
    return shared, left_out


def _require_doubles(names: frozenset[str], columns: Columns, path: str) -> frozenset[str]:
    for name in names:
        if columns.kind_of.get(name) not in ("double", "list<double>") or name == columns.label:
            raise OptionError(f"{path}: {name!r} is no column of 64-bit floats that are no labels")
    return names


def _number_labels(
    columns: Columns,
    classes: tuple[str, ...] | None,
    indexed: Sequence[IndexedRows],
    root: str,
) -> tuple[Columns, tuple[str, ...] | None, pl.Series | None]:
    """Number the classes.

    Returns:
        The columns, with the numbers that classes get; the classes; and the column ``cls`` or
        ``label`` of the catalog, if every sample has one.
    """
    if columns.label is None:
        return columns, classes, None
    labels = _joined(indexed, "labels")
    kind = columns.kind_of[columns.label]
    if columns.label_field == "label":
        lists = [[label] if isinstance(label, float) else label for label in labels]
        return columns, classes, _label_lists(lists)
    if kind == "string":
        columns, classes = _number_texts(columns, classes, labels, root)
    elif columns.names is not None and classes not in (None, columns.names):
        columns = _renumber(columns, classes or (), labels, root)
    else:
        classes = classes or columns.names
    if classes is not None and len(set(classes)) < len(classes):
        raise SourceError(f"{root}: two classes in the column {columns.label!r} have one name")
    number_classes(classes or (), root)
    numbers = [
        label if label is None or columns.numbers is None else columns.numbers[label]
        for label in labels
    ]
    if classes is not None:
        for row, number in enumerate(numbers):
            if number is not None and not _WITHOUT_CLASS <= number < len(classes):
                raise SourceError(
                    f"{root}: row {row}: {number} is none of the {len(classes)} classes"
                )
    if None in numbers or (classes is not None and _WITHOUT_CLASS in numbers):
        return columns, classes, None
    if max(numbers) >= 1 << 63:
        raise SourceError(f"{root}: the label {max(numbers)} is beyond 64 bits with a sign")
    return columns, classes, pl.Series("cls", list(map(int, numbers)), dtype=pl.Int64)


def _label_lists(lists: Sequence[list[Any] | None]) -> pl.Series | None:
    """The labels of several numbers, if every sample has one."""
    for label in lists:
        if not label or None in label:
            return None
        if any(isinstance(number, int) and abs(number) > _LARGEST_EXACT for number in label):
            return None
    return pl.Series("label", lists, dtype=pl.List(pl.Float64), strict=False)


def _number_texts(
    columns: Columns, classes: tuple[str, ...] | None, labels: Sequence[bytes | None], root: str
) -> tuple[Columns, tuple[str, ...]]:
    """Number classes that are told by their names, in plain sorted order if they have none yet."""
    try:
        names = {label.decode() for label in labels if label is not None}
    except UnicodeDecodeError:
        raise SourceError(f"{root}: the column {columns.label!r} is not UTF-8") from None
    if classes is None:
        classes = number_classes(names, root)
    _require_known(names, classes, columns, root)
    return replace(columns, numbers={each.encode(): i for i, each in enumerate(classes)}), classes


def _renumber(
    columns: Columns, classes: tuple[str, ...], labels: Sequence[int | None], root: str
) -> Columns:
    """Number classes that the file numbers in another way."""
    names = columns.names or ()
    used = {label for label in labels if label is not None and label != _WITHOUT_CLASS}
    for label in used:
        if not 0 <= label < len(names):
            raise SourceError(f"{root}: the label {label} is none of its {len(names)} classes")
    _require_known({names[label] for label in used}, classes, columns, root)
    numbers: dict[bytes | int, int] = {label: classes.index(names[label]) for label in used}
    return replace(columns, numbers=numbers | {_WITHOUT_CLASS: _WITHOUT_CLASS})


def _require_known(names: set[str], classes: tuple[str, ...], columns: Columns, root: str) -> None:
    unknown = sorted(names.difference(classes))
    if unknown:
        raise SourceError(
            f"{root}: the class {unknown[0]!r} ({len(unknown)} such) in the column "
            f"{columns.label!r} is none of the {len(classes)} classes"
        )


def _names(indexed: Sequence[IndexedRows], root: str) -> list[str]:
    """A path for each sample, of which its key follows, and no two of which give one key.

    Raises:
        SourceError: If the column of keys tells no key, or one twice.
    """
    keys = _joined(indexed, "keys")
    kinds = _joined(indexed, "kinds")
    paths = _joined(indexed, "paths")
    if not any(key is not None for key in keys):
        names = [_plain_path(path) for path in paths]
        if _tell_apart(names):
            return [name for name in names if name is not None]
        return [_with_kind(f"{row:09d}", kind) for row, kind in enumerate(kinds)]
    chosen: list[str] = []
    for row, (key, kind, path) in enumerate(zip(keys, kinds, paths, strict=True)):
        name = _plain_path(path) if key is None else _path_of_key(key, kind)
        if name is None:
            raise SourceError(
                f"{root}: row {row}: its {KEY} {key!r} is none; --drop {KEY} to number the rows"
            )
        chosen.append(name)
    if not _tell_apart(chosen):
        raise SourceError(f"{root}: a {KEY} stands in two rows; --drop {KEY} to number the rows")
    return chosen


def _tell_apart(names: Sequence[str | None]) -> bool:
    return None not in names and len({key_of(name) for name in names if name}) == len(names)


def _with_kind(key: str, kind: str) -> str:
    return f"{key}.{kind}" if kind else key


def _path_of_key(key: bytes, kind: str) -> str | None:
    """The path from which a key follows; None if it cannot be one."""
    try:
        name = _with_kind(key.decode(), kind)
    except UnicodeDecodeError:
        return None
    return name if _plain_path(name.encode()) == name and key_of(name) == key.decode() else None


def _plain_path(path: bytes | None) -> str | None:
    """What a file says of an image's place, as a path below a root; None if it says nothing."""
    if not path:
        return None
    try:
        text = path.decode()
    except UnicodeDecodeError:
        return None
    if _CONTROL.search(text):
        return None
    if _ELSEWHERE.match(text) or _GOES_UP.search(text):
        text = re.split(r"[/\\]", text)[-1]
    parts = [part for part in text.split("/") if part not in ("", ".")]
    return "/".join(parts) if parts and parts[-1] != ".." else None


def _fields(
    columns: Columns, indexed: Sequence[IndexedRows], names: Sequence[str]
) -> Counter[tuple[str, str]]:
    """How many samples have each field, by its name and its type."""
    counts: Counter[str] = Counter()
    for rows in indexed:
        counts.update(rows.counts)
    fields: Counter[tuple[str, str]] = Counter()
    kinds = _joined(indexed, "kinds")
    for kind, count in Counter(kinds).items():
        if kind:
            fields[kind, "bytes"] = count
    if columns.label:
        kind = "int" if columns.label_field == "cls" else "tuple"
        fields[columns.label_field, kind] = counts[columns.label]
    if columns.image:
        own = sum(
            path is not None and path != f"{key_of(name)}.{kind}".encode()
            for path, name, kind in zip(_joined(indexed, "paths"), names, kinds, strict=True)
        )
        fields[columns.path_field, "str" if columns.path_field == "filename" else "bytes"] = own
    for name in columns.fields:
        fields[name, columns.type_of(name)] = counts[name]
        if columns.kind_of[name] in FILES:
            fields[f"{name}.path", "bytes"] = counts[f"{name}.path"]
    return Counter({field: count for field, count in fields.items() if count})

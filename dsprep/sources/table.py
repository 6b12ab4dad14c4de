"""A table beside its images, as Kaggle's data sets have it: CSV or TSV, with a header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError
from dsprep.findings import Finding
from dsprep.lists.rows import is_too_large, leads_outside, plain_paths
from dsprep.options import require_effect
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.below import scan_below
from dsprep.sources.cells import parse_cells
from dsprep.sources.classes import notes_on_order
from dsprep.sources.files import Files, list_files
from dsprep.sources.labels import (
    Known,
    labels_from_cells,
    labels_from_names,
    labels_from_numbers,
    numbers_in,
    refuse_fractions,
    refuse_labels,
    refuse_mixture,
    refuse_tags,
    refuse_two_readings,
)
from dsprep.sources.match import chosen, find_spelled, match_files, more_than_names
from dsprep.sources.scan import RunAll
from dsprep.text import read_text, refuse
from dsprep.units import quoted, quoted_names

PATH_COLUMNS = (
    *("path", "filepath", "file_path", "image_path", "img_path"),
    *("filename", "file_name", "image_name", "img_name", "file", "image", "img"),
    *("image_id", "img_id", "id_code", "id", "name"),
)
"""What columns of paths or ids are called, in any case; of several, the earliest here counts."""

LABEL_COLUMNS = (
    *("label", "labels", "label_id", "class", "class_id", "class_name", "y", "target"),
    *("category", "category_id", "breed", "species", "diagnosis"),
)
"""What columns of labels are called, in any case; of several, the user has to choose."""

_BOX_COLUMNS = frozenset(
    ("xmin", "x_min", "xmax", "x_max", "ymin", "y_min", "bbox", "box", "bndbox", "x1", "x2")
)
"""What columns of boxes are called, in lower case."""

_FOR_BOXES = "make an MXNet .lst with detection labels, and give it with --list"

_IMAGE_NAME = re.compile(rf"[.](?:{'|'.join(IMAGE_EXTENSIONS)})$", re.IGNORECASE)

_NOT_GIVEN = ("", "nan")


class Columns(NamedTuple):
    """Which columns of a table are used."""

    path: str
    labels: tuple[str, ...]


def read_table(
    table_path: str,
    root: str,
    *,
    path_column: str | None = None,
    label_columns: Sequence[str] = (),
    label_separator: str | None = None,
    label_type: str | None = None,
    classes: tuple[str, ...] | None = None,
    owner: str | None = None,
    class_order: str | None = None,
    extensions: frozenset[str],
    duplicates: str | None = None,
    run_all: RunAll = map,
    text: str | None = None,
    files: Files | None = None,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a table.

    A path may lack its extension, and its directories if no other image has that name. The labels
    of one column are whole numbers, fractions or names, which are numbered in plain sorted order;
    those of several columns are numbers.
    """
    cells, lines = parse_cells(read_text(table_path) if text is None else text, table_path)
    columns = find_columns(cells.columns, path_column, label_columns, table_path)
    known = Known(classes, owner, class_order)
    labels, classes = _labels(
        cells.select(columns.labels), lines, known, label_separator, label_type, table_path
    )
    named = known.classes is None and classes is not None
    require_effect("", {"--class-order": class_order}, named=named)
    rows = pl.DataFrame([lines, cells[columns.path].alias("path"), labels]).with_row_index("index")
    path = pl.col("path")
    refuse(table_path, rows, path == "", lambda row: f"no path in the column {columns.path!r}")
    refuse(
        table_path,
        rows,
        leads_outside(path),
        lambda row: f"{row['path']!r} is not a path below the folder",
    )
    if files is None:
        files = list_files(scan_below(root, extensions, run_all))
    files = files.fitting(plain_paths(rows["path"]))
    rows = rows.with_columns(file=_find_files(rows, files.table, table_path))
    boxes = [name for name in cells.columns if name.lower() in _BOX_COLUMNS]
    advice = f"; for rows of one box each ({quoted_names(boxes)}), {_FOR_BOXES}" if boxes else ""
    rows, findings = match_files(rows, files, root, table_path, duplicates, advice)
    if named and classes and class_order is None:
        findings += notes_on_order(classes)
    rows = rows.with_columns(pl.col("index").cast(pl.Int64), path="file")
    return chosen(rows, files, root, classes, told=["label"]), findings


def find_columns(
    header: Sequence[str], path: str | None, labels: Sequence[str], source: str
) -> Columns:
    """Find the columns of paths and labels."""
    columns = quoted_names(header)
    unknown = [name for name in (path, *labels) if name is not None and name not in header]
    if any(map(_IMAGE_NAME.search, header)) and (unknown or path is None):
        raise OptionError(
            f"{source}: its first line has to name the columns, but looks like data: {columns}. "
            "Put a line above it, such as path,label"
        )
    if unknown:
        raise OptionError(
            f"{source}: has no column {quoted(unknown[0])}; its columns are {columns}"
        )
    known = {name.lower(): name for name in header if name != path and name not in labels}
    paths = [path] if path else [known[name] for name in PATH_COLUMNS if name in known][:1]
    found = list(labels) or [known[name] for name in LABEL_COLUMNS if name in known]
    if len(found) > 1 and not labels:  # y is a coordinate where another column is called label
        found = [name for name in found if name.lower() != "y"]
    if len(header) == 2 and len(paths) + len(found) == 1:
        rest = [name for name in header if name not in (*paths, *found)]
        paths, found = paths or rest, found or rest
    if numbers_in(pl.Series(header)).any():
        columns += ". If its first line is data already, put a line above it, such as path,label"
    if not paths:
        raise OptionError(f"{source}: name its column of paths with --path-column: {columns}")
    if len(found) != (len(labels) or 1):
        raise OptionError(f"{source}: name its column of labels with --label-column: {columns}")
    return Columns(paths[0], tuple(found))


def _labels(
    cells: pl.DataFrame,
    lines: pl.Series,
    known: Known,
    separator: str | None,
    kind: str | None,
    source: str,
) -> tuple[pl.Series, tuple[str, ...] | None]:
    """Make the labels from the columns that hold them."""
    for column in cells:
        _refuse_missing(column, lines, separator is not None, source)
    first = cells.to_series()
    if separator is not None:
        return labels_from_cells(first, lines, separator, kind, known, source)
    must_be_numbers = cells.width > 1 or kind == "float"
    classes = known.classes
    if not must_be_numbers and classes and first.is_in(classes).all():
        refuse_two_readings(first, lines, known, source)
        return labels_from_names(pl.DataFrame([lines, first.alias("name")]), known, source)
    are_numbers = [numbers_in(column) for column in cells]
    if must_be_numbers:
        for column, is_number in zip(cells, are_numbers, strict=True):
            reason = "is not a number, as each of these labels must be"
            refuse_labels(column, lines, ~is_number, reason, source)
    elif kind is None and not are_numbers[0].all():
        refuse_tags(first, lines, source)
        way_out = "give --label-type class if all labels are names of classes"
        refuse_mixture(first, lines, are_numbers[0], way_out, source)
    if not all(each.all() for each in are_numbers):
        return labels_from_names(pl.DataFrame([lines, first.alias("name")]), known, source)
    for column in cells:
        reason = "is too large: whole numbers have to be below 2^53"
        refuse_labels(column, lines, is_too_large(column), reason, source)
    labels = cells.select(lines, labels=pl.concat_list(pl.all().cast(pl.Float64)))
    if kind == "float":
        return labels["labels"].alias("label"), None
    label = labels_from_numbers(labels, classes, source, known.owner)
    if label.name != "cls" and not must_be_numbers:
        refuse_fractions(first, lines, kind, source)
    return label, classes


def _refuse_missing(column: pl.Series, lines: pl.Series, may_be_empty: bool, source: str) -> None:
    missing = column.str.to_lowercase().is_in(_NOT_GIVEN[may_be_empty:])
    rows = pl.DataFrame([lines, missing.alias("missing")])
    where = f"in the column {column.name!r}"
    refuse(source, rows, pl.col("missing"), lambda row: f"no label {where}")


def _find_files(rows: pl.DataFrame, files: pl.DataFrame, source: str) -> pl.Series:
    """Find the file that each path means: the one of that name, or of more than that name."""
    cells = rows.select("line", name=plain_paths(rows["path"]))
    left = cells.join(files, left_on="name", right_on="path", how="anti")
    found = find_spelled(left, more_than_names(files), source)
    if found.is_empty():
        return cells["name"]
    files_found = cells.join(found, on="name", how="left", maintain_order="left")
    return files_found.select(pl.coalesce("path", "name")).to_series()

"""A table beside its images, as Kaggle's data sets have it: CSV or TSV, with a header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError
from dsprep.findings import Finding
from dsprep.lists.editing import plain_paths
from dsprep.lists.rows import is_too_large, leads_outside
from dsprep.sources.below import scan_below
from dsprep.sources.cells import parse_cells
from dsprep.sources.files import Files, list_files
from dsprep.sources.labels import labels_from_names, labels_from_numbers
from dsprep.sources.match import chosen, find_spelled, match_files, more_than_names
from dsprep.sources.scan import RunAll
from dsprep.text import read_text, refuse

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
    classes: tuple[str, ...] | None = None,
    extensions: frozenset[str],
    run_all: RunAll = map,
    text: str | None = None,
    files: Files | None = None,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a table.

    A path may lack its extension, and its directories if no other image has that name. The labels
    of one column are whole numbers, fractions or names, which are numbered in plain sorted order;
    those of several columns are numbers.

    Args:
        table_path: The CSV or TSV file.
        root: The directory that its paths start from.
        path_column: The column of paths or ids; None to find it by its name.
        label_columns: The columns of labels; empty to find one by its name.
        classes: The classes and their order, if they are fixed already.
        extensions: Those of images, in lower case and without the dot.
        run_all: Runs calls, here or in workers.
        text: What stands in the table, if it is not to be read from the disk.
        files: What lies below the root, if that is known and needs no scan.

    Returns:
        The catalog, in the order of the table, the ids being row numbers from 0 and the paths those
        of the files; and what was noticed.

    Raises:
        OptionError: If it is not clear which columns are meant.
        SourceError: If the table cannot be read, a label is missing or none of the classes, an id
            may mean two images, a path leads out of the root, or no image that it names is there.
    """
    cells, lines = parse_cells(read_text(table_path) if text is None else text, table_path)
    columns = find_columns(cells.columns, path_column, label_columns, table_path)
    labels, classes = _labels(cells.select(columns.labels), lines, classes, table_path)
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
    rows, findings = match_files(rows, files, root, table_path)
    rows = rows.with_columns(pl.col("index").cast(pl.Int64), path="file")
    return chosen(rows, files, root, classes, told=["label"]), findings


def find_columns(
    header: Sequence[str], path: str | None, labels: Sequence[str], source: str
) -> Columns:
    """Find the columns of paths and labels.

    Args:
        header: The names of all columns.
        path: The column of paths, if the user named it.
        labels: The columns of labels, if the user named them.
        source: The table's name, for messages.

    Raises:
        OptionError: If a column does not exist, or it is not clear which is meant.
    """
    columns = ", ".join(map(repr, header))
    for name in filter(None, [path, *labels]):
        if name not in header:
            raise OptionError(f"{source}: has no column {name!r}; its columns are {columns}")
    known = {name.lower(): name for name in header if name != path and name not in labels}
    paths = [path] if path else [known[name] for name in PATH_COLUMNS if name in known][:1]
    found = list(labels) or [known[name] for name in LABEL_COLUMNS if name in known]
    if len(header) == 2 and len(paths) + len(found) == 1:
        rest = [name for name in header if name not in (*paths, *found)]
        paths, found = paths or rest, found or rest
    if not paths:
        raise OptionError(f"{source}: name its column of paths with --path-column: {columns}")
    if len(found) != (len(labels) or 1):
        raise OptionError(f"{source}: name its column of labels with --label-column: {columns}")
    return Columns(paths[0], tuple(found))


def _labels(
    cells: pl.DataFrame, lines: pl.Series, classes: tuple[str, ...] | None, source: str
) -> tuple[pl.Series, tuple[str, ...] | None]:
    """Make the labels from the columns that hold them.

    Returns:
        The column ``cls`` or ``label`` of a catalog, and its classes.
    """
    several = cells.width > 1
    are_numbers = [_are_numbers(column, lines, several, source) for column in cells]
    names = cells.to_series().alias("name")
    if all(are_numbers) and (several or not classes or not names.is_in(classes).all()):
        for column in cells:
            _refuse_too_large(column, lines, source)
        labels = cells.select(lines, labels=pl.concat_list(pl.all().cast(pl.Float64)))
        return labels_from_numbers(labels, classes, source), classes
    return labels_from_names(pl.DataFrame([lines, names]), classes, source)


def _are_numbers(column: pl.Series, lines: pl.Series, must_be: bool, source: str) -> bool:
    """Whether all labels of a column are numbers; refuses missing ones."""
    label = pl.col("label")
    is_number = label.cast(pl.Float64, strict=False).is_finite().fill_null(False)
    rows = pl.DataFrame([lines, column.alias("label")]).with_columns(is_number=is_number)
    where = f"in the column {column.name!r}"
    missing = label.str.to_lowercase().is_in(_NOT_GIVEN)
    refuse(source, rows, missing, lambda row: f"no label {where}")
    if must_be:
        reason = f"{where} is not a number, as each of several labels must be"
        refuse(source, rows, ~pl.col("is_number"), lambda row: f"{row['label']!r} {reason}")
    return bool(rows["is_number"].all())


def _refuse_too_large(column: pl.Series, lines: pl.Series, source: str) -> None:
    rows = pl.DataFrame([lines, column.alias("label")])
    reason = f"in the column {column.name!r} is too large: whole numbers have to be below 2^53"
    wrong = is_too_large(pl.col("label"))
    refuse(source, rows, wrong, lambda row: f"{row['label']!r} {reason}")


def _find_files(rows: pl.DataFrame, files: pl.DataFrame, source: str) -> pl.Series:
    """Find the file that each path means: the one of that name, or of more than that name.

    Returns:
        The paths of the files; a path as it is where nothing was found.
    """
    cells = rows.select("line", name=plain_paths(rows["path"]))
    left = cells.join(files, left_on="name", right_on="path", how="anti")
    found = find_spelled(left, more_than_names(files), source)
    if found.is_empty():
        return cells["name"]
    files_found = cells.join(found, on="name", how="left", maintain_order="left")
    return files_found.select(pl.coalesce("path", "name")).to_series()

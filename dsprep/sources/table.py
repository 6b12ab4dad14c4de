"""A table beside its images, as Kaggle's data sets have it: CSV or TSV, with a header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.lists.rows import leads_outside, plain_paths
from dsprep.options import require_effect
from dsprep.sample import IMAGE_EXTENSIONS
from dsprep.sources.classes import notes_on_order
from dsprep.sources.files import Files, list_files
from dsprep.sources.labels import Known, labels_from_table, numbers_in
from dsprep.sources.match import chosen, find_spelled, match_files, more_than_names
from dsprep.sources.scan import RunAll, scan_below
from dsprep.text import refuse
from dsprep.units import quoted, quoted_names

if TYPE_CHECKING:
    from dsprep.sources.reading import Source

# Names of columns of paths or ids, in any case; of several, the earliest here is taken.
PATH_COLUMNS = (
    *("path", "filepath", "file_path", "image_path", "img_path"),
    *("filename", "file_name", "image_name", "img_name", "file", "image", "img"),
    *("image_id", "img_id", "id_code", "id", "name"),
)
# Names of columns of labels, in any case; of several, the user has to choose.
LABEL_COLUMNS = (
    *("label", "labels", "label_id", "class", "class_id", "class_name", "y", "target"),
    *("category", "category_id", "breed", "species", "diagnosis"),
)
_BOX_COLUMNS = frozenset(
    ("xmin", "x_min", "xmax", "x_max", "ymin", "y_min", "bbox", "box", "bndbox", "x1", "x2")
)
_FOR_BOXES = "make an MXNet .lst with detection labels, and give it with --list"
_IMAGE_NAME = re.compile(rf"[.](?:{'|'.join(IMAGE_EXTENSIONS)})$", re.IGNORECASE)


class Columns(NamedTuple):
    """The columns of a table that are used."""

    path: str
    labels: tuple[str, ...]


def read_table(
    source: Source, text: str, files: Files | None, known: Known, run_all: RunAll = map
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a table.

    A path may lack its extension, and its directories if no other image has that name. The labels
    of one column are whole numbers, fractions or names, which are numbered in plain sorted order;
    those of several columns are numbers.
    """
    path, root = source.labels, source.root
    assert path is not None
    cells, lines = parse_cells(text, path)
    columns = find_columns(cells.columns, source.path_column, source.label_columns, path)
    # Text is numbered first, as classes are.
    kind = "class" if source.label_type == "text" else source.label_type
    labels, classes = labels_from_table(
        cells.select(columns.labels), lines, known, source.label_separator, kind, path
    )
    named = known.classes is None and classes is not None
    require_effect("", {"--class-order": known.order}, named=named)
    rows = pl.DataFrame([lines, cells[columns.path].alias("path"), labels]).with_row_index("index")
    cell = pl.col("path")
    refuse(path, rows, cell == "", lambda row: f"no path in the column {columns.path!r}")
    outside = leads_outside(cell)
    refuse(path, rows, outside, lambda row: f"{row['path']!r} is not a path below the folder")
    if files is None:
        files = list_files(scan_below(root, source.suffixes, run_all))
    names = plain_paths(rows["path"])
    files = files.fitting(names)
    # A path means the file of that name, or of more than that name.
    named_files = rows.select("line", name=names)
    left = named_files.join(files.table, left_on="name", right_on="path", how="anti")
    found = find_spelled(left, more_than_names(files.table), path)
    joined = named_files.join(found, on="name", how="left", maintain_order="left")
    rows = rows.with_columns(file=joined.select(pl.coalesce("path", "name")).to_series())
    boxes = [name for name in cells.columns if name.lower() in _BOX_COLUMNS]
    advice = f"; for rows of one box each ({quoted_names(boxes)}), {_FOR_BOXES}" if boxes else ""
    rows, findings = match_files(rows, files, root, path, source.duplicates, advice)
    if named and classes and known.order is None:
        findings += notes_on_order(classes)
    rows = rows.with_columns(pl.col("index").cast(pl.Int64), path="file")
    return chosen(rows, files, root, classes, has_ids=False), findings


def find_columns(
    header: Sequence[str], path: str | None, labels: Sequence[str], source: str
) -> Columns:
    """Find the columns of paths and labels, those that the user names or the usual names."""
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


# Cells

# How files of annotation tools begin.
_ANNOTATIONS = [
    (name, re.compile(pattern, re.DOTALL))
    for name, pattern in (
        ("COCO's JSON", r'\s*\{\s*"(?=.*"annotations"\s*:)(?=.*"(?:images|categories)"\s*:)'),
        ("Label Studio's JSON", r'\s*\[\s*\{\s*"(?=.*"(?:annotations|completions)"\s*:)'),
        ("JSON", r'\s*[\[{]\s*(?:[\[{]\s*)?["\]}]'),
        ("Pascal VOC's XML", r"\s*<(?:\?xml[^>]*>\s*<)?annotation\b"),
        ("XML", r"\s*<\?xml\b"),
        ("a label file of YOLO", r"(?:[0-9]+(?: [0-9.]+){4,}[ \r]*(?:\n|$)){1,20}"),
    )
]
_AUGMENTED = re.compile(r'\s*\{[^\n]*"[^"\n]*-ref"\s*:')


def parse_cells(text: str, source: str) -> tuple[pl.DataFrame, pl.Series]:
    """Read a CSV (with commas or semicolons) or TSV file; return its cells and their lines."""
    refuse_annotations(text, source)
    separator = max(",;\t", key=text.lstrip("\r\n").partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = [name.strip() for name in next(filter(None, reader), [])]
    if len(set(header)) < len(header):
        raise SourceError(
            f"{source}:{reader.line_num}: two columns have one name, of {quoted_names(header)}: "
            "the first line has to name the columns, such as path,label"
        )
    try:
        cells = pl.read_csv(text.encode(), separator=separator, infer_schema=False)
        cells.columns = header
    except pl.exceptions.PolarsError:
        raise SourceError(_what_is_wrong(text, separator, source)) from None
    cells = cells.with_columns(pl.all().fill_null(""))
    # Cells in quotes may hold line breaks.
    breaks = cells.select(pl.sum_horizontal(pl.all().str.count_matches("\n"))).to_series()
    above = breaks.cast(pl.Int64).cum_sum().shift(1, fill_value=0)
    lines = pl.int_range(cells.height, eager=True) + above + (reader.line_num + 1)
    cells = cells.with_columns(pl.all().str.strip_chars())
    given = cells.select(pl.any_horizontal(pl.all() != "")).to_series()
    if not given.any():
        raise SourceError(f"{source}: names no files: there is nothing below its header")
    return cells.filter(given), lines.alias("line").filter(given)


def refuse_annotations(text: str, source: str) -> None:
    """Refuse the files of annotation tools that are neither tables nor lists."""
    if _AUGMENTED.match(text):
        raise SourceError(
            f"{source}: is an augmented manifest of SageMaker: give it with --list, or as SOURCE "
            "with --from augmented-manifest"
        )
    for name, pattern in _ANNOTATIONS:
        if pattern.match(text):
            raise SourceError(
                f"{source}: is {name}, which dsprep does not read yet: give a CSV or TSV file with "
                "a header line and a row for each image, such as path,label; for boxes, give an "
                "MXNet .lst with detection labels with --list"
            )


def _what_is_wrong(text: str, separator: str, source: str) -> str:
    """Find the line that polars could not read, which the slower parser tells."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        width = len(next(filter(None, reader), []))
        for row in reader:
            if len(row) > width:
                where = f"{source}:{reader.line_num}"
                return f"{where}: {len(row)} cells, where the header has {width}"
    except csv.Error as error:
        return f"{source}:{reader.line_num}: {error}"
    return f"{source}: not a table: give a CSV or TSV file with a header"

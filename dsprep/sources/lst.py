"""MXNet's ``.lst``: a line a sample, ``id<TAB>label[<TAB>label…]<TAB>path``.

As ``read_list`` in MXNet's ``tools/im2rec.py`` reads it: fields are separated by tabs and stripped,
labels are any numbers. What it would pass over or misread is an error here.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from dsprep.catalog import Catalog
from dsprep.errors import SourceError
from dsprep.findings import Finding
from dsprep.sources.files import list_files
from dsprep.sources.labels import is_too_large, labels_from_numbers
from dsprep.sources.match import leads_outside, match_files, plain_paths
from dsprep.sources.scan import RunAll, scan
from dsprep.sources.text import read_text, refuse

_LEAST_HEADER, _LEAST_OBJECT = 2, 5
_PIECE = 1 << 22
_LINES = pl.Schema(
    {"line": pl.Int64(), "index": pl.Int64(), "labels": pl.List(pl.Float64()), "path": pl.String()}
)


def read_lst(
    list_path: str,
    root: str,
    *,
    classes: tuple[str, ...] | None = None,
    extensions: frozenset[str],
    run_all: RunAll = map,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a list.

    One whole number a line makes class numbers; several numbers, a fraction or a detection label
    make label lists. A listed file may have any extension and may be hidden. Only the directories
    that the list names are looked into for files that it does not name.

    Args:
        list_path: The ``.lst``.
        root: The directory that its paths start from.
        classes: The names of the classes, if there are any.
        extensions: Those of images, in lower case and without the dot.
        run_all: Runs calls, here or in workers.

    Returns:
        The catalog, in the order of the list and with its ids and paths as they are written there;
        and what was noticed.

    Raises:
        SourceError: If a line cannot be understood, an id stands twice, a path leads out of the
            root, a label is not the number of a class, or no listed file is there.
    """
    rows = parse_lst(read_text(list_path), list_path)
    files_named = plain_paths(rows["path"]).alias("file")
    labels = labels_from_numbers(rows, classes, list_path)
    rows = rows.select("line", "index", "path", labels, files_named)
    listed = _directories(files_named)
    files = list_files(scan(root, extensions, run_all, listed), listed)
    rows, findings = match_files(rows, files, root, list_path)
    table = rows.select("index", "path", "size", "mtime", labels.name)
    return Catalog(table, root, classes), findings


def parse_lst(text: str, source: str) -> pl.DataFrame:
    """Read the lines of a ``.lst``.

    Args:
        text: All of it.
        source: Its name, for messages.

    Returns:
        The columns ``line`` (from 1), ``index``, ``labels`` (a list of numbers) and ``path``, one
        row for each line that is not blank.

    Raises:
        SourceError: If a line cannot be understood, an id stands twice, or a path leads outside.
    """
    rows = pl.concat([_LINES.to_frame(), *_parse_pieces(text, source)])
    if rows.is_empty():
        raise SourceError(f"{source}: names no files")
    _refuse_repeated_ids(rows, source)
    _refuse_ragged_labels(rows, source)
    return rows


def _parse_pieces(text: str, source: str) -> Iterator[pl.DataFrame]:
    """Parse some megabytes at a time: what lies between text and table is ten times as large."""
    start, line = 0, 1
    while start < len(text):
        stop = text.find("\n", start + _PIECE) + 1 or len(text)
        yield _parse_lines(text[start:stop], line, source)
        line += text.count("\n", start, stop)
        start = stop


def _parse_lines(text: str, first_line: int, source: str) -> pl.DataFrame:
    lines = pl.DataFrame({"text": [text]}).select(pl.col("text").str.split("\n").explode())
    lines = lines.with_row_index("line", offset=first_line)
    lines = lines.with_columns(pl.col("text").str.strip_chars()).filter(pl.col("text") != "")
    rows = lines.select(pl.col("line").cast(pl.Int64), fields=pl.col("text").str.split("\t"))
    if rows.is_empty():
        return _LINES.to_frame()
    fields, number = pl.col("fields"), pl.element()
    refuse(
        source,
        rows,
        fields.list.len() < 3,
        lambda row: "fewer than 3 columns: a line is an id, labels and a path, separated by tabs",
    )
    rows = rows.select(
        "line",
        id=fields.list.first().str.strip_chars(),
        path=fields.list.last().str.strip_chars(),
        words=fields.list.slice(1, fields.list.len() - 2),
    ).with_columns(
        index=pl.col("id").cast(pl.Int64, strict=False),
        labels=pl.col("words").list.eval(number.str.strip_chars().cast(pl.Float64, strict=False)),
    )
    refuse(
        source,
        rows,
        ~(pl.col("index") >= 0).fill_null(False),
        lambda row: f"{row['id']!r} is not an id: a whole number from 0 up",
    )
    refuse(
        source,
        rows,
        ~pl.col("labels").list.eval(number.is_finite() & number.is_not_null()).list.all(),
        lambda row: f"not all of the labels {row['words']} are numbers",
    )
    refuse(
        source,
        rows,
        pl.col("words").list.eval(is_too_large(number.str.strip_chars())).list.any(),
        lambda row: f"the labels {row['words']}: whole numbers have to be below 2^53",
    )
    refuse(
        source,
        rows,
        leads_outside(pl.col("path")),
        lambda row: f"{row['path']!r} is not a path below the folder",
    )
    return rows.select(_LINES.names())


def _refuse_repeated_ids(rows: pl.DataFrame, source: str) -> None:
    if rows["index"].n_unique() < rows.height:
        refuse(
            source,
            rows.with_columns(first=pl.col("line").first().over("index")),
            pl.col("line") != pl.col("first"),
            lambda row: f"the id {row['index']} stands in line {row['first']} already",
        )


def _refuse_ragged_labels(rows: pl.DataFrame, source: str) -> None:
    """Let labels differ in length for detection alone.

    Its labels are A, B, A - 2 more header values, and B values for each object, as MXNet's
    ``ImageDetIter`` reads them.
    """
    rows = rows.with_columns(count=pl.col("labels").list.len().cast(pl.Int64))
    usual = rows["count"][0]
    if (rows["count"] == usual).all():
        return
    header, width = (pl.col("labels").list.get(place, null_on_oob=True) for place in (0, 1))
    objects = pl.col("count") - header
    large_enough = (header >= _LEAST_HEADER) & (width >= _LEAST_OBJECT) & (objects >= width)
    is_detection = (large_enough & (width % 1 == 0) & (objects % width == 0)).fill_null(False)
    all_should_be = rows.head(1).select(is_detection).item()
    refuse(
        source,
        rows,
        ~is_detection if all_should_be else pl.col("count") != usual,
        lambda row: (
            f"{row['count']} labels, where the first line has {usual}: only detection labels may "
            "differ in length (A, B, A - 2 more values, then B values for each object; A is at "
            "least 2 and B at least 5)"
        ),
    )


def _directories(paths: pl.Series) -> set[str]:
    """The directories that paths name, and all that these lie in, the root among them."""
    directories = {""}
    for directory in paths.str.replace(r"/?[^/]*$", "").unique().to_list():
        while directory not in directories:
            directories.add(directory)
            directory = directory.rpartition("/")[0]
    return directories

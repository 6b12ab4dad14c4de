"""An MXNet ``.lst``, and the folder or the samples that it names."""

from __future__ import annotations

import polars as pl

from dsprep.catalog import Catalog
from dsprep.findings import Finding
from dsprep.lists.rows import parse_rows, plain_paths
from dsprep.sources.below import scan_below
from dsprep.sources.cells import refuse_annotations
from dsprep.sources.files import Files, list_files
from dsprep.sources.labels import labels_from_numbers
from dsprep.sources.match import chosen, match_files
from dsprep.sources.scan import RunAll
from dsprep.text import read_text


def read_lst(
    list_path: str,
    root: str,
    *,
    classes: tuple[str, ...] | None = None,
    owner: str | None = None,
    extensions: frozenset[str],
    duplicates: str | None = None,
    run_all: RunAll = map,
    text: str | None = None,
    files: Files | None = None,
) -> tuple[Catalog, list[Finding]]:
    """Make the catalog of a list.

    One whole number a line makes class numbers; several numbers, a fraction or a detection label
    make label lists. A listed file may have any extension and may be hidden. Only the directories
    that the list names are looked into for files that it does not name.
    """
    text = read_text(list_path) if text is None else text
    refuse_annotations(text, list_path)
    rows = parse_rows(text, list_path, duplicates or "error")
    files_named = plain_paths(rows["path"]).alias("file")
    numbers = pl.col("label").str.split("\t").cast(pl.List(pl.Float64)).alias("labels")
    labels = labels_from_numbers(rows.select("line", numbers), classes, list_path, owner)
    rows = rows.select("line", "index", "path", labels, files_named)
    if files is None:
        listed = _directories(files_named)
        files = list_files(scan_below(root, extensions, run_all, listed), listed)
    files = files.fitting(files_named)
    rows, findings = match_files(rows, files, root, list_path, duplicates)
    return chosen(rows, files, root, classes), findings


def _directories(paths: pl.Series) -> set[str]:
    """The directories that paths name, and all that these lie in, the root among them."""
    directories = {""}
    for directory in paths.str.replace(r"/?[^/]*$", "").unique().to_list():
        while directory not in directories:
            directories.add(directory)
            directory = directory.rpartition("/")[0]
    return directories

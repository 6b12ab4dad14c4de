"""A source that `test_recipes.py` adds as CONTRIBUTING.md tells: a file of paths and classes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsprep.errors import SourceError
from dsprep.numbering import Known, number_classes
from dsprep.places.scan import RunAll
from dsprep.sources.pictures.readers import FileReader
from dsprep.storage.files import facts
from dsprep.text import read_text

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.findings import Finding
    from dsprep.sources.source import Source


def read_paths(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]] | None:
    """Make the catalog of the images that a file names; None if a source is something else."""
    if not source.root.endswith(".paths"):
        return None
    import polars as pl

    from dsprep.catalog import Catalog

    directory = os.path.dirname(source.root) or "."
    rows = [line.split("\t") for line in read_text(source.root).splitlines()]
    for number, row in enumerate(rows, 1):
        if len(row) != 2 or row[0].startswith("/") or ".." in row[0].split("/"):
            raise SourceError(f"{source.root}, line {number}: is not a path, a tab and a class")
    paths, names = zip(*rows, strict=True)
    classes = number_classes(set(names), Known(), source.root)
    found = [facts(os.path.join(directory, path)) for path in paths]
    table = pl.DataFrame(
        {
            "index": range(len(paths)),
            "path": paths,
            "size": [each.size for each in found],
            "mtime": [each.mtime_ns for each in found],
            "cls": [classes.index(name) for name in names],
        }
    )
    return Catalog(table, directory, classes, FileReader(directory)), []

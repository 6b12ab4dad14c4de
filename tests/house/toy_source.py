"""A source that `test_recipes.py` adds as CONTRIBUTING.md tells: a file of paths of images."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dsprep.sources.readers import FileReader
from dsprep.sources.scan import RunAll

if TYPE_CHECKING:
    from dsprep.catalog import Catalog
    from dsprep.findings import Finding
    from dsprep.sources.reading import Source


def read_paths(source: Source, run_all: RunAll) -> tuple[Catalog, list[Finding]] | None:
    """Make the catalog of the images that a file names; None if a source is something else."""
    if not source.root.endswith(".paths"):
        return None
    import polars as pl

    from dsprep.catalog import Catalog

    directory = os.path.dirname(source.root) or "."
    with open(source.root, encoding="utf-8") as file:
        paths = file.read().splitlines()
    facts = [os.stat(os.path.join(directory, path)) for path in paths]
    table = pl.DataFrame(
        {
            "index": range(len(paths)),
            "path": paths,
            "size": [each.st_size for each in facts],
            "mtime": [each.st_mtime_ns for each in facts],
        }
    )
    return Catalog(table, directory, None, FileReader(directory)), []

"""A source that `test_recipes.py` adds as CONTRIBUTING.md tells: a file of paths and classes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dsprep.declared import Options, option
from dsprep.errors import BadSample, SourceError
from dsprep.places.scan import RunAll
from dsprep.rows import Input, Reader, Rows
from dsprep.sources.kind import Claim, SourceKind, SourcePlace, Sure
from dsprep.storage.files import facts, read_sized

if TYPE_CHECKING:
    from dsprep.catalog import SourceScan
    from dsprep.sources.source import Source


class PathReader(Reader):
    """Reads the images that a file of paths names."""

    directory: str

    def inputs(self, samples: Iterable[tuple[str, int, int]]) -> Iterator[Input]:
        for path, size, mtime in samples:
            yield Input(os.path.join(self.directory, path), size, mtime, is_sample=True)

    def read(self, rows: Rows) -> Iterator[bytes | BadSample]:
        for path, size in zip(rows.paths, rows.sizes, strict=True):
            found = read_sized(os.path.join(self.directory, path), size)
            yield BadSample("has changed") if found is None else found


class PathsOptions(Options):
    """The options that only such a file has."""

    paths_below: str | None = option(
        "Source", "Directory that the paths start from.  [default: that of the file]", metavar="DIR"
    )


class Paths(SourceKind):
    """A file whose lines are the path of an image, a tab and a class."""

    names: ClassVar[tuple[str, ...]] = ("paths",)
    help: ClassVar[str] = "paths, a file of paths and classes"
    noun: ClassVar[str] = "a file of paths"
    options: ClassVar[type[Options]] = PathsOptions

    @classmethod
    def saved(cls) -> Mapping[str, Callable[..., Any]]:
        return {"path-reader": PathReader}

    def claim(self, place: SourcePlace, source: Source) -> Claim | None:
        if source.chooses or source.others or not place.is_file:
            return None
        is_own = place.path.endswith(".paths")
        return self.named_claim(source) or (Claim(Sure.MARKED, ".paths") if is_own else None)

    def scan(self, source: Source, place: SourcePlace, run_all: RunAll) -> SourceScan:
        import polars as pl

        from dsprep.catalog import Catalog
        from dsprep.numbering import Known, number_classes
        from dsprep.text import read_text

        given = source.options_of(PathsOptions)
        directory = given.paths_below or os.path.dirname(source.root) or "."
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
        return Catalog(table, directory, classes, PathReader(directory)), []

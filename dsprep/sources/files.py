"""The files below a directory or in an archive, or whole samples, as a table to choose from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import polars as pl

from dsprep.catalog import Catalog
from dsprep.findings import Finding
from dsprep.images.header import NOT_DECODED
from dsprep.lists.rows import plain_paths
from dsprep.rows import Reader
from dsprep.sample import IMAGE_EXTENSIONS, OTHER_IMAGES
from dsprep.sources.scan import Scanned, printable
from dsprep.units import extension_in

FILES = pl.Schema({"path": pl.String(), "size": pl.Int64(), "mtime": pl.Int64()})


class Files(NamedTuple):
    """The files below a directory or in an archive, or the names of whole samples."""

    # the images, with the columns of `FILES`, in no particular order; for an archive also with
    # those of `dsprep.catalog.PLACE_COLUMNS`
    table: pl.DataFrame
    findings: list[Finding]  # everything else, by path
    passed_by: list[str]  # the directories that were not looked into, printable, by path
    # for an archive: the files that are not images, or hidden, like the table
    others: pl.DataFrame | None = None
    reader: Reader | None = None  # for an archive or whole samples: the reader
    top: str = ""  # for an archive: the one directory that all of its images lie in
    samples: Catalog | None = None  # for whole samples: their catalog, in the order of the table

    @classmethod
    def of(cls, catalog: Catalog, findings: list[Finding]) -> Files:
        """Return whole samples by the names that lists call them."""
        names = plain_paths(catalog.names())
        first = names.is_first_distinct()  # only shards that were named twice repeat names
        names, catalog = names.filter(first), replace(catalog, table=catalog.table.filter(first))
        table = catalog.table.select(names.alias("path"), "size", "mtime")
        return cls(table, findings, [], FILES.to_frame(), catalog.reader, samples=catalog)

    def below_top(self) -> Files:
        """Return the same with paths that start below :attr:`top`."""
        if not self.top or self.others is None:
            return self
        prefix = self.top + "/"
        findings = [each._replace(path=each.path.removeprefix(prefix)) for each in self.findings]
        path = pl.col("path")
        below = path.str.strip_prefix(prefix)
        return self._replace(
            table=self.table.with_columns(below),
            findings=sorted(findings, key=attrgetter("path")),
            others=self.others.filter(path.str.starts_with(prefix)).with_columns(below),
            top="",
        )

    def with_unreadable(self, extensions: frozenset[str]) -> Files:
        """Return the same with images of kinds that dsprep does not decode as lost samples."""
        if extensions != frozenset(IMAGE_EXTENSIONS):
            return self
        unreadable = {each.path: each for each in self.unreadable()}
        return self._replace(findings=[unreadable.get(each.path, each) for each in self.findings])

    def unreadable(self) -> Iterator[Finding]:
        """Find the images of kinds that dsprep does not decode, by their extensions."""
        for finding in self.findings:
            name = OTHER_IMAGES.get(extension_in(finding.path)[1:])
            if finding.kind == "not-an-image" and not finding.detail and name is not None:
                yield finding._replace(kind="unreadable", detail=f"{name}, {NOT_DECODED}")

    def fitting(self, paths: pl.Series) -> Files:
        """Return these, or those :meth:`below_top` if the paths of a list start there."""
        if not self.top or self._has_any(paths):
            return self
        below = self.below_top()
        return below if below._has_any(paths) else self

    def _has_any(self, paths: pl.Series) -> bool:
        others = [] if self.others is None else [self.others["path"]]
        names = (paths, pl.concat([self.table["path"], *others]))
        bare, known = (each.str.replace(r"\.[^./]*$", "") for each in names)
        return bare.is_in(known.implode()).any()


def list_files(scans: Iterable[Scanned], only: Collection[str] | None = None) -> Files:
    """Put the files of a scan into a table."""
    tables, findings, passed_by = [FILES.to_frame()], list[Finding](), list[str]()
    for scanned in scans:
        if scanned.sizes:
            paths = pl.Series("path", [scanned.paths]).str.split("\0").explode()
            facts = {"size": scanned.sizes, "mtime": scanned.mtimes}
            columns = (pl.Series(name, values, dtype=pl.Int64) for name, values in facts.items())
            tables.append(pl.DataFrame([paths, *columns]))
        findings += scanned.findings
        if only is not None:
            below = (directory.path for directory in scanned.directories)
            passed_by += [printable(path) for path in below if path not in only]
    return Files(pl.concat(tables), sorted(findings, key=attrgetter("path")), sorted(passed_by))

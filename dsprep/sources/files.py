"""The images below a directory, or in an archive, as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from dsprep.catalog import Catalog
from dsprep.findings import Finding
from dsprep.images.header import NOT_DECODED
from dsprep.lists.rows import plain_paths
from dsprep.readers.base import Reader
from dsprep.sample import IMAGE_EXTENSIONS, OTHER_IMAGES
from dsprep.sources.scan import Scanned, printable
from dsprep.units import extension_in

FILES = pl.Schema({"path": pl.String(), "size": pl.Int64(), "mtime": pl.Int64()})
"""The columns of a table of files; they are those of the same names in a catalog."""


class Files(NamedTuple):
    """What lies below a directory, or in an archive."""

    # the images, with the columns of :data:`FILES`, in no particular order; for an archive also
    # with those of :data:`dsprep.catalog.PLACE_COLUMNS`
    table: pl.DataFrame
    findings: list[Finding]  # what lies there besides, by path
    passed_by: list[str]  # the directories that were not to be looked into, printable, by path
    # for an archive: the files that are no images, or hidden, like the table
    others: pl.DataFrame | None = None
    reader: Reader | None = None  # for an archive: reads it
    top: str = ""  # for an archive: the directory that it is of, and that all of its images lie in
    # for samples that are whole already: their catalog, in the order of the table, whose paths are
    # what lists call them
    samples: Catalog | None = None

    @classmethod
    def of(cls, catalog: Catalog, findings: list[Finding]) -> Files:
        """Return samples that are whole already as what lists choose from."""
        names = plain_paths(catalog.names())
        first = names.is_first_distinct()  # all are, but for a shard that was named twice
        names, catalog = names.filter(first), replace(catalog, table=catalog.table.filter(first))
        table = catalog.table.select(names.alias("path"), "size", "mtime")
        return cls(table, findings, [], FILES.to_frame(), catalog.reader, samples=catalog)

    def below_top(self) -> Files:
        """The same with paths that start below :attr:`top`."""
        if not self.top or self.others is None:
            return self
        prefix = self.top + "/"
        findings = [each._replace(path=each.path.removeprefix(prefix)) for each in self.findings]
        path = pl.col("path")
        return self._replace(
            table=self.table.with_columns(path.str.strip_prefix(prefix)),
            findings=sorted(findings, key=_path),
            others=self.others.filter(path.str.starts_with(prefix)).with_columns(
                path.str.strip_prefix(prefix)
            ),
            top="",
        )

    def with_unreadable(self, extensions: frozenset[str]) -> Files:
        """The same with images of kinds that dsprep does not decode as unreadable samples."""
        if extensions != frozenset(IMAGE_EXTENSIONS):
            return self
        unreadable = {each.path: each for each in self.unreadable()}
        return self._replace(findings=[unreadable.get(each.path, each) for each in self.findings])

    def unreadable(self) -> Iterator[Finding]:
        """The images of kinds that dsprep does not decode, which their extensions tell."""
        for each in self.findings:
            name = OTHER_IMAGES.get(extension_in(each.path)[1:])
            if each.kind == "not-an-image" and not each.detail and name is not None:
                yield each._replace(kind="unreadable", detail=f"{name}, {NOT_DECODED}")

    def fitting(self, paths: pl.Series) -> Files:
        """These, or those :meth:`below_top` if it is there that paths of a list begin."""
        if not self.top or self.holds(paths):
            return self
        below = self.below_top()
        return below if below.holds(paths) else self

    def holds(self, paths: pl.Series) -> bool:
        """Whether any of these paths, but for extensions, is one of these files."""
        known = pl.concat(
            [self.table["path"], *([] if self.others is None else [self.others["path"]])]
        )
        bare, known = (each.str.replace(r"\.[^./]*$", "") for each in (paths, known))
        return bare.is_in(known.implode()).any()


def list_files(scans: Iterable[Scanned], only: Collection[str] | None = None) -> Files:
    """Put what a scan finds into a table."""
    tables = [FILES.to_frame()]
    findings: list[Finding] = []
    passed_by: list[str] = []
    for scanned in scans:
        if scanned.sizes:
            tables.append(_table(scanned))
        findings += scanned.findings
        if only is not None:
            below = (directory.path for directory in scanned.directories)
            passed_by += [printable(path) for path in below if path not in only]
    return Files(pl.concat(tables), sorted(findings, key=_path), sorted(passed_by))


def _table(scanned: Scanned) -> pl.DataFrame:
    paths = pl.Series("path", [scanned.paths]).str.split("\0").explode()
    sizes = pl.Series("size", scanned.sizes, dtype=pl.Int64)
    mtimes = pl.Series("mtime", scanned.mtimes, dtype=pl.Int64)
    return pl.DataFrame([paths, sizes, mtimes])


def _path(finding: Finding) -> str:
    return finding.path

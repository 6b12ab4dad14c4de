"""The images below a directory, as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import polars as pl

from dsprep.findings import Finding
from dsprep.sources.scan import Scanned, printable

FILES = pl.Schema({"path": pl.String(), "size": pl.Int64(), "mtime": pl.Int64()})
"""The columns of a table of files; they are those of the same names in a catalog."""


class Files(NamedTuple):
    """What lies below a directory.

    Attributes:
        table: The images, with the columns of :data:`FILES`, in no particular order.
        findings: What lies there besides, by path.
        passed_by: The directories that were not to be looked into, printable, by path.
    """

    table: pl.DataFrame
    findings: list[Finding]
    passed_by: list[str]


def list_files(scans: Iterable[Scanned], only: Collection[str] | None = None) -> Files:
    """Put what a scan finds into a table.

    Args:
        scans: What :func:`dsprep.sources.scan.scan` yields; its errors come out of here.
        only: The directories that it was told to look into; None if it was not.
    """
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

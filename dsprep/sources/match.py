"""What a list names against what lies on the disk, or in an archive."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

import polars as pl

from dsprep.errors import SourceError
from dsprep.findings import REJECT_KINDS, Finding
from dsprep.sources.files import FILES, Files
from dsprep.stores.ahead import ahead
from dsprep.stores.paths import Facts, facts
from dsprep.stores.urls import is_s3
from dsprep.units import format_count, quoted

_FILE = "in file"
"""What a catalog calls ``file`` is called here while ``file`` is what a list names."""


def match_files(
    rows: pl.DataFrame,
    files: Files,
    root: str,
    source: str,
    duplicates: str | None = None,
    advice: str = "",
) -> tuple[pl.DataFrame, list[Finding]]:
    """Give every listed sample its file, and say what is left over on either side.

    Args:
        rows: The listed samples, with the columns ``line`` (in the list, from 1), ``path`` (as it
            was written there) and ``file`` (where it should be, plainly written).
        files: What a scan of the root found.
        root: The directory that paths start from.
        source: The list's name, for messages.
        duplicates: What to do with rows that name a file again; see :func:`settle_duplicates`.
        advice: What else a message about such rows says.

    Returns:
        The samples that have a file, in their order, with the columns ``size`` and ``mtime``, and
        for those of an archive what :func:`places_of` takes; and the findings.

    Raises:
        SourceError: If not one of them has a file, or rows name a file again.
    """
    matched = _join(rows, files.table)
    unknown = matched.filter(pl.col("size").is_null())["file"]
    elsewhere = _look_up(root, files, unknown.unique(maintain_order=True))
    if not elsewhere.is_empty():
        matched = _join(rows, pl.concat([files.table, elsewhere]))
    missing = matched.filter(pl.col("size").is_null())
    found = matched.drop_nulls("size")
    if found.is_empty():
        raise SourceError(
            f"{source}: not one of the {rows.height} files that it names lies below {root}, "
            f"{rows['path'][0]!r} for one: give the directory that its paths start from"
        )
    # Findings reach the reports that stand beside the shards, which name no path of this machine.
    name = os.path.basename(source)
    named = {*missing["file"].to_list(), *elsewhere["path"].to_list()}
    found, repeated = settle_duplicates(found, "place", source, duplicates, advice)
    return found.drop("place"), [
        *_missing(missing, name),
        *repeated,
        *_unlisted(found, files),
        *(finding for finding in _of_scan(files.findings) if finding.path not in named),
    ]


def _join(rows: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Find the file of each row: its size and mtime, and its place among the files."""
    names = {"path": "file", "file": _FILE}
    places = files.lazy().rename(names, strict=False).with_row_index("place")
    # Lazily, so that the column of paths is not copied into a result that has no use for it.
    joined = rows.lazy().select("file").join(places, on="file", how="left", maintain_order="left")
    return rows.hstack(joined.drop("file").collect())


def places_of(rows: pl.DataFrame) -> list[pl.Expr]:
    """The columns of a catalog that tell where in an archive a sample lies; none for files."""
    if _FILE not in rows.columns:
        return []
    return [pl.col(_FILE).alias("file"), pl.col("offset"), pl.col("stored")]


def _look_up(root: str, files: Files, paths: pl.Series) -> pl.DataFrame:
    """Find files that a scan passes by because they are hidden or have another extension."""
    if files.others is not None:
        return files.others.filter(pl.col("path").is_in(paths.implode()))
    calls = [partial(_facts, os.path.join(root, path)) for path in paths]
    told = ahead((0, call) for call in calls) if is_s3(root) else (call() for call in calls)
    found = [(path, *each) for path, each in zip(paths, told, strict=True) if each is not None]
    return pl.DataFrame(found, schema=FILES, orient="row")


def _facts(path: str) -> Facts | None:
    try:
        return facts(path)
    except OSError:
        return None


def _missing(rows: pl.DataFrame, source: str) -> list[Finding]:
    lines = rows.select("path", "line").iter_rows()
    return [Finding("missing", path, f"{source}:{line}") for path, line in lines]


def settle_duplicates(
    rows: pl.DataFrame, by: str, source: str, duplicates: str | None, advice: str = ""
) -> tuple[pl.DataFrame, list[Finding]]:
    """Decide about rows that name a file again.

    Args:
        rows: The rows with the columns ``path``, ``by`` and ``line``; or ``index``, if nothing
            tells the lines.
        by: The column that is the same for the rows of one file.
        source: The list's name, for messages.
        duplicates: ``first`` leaves out all but the first row of each file, ``keep`` leaves all
            rows in; otherwise such rows are refused.
        advice: What else the message says.

    Returns:
        The rows that are used, and a finding for each row that names a file again.

    Raises:
        SourceError: If there are such rows and ``duplicates`` does not say what to do.
    """
    if rows[by].n_unique() == rows.height:
        return rows, []
    at, word = ("line", "line") if "line" in rows.columns else ("index", "the row of id")
    labels = [name for name in ("cls", "label") if name in rows.columns]
    firsts = pl.col(at, *labels).first().over(by).name.prefix("first ")
    told = rows.with_columns(firsts)
    is_again = told[at] != told[f"first {at}"]
    again = told.filter(is_again)
    if duplicates in ("first", "keep"):
        kind = "repeated" if duplicates == "first" else "duplicate"
        name = os.path.basename(source)
        findings = [
            Finding(kind, path, f"{name}:{place}, and in {word} {first} already")
            for path, place, first in again.select("path", at, f"first {at}").iter_rows()
        ]
        return (rows.filter(~is_again) if duplicates == "first" else rows), findings
    example = again.row(0, named=True)
    differs = any(example[name] != example[f"first {name}"] for name in labels)
    raise SourceError(
        f"{source}{f':{example[at]}' if at == 'line' else ''}: {quoted(example['path'])} stands in "
        f"{word} {example[f'first {at}']} already{', with another label' if differs else ''} "
        f"({format_count(again.height, 'row')} like this): give --duplicates first to use only the "
        "first row of each image, or --duplicates keep to make a sample of each row" + advice
    )


def _unlisted(rows: pl.DataFrame, files: Files) -> list[Finding]:
    listed = pl.int_range(pl.len()).is_in(rows["place"].cast(pl.Int64).implode())
    images = files.table.filter(~listed)["path"].sort()
    detail = "not looked into, as nothing in it is listed"
    return [
        *(Finding("unlisted", path) for path in images.to_list()),
        *(Finding("unlisted", path + "/", detail) for path in files.passed_by),
    ]


def _of_scan(findings: Iterable[Finding]) -> Iterable[Finding]:
    """What a scan could not read was not lost where nobody listed it."""
    for finding in findings:
        was_lost = finding.kind in REJECT_KINDS and finding.kind != "damaged"
        yield finding._replace(kind="unlisted") if was_lost else finding

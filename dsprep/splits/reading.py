"""The samples that are to be split: of a folder, an archive, a list, or a table of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dsprep.errors import OptionError
from dsprep.findings import SKIP_KINDS, Finding, Reject, lost, notes_of
from dsprep.lists.rows import listable, plain_paths, rows_of
from dsprep.lists.store import STREAM, classes_path, read_list
from dsprep.options import require_effect
from dsprep.sources.archive_files import read_text_beside
from dsprep.sources.match import settle_duplicates
from dsprep.sources.reading import Source, read_source
from dsprep.sources.scan import FileReader, RunAll
from dsprep.sources.table import parse_cells
from dsprep.splits.groups import group_by_pattern, require_groups
from dsprep.storage.paths import is_file


@dataclass(frozen=True, eq=False)
class Samples:
    """What is to be split."""

    rows: pl.DataFrame  # the samples with the columns of a list
    sizes: pl.Series | None = None  # the sizes of their files; None where nobody looked at files
    root: str | None = None  # what their paths start from, if that is known
    in_files: bool = False  # whether each is a file of its own below the root
    classes: tuple[str, ...] | None = None  # the names of the classes, if there are any
    labeled: bool = True  # whether they have labels; else those of the rows are all 0
    in_folders: bool = False  # whether the directories of the paths are the classes
    table: str | None = None  # the table that they come from, if they do
    rejects: Sequence[Reject] = ()  # samples of the source that are not here, and why
    skipped: Sequence[Finding] = ()  # what lies in the source and is no sample
    notes: Sequence[str] = ()  # what else there is to say of the source


def is_list(source: str) -> bool:
    """Whether a source is a list by itself."""
    if source == STREAM or source.lower().endswith(".lst"):
        return True
    if source.lower().endswith((".csv", ".tsv")):
        raise OptionError(
            f"{source}: give the directory of its images as SOURCE, and --labels {source}"
        )
    return False


def read_rows(path: str, classes: str | None, duplicates: str | None) -> Samples:
    """Read a list and look at no files."""
    found = read_list(path, classes, duplicates or "error")
    plain = found.table.with_columns(plain_paths(found.table["path"]).alias("file"))
    rows, repeated = settle_duplicates(plain, "file", found.path, duplicates)
    skipped = [each for each in repeated if each.kind in SKIP_KINDS]
    return Samples(rows.drop("file"), classes=found.classes, skipped=skipped)


def list_source(path: str, root: str, classes: str | None, duplicates: str | None) -> Source:
    """A list and the directory that its paths start from, as a source."""
    if path == STREAM:
        raise OptionError("--root goes with a list that is a file, not with stdin")
    if classes is None and is_file(beside := classes_path(path)):
        classes = beside
    return Source(root, list=path, classes=classes, duplicates=duplicates)


def read_files(source: Source, run_all: RunAll) -> Samples:
    """Read a source and look for its files."""
    catalog, findings = read_source(source, run_all)
    require_effect("", {"--classes": source.classes}, labeled=catalog.is_labeled)
    catalog, odd_names = listable(catalog)
    in_files = isinstance(catalog.reader, FileReader)
    return Samples(
        rows_of(catalog),
        sizes=catalog.table["size"],
        root=source.root,
        in_files=in_files,
        classes=catalog.classes,
        labeled=catalog.label_column is not None,
        in_folders=in_files and not (source.list or source.table),
        table=source.table,
        rejects=[*lost(findings), *odd_names],
        skipped=[each for each in findings if each.kind in SKIP_KINDS],
        notes=notes_of(findings),
    )


def read_groups(samples: Samples, group: str) -> pl.Series:
    """The group of each sample, by a column of its table or a pattern of its path."""
    paths = samples.rows["path"]
    if samples.table is not None:
        text = read_text_beside(samples.root or "", samples.table)
        cells, _ = parse_cells(text, samples.table)
        if group in cells.columns:
            # The ids of a table's samples are the numbers of its rows.
            groups = cells[group].gather(samples.rows["index"])
            problem = f"{samples.table}: nothing in the column {group!r} for"
            return require_groups(groups.alias("group"), paths, problem)
    return group_by_pattern(paths, group)

"""The samples that a split divides, and what it is asked to do with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from dsprep.errors import OptionError
from dsprep.findings import SKIP_KINDS, Finding, Reject, lost, notes_of
from dsprep.keywords import ClassOptions, SourceOptions, SplitOptions, values_of
from dsprep.lists.rows import listable, plain_paths, rows_of
from dsprep.lists.store import STREAM, classes_path, read_classes, read_list
from dsprep.options import require_effect
from dsprep.sources.files import read_text_beside
from dsprep.sources.match import settle_duplicates
from dsprep.sources.reading import Source, choice_of, read_source
from dsprep.sources.table import parse_cells
from dsprep.splits.assigned import assigned_values, class_labels, parse_assignment
from dsprep.splits.groups import group_by_pattern, require_groups
from dsprep.splits.ratios import Ratios, equal_ratios, make_ratios
from dsprep.storage.files import is_dir, is_file
from dsprep.text import read_text
from dsprep.workers.pool import Pool

DEFAULT_RATIOS = {"train": "0.8", "val": "0.1", "test": "0.1"}

MAX_DISTANCE = 16
"""Bits of 64; images whose hashes differ in more are not alike."""


def require_sense(options: SplitOptions) -> None:
    """Refuse options that contradict each other."""
    distance, folds = options.near_distance or 0, options.folds
    for problem, text in (
        (folds is not None and options.ratios is not None, "give --ratio or --folds"),
        (folds is not None and folds < 2, f"--folds {folds}: 2 at least"),
        (
            not 0 <= distance <= MAX_DISTANCE,
            f"--near-distance {distance}: is not from 0 to {MAX_DISTANCE}",
        ),
        (
            options.stable and options.leaks == "together",
            "--stable and --leaks together contradict each other: a copy that comes later "
            "would move samples; use --leaks report",
        ),
        (
            options.materialize is not None and folds is not None,
            "--materialize goes with sides, not with --folds, where a file has several places",
        ),
    ):
        if problem:
            raise OptionError(text)
    if options.ratios is not None:
        make_ratios(options.ratios)


def wanted_ratios(options: SplitOptions) -> Ratios:
    """Return the sides and their shares."""
    if options.folds is not None:
        return equal_ratios([str(fold) for fold in range(options.folds)])
    # a file that gives classes is that of validation images
    return make_ratios(options.ratios or ({"val": "1"} if options.assign else DEFAULT_RATIOS))


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples to divide."""

    name: str  # what messages call their source
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
    notes: Sequence[str] = ()  # remarks on the source, for the report

    def groups(self, group: str) -> pl.Series:
        """Return the group of each sample, by a column of their table or a pattern of paths."""
        paths = self.rows["path"]
        if self.table is not None:
            cells, _ = parse_cells(read_text_beside(self.root or "", self.table), self.table)
            if group in cells.columns:
                # The ids of a table's samples are the numbers of its rows.
                groups = cells[group].gather(self.rows["index"])
                problem = f"{self.table}: nothing in the column {group!r} for"
                return require_groups(groups.alias("group"), paths, problem)
        return group_by_pattern(paths, group)


def is_list(source: str) -> bool:
    """Return whether a source is a list by itself."""
    if source == STREAM or source.lower().endswith(".lst"):
        return True
    if source.lower().endswith((".csv", ".tsv")):
        raise OptionError(
            f"{source}: give the directory of its images as SOURCE, and --labels {source}"
        )
    return False


def source_of_split(options: SplitOptions) -> Source:
    """Return the source of a split; of a list without a root, no files are looked at."""
    first, *others = [options.sources] if isinstance(options.sources, str) else options.sources
    listed, root, classes = not others and is_list(first), options.root, options.classes
    require_effect("split", options.given, is_list=listed)
    if not listed:
        values = values_of(options, SourceOptions) | values_of(options, ClassOptions)
        if not options.labels:
            values["path_column"] = None  # it is that of --assign
        return Source(first, others=others, whole=True, choice=choice_of(options), **values)
    if root is not None and first == STREAM:
        raise OptionError("--root goes with a list that is a file, not with stdin")
    if root is not None and classes is None and is_file(beside := classes_path(first)):
        classes = beside
    return Source(root or "", list_file=first, classes=classes, duplicates=options.duplicates)


def read_samples(
    source: Source, options: SplitOptions, workers: int
) -> tuple[Samples, pl.Series | None]:
    """Read the samples: with the classes that ``--assign`` gives, or beside its sides."""
    if options.assign is None:
        return _read(source, options, workers), None
    assignment = parse_assignment(
        read_text(options.assign),
        options.assign,
        options.assign_column,
        options.path_column,
        is_shared=source.labels is not None,
    )
    gives_classes = assignment.gives != "side"
    if gives_classes and not source.chooses:  # then --classes names those of the file
        samples = _read(replace(source, classes=None), options, workers)
    else:
        samples = _read(source, options, workers)
    values = assigned_values(
        assignment, samples.rows["path"], options.assign, options.skip_unmatched
    )
    if not gives_classes:
        return samples, values
    if samples.labeled:
        raise OptionError(f"{options.assign}: gives classes, but {samples.name} has labels already")
    named = read_classes(source.classes) if source.classes else None
    label, classes = class_labels(assignment, values, named, options.assign)
    rows = samples.rows.with_columns(label)
    return replace(samples, rows=rows, classes=classes, labeled=True, in_folders=False), None


def _read(source: Source, options: SplitOptions, workers: int) -> Samples:
    if source.root or source.list_file is None:
        return _read_files(source, workers)
    if options.leaks is not None or options.materialize is not None:
        raise OptionError(
            "--leaks and --materialize need the files: give --root, the directory that the paths "
            "of the list start from"
        )
    found = read_list(source.list_file, source.classes, source.duplicates or "error")
    plain = found.table.with_columns(plain_paths(found.table["path"]).alias("file"))
    rows, repeated = settle_duplicates(plain, "file", found.path, source.duplicates)
    skipped = [finding for finding in repeated if finding.kind in SKIP_KINDS]
    return Samples(source.list_file, rows.drop("file"), classes=found.classes, skipped=skipped)


def _read_files(source: Source, workers: int) -> Samples:
    """Read a source and look for its files."""
    with Pool(workers) as pool:
        catalog, findings = read_source(source, pool.map)
    require_effect("", {"--classes": source.classes}, labeled=catalog.is_labeled)
    catalog, odd_names = listable(catalog)
    reader = catalog.reader
    in_files = not (reader.whole or reader.encodes) and is_dir(source.root)
    return Samples(
        source.list_file or source.root,
        rows_of(catalog),
        sizes=catalog.table["size"],
        root=source.root,
        in_files=in_files,
        classes=catalog.classes,
        labeled=catalog.label_column is not None,
        in_folders=in_files and not source.chooses,
        table=source.labels,
        rejects=[*lost(findings), *odd_names],
        skipped=[finding for finding in findings if finding.kind in SKIP_KINDS],
        notes=notes_of(findings),
    )

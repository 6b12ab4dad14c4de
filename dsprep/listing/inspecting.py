"""Lists looked at: ``check``, ``stats`` and ``sample``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.listing.looking import look_up
from dsprep.lists.checking import check_rows
from dsprep.lists.faults import Fault
from dsprep.lists.lenient import read_leniently
from dsprep.lists.requirements import READERS
from dsprep.lists.rows import format_rows
from dsprep.lists.sampling import class_sizes, sample_count, sample_fraction, sample_per_class
from dsprep.lists.statistics import Statistics, count_list
from dsprep.liststore import (
    CLASSES,
    STREAM,
    ListFile,
    classes_beside,
    editing,
    read_list,
    real_path,
    write_files,
    write_stream,
)
from dsprep.sources.classes import format_classes
from dsprep.storage.local import LARGEST_TABLE, holds
from dsprep.storage.paths import read_bytes
from dsprep.text import read_stdin
from dsprep.units import format_count


@dataclass(frozen=True)
class CheckReport:
    """What is wrong with a list."""

    list: str  # the list
    rows: int  # how many of its lines can be read
    classes: Sequence[str] | None  # the names of its classes, if anything tells them
    root: str | None  # the directory where its files were looked up, if they were
    reader: str | None  # whose requirements were checked, if anybody's
    kinds: Mapping[str, int]  # how many faults there are of each kind, the most frequent first
    faults: Sequence[Fault]  # all of them, by line


@dataclass(frozen=True)
class SampleReport:
    """What a sample of a list is."""

    list: str  # the list
    output: str  # where the sample went, `-` being stdout
    rows: int  # the rows of the list
    kept: int  # the rows of the sample
    wanted: int | None  # how many were asked for, of all or of each class; None if a fraction was
    # rows of the sample by label; none if the classes were of no account
    classes: Mapping[str, int]
    # rows of the list by label, for the classes that have fewer than were asked for
    short: Mapping[str, int]
    seed: int  # what the choice depends on
    written: bool  # whether it was; not so for a dry run
    already_done: bool = False  # whether it was not written as it is there, and as it would be


@public
def check_list(
    path: AnyPath,
    *,
    root: AnyPath | None = None,
    classes: AnyPath | None = None,
    reader: str | None = None,
) -> CheckReport:
    """Find everything that is wrong with a list.

    Args:
        path: The ``.lst``, or ``-`` for stdin.
        root: The directory that its paths start from, or shards, to look its files or samples up;
            None does not.
        classes: The file of class names; by default ``classes.txt`` beside the list.
        reader: Whose requirements to check, a key of
            :data:`~dsprep.lists.requirements.READERS`; None for nobody's.

    Raises:
        SourceError: If the list, the classes or the directory cannot be read.
    """
    names = classes_beside(path, classes)
    rows, faults = read_leniently(_read(path))
    wanted = READERS[reader] if reader is not None else None
    faults += check_rows(rows, names, numbered=wanted is not None and wanted.numbered)
    if wanted is not None:
        faults += wanted.check(rows)
    if root is not None:
        faults += look_up(root, rows, _name(path))
    faults = _one_of_a_kind(faults)
    kinds = dict(Counter(fault.kind for fault in faults).most_common())
    return CheckReport(_name(path), rows.height, names, root, reader, kinds, faults)


@public
def list_stats(path: AnyPath, *, classes: AnyPath | None = None) -> Statistics:
    """Count what is in a list.

    Args:
        path: The ``.lst``, or ``-`` for stdin.
        classes: The file of class names; by default ``classes.txt`` beside the list.

    Raises:
        SourceError: If the list or the classes cannot be read.
    """
    found = read_list(path, classes)
    return count_list(found.table, found.classes, found.path)


@public
def sample_list(
    path: AnyPath,
    out: AnyPath = STREAM,
    *,
    fraction: float | None = None,
    count: int | None = None,
    per_class: int | None = None,
    balanced: bool = False,
    seed: int = 0,
    classes: AnyPath | None = None,
    strict: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
) -> SampleReport:
    """Take some rows of a list; ids, labels and order stay. See :mod:`dsprep.lists.sampling`.

    One of ``fraction``, ``count``, ``per_class`` and ``balanced`` says how many.

    Args:
        path: The ``.lst``, or ``-`` for stdin.
        out: Where the sample goes: a new list, with ``classes.txt`` beside it if the classes have
            names; or ``-`` for stdout.
        fraction: The share of the rows, above 0 and at most 1.
        count: So many rows.
        per_class: So many rows of each class.
        balanced: As many of each class as the smallest has.
        seed: What the choice depends on.
        classes: The file of class names; by default ``classes.txt`` beside the list.
        strict: Refuse to take fewer rows than were asked for.
        overwrite: Whether ``out`` may replace files.
        dry_run: Write nothing.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the list cannot be read, no row would be taken, or too few.
        DestinationError: If the sample cannot be written.
    """
    if sum((fraction is not None, count is not None, per_class is not None, balanced)) != 1:
        raise OptionError("give one of --fraction, --count, --per-class and --balanced")
    with editing(STREAM if dry_run else out, new=True):
        found = read_list(path, classes)
        by_class = balanced or per_class is not None
        if fraction is not None:
            rows = sample_fraction(found.table, fraction, seed)
        elif count is not None:
            rows = sample_count(found.table, count, seed)
        else:
            rows = sample_per_class(found.table, per_class, seed)
        wanted = count if per_class is None else per_class
        report = SampleReport(
            list=found.path,
            output=out,
            rows=found.table.height,
            kept=rows.height,
            wanted=wanted,
            classes=_sizes(rows) if by_class else {},
            short=_short(found.table, per_class) if per_class is not None else {},
            seed=seed,
            written=not dry_run,
        )
        _require_enough(report, strict)
        if not dry_run and _is_there_or_written(out, rows, found, overwrite):
            return replace(report, written=False, already_done=True)
    return report


def _name(path: str) -> str:
    return "<stdin>" if path == STREAM else path


def _read(path: str) -> bytes:
    if path == STREAM:
        return read_stdin()
    try:
        return read_bytes(path, LARGEST_TABLE)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def _one_of_a_kind(faults: Iterable[Fault]) -> list[Fault]:
    """Order faults by line, and say the same of a line once."""
    first: dict[tuple[int, str], Fault] = {}
    for fault in faults:
        first.setdefault((fault.line, fault.kind), fault)
    return sorted(first.values())


def _sizes(rows: pl.DataFrame) -> dict[str, int]:
    return dict(class_sizes(rows).iter_rows())


def _short(rows: pl.DataFrame, wanted: int) -> dict[str, int]:
    return dict(class_sizes(rows).filter(pl.col("rows") < wanted).iter_rows())


def _require_enough(report: SampleReport, strict: bool) -> None:
    if not report.kept:
        raise SourceError(
            f"{report.list}: the sample is empty, none of {report.rows:,} rows: ask for more, or "
            "give another --seed"
        )
    if not strict or report.wanted is None:
        return
    for label, rows in report.short.items():
        raise SourceError(
            f"{report.list}: the class {label} has {format_count(rows, 'row')}, where "
            f"{report.wanted:,} were asked for"
        )
    if not report.classes and report.kept < report.wanted:
        raise SourceError(f"{report.list}: has {report.rows:,} rows, fewer than {report.wanted:,}")


def _is_there_or_written(out: str, rows: pl.DataFrame, found: ListFile, overwrite: bool) -> bool:
    """Write a sample, unless it is there already, as it would be written."""
    data = format_rows(rows).encode()
    if out == STREAM:
        write_stream(data)
        return False
    same_classes = classes_beside(out) == found.classes
    if not overwrite and same_classes and holds(real_path(out), data):
        return True
    if os.path.exists(out) and not overwrite:
        raise DestinationError(f"{out}: exists; give --overwrite to replace it")
    files = {real_path(out).name: data}
    if found.classes is not None and (there := classes_beside(out)) != found.classes:
        if there is not None and not overwrite:
            raise DestinationError(
                f"{real_path(out).with_name(CLASSES)}: names other classes; give --overwrite to "
                "replace it, or another directory"
            )
        files[CLASSES] = format_classes(found.classes).encode()
    write_files(out, files)
    return False

"""Lists made from a source: create one, or append what is new in the source."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import SKIP_KINDS, Finding, Reject, count_skipped, lost, notes_of
from dsprep.lists import edit, store
from dsprep.lists import rows as tables
from dsprep.lists.rows import format_rows, require_one_kind
from dsprep.lists.store import STREAM, ListWritten, editing, read_list, write_text
from dsprep.options import require_effect
from dsprep.sources.reading import Source, read_source, source_of
from dsprep.storage.location import require_disk
from dsprep.workers.pool import Pool, available_cores


@dataclass(frozen=True)
class CreateReport:
    """What creating lists, or appending to one, did."""

    lists: Sequence[ListWritten]  # those written
    added: int  # samples that are new in them
    known: int  # samples of the source that the list had already
    classes: Sequence[str] | None  # class names, if there are any
    per_class: Mapping[int, int]  # samples of the source by class number
    rejects: Sequence[Reject]  # samples that are not in the lists, and why
    skipped: Sequence[Finding]  # files in the source that are no samples
    skipped_counts: Mapping[str, Mapping[str, int]]  # how many files that is, by kind and extension
    duplicates: Sequence[Finding]  # paths that the source names more than once
    seed: int | None  # the seed of the order; None if it is the source's
    written: bool  # whether anything was; not so for a dry run
    notes: Sequence[str]  # other remarks
    already_done: bool = False  # whether new lists were not written because they exist, equal


@public
def create_list(
    source: Source | AnyPath,
    out: AnyPath,
    *,
    under: str = "",
    seed: int | None = 0,
    chunks: int = 1,
    train_ratio: float = 1.0,
    test_ratio: float = 0.0,
    overwrite: bool = False,
    dry_run: bool = False,
    workers: int | None = None,
) -> CreateReport:
    """Make the list of a source, and ``classes.txt`` beside it.

    Args:
        source: The images and their labels.
        out: The ``.lst``, or ``-`` for stdout.
        under: A directory below the root; only its samples are listed.
        seed: Seed that shuffles the rows; None keeps the source's order. Ids always number the
            samples in the order of the source.
        chunks: Number of lists to cut it into, as im2rec does.
        train_ratio: As im2rec's; see :func:`~dsprep.lists.edit.cut_parts`.
        test_ratio: As im2rec's.
        overwrite: Whether existing lists may be replaced.
        dry_run: Write nothing.
        workers: Number of processes that look for files; by default the available cores.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source cannot be listed.
        DestinationError: If a list exists already, or cannot be written.
    """
    require_disk(out)
    source = source_of(source)
    catalog, findings = _read(source, workers)
    require_effect("", {"--classes": source.classes}, labeled=catalog.is_labeled)
    catalog, rejects = tables.listable(catalog)
    if under:
        below = pl.col("path").str.starts_with(os.path.normpath(under) + "/")
        catalog = replace(catalog, table=catalog.table.filter(below))
        if catalog.table.is_empty():
            raise SourceError(f"{catalog.root}: holds no images under {under!r}")
    rows = tables.rows_of(catalog if seed is None else catalog.shuffle(seed))
    parts = edit.cut_parts(rows.height, chunks, train_ratio, test_ratio)
    if out == STREAM and len(parts) > 1:
        raise OptionError("-o -: several lists do not fit into one stream")
    stem = out.removesuffix(".lst")
    lists = {
        (f"{stem}{part.name}.lst" if part.name else out): rows[part.start : part.stop]
        for part in parts
    }
    is_new = True
    if out == STREAM:
        if not dry_run:
            write_text(out, format_rows(rows))
    else:
        with ExitStack() as stack:
            for path in [] if dry_run else sorted(lists, key=os.path.realpath):
                stack.enter_context(editing(path, new=True))
            advice = "--classes {} to number these as there, --overwrite to replace it, or another"
            advice += " directory"
            is_new = store.write_new(lists, catalog.classes, overwrite, advice, dry_run)
    return CreateReport(
        lists=[ListWritten(path, table.height) for path, table in lists.items()],
        added=rows.height,
        known=0,
        classes=catalog.classes,
        per_class=catalog.samples_per_class(),
        seed=seed,
        written=is_new and not dry_run,
        already_done=not is_new,
        **_noticed(findings, rejects, None if catalog.label_column else len(catalog)),
    )


@public
def append_to_list(
    path: AnyPath,
    source: Source | AnyPath,
    *,
    label: str | int | float | None = None,
    dry_run: bool = False,
    workers: int | None = None,
) -> CreateReport:
    """Add the samples of a source that a list does not have; its classes stay as they are.

    Args:
        path: The ``.lst``.
        source: The images; by default, the classes are those beside the list.
        label: The label of all new samples; None takes those of the source.
        dry_run: Write nothing.
        workers: Number of processes that look for files.

    Raises:
        SourceError: If the source cannot be read, or has a class that the list does not know.
        DestinationError: If the list cannot be written.
    """
    source = source_of(source)
    label = None if label is None else str(label)
    with editing(path):
        old = read_list(path, source.classes)
        if label is None and source.classes is None and old.classes is not None:
            source = replace(source, classes=store.classes_path(path))
        catalog, findings = _read(replace(source, classes=None) if label else source, workers)
        if label is None and source.classes is None and catalog.classes is not None:
            raise SourceError(
                f"{path}: no file tells which class has which number: give --classes FILE, or "
                f"put {store.CLASSES} beside the list"
            )
        catalog, rejects = tables.listable(catalog)
        unlabeled = None
        if label is None:
            new = tables.rows_of(catalog)
            unlabeled = None if catalog.label_column else len(catalog)
        else:
            same = pl.lit(edit.parse_label(label, old.classes)).alias("label")
            new = catalog.table.select("index", same, "path")
        rows = edit.append_rows(old.table, new)
        require_one_kind(old.table, new, path)
        added = rows.height - old.table.height
        if added and not dry_run:
            write_text(path, format_rows(rows))
    return CreateReport(
        lists=[ListWritten(path, rows.height)],
        added=added,
        known=new.height - added,
        classes=old.classes,
        per_class=catalog.samples_per_class() if label is None else {},
        seed=None,
        written=bool(added) and not dry_run,
        **_noticed(findings, rejects, unlabeled),
    )


def _read(source: Source, workers: int | None) -> tuple[Catalog, list[Finding]]:
    with Pool(available_cores() if workers is None else workers) as pool:
        return read_source(source, pool.map)


def _noticed(
    findings: Sequence[Finding], rejects: Sequence[Reject], unlabeled: int | None
) -> dict[str, Any]:
    """Return the fields of a report about the samples and files of a source."""
    return {
        "rejects": [*lost(findings), *rejects],
        "skipped": [finding for finding in findings if finding.kind in SKIP_KINDS],
        "skipped_counts": count_skipped(findings),
        "duplicates": [finding for finding in findings if finding.kind == "duplicate"],
        "notes": notes_of(findings)
        + ([] if unlabeled is None else [tables.note_unlabeled(unlabeled)]),
    }

"""Lists made of a source: ``create``, and ``append`` for what is new in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.catalog import Catalog
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.findings import SKIP_KINDS, Finding, Reject, count_skipped, lost, notes_of
from dsprep.listing.editing import parse_label
from dsprep.lists.editing import append_rows, require_one_kind
from dsprep.lists.listed import listable, note_unlabeled, rows_of
from dsprep.lists.parts import cut_parts
from dsprep.lists.rows import format_rows
from dsprep.liststore import (
    CLASSES,
    STREAM,
    are_there,
    editing,
    read_list,
    real_path,
    write_files,
    write_stream,
)
from dsprep.options import require_effect
from dsprep.sources.classes import format_classes
from dsprep.sources.reading import Source, read_source, source_of
from dsprep.storage.local import holds
from dsprep.storage.urls import require_disk
from dsprep.workers.pool import Pool, available_cores


@dataclass(frozen=True)
class ListWritten:
    """A list that was written: its path and its rows."""

    path: str
    rows: int


@dataclass(frozen=True)
class CreateReport:
    """What creating lists, or appending to one, did."""

    lists: Sequence[ListWritten]  # those written
    added: int  # samples that are new in them
    known: int  # samples of the source that the list had already
    classes: Sequence[str] | None  # class names, if there are any
    per_class: Mapping[int, int]  # samples of the source by class number
    rejects: Sequence[Reject]  # samples that are not in the lists, and why
    skipped: Sequence[Finding]  # what lies in the source and is no sample
    skipped_counts: Mapping[str, Mapping[str, int]]  # how many files that is, by kind and extension
    duplicates: Sequence[Finding]  # paths that the source names more than once
    seed: int | None  # what the order depends on; None if it is the source's
    written: bool  # whether anything was; not so for a dry run
    notes: Sequence[str]  # what else there is to say
    # whether new lists were not written as they are there, and as they would be
    already_done: bool = False


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
        seed: The rows are shuffled by it; None keeps the source's order. Ids are numbers in the
            order of the source at any rate.
        chunks: As im2rec's: into how many lists it is cut.
        train_ratio: As im2rec's; see :func:`~dsprep.lists.parts.cut_parts`.
        test_ratio: As im2rec's.
        overwrite: Whether lists that are there may be replaced.
        dry_run: Write nothing.
        workers: How many processes look for files; by default the cores that this one may use.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source cannot be listed.
        DestinationError: If a list is there already, or cannot be written.
    """
    require_disk(out)
    source = source_of(source)
    catalog, findings = _read(source, workers)
    require_effect("", {"--classes": source.classes}, labeled=catalog.is_labeled)
    catalog, rejects = listable(catalog)
    catalog = _below(catalog, under)
    counts = catalog.samples_per_class()
    unlabeled = [] if catalog.label_column else [note_unlabeled(len(catalog))]
    rows = rows_of(catalog if seed is None else catalog.shuffle(seed))
    parts = cut_parts(rows.height, chunks, train_ratio, test_ratio)
    if out == STREAM and len(parts) > 1:
        raise OptionError("-o -: several lists do not fit into one stream")
    stem = out.removesuffix(".lst")
    lists = {
        (f"{stem}{part.name}.lst" if part.name else out): rows.slice(
            part.start, part.stop - part.start
        )
        for part in parts
    }
    is_there = False
    if out != STREAM:
        is_there = _is_there_or_written(lists, catalog.classes, overwrite, dry_run)
    elif not dry_run:
        write_stream(format_rows(rows).encode())
    return CreateReport(
        lists=[ListWritten(path, table.height) for path, table in lists.items()],
        added=rows.height,
        known=0,
        classes=catalog.classes,
        per_class=counts,
        seed=seed,
        written=not dry_run and not is_there,
        already_done=is_there,
        rejects=[*lost(findings), *rejects],
        skipped=[each for each in findings if each.kind in SKIP_KINDS],
        skipped_counts=count_skipped(findings),
        duplicates=[each for each in findings if each.kind == "duplicate"],
        notes=[*notes_of(findings), *unlabeled],
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
    """Add to a list what its source has and it has not; its classes stay as they are.

    Args:
        path: The ``.lst``.
        source: The images; its classes are those beside the list if it names none.
        label: The label of all new samples; None takes those of the source.
        dry_run: Write nothing.
        workers: How many processes look for files.

    Raises:
        SourceError: If the source cannot be read, or has a class that the list does not know.
        DestinationError: If the list cannot be written.
    """
    source = source_of(source)
    label = None if label is None else str(label)
    with editing(path):
        old = read_list(path, source.classes)
        if label is None and source.classes is None and old.classes is not None:
            source = replace(source, classes=str(real_path(path).with_name(CLASSES)))
        catalog, findings = _read(replace(source, classes=None) if label else source, workers)
        if label is None and source.classes is None and catalog.classes is not None:
            raise SourceError(
                f"{path}: nothing tells which class has which number: give --classes FILE, or "
                f"put {CLASSES} beside the list"
            )
        catalog, rejects = listable(catalog)
        counts = catalog.samples_per_class() if label is None else {}
        unlabeled: list[str] = []
        if label is not None:
            same = pl.lit(parse_label(label, old.classes)).alias("label")
            new = catalog.table.select("index", same, "path")
        else:
            new = rows_of(catalog)
            unlabeled += [] if catalog.label_column else [note_unlabeled(len(catalog))]
        rows = append_rows(old.table, new)
        require_one_kind(old.table, new, path)
        added = rows.height - old.table.height
        if added and not dry_run:
            write_files(path, {real_path(path).name: format_rows(rows).encode()})
    return CreateReport(
        lists=[ListWritten(path, rows.height)],
        added=added,
        known=new.height - added,
        classes=old.classes,
        per_class=counts,
        seed=None,
        written=bool(added) and not dry_run,
        rejects=[*lost(findings), *rejects],
        skipped=[each for each in findings if each.kind in SKIP_KINDS],
        skipped_counts=count_skipped(findings),
        duplicates=[each for each in findings if each.kind == "duplicate"],
        notes=[*notes_of(findings), *unlabeled],
    )


def _read(source: Source, workers: int | None) -> tuple[Catalog, list[Finding]]:
    with Pool(available_cores() if workers is None else workers) as pool:
        return read_source(source, pool.map)


def _below(catalog: Catalog, under: str) -> Catalog:
    if not under:
        return catalog
    prefix = os.path.normpath(under) + "/"
    table = catalog.table.filter(pl.col("path").str.starts_with(prefix))
    if table.is_empty():
        raise SourceError(f"{catalog.root}: holds no images under {under!r}")
    return replace(catalog, table=table)


def _is_there_or_written(
    lists: Mapping[str, pl.DataFrame],
    classes: Sequence[str] | None,
    overwrite: bool,
    dry_run: bool,
) -> bool:
    """Write new lists, unless all of them are there already, as they would be written."""
    files = {real_path(path).name: format_rows(rows).encode() for path, rows in lists.items()}
    first = next(iter(lists))
    beside = real_path(first).with_name(CLASSES)
    named = None if classes is None else format_classes(classes).encode()
    with ExitStack() as stack:
        if not dry_run:
            for path in sorted(lists, key=os.path.realpath):
                stack.enter_context(editing(path, new=True))
        if not overwrite and not dry_run:
            new = files if named is None else {**files, CLASSES: named}
            if are_there(beside.parent, new):
                return True
        for path in lists:
            if os.path.exists(path) and not overwrite:
                raise DestinationError(f"{path}: exists; give --overwrite to replace it")
        if named is not None:
            if beside.exists() and not holds(beside, named) and not overwrite:
                raise DestinationError(
                    f"{beside}: names other classes; give --classes {beside} to number these as "
                    "there, --overwrite to replace it, or another directory"
                )
            files[CLASSES] = named
        if not dry_run:
            write_files(first, files)
    return False

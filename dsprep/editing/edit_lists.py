"""Lists written: create, append, edit, patch and relabel."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from dsprep.catalog import Catalog
from dsprep.declared import called_with
from dsprep.editing.inspect_lists import look_up
from dsprep.errors import OptionError, SourceError
from dsprep.findings import Finding
from dsprep.lists import diff as diffs
from dsprep.lists import edit, store
from dsprep.lists import options as of
from dsprep.lists import rows as tables
from dsprep.lists.diff import Edits
from dsprep.lists.edit import Relabeled, parse_map, relabel
from dsprep.lists.files import MISSING, UNKNOWN
from dsprep.lists.rows import format_rows, require_list, require_one_kind
from dsprep.lists.store import STREAM, ListFile, ListWritten, editing, read_list, write_text
from dsprep.options import require_effect
from dsprep.printable import json_values
from dsprep.sources.gather import with_detection_labels
from dsprep.sources.passed_over import require_nothing_left
from dsprep.sources.reading import read_source
from dsprep.sources.source import Source, source_of
from dsprep.storage.files import require_disk
from dsprep.text import decode_text, read_text
from dsprep.tuples import NamedTuple
from dsprep.units import format_count, format_some
from dsprep.workers.engine import open_executor


class CreateReport(tables.ReadingNotes):
    """What creating lists, or appending to one, did."""

    lists: Sequence[ListWritten]  # the lists that were written
    added: int  # number of new samples in the lists
    classes: Sequence[str] | None  # class names, if there are any
    per_class: Mapping[int, int]  # samples of the source by class number
    written: bool  # whether anything was; not so for a dry run
    known: int = 0  # samples of the source that the list had already
    seed: int | None = None  # the seed of the order; None if it is the source's
    already_done: bool = False  # whether new lists were not written because they exist, equal

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "lists": self.lists,
                "added": self.added,
                "known": self.known,
                "classes": self.classes,
                "per_class": self.per_class,
                "rejects": self.rejects,
                "skipped": self.skipped,
                "skipped_counts": self.skipped_counts,
                "duplicates": self.duplicates,
                "seed": self.seed,
                "written": self.written,
                "notes": self.notes,
                "already_done": self.already_done,
            }
        )


class EditReport(Edits, kw_only=True):
    """The report of a command that edits a list."""

    path: str  # the list that was written
    rows: int  # its rows now
    written: bool = False  # whether it was; not so for a dry run, or if an edit changes nothing
    already_done: bool = False  # whether the edit fits no more because it was the last one
    selected: Sequence[str] = ()  # in a dry run, the paths of the rows that meet all conditions

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "path": self.path,
                "rows": self.rows,
                "changed": self.changed,
                "removed": self.removed,
                "selected": self.selected,
                "written": self.written,
                "already_done": self.already_done,
            }
        )


class PatchReport(EditReport):
    """The report of ``lst patch``."""

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "path": self.path,
                "rows": self.rows,
                "added": self.added,
                "removed": self.removed,
                "changed": self.changed,
                "reordered": self.reordered,
                "written": self.written,
                "already_done": self.already_done,
            }
        )


@called_with(of.CreateOptions)
def create_list(options: of.CreateOptions) -> CreateReport:
    """Make the list of a source, and ``classes.txt`` beside it.

    ``source`` are the images and their labels. ``out`` is the ``.lst``, or ``-`` for stdout. Ids
    number the samples in the order of the source.
    """
    out, under = options.out, options.under
    require_disk(out)
    source = source_of(options.source)
    catalog, noticed = _read(source, options.workers)
    require_effect("", {"--classes": source.classes}, classified=catalog.has_classes)
    if under:
        below = pl.col("path").str.starts_with(os.path.normpath(under) + "/")
        catalog = replace(catalog, table=catalog.table.filter(below))
        if catalog.table.is_empty():
            raise SourceError(f"{catalog.root}: holds no images under {under!r}")
    if catalog.label_column is None:
        noticed.notes.append(tables.note_unlabeled(len(catalog)))
    seed = options.seed if options.shuffle else None
    rows = tables.rows_of(catalog if seed is None else catalog.shuffle(seed))
    parts = edit.cut_parts(rows.height, options.chunks, options.train_ratio, options.test_ratio)
    if out == STREAM and len(parts) > 1:
        raise OptionError("-o -: several lists do not fit into one stream")
    stem = out.removesuffix(".lst")
    lists = {
        (f"{stem}{name}.lst" if name else out): rows[part.start : part.stop]
        for name, part in parts.items()
    }
    advice = "--classes {} to number these as there, --overwrite to replace it, or another"
    advice += " directory"
    with editing(*([] if options.dry_run else lists), new=True):
        is_new = store.write_new(lists, catalog.classes, options.overwrite, advice, options.dry_run)
    return CreateReport(
        lists=[ListWritten(path, table.height) for path, table in lists.items()],
        added=rows.height,
        classes=catalog.classes,
        per_class=catalog.samples_per_class(),
        seed=seed,
        written=is_new and not options.dry_run,
        already_done=not is_new,
        **vars(noticed),
    )


@called_with(of.ListAppendOptions)
def append_to_list(options: of.ListAppendOptions) -> CreateReport:
    """Add the samples of a source that a list does not have; its classes stay as they are.

    ``path`` is the ``.lst``. ``source`` are the images; by default, the classes are those beside
    the list.
    """
    path, source = options.path, source_of(options.source)
    if source.keep_classes is not None:
        raise OptionError("--keep-classes: the classes of a list stay as they are; leave it out")
    label = None if options.label is None else str(options.label)
    with editing(path):
        old = read_list(path, source.classes)
        if label is not None:
            source = source.replace(classes=None)
        elif source.classes is None and old.classes is not None:
            source = source.replace(classes=store.classes_path(path))
        catalog, noticed = _read(source, options.workers)
        if label is None and source.classes is None and catalog.classes is not None:
            raise SourceError(
                f"{path}: no file tells which class has which number: give --classes FILE, or "
                f"put {store.CLASSES} beside the list"
            )
        if label is None:
            new = tables.rows_of(catalog)
            if catalog.label_column is None:
                noticed.notes.append(tables.note_unlabeled(len(catalog)))
        else:
            same = pl.lit(edit.parse_label(label, old.classes)).alias("label")
            new = catalog.table.select("index", same, "path")
        rows = edit.append_rows(old.table, new)
        require_one_kind(old.table, new, path)
        added = rows.height - old.table.height
        written = bool(added) and not options.dry_run
        if written:
            write_text(path, format_rows(rows))
    return CreateReport(
        lists=[ListWritten(path, rows.height)],
        added=added,
        known=new.height - added,
        classes=old.classes,
        per_class=catalog.samples_per_class() if label is None else {},
        written=written,
        **vars(noticed),
    )


def _read(source: Source, workers: int | None) -> tuple[Catalog, tables.ReadingNotes]:
    with open_executor(workers) as pool:
        catalog, findings = read_source(source, pool.map)
        require_nothing_left(source, (catalog, findings))
        if catalog.sides:
            names = format_some(catalog.sides)
            detail = f"samples of the sides {names} in one list: dsprep split makes one of each"
            findings = [*findings, Finding("note", "", detail)]
        catalog, unread = with_detection_labels(catalog, pool.map)
        return tables.listable(catalog, [*findings, *unread])


@called_with(of.EditOptions)
def edit_list(options: of.EditOptions) -> EditReport:
    """Change the selected rows of a list, or remove them if no change is given.

    ``path`` is the ``.lst``, or ``-`` for stdin. If rows are selected as ``missing``, it is no
    error that there are none. ``prefix``, instead of conditions and changes, is
    the prefix of paths to replace, and the new one.
    """
    prefix, root = options.prefix, options.root or os.path.dirname(options.path) or "."
    if options.missing and options.root is None and options.path == STREAM:
        raise OptionError("--missing: a list from stdin has no directory; give --root DIR")
    label = None if options.label is None or prefix else str(options.label)
    new_path = None if prefix else options.new_path

    def change(old: ListFile) -> _Changed:
        numbers = [edit.class_number(name, old.classes) for name in options.chosen]
        rows, count = old.table, old.table.height
        new: dict[str, pl.Expr] = {}
        if prefix is not None:
            where = pl.col("path").str.starts_with(prefix[0])
            new["path"] = pl.lit(prefix[1]) + pl.col("path").str.slice(len(prefix[0]))
        else:
            ids = [str(each) for each in options.ids]
            missing = _missing(old, root) if options.missing else None
            is_kept = label is not None or new_path is not None
            advice = "--path, --id or --class" if is_kept else "--path, --id, --class or --missing"
            where = edit.selected(options.paths, ids, numbers, missing, advice)
        matches = rows.select(where.sum()).item()
        if not matches and not options.missing:
            raise SourceError(f"{old.path}: no row matches")
        if label is not None:
            new["label"] = pl.lit(edit.parse_label(label, old.classes))
        if new_path is not None:
            if matches > 1:
                raise OptionError(f"one path for {matches:,} rows: choose one row, by --id")
            new["path"] = pl.lit(new_path)
        changed = (pl.when(where).then(new[name]).otherwise(name).alias(name) for name in new)
        rows = rows.with_columns(changed) if new else rows.filter(~where)
        require_list(rows, old.path, old.table)
        both = old.table.join(rows, on="index", suffix="_new")
        same = (pl.col("label") == pl.col("label_new")) & (pl.col("path") == pl.col("path_new"))
        edits = Edits(changed=both.filter(~same).height, removed=count - rows.height)
        return _Changed(rows, edits, old.table.filter(where)["path"])

    conditions = (options.paths, options.ids, options.chosen, options.missing and root)
    words = ("edit", *conditions, label, new_path, prefix)
    return _rewrite(options, options.classes, words, change)


def _missing(old: ListFile, root: str) -> Sequence[int]:
    """Return the numbers of the rows whose files, or samples, are missing below a root."""
    rows = old.table.with_columns(line=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
    found = []
    for fault in look_up(root, rows, old.path):
        if fault.kind == UNKNOWN:
            raise SourceError(
                f"{root}: {fault.message}; nothing tells whether the file is there, so no row was "
                "removed"
            )
        if fault.kind == MISSING:
            found.append(fault.line - 1)
    if len(found) == len(rows):
        raise SourceError(
            f"{root}: holds none of the {format_count(len(rows), 'file')} of {old.path}: give the "
            "directory that its paths start from, --root DIR"
        )
    return found


@called_with(of.PatchOptions)
def patch_list(options: of.PatchOptions) -> EditReport:
    """Apply a patch, which :func:`diff_lists` made, to a list.

    ``path`` is the ``.lst`` that the patch was made for. It or ``patch`` may be ``-`` for stdin.
    """
    store.require_one_stream(options.path, options.patch)
    data, source = store.read_input(options.patch)
    text = decode_text(data, source)
    diff = diffs.parse_patch(text, source)

    def change(old: ListFile) -> _Changed:
        rows = diffs.patch_rows(old.table, diff, source)
        require_list(rows, source)
        return _Changed(rows, diff.edits)

    return _rewrite(options, None, ("patch", text), change, PatchReport)


class _Changed(NamedTuple):
    """A list that was changed, and how."""

    rows: pl.DataFrame
    edits: Edits
    selected: Sequence[str] | pl.Series = ()  # paths of the rows that meet all conditions


def _rewrite(
    options: of.EditOptions | of.PatchOptions,
    classes: str | None,
    words: Sequence[object],
    change: Callable[[ListFile], _Changed],
    report: type[EditReport] = EditReport,
) -> EditReport:
    """Read a list, change it, and write it; ``words`` identify the change."""
    path = options.path
    out = path if options.out is None else options.out
    in_place = out == path != STREAM
    with editing(*([] if options.dry_run else [out]), new=out != path):
        old = read_list(path, classes)
        command = store.command_text(*words, old.classes) if in_place else ""
        try:
            rows, edits, selected = change(old)
        except SourceError:
            if not store.was_done(path, command):
                raise
            return report(path=out, rows=old.table.height, already_done=True)
        is_needed = edits != Edits() or not in_place or report is PatchReport
        written = is_needed and not options.dry_run
        if written:
            write_text(out, format_rows(rows), command)
    return report(
        path=out,
        rows=rows.height,
        written=written,
        selected=list(selected) if options.dry_run else [],
        **vars(edits),
    )


@called_with(of.RelabelOptions)
def relabel_lists(options: of.RelabelOptions) -> Relabeled:
    """Give rows new classes, and write the names of these beside the lists.

    ``paths`` are the lists, which share their classes. ``map_file`` has the changes; see
    :mod:`dsprep.lists.edit`. ``out`` goes with one list; several are replaced, all together.
    """
    paths, out, source = options.paths, options.out, options.map_file
    keep, renumber = options.keep_unmatched, options.renumber
    if out is not None and len(paths) > 1:
        raise OptionError("-o goes with one list; several are relabeled where they are")
    map_text = read_text(source)
    changes = parse_map(map_text, source)
    order = store.read_classes(options.new_classes) if options.new_classes else None
    targets = paths if out is None else [out]
    with editing(*([] if options.dry_run else targets), new=out is not None):
        lists = [read_list(path, options.classes) for path in paths]
        names, old = [str(store.real_path(path)) for path in paths], lists[0].classes
        words = ("relabel", names, map_text, options.classes and old, order, keep, renumber)
        in_place = out is None and STREAM not in paths
        rows = pl.concat([found.table for found in lists])
        try:
            done = relabel(rows, old, changes, source, keep=keep, renumber=renumber, order=order)
        except SourceError:
            now = store.classes_of(paths[0])
            if not (in_place and store.was_done(paths[0], store.command_text(*words, now))):
                raise
            there = [ListWritten(found.path, found.table.height) for found in lists]
            return Relabeled(rows, now, lists=there, already_done=True)
        if out is None:
            _require_all_of_directory(paths, old)
        made, rest = {}, done.rows
        for path, found in zip(targets, lists, strict=True):
            made[path], rest = rest.head(found.table.height), rest.slice(found.table.height)
        is_new = True
        if not options.dry_run and not in_place:
            advice = "--overwrite to replace it, or -o with another directory"
            is_new = store.write_new(made, done.classes, options.overwrite, advice)
        elif not options.dry_run:
            files = {store.real_path(path).name: format_rows(rows) for path, rows in made.items()}
            if done.classes is not None and store.classes_of(paths[0]) != done.classes:
                files[store.CLASSES] = store.format_classes(done.classes)
            data = {name: text.encode() for name, text in files.items()}
            store.write_files(paths[0], data, store.command_text(*words, done.classes))
    return replace(
        done,
        lists=[ListWritten(path, rows.height) for path, rows in made.items()],
        written=is_new and not options.dry_run,
        already_done=not is_new,
    )


def _require_all_of_directory(paths: Sequence[str], classes: tuple[str, ...] | None) -> None:
    """Refuse to change the classes of lists that are not named."""
    if paths[0] == STREAM:
        return
    given = {store.real_path(path) for path in paths}
    directories = {path.parent for path in given}
    if len(directories) > 1:
        raise OptionError("relabel lists of one directory at a time, as they share classes.txt")
    (directory,) = directories
    others = sorted(
        path.name
        for path in directory.glob("*.lst")
        if not path.name.startswith(".") and path.resolve() not in given
    )
    beside = directory / store.CLASSES
    if others and classes is not None and beside.exists():
        raise SourceError(
            f"{beside}: names the classes of {others[0]} as well: relabel all lists "
            "of the directory at once, or give -o with another directory"
        )

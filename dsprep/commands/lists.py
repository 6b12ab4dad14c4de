"""The functions of ``dsprep lst``: each reads lists, changes or inspects them, and reports that."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.catalog import Catalog
from dsprep.errors import OptionError, SourceError
from dsprep.findings import SKIP_KINDS, Finding, Reject, count_skipped, lost, notes_of
from dsprep.lists.check import READERS, Fault, check_rows, read_leniently
from dsprep.lists.diff import (
    ClassChange,
    Diff,
    Edits,
    Move,
    class_changes,
    diff_rows,
    parse_patch,
    patch_rows,
    relabelings,
)
from dsprep.lists.edit import (
    append_rows,
    class_number,
    cut_parts,
    parse_label,
    replace_prefix,
    selected,
    set_rows,
)
from dsprep.lists.files import compare_contents, find_missing
from dsprep.lists.merge import Conflict, Renumbered, Side, format_merged, merge_rows
from dsprep.lists.relabel import Change, parse_map, relabel
from dsprep.lists.rows import (
    ROWS,
    format_rows,
    leads_outside,
    listable,
    note_unlabeled,
    plain_paths,
    require_fitting,
    require_one_kind,
    rows_of,
)
from dsprep.lists.stats import (
    Statistics,
    class_sizes,
    count_list,
    sample_count,
    sample_fraction,
    sample_per_class,
)
from dsprep.lists.store import (
    CLASSES,
    STREAM,
    ListFile,
    classes_of,
    classes_path,
    command_text,
    editing,
    format_classes,
    read_classes,
    read_input,
    read_list,
    real_path,
    was_done,
    write_files,
    write_new,
    write_text,
)
from dsprep.options import require_effect
from dsprep.sources.files import Files
from dsprep.sources.kinds import detect, holds_images
from dsprep.sources.match import find_samples
from dsprep.sources.reading import Source, make_source, read_source, source_of
from dsprep.storage.local import LARGEST_TABLE
from dsprep.storage.paths import is_dir, read_bytes
from dsprep.storage.urls import require_disk
from dsprep.text import read_stdin, read_text
from dsprep.units import format_count
from dsprep.workers.pool import Pool, available_cores


class ListWritten(NamedTuple):
    """A list that was written, or would be."""

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
    skipped: Sequence[Finding]  # files in the source that are no samples
    skipped_counts: Mapping[str, Mapping[str, int]]  # how many files that is, by kind and extension
    duplicates: Sequence[Finding]  # paths that the source names more than once
    seed: int | None  # the seed of the order; None if it is the source's
    written: bool  # whether anything was; not so for a dry run
    notes: Sequence[str]  # other remarks
    already_done: bool = False  # whether new lists were not written because they exist, equal


@dataclass(frozen=True)
class EditReport:
    """What an edit of a list, or a patch, did."""

    path: str  # the list that was written
    rows: int  # its rows now
    added: int = 0  # rows that are new
    removed: int = 0  # rows that are gone
    changed: int = 0  # rows that are not what they were
    reordered: int = 0  # rows that were put elsewhere
    written: bool = False  # whether it was; not so for a dry run, or if an edit changes nothing
    already_done: bool = False  # whether the edit fits no more because it was the last one


@dataclass(frozen=True)
class RelabelReport:
    """What relabeling did."""

    lists: Sequence[ListWritten]  # the lists
    unit: str  # what has a class: a `row`, or an `object` in a list for detection
    moves: Sequence[Move]  # how many by old and new class
    classes: Sequence[str] | None  # the classes now; None if they have no names
    dropped: Sequence[str]  # old classes that are gone because they had no rows
    idle: Sequence[Change]  # lines of the map that match no row
    written: bool  # whether anything was
    already_done: bool = False  # whether the same command did it before


@dataclass(frozen=True, eq=False)
class DiffReport:
    """What differs between two lists."""

    a: str  # the old list
    b: str  # the new one
    rows: tuple[int, int]  # how many rows they have
    diff: Diff  # the rows that differ
    classes: Sequence[ClassChange]  # what that means for each class
    relabelings: Sequence[Move]  # how many rows were relabeled, by old and new class
    other_names: Sequence[OtherName]  # class numbers that have another name in the new list
    unread: int  # files whose content matters, and that cannot be read
    ids: bool  # whether ids count
    order: bool  # whether the order counts


class OtherName(NamedTuple):
    """A class number that has two names; None stands for no name."""

    number: int
    before: str | None
    after: str | None


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge."""

    path: str  # the list that was written
    rows: int  # its rows, without those that have an undecided conflict
    ours: Edits  # what we did
    theirs: Edits  # what they did
    order: Side | None  # whose order the rows are in; None if neither changed it
    renumbered: Sequence[Renumbered]  # rows of theirs that got other ids
    conflicts: Sequence[Conflict]  # rows that both changed in different ways
    decided: Side | None  # who decided the conflicts; None if they are in the list, between markers
    new_classes: Sequence[str]  # class names that only theirs has


@dataclass(frozen=True)
class CheckReport:
    """What is wrong with a list."""

    list: str  # the list
    rows: int  # how many of its lines can be read
    classes: Sequence[str] | None  # the names of its classes, if any file has them
    root: str | None  # the directory where its files were looked up, if they were
    reader: str | None  # the reader whose requirements were checked
    kinds: Mapping[str, int]  # how many faults there are of each kind, the most frequent first
    faults: Sequence[Fault]  # all of them, by line


@dataclass(frozen=True)
class SampleReport:
    """What a sample of a list is."""

    list: str  # the list
    output: str  # where the sample went; `-` is stdout
    rows: int  # the rows of the list
    kept: int  # the rows of the sample
    wanted: int | None  # the number asked for, of all rows or of each class; None for a fraction
    classes: Mapping[str, int]  # rows of the sample by label, if it was drawn class by class
    short: Mapping[str, int]  # rows of the list by label, for classes with fewer than `wanted`
    seed: int  # the seed of the choice
    written: bool  # whether it was; not so for a dry run
    already_done: bool = False  # whether it was not written because it exists, equal


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
    catalog, rejects = listable(catalog)
    if under:
        below = pl.col("path").str.starts_with(os.path.normpath(under) + "/")
        catalog = replace(catalog, table=catalog.table.filter(below))
        if catalog.table.is_empty():
            raise SourceError(f"{catalog.root}: holds no images under {under!r}")
    rows = rows_of(catalog if seed is None else catalog.shuffle(seed))
    parts = cut_parts(rows.height, chunks, train_ratio, test_ratio)
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
            is_new = write_new(lists, catalog.classes, overwrite, advice, dry_run)
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
            source = replace(source, classes=classes_path(path))
        catalog, findings = _read(replace(source, classes=None) if label else source, workers)
        if label is None and source.classes is None and catalog.classes is not None:
            raise SourceError(
                f"{path}: no file tells which class has which number: give --classes FILE, or "
                f"put {CLASSES} beside the list"
            )
        catalog, rejects = listable(catalog)
        unlabeled = None
        if label is None:
            new = rows_of(catalog)
            unlabeled = None if catalog.label_column else len(catalog)
        else:
            same = pl.lit(parse_label(label, old.classes)).alias("label")
            new = catalog.table.select("index", same, "path")
        rows = append_rows(old.table, new)
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
        "notes": notes_of(findings) + ([] if unlabeled is None else [note_unlabeled(unlabeled)]),
    }


@public
def edit_list(
    path: AnyPath,
    out: AnyPath | None = None,
    *,
    paths: Sequence[str] = (),
    ids: Sequence[str | int] = (),
    chosen: Sequence[str] = (),
    label: str | int | float | None = None,
    new_path: str | None = None,
    prefix: tuple[str, str] | None = None,
    classes: AnyPath | None = None,
    dry_run: bool = False,
) -> EditReport:
    """Change the selected rows of a list, or remove them if no change is given.

    Args:
        path: The ``.lst``, or ``-`` for stdin.
        out: Where it goes: a file, ``-`` for stdout, or None for where it came from.
        paths: Globs of the rows' paths.
        ids: Their ids, or ranges of them.
        chosen: Their classes, by name or number.
        label: Their new label: a class name or numbers.
        new_path: Their new path.
        prefix: Instead of all these, the prefix of paths to replace, and the new one.
        classes: The file of class names; by default ``classes.txt`` beside the list.
        dry_run: Write nothing.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the list cannot be read, or no row is selected.
        DestinationError: If the list cannot be written.
    """
    label = None if label is None else str(label)

    def change(old: ListFile) -> tuple[pl.DataFrame, Edits]:
        numbers = [class_number(name, old.classes) for name in chosen]
        rows, count = old.table, old.table.height
        if prefix is not None:
            where = pl.col("path").str.starts_with(prefix[0])
        else:
            where = selected(paths, [str(index) for index in ids], numbers)
        if not (matches := rows.select(where.sum()).item()):
            raise SourceError(f"{old.path}: no row matches")
        if prefix is not None:
            rows = replace_prefix(rows, *prefix)
        elif label is None and new_path is None:
            rows = rows.filter(~where)
        elif new_path is not None and matches > 1:
            raise OptionError(f"one path for {matches:,} rows: choose one row, by --id")
        else:
            text = None if label is None else parse_label(label, old.classes)
            rows = set_rows(rows, where, text, new_path)
        _require_list(rows, old.path, old.table)
        both = old.table.join(rows, on="index", suffix="_new")
        same = (pl.col("label") == pl.col("label_new")) & (pl.col("path") == pl.col("path_new"))
        return rows, Edits(changed=both.filter(~same).height, removed=count - rows.height)

    words = ("edit", paths, ids, chosen, label, new_path, prefix)
    return _rewrite(path, out, words, change, classes, dry_run)


@public
def patch_list(
    path: AnyPath, patch: AnyPath, out: AnyPath | None = None, *, dry_run: bool = False
) -> EditReport:
    """Apply a patch, which :func:`diff_lists` made, to a list.

    Args:
        path: The ``.lst`` that the patch was made for, or ``-`` for stdin.
        patch: The patch, or ``-`` for stdin.
        out: Where the list goes: a file, ``-`` for stdout, or None for where it came from.
        dry_run: Write nothing.

    Raises:
        OptionError: If both are to come from stdin.
        SourceError: If one cannot be read, or the patch does not fit.
        DestinationError: If the list cannot be written.
    """
    _require_one_stream(path, patch)
    text, source = read_input(patch)
    diff = parse_patch(text, source)

    def change(old: ListFile) -> tuple[pl.DataFrame, Edits]:
        rows = patch_rows(old.table, diff, source)
        _require_list(rows, source)
        return rows, diff.edits

    return _rewrite(path, out, ("patch", text), change, None, dry_run, always=True)


def _rewrite(
    path: str,
    out: str | None,
    words: Sequence[object],
    change: Callable[[ListFile], tuple[pl.DataFrame, Edits]],
    classes: str | None,
    dry_run: bool,
    always: bool = False,
) -> EditReport:
    """Read a list, change it, and write it; ``words`` identify the change."""
    out = path if out is None else out
    in_place = out == path != STREAM
    with editing(STREAM if dry_run else out, new=out != path):
        old = read_list(path, classes)
        command = command_text(*words, old.classes) if in_place else ""
        try:
            rows, edits = change(old)
        except SourceError:
            if not was_done(path, command):
                raise
            return EditReport(out, old.table.height, already_done=True)
        written = not dry_run and (always or any(edits) or not in_place)
        if written:
            write_text(out, format_rows(rows), command)
    return EditReport(out, rows.height, *edits, written=written)


def _require_list(rows: pl.DataFrame, source: str, old: pl.DataFrame | None = None) -> None:
    """Refuse to write rows that could not be read again, or are of another kind than the old."""
    if rows.is_empty():
        raise SourceError(f"{source}: no row would be left")
    require_one_kind(rows.clear() if old is None else old, rows, source)
    require_fitting(rows, source)


@public
def relabel_lists(
    paths: Sequence[AnyPath],
    map_file: AnyPath,
    out: AnyPath | None = None,
    *,
    classes: AnyPath | None = None,
    new_classes: AnyPath | None = None,
    keep_unmatched: bool = False,
    renumber: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
) -> RelabelReport:
    """Give rows new classes, and write the names of these beside the lists.

    Args:
        paths: The lists, which share their classes.
        map_file: The changes; see :mod:`dsprep.lists.relabel`.
        out: A new list, for one list; None replaces the lists, all together.
        classes: The file of class names; by default ``classes.txt`` beside the lists.
        new_classes: A file that fixes the new classes and their order.
        keep_unmatched: Whether rows that the map does not match keep their class.
        renumber: Whether class numbers without names become 0, 1, … .
        overwrite: Whether ``out`` may replace files.
        dry_run: Write nothing.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the map does not fit, or other lists have the same classes.
        DestinationError: If files cannot be written.
    """
    if out is not None and len(paths) > 1:
        raise OptionError("-o goes with one list; several are relabeled where they are")
    map_text = read_text(map_file)
    changes = parse_map(map_text, map_file)
    order = read_classes(new_classes) if new_classes else None
    with ExitStack() as stack:
        for path in sorted({out or path for path in paths}, key=os.path.realpath):
            stack.enter_context(editing(STREAM if dry_run else path, new=out is not None))
        lists = [read_list(path, classes) for path in paths]
        names = [str(real_path(path)) for path in paths]
        given = classes and lists[0].classes
        words = ("relabel", names, map_text, given, order, keep_unmatched, renumber)
        in_place = out is None and STREAM not in paths
        try:
            done = relabel(
                pl.concat([found.table for found in lists]),
                lists[0].classes,
                changes,
                map_file,
                keep=keep_unmatched,
                renumber=renumber,
                order=order,
            )
        except SourceError:
            now = classes_of(paths[0])
            if not (in_place and was_done(paths[0], command_text(*words, now))):
                raise
            there = [ListWritten(found.path, found.table.height) for found in lists]
            return RelabelReport(there, "row", (), now, (), (), written=False, already_done=True)
        if out is None:
            _require_all_of_directory(paths, lists[0].classes)
        tables: dict[str, pl.DataFrame] = {}
        start = 0
        for path, found in zip(paths, lists, strict=True):
            tables[out or path] = done.rows[start : start + found.table.height]
            start += found.table.height
        is_new = True
        if dry_run:
            pass
        elif STREAM in (out, paths[0] if out is None else None):
            write_text(STREAM, format_rows(done.rows))
        elif out is not None:
            advice = "--overwrite to replace it, or -o with another directory"
            is_new = write_new(tables, done.classes, overwrite, advice)
        else:
            files = {real_path(path).name: format_rows(rows) for path, rows in tables.items()}
            if done.classes is not None and classes_of(paths[0]) != done.classes:
                files[CLASSES] = format_classes(done.classes)
            command = command_text(*words, done.classes) if in_place else ""
            write_files(paths[0], {name: text.encode() for name, text in files.items()}, command)
    return RelabelReport(
        [ListWritten(path, rows.height) for path, rows in tables.items()],
        done.unit,
        done.moves,
        done.classes,
        done.dropped,
        done.idle,
        written=is_new and not dry_run,
        already_done=not is_new,
    )


def _require_all_of_directory(paths: Sequence[str], classes: tuple[str, ...] | None) -> None:
    """Refuse to change the classes of lists that are not named."""
    if paths[0] == STREAM:
        return
    given = {real_path(path) for path in paths}
    directories = {path.parent for path in given}
    if len(directories) > 1:
        raise OptionError("relabel lists of one directory at a time, as they share classes.txt")
    (directory,) = directories
    others = sorted(
        path.name
        for path in directory.glob("*.lst")
        if not path.name.startswith(".") and path.resolve() not in given
    )
    if others and classes is not None and (directory / CLASSES).exists():
        raise SourceError(
            f"{directory / CLASSES}: names the classes of {others[0]} as well: relabel all lists "
            "of the directory at once, or give -o with another directory"
        )


@public
def diff_lists(
    a: AnyPath,
    b: AnyPath,
    *,
    ids: bool = True,
    order: bool = True,
    content: bool = False,
    roots: Sequence[AnyPath] = (),
    classes: AnyPath | None = None,
) -> DiffReport:
    """Compare two lists.

    Args:
        a: The old ``.lst``, or ``-`` for stdin.
        b: The new one, or ``-`` for stdin.
        ids: Whether ids count.
        order: Whether the order of rows counts.
        content: Whether to compare the contents of files, to find those that were moved.
        roots: The directory that paths start from, or that of each list.
        classes: The file of class names; by default ``classes.txt`` beside each list.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If a list cannot be read.
    """
    _require_one_stream(a, b)
    if content != bool(roots):
        raise OptionError("--content needs --root, where the files are, and --root --content")
    if len(roots) > 2:
        raise OptionError("--root: give the directory of both lists, or one of each")
    old, new = read_list(a, classes), read_list(b, classes)
    unread = 0

    def contents(paths: pl.Series, others: pl.Series) -> tuple[pl.Series, pl.Series]:
        nonlocal unread
        found = compare_contents(paths, others, roots[0], roots[-1])
        unread = sum(texts.null_count() for texts in found)
        return found

    diff = diff_rows(
        old.table, new.table, ids=ids, order=order, contents=contents if content else None
    )
    names = new.classes or old.classes
    return DiffReport(
        a=old.path,
        b=new.path,
        rows=(old.table.height, new.table.height),
        diff=diff,
        classes=class_changes(old.table, new.table, diff, names),
        relabelings=relabelings(diff, names),
        other_names=_other_names(old.classes, new.classes),
        unread=unread,
        ids=ids,
        order=order,
    )


def _require_one_stream(*paths: str) -> None:
    if paths.count(STREAM) > 1:
        raise OptionError('only one file can be "-", which is stdin')


def _other_names(
    before: tuple[str, ...] | None, after: tuple[str, ...] | None
) -> Sequence[OtherName]:
    """Find class numbers that do not have the same name; none if one side has no names at all."""
    if before is None or after is None:
        return ()
    pairs = enumerate(zip_longest(before, after))
    return [OtherName(number, old, new) for number, (old, new) in pairs if old != new]


@public
def merge_lists(
    base: AnyPath,
    ours: AnyPath,
    theirs: AnyPath,
    out: AnyPath = STREAM,
    *,
    decide: Side | None = None,
    classes: AnyPath | None = None,
) -> MergeReport:
    """Merge two people's edits of a list.

    Args:
        base: The ``.lst`` that both began with, or an empty file if there was none.
        ours: Our edit of it.
        theirs: Their edit of it. One of the three may be ``-`` for stdin.
        out: Where the merged list goes: a file, which may be one of these, or ``-`` for stdout.
        decide: The side that decides conflicts; None writes both sides between markers.
        classes: The file of class names; by default ``classes.txt`` beside each list.

    Raises:
        OptionError: If two lists are to come from stdin.
        SourceError: If a list cannot be read, or the edits cannot be of one list.
        DestinationError: If the list cannot be written.
    """
    _require_one_stream(base, ours, theirs)
    with editing(out, new=True):
        # git gives an empty file as the base if both sides added the list.
        if base == os.devnull or (os.path.isfile(base) and not os.path.getsize(base)):
            first = ROWS.to_frame()
        else:
            first = read_list(base, classes).table
        one, other = read_list(ours, classes), read_list(theirs, classes)
        for number, name, another in _other_names(one.classes, other.classes):
            if name and another:
                raise SourceError(
                    f"{other.path}: its class {number} is {another!r}, which is {name!r} to "
                    f"{one.path}: relabel one of them first, so that a number means the same in "
                    "both (dsprep lst relabel), or give --classes"
                )
        merged = merge_rows(first, one.table, other.table)
        undecided = bool(merged.conflicts) and decide is None
        rows = merged.decided_by(decide or "ours")
        every = pl.concat([rows, merged.decided_by("theirs")]) if undecided else rows
        _require_list(every, f"{one.path} and {other.path}")
        write_text(out, format_merged(merged) if undecided else format_rows(rows))
    has_names = one.classes is not None and other.classes is not None
    return MergeReport(
        path=out,
        rows=merged.agreed.height if undecided else rows.height,
        ours=merged.ours,
        theirs=merged.theirs,
        order=merged.order,
        renumbered=merged.renumbered,
        conflicts=merged.conflicts,
        decided=decide if merged.conflicts else None,
        new_classes=(other.classes or ())[len(one.classes or ()) :] if has_names else (),
    )


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
        root: The directory that its paths start from, or shards: its files or samples are looked up
            there.
        classes: The file of class names; by default ``classes.txt`` beside the list.
        reader: The reader whose requirements to check, a key of
            :data:`~dsprep.lists.check.READERS`.

    Raises:
        SourceError: If the list, the classes or the directory cannot be read.
    """
    name = "<stdin>" if path == STREAM else path
    names = classes_of(path, classes)
    rows, faults = read_leniently(read_stdin() if path == STREAM else _read_bytes(path))
    wanted = READERS[reader] if reader is not None else None
    faults += check_rows(rows, names, numbered=wanted is not None and wanted.numbered)
    if wanted is not None:
        faults += wanted.check(rows)
    if root is not None:
        faults += _look_up(root, rows, name)
    # The same is said once of a line.
    first = {(fault.line, fault.kind): fault for fault in reversed(faults)}
    faults = sorted(first.values())
    kinds = dict(Counter(fault.kind for fault in faults).most_common())
    return CheckReport(name, rows.height, names, root, reader, kinds, faults)


def _read_bytes(path: str) -> bytes:
    try:
        return read_bytes(path, LARGEST_TABLE)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read: {error.strerror}") from None


def _look_up(root: str, rows: pl.DataFrame, source: str) -> Iterator[Fault]:
    """Look up every file whose path leads nowhere else; or every sample, if the root has these."""
    rows = rows.filter(~leads_outside(pl.col("path")))
    samples = None
    if not (is_dir(root) and holds_images(root)):
        samples = detect(make_source(root, whole=True))
    if samples is None:
        yield from find_missing(root, rows)
        return
    files = Files.of(*samples)
    assert files.samples is not None
    rows = rows.select("line", "path", plain_paths(rows["path"]).alias("file"))
    names = find_samples(rows, files, files.samples, source)
    missing = rows.filter(~names.is_in(files.table["path"].implode()))
    for line, path in missing.select("line", "path").iter_rows():
        yield Fault(line, "missing", f"{path!r}: {root} has no such sample")


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
    """Take some rows of a list; ids, labels and order stay. See :mod:`dsprep.lists.stats`.

    One of ``fraction``, ``count``, ``per_class`` and ``balanced`` says how many.

    Args:
        path: The ``.lst``, or ``-`` for stdin.
        out: Where the sample goes: a new list, with ``classes.txt`` beside it if the classes have
            names; or ``-`` for stdout.
        fraction: The share of the rows, above 0 and at most 1.
        count: Number of rows.
        per_class: Number of rows of each class.
        balanced: Take as many rows of each class as the smallest has.
        seed: Random seed; a different seed takes other rows.
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
        table = found.table
        if fraction is not None:
            rows = sample_fraction(table, fraction, seed)
        elif count is not None:
            rows = sample_count(table, count, seed)
        else:
            rows = sample_per_class(table, per_class, seed)
        sizes = class_sizes(table) if per_class is not None else {}
        report = SampleReport(
            list=found.path,
            output=out,
            rows=table.height,
            kept=rows.height,
            wanted=count if per_class is None else per_class,
            classes=class_sizes(rows) if balanced or per_class is not None else {},
            short={label: size for label, size in sizes.items() if size < (per_class or 0)},
            seed=seed,
            written=not dry_run,
        )
        _require_enough(report, strict)
        if dry_run:
            return report
        if out == STREAM:
            write_text(out, format_rows(rows))
            return report
        advice = "--overwrite to replace it, or another directory"
        is_new = write_new({out: rows}, found.classes, overwrite, advice)
    return replace(report, written=is_new, already_done=not is_new)


def _require_enough(report: SampleReport, strict: bool) -> None:
    if not report.kept:
        raise SourceError(
            f"{report.list}: the sample of {report.rows:,} rows is empty: ask for more, or give "
            "another --seed"
        )
    if not strict or report.wanted is None:
        return
    for label, rows in report.short.items():
        raise SourceError(
            f"{report.list}: the class {label} has {format_count(rows, 'row')}, fewer than "
            f"{report.wanted:,}"
        )
    if not report.classes and report.kept < report.wanted:
        raise SourceError(f"{report.list}: has {report.rows:,} rows, fewer than {report.wanted:,}")

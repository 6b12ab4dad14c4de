"""Edits of lists: edit, patch and relabel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.errors import OptionError, SourceError
from dsprep.lists import diff as diffs
from dsprep.lists import edit, store
from dsprep.lists.diff import Edits, Move
from dsprep.lists.relabel import Change, parse_map, relabel
from dsprep.lists.rows import format_rows, require_list
from dsprep.lists.store import STREAM, ListFile, ListWritten, editing, read_list, write_text
from dsprep.text import read_text


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
        numbers = [edit.class_number(name, old.classes) for name in chosen]
        rows, count = old.table, old.table.height
        if prefix is not None:
            where = pl.col("path").str.starts_with(prefix[0])
        else:
            where = edit.selected(paths, [str(index) for index in ids], numbers)
        if not (matches := rows.select(where.sum()).item()):
            raise SourceError(f"{old.path}: no row matches")
        if prefix is not None:
            rows = edit.replace_prefix(rows, *prefix)
        elif label is None and new_path is None:
            rows = rows.filter(~where)
        elif new_path is not None and matches > 1:
            raise OptionError(f"one path for {matches:,} rows: choose one row, by --id")
        else:
            text = None if label is None else edit.parse_label(label, old.classes)
            rows = edit.set_rows(rows, where, text, new_path)
        require_list(rows, old.path, old.table)
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
    store.require_one_stream(path, patch)
    text, source = store.read_input(patch)
    diff = diffs.parse_patch(text, source)

    def change(old: ListFile) -> tuple[pl.DataFrame, Edits]:
        rows = diffs.patch_rows(old.table, diff, source)
        require_list(rows, source)
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
        command = store.command_text(*words, old.classes) if in_place else ""
        try:
            rows, edits = change(old)
        except SourceError:
            if not store.was_done(path, command):
                raise
            return EditReport(out, old.table.height, already_done=True)
        written = not dry_run and (always or any(edits) or not in_place)
        if written:
            write_text(out, format_rows(rows), command)
    return EditReport(out, rows.height, *edits, written=written)


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
    order = store.read_classes(new_classes) if new_classes else None
    with ExitStack() as stack:
        for path in sorted({out or path for path in paths}, key=os.path.realpath):
            stack.enter_context(editing(STREAM if dry_run else path, new=out is not None))
        lists = [read_list(path, classes) for path in paths]
        names = [str(store.real_path(path)) for path in paths]
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
            now = store.classes_of(paths[0])
            if not (in_place and store.was_done(paths[0], store.command_text(*words, now))):
                raise
            there = [ListWritten(found.path, found.table.height) for found in lists]
            return RelabelReport(there, "row", (), now, (), (), written=False, already_done=True)
        if out is None:
            _require_all_of_directory(paths, lists[0].classes)
        made: dict[str, pl.DataFrame] = {}
        start = 0
        for path, found in zip(paths, lists, strict=True):
            made[out or path] = done.rows[start : start + found.table.height]
            start += found.table.height
        is_new = True
        if dry_run:
            pass
        elif STREAM in (out, paths[0] if out is None else None):
            write_text(STREAM, format_rows(done.rows))
        elif out is not None:
            advice = "--overwrite to replace it, or -o with another directory"
            is_new = store.write_new(made, done.classes, overwrite, advice)
        else:
            files = {store.real_path(path).name: format_rows(rows) for path, rows in made.items()}
            if done.classes is not None and store.classes_of(paths[0]) != done.classes:
                files[store.CLASSES] = store.format_classes(done.classes)
            command = store.command_text(*words, done.classes) if in_place else ""
            store.write_files(
                paths[0], {name: text.encode() for name, text in files.items()}, command
            )
    return RelabelReport(
        [ListWritten(path, rows.height) for path, rows in made.items()],
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

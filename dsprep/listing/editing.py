"""Edits of a list in place: ``set``, ``remove`` and ``replace``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.errors import OptionError, SourceError
from dsprep.lists.canonical import canonical_label
from dsprep.lists.editing import (
    remove_rows,
    replace_prefix,
    require_fitting,
    require_one_kind,
    set_rows,
)
from dsprep.lists.rows import format_rows, is_number
from dsprep.lists.selecting import Selection, class_number, parse_ids
from dsprep.liststore import (
    STREAM,
    ListFile,
    command_text,
    editing,
    read_list,
    real_path,
    was_done,
    write_files,
    write_stream,
)


@dataclass(frozen=True)
class EditReport:
    """What an edit of a list did."""

    path: str  # the list
    rows: int  # its rows now
    changed: int  # rows that are not what they were
    removed: int  # rows that are gone
    written: bool  # whether it was; not so for a dry run, or where nothing changed
    already_done: bool = False  # whether no row matches because the same edit was the last one


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
    """Change the rows of a list that are meant, or remove them if nothing says what to change.

    Args:
        path: The ``.lst``, or ``-`` for stdin.
        out: Where it goes: a file, ``-`` for stdout, or None for where it came from.
        paths: Globs of the rows' paths.
        ids: Their ids, or ranges of them.
        chosen: Their classes, by name or number.
        label: Their new label: a class name or numbers.
        new_path: Their new path.
        prefix: What their paths begin with, and are to begin with.
        classes: The file of class names; by default ``classes.txt`` beside the list.
        dry_run: Write nothing.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the list cannot be read, or no row is meant.
        DestinationError: If the list cannot be written.
    """
    out = path if out is None else out
    label = None if label is None else str(label)
    with editing(STREAM if dry_run else out, new=out != path):
        old = read_list(path, classes)
        words = (paths, ids, chosen, label, new_path, prefix, old.classes)
        command = command_text("edit", *words) if out == path != STREAM else ""
        numbers = tuple(class_number(each, old.classes) for each in chosen)
        select = Selection(tuple(paths), parse_ids([str(each) for each in ids]), numbers)
        try:
            rows = _edited(old, select, label, new_path, prefix)
        except SourceError:
            if not was_done(path, command):
                raise
            return EditReport(out, old.table.height, 0, 0, written=False, already_done=True)
        kept = old.table.join(rows, on="index", suffix="_new")
        changed = kept.filter(
            (pl.col("label") != pl.col("label_new")) | (pl.col("path") != pl.col("path_new"))
        ).height
        removed = old.table.height - rows.height
        if rows.is_empty():
            raise SourceError(f"{old.path}: no row would be left")
        require_fitting(rows, old.path)
        require_one_kind(old.table, rows, old.path)
        write = not dry_run and (bool(changed or removed) or out != path or out == STREAM)
        if write:
            _write(out, rows, command)
    return EditReport(out, rows.height, changed, removed, write)


def parse_label(text: str, classes: Sequence[str] | None) -> str:
    """Read a label as a user gives it: a class name, a number, or several with commas."""
    words = [word.strip() for word in text.split(",")]
    if len(words) == 1 and (classes is not None or not _are_numbers(words)):
        return str(class_number(text, classes))
    if not _are_numbers(words):
        raise OptionError(f"--label {text}: give a class, or numbers separated by commas")
    return canonical_label(words)


def _are_numbers(words: Sequence[str]) -> bool:
    return bool(is_number(pl.Series(words, dtype=pl.String)).all())


def _edited(
    old: ListFile,
    select: Selection,
    label: str | None,
    new_path: str | None,
    prefix: tuple[str, str] | None,
) -> pl.DataFrame:
    begins = None if prefix is None else pl.col("path").str.starts_with(prefix[0])
    chosen = select.expr() if begins is None else begins
    count = old.table.select(chosen.sum()).item()
    if not count:
        raise SourceError(f"{old.path}: none of its {old.table.height:,} rows is meant")
    if prefix is not None:
        return replace_prefix(old.table, *prefix)
    if label is None and new_path is None:
        return remove_rows(old.table, chosen)
    if new_path is not None and count > 1:
        raise OptionError(f"one path for {count:,} rows: choose one row, by --id")
    text = None if label is None else parse_label(label, old.classes)
    return set_rows(old.table, chosen, text, new_path)


def _write(out: str, rows: pl.DataFrame, command: str) -> None:
    data = format_rows(rows).encode()
    if out == STREAM:
        write_stream(data)
    else:
        write_files(out, {real_path(out).name: data}, command)

"""``relabel``: other classes for the rows of lists, and the file that names them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.listing.creating import ListWritten
from dsprep.lists.relabeling import Change, Move, parse_map, relabel
from dsprep.lists.rows import format_rows
from dsprep.liststore import (
    CLASSES,
    STREAM,
    are_there,
    classes_beside,
    command_text,
    editing,
    read_list,
    real_path,
    was_done,
    write_files,
    write_stream,
)
from dsprep.sources.classes import format_classes, read_classes
from dsprep.storage.local import holds
from dsprep.text import read_text


@dataclass(frozen=True)
class RelabelReport:
    """What relabeling did."""

    lists: Sequence[ListWritten]  # the lists
    unit: str  # what has a class: a `row`, or an `object` in a list for detection
    moves: Sequence[Move]  # how many by old and new class
    classes: Sequence[str] | None  # the classes now; None if they have no names
    dropped: Sequence[str]  # old classes that are gone because they had no rows
    idle: Sequence[Change]  # lines of the map that no row is of
    written: bool  # whether anything was
    # whether the same command has done it before, and nothing has changed since
    already_done: bool = False


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
    """Give rows other classes, and write the classes that there are then.

    Args:
        paths: The lists, which share their classes.
        map_file: The changes; see :mod:`dsprep.lists.relabeling`.
        out: A new list, for one list; None writes them where they are, all together.
        classes: The file of class names; by default ``classes.txt`` beside the lists.
        new_classes: A file that fixes the new classes and their order.
        keep_unmatched: Whether rows that the map says nothing of keep their class.
        renumber: Whether class numbers without names are made 0, 1, … .
        overwrite: Whether ``out`` may replace files.
        dry_run: Write nothing.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the map does not fit, or leaves out other lists with the same classes.
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
        words = (names, map_text, given, order, keep_unmatched, renumber)
        in_place = out is None and STREAM not in paths
        together = pl.concat([each.table for each in lists])
        try:
            done = relabel(
                together,
                lists[0].classes,
                changes,
                map_file,
                keep=keep_unmatched,
                renumber=renumber,
                order=order,
            )
        except SourceError:
            now = classes_beside(paths[0])
            if not (in_place and was_done(paths[0], command_text("relabel", *words, now))):
                raise
            there = [ListWritten(each.path, each.table.height) for each in lists]
            return RelabelReport(there, "row", (), now, (), (), written=False, already_done=True)
        command = command_text("relabel", *words, done.classes) if in_place else ""
        if out is None:
            _require_all_of_directory(paths, lists[0].classes)
        written = []
        files: dict[str, bytes] = {}
        start = 0
        for path, each in zip(paths, lists, strict=True):
            table = done.rows.slice(start, each.table.height)
            start += each.table.height
            files[real_path(out or path).name] = format_rows(table).encode()
            written.append(ListWritten(out or path, table.height))
        is_there = False
        if not dry_run:
            if out == STREAM or (out is None and paths[0] == STREAM):
                write_stream(format_rows(done.rows).encode())
            else:
                is_there = not _write_relabeled(
                    out or paths[0], files, done.classes, out, overwrite, command
                )
    return RelabelReport(
        written,
        done.unit,
        done.moves,
        done.classes,
        done.dropped,
        done.idle,
        written=not dry_run and not is_there,
        already_done=is_there,
    )


def _require_all_of_directory(paths: Sequence[str], classes: tuple[str, ...] | None) -> None:
    """Refuse to change the classes of lists that are not told to change."""
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


def _write_relabeled(
    path: str,
    files: dict[str, bytes],
    classes: tuple[str, ...] | None,
    out: str | None,
    overwrite: bool,
    command: str,
) -> bool:
    """Write the lists, unless new ones are there already, as they would be written."""
    beside = real_path(path).with_name(CLASSES)
    named = None if classes is None else format_classes(classes).encode()
    if out is not None and not overwrite:
        if are_there(beside.parent, files if named is None else {**files, CLASSES: named}):
            return False
        if os.path.exists(out):
            raise DestinationError(f"{out}: exists; give --overwrite to replace it")
        if named is not None and beside.exists() and not holds(beside, named):
            raise DestinationError(
                f"{beside}: names other classes; give --overwrite to replace it, or -o with "
                "another directory"
            )
    if named is not None and classes_beside(path) != classes:
        files[CLASSES] = named
    write_files(path, files, command)
    return True

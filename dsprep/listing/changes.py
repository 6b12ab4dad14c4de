"""Changes between lists: ``diff``, ``patch`` and ``merge``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from dsprep.arguments import AnyPath, public
from dsprep.errors import DestinationError, OptionError, SourceError
from dsprep.listing.contents import tell_contents
from dsprep.lists.class_changes import ClassChange, class_changes, relabelings
from dsprep.lists.diff import Diff, diff_rows
from dsprep.lists.editing import require_fitting, require_one_kind
from dsprep.lists.merge import Conflict, Edits, Renumbered, Side, format_merged, merge_rows
from dsprep.lists.patch import parse_patch, patch_rows
from dsprep.lists.relabeling import Move
from dsprep.lists.rows import ROWS, format_rows
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
from dsprep.text import decode_text, read_stdin, read_text


class OtherName(NamedTuple):
    """A class number that has two names, None being none."""

    number: int
    before: str | None
    after: str | None


@dataclass(frozen=True, eq=False)
class DiffReport:
    """What differs between two lists."""

    a: str  # the old list
    b: str  # the new one
    rows: tuple[int, int]  # how many rows they have
    diff: Diff  # the rows that differ
    classes: Sequence[ClassChange]  # what that means for each class
    relabelings: Sequence[Move]  # from which class to which how many rows were relabeled
    other_names: Sequence[OtherName]  # class numbers that have another name in the new list
    unread: int  # files of which it would be of interest what they hold, and that cannot be read
    ids: bool  # whether ids count
    order: bool  # whether the order counts


@dataclass(frozen=True)
class PatchReport:
    """What a patch did to a list."""

    path: str  # the list that was written
    rows: int  # its rows
    added: int  # rows that are new
    removed: int  # rows that are gone
    changed: int  # rows that are not what they were
    reordered: int  # rows that were put elsewhere
    written: bool  # whether it was written; not so for a dry run
    already_done: bool = False  # whether the patch does not fit because it was the last edit


@dataclass(frozen=True)
class MergeReport:
    """What became of two people's edits."""

    path: str  # the list that was written
    rows: int  # its rows; without those that there is an undecided conflict about
    ours: Edits  # what we did
    theirs: Edits  # what they did
    order: Side | None  # whose order the rows are in; None if neither changed it
    renumbered: Sequence[Renumbered]  # rows of theirs that got other ids
    conflicts: Sequence[Conflict]  # rows that both changed in different ways
    # who decided the conflicts; None if they wait in the list, between markers
    decided: Side | None
    new_classes: Sequence[str]  # class names that only theirs has


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
        b: The new one, likewise.
        ids: Whether ids count.
        order: Whether the order of rows counts.
        content: Whether to look into files for those that were moved.
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
        told = tell_contents(paths, others, roots[0], roots[-1])
        unread = sum(each.null_count() for each in told)
        return told

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


@public
def patch_list(
    path: AnyPath, patch: AnyPath, out: AnyPath | None = None, *, dry_run: bool = False
) -> PatchReport:
    """Do to a list what a diff says.

    Args:
        path: The ``.lst`` that the diff was made for, or ``-`` for stdin.
        patch: The diff, or ``-`` for stdin.
        out: Where the list goes: a file, ``-`` for stdout, or None for where it came from.
        dry_run: Write nothing.

    Raises:
        OptionError: If both are to come from stdin.
        SourceError: If one cannot be read, or the patch does not fit.
        DestinationError: If the list cannot be written.
    """
    _require_one_stream(path, patch)
    out = path if out is None else out
    with editing(STREAM if dry_run else out, new=out != path):
        old = read_list(path)
        text, source = _read_patch(patch)
        command = command_text("patch", text) if out == path != STREAM else ""
        what = parse_patch(text, source)
        try:
            rows = patch_rows(old.table, what)
        except SourceError:
            if not was_done(path, command):
                raise
            return PatchReport(out, old.table.height, 0, 0, 0, 0, written=False, already_done=True)
        _require_a_list(rows, what.source)
        if not dry_run:
            write_text(out, format_rows(rows), command)
    return PatchReport(
        path=out,
        rows=rows.height,
        added=what.added.height,
        removed=what.removed.height,
        changed=what.changed.height,
        reordered=what.reordered.height,
        written=not dry_run,
    )


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
        ours: It as we left it.
        theirs: It as they left it. One of the three may be ``-`` for stdin.
        out: Where the merged list goes: a file, which may be one of these, or ``-`` for stdout.
        decide: Who decides conflicts; None writes both sides between markers.
        classes: The file of class names; by default ``classes.txt`` beside each list.

    Raises:
        OptionError: If two lists are to come from stdin.
        SourceError: If a list cannot be read, or the edits cannot be of one list.
        DestinationError: If the list cannot be written.
    """
    _require_one_stream(base, ours, theirs)
    with editing(out, new=True):
        first = _read_base(base, classes)
        sides = read_list(ours, classes), read_list(theirs, classes)
        new_classes = _require_one_numbering(*sides)
        merged = merge_rows(first.table, *(side.table for side in sides))
        undecided = bool(merged.conflicts) and decide is None
        rows = merged.decided_by(decide or "ours")
        every = pl.concat([rows, merged.decided_by("theirs")]) if undecided else rows
        _require_a_list(every, f"{sides[0].path} and {sides[1].path}")
        write_text(out, format_merged(merged) if undecided else format_rows(rows))
    return MergeReport(
        path=out,
        rows=merged.agreed.height if undecided else rows.height,
        ours=merged.ours,
        theirs=merged.theirs,
        order=merged.order,
        renumbered=merged.renumbered,
        conflicts=merged.conflicts,
        decided=decide if merged.conflicts else None,
        new_classes=new_classes,
    )


def _require_one_stream(*paths: str) -> None:
    if paths.count(STREAM) > 1:
        raise OptionError('only one file can be "-", which is stdin')


def _read_patch(patch: str) -> tuple[str, str]:
    if patch == STREAM:
        return decode_text(read_stdin(), "<stdin>"), "<stdin>"
    return read_text(patch), patch


def _read_base(path: str, classes: str | None) -> ListFile:
    """Read the list that two edits began with: git gives an empty file where both made one."""
    if path == os.devnull or (os.path.isfile(path) and not os.path.getsize(path)):
        return ListFile(path, ROWS.to_frame())
    return read_list(path, classes)


def _require_a_list(rows: pl.DataFrame, source: str) -> None:
    """Refuse to write what could not be read again."""
    if rows.is_empty():
        raise SourceError(f"{source}: no row would be left")
    require_one_kind(rows.clear(), rows, source)
    require_fitting(rows, source)


def _require_one_numbering(ours: ListFile, theirs: ListFile) -> Sequence[str]:
    """Refuse lists whose labels mean different things; return names that only theirs has."""
    contradictions = [
        each for each in _other_names(ours.classes, theirs.classes) if each.before and each.after
    ]
    for number, before, after in contradictions:
        raise SourceError(
            f"{theirs.path}: its class {number} is {after!r}, which is {before!r} to {ours.path}: "
            "relabel one of them first, so that a number means the same in both (dsprep lst "
            "relabel), or give --classes"
        )
    if ours.classes is None or theirs.classes is None:
        return ()
    return theirs.classes[len(ours.classes) :]


def _other_names(
    before: tuple[str, ...] | None, after: tuple[str, ...] | None
) -> Sequence[OtherName]:
    """Find class numbers that do not have the same name; none if one side has no names at all."""
    if before is None or after is None:
        return ()
    count = max(len(before), len(after))
    padded = [(*names, *[None] * (count - len(names))) for names in (before, after)]
    pairs = enumerate(zip(*padded, strict=True))
    return [OtherName(number, old, new) for number, (old, new) in pairs if old != new]


def write_text(out: str, text: str, command: str = "") -> None:
    """Write a list or a diff."""
    if out != STREAM:
        write_files(out, {real_path(out).name: text.encode()}, command)
        return
    try:
        write_stream(text.encode())
    except BrokenPipeError:
        raise
    except OSError as error:
        # Not to be taken for a conflict, which has the exit code of any other failure.
        raise DestinationError(f"<stdout>: cannot be written: {error.strerror}") from None

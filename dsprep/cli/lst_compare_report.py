"""What ``dsprep lst diff``, ``patch`` and ``merge`` print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from dsprep.cli.bars import Page, page_of, width_of
from dsprep.cli.report import print_json
from dsprep.cli.streams import until_nobody_reads
from dsprep.listing.changes import write_text
from dsprep.lists.diff import format_diff
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    import polars as pl

    from dsprep.listing.changes import DiffReport, MergeReport, OtherName, PatchReport
    from dsprep.lists.class_changes import ClassChange
    from dsprep.lists.merge import Conflict, Edits, Row

_SHOWN = 20
_CLASSES_SHOWN = 40
_PATCH = Page(80, "utf-8")
"""A patch is UTF-8 whatever the terminal is, as the list is."""


def print_diff_report(report: DiffReport, summary: bool, as_json: bool, quiet: bool) -> None:
    """Print what differs: a patch on stdout, with a summary in its remarks."""
    if as_json:
        _print(_diff_json(report, summary), True, (), sys.stdout)
        return
    if quiet:
        return
    if report.diff.is_empty:
        _print(None, False, _other_names(report.other_names, page_of(sys.stderr)), sys.stderr)
        return
    text = "".join(f"# {line}".rstrip() + "\n" for line in _diff_lines(report))
    rows = "" if summary else format_diff(report.diff)
    with until_nobody_reads(sys.stdout):
        write_text("-", text + rows)


def print_patch_report(report: PatchReport, as_json: bool, quiet: bool) -> None:
    """Print what a patch did: on stderr, if stdout has the list."""
    to_stdout = report.path == "-" and report.written
    lines = () if quiet else _patch_lines(report)
    _print(report, as_json, lines, sys.stderr if to_stdout else sys.stdout)


def print_merge_report(report: MergeReport, as_json: bool, quiet: bool) -> None:
    """Print what a merge did: on stderr, if stdout has the list; conflicts always there."""
    undecided = report.decided is None
    if report.conflicts and not as_json and (undecided or not quiet):
        _print(None, False, _conflict_lines(report.conflicts, page_of(sys.stderr)), sys.stderr)
    lines = () if quiet else _merge_lines(report)
    _print(report, as_json, lines, sys.stderr if report.path == "-" else sys.stdout)


def _print(report: Any, as_json: bool, lines: Iterable[str], stream: TextIO) -> None:
    with until_nobody_reads(stream):
        if as_json:
            print_json(report, stream)
            return
        for line in lines:
            click.echo(line, file=stream)


def _diff_lines(report: DiffReport) -> Iterator[str]:
    for path, rows in zip((report.a, report.b), report.rows, strict=True):
        yield f"{_PATCH.shown(path)}: {format_count(rows, 'row')}"
    for name, number in _counts(report).items():
        if number:
            yield f"  {name:<10}  {number:,}"
    ignored = [
        name for name, counts in (("ids", report.ids), ("order", report.order)) if not counts
    ]
    if ignored:
        yield f"  ignored     {', '.join(ignored)}"
    if report.unread:
        yield f"  unread      {format_count(report.unread, 'file')} missing or empty"
    yield from _other_names(report.other_names, _PATCH)
    yield from _class_lines(report.classes)
    for move in report.relabelings[:_SHOWN]:
        names = f"from {_PATCH.shown(move.old)} to {_PATCH.shown(move.new)}"
        yield f"  relabeled   {format_count(move.moved, 'row')} {names}"
    if len(report.relabelings) > _SHOWN:
        yield f"  relabeled   {len(report.relabelings) - _SHOWN:,} more such; --json tells all"


def _counts(report: DiffReport) -> dict[str, int]:
    names = ("added", "removed", "relabeled", "moved", "renumbered", "reordered")
    return {name: getattr(report.diff, name).height for name in names}


def _other_names(names: Sequence[OtherName], page: Page) -> Iterator[str]:
    for number, before, after in names[:_SHOWN]:
        now = "has no name now" if after is None else f"is {page.shown(after)} now"
        then = "had none" if before is None else f"was {page.shown(before)}"
        yield f"  classes     {number} {now}, {then}: labels are compared by number"
    if len(names) > _SHOWN:
        yield f"  classes     {len(names) - _SHOWN:,} more such; --json tells all"


def _class_lines(classes: Sequence[ClassChange]) -> Iterator[str]:
    """Draw a table of the classes that changed most."""
    if not classes:
        return
    by_change = sorted(classes, key=lambda each: -sum(each[4:]))[:_CLASSES_SHOWN]
    titles = {
        each.number: f"{each.number} {_PATCH.shown(each.name or '')}".rstrip() for each in by_change
    }
    wide = max(5, *map(width_of, titles.values()))
    yield f"  {'class':<{wide}}  before   after   added removed  gained    lost"
    for each in sorted(by_change):
        blanks = " " * (wide - width_of(titles[each.number]))
        yield f"  {titles[each.number]}{blanks}" + "".join(f"{value:>8,}" for value in each[2:])
    if len(classes) > len(by_change):
        yield f"  and {len(classes) - len(by_change):,} more classes; --json tells all"


def _diff_json(report: DiffReport, summary: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "a": report.a,
        "b": report.b,
        "rows": report.rows,
        "counts": _counts(report),
        "classes": report.classes,
        "relabelings": report.relabelings,
        "other_names": report.other_names,
        "unread": report.unread,
    }
    if summary:
        return found
    diff = report.diff
    return found | {
        "removed": _rows(diff.removed),
        "added": _rows(diff.added),
        "changed": _rows(diff.changed),
        "reordered": _rows(diff.reordered),
    }


def _rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as they are named elsewhere: the column ``index`` is the id."""
    renamed = {"index": "id", "new_index": "new_id"}
    return rows.rename({name: renamed[name] for name in rows.columns if name in renamed}).to_dicts()


def _patch_lines(report: PatchReport) -> Iterator[str]:
    done = [
        f"{format_count(number, 'row')} {what}"
        for number, what in (
            (report.added, "added"),
            (report.removed, "removed"),
            (report.changed, "changed"),
            (report.reordered, "put elsewhere"),
        )
        if number
    ]
    unwritten = "" if report.written else ", if it were written"
    nothing = "already done" if report.already_done else "nothing changed"
    what = ", ".join(done) or nothing
    yield f"{_name(report.path)}: {what}, {report.rows:,} in all{unwritten}"


def _merge_lines(report: MergeReport) -> Iterator[str]:
    undecided = bool(report.conflicts) and report.decided is None
    left = f", and {format_count(len(report.conflicts), 'conflict')} to decide" if undecided else ""
    yield f"{_name(report.path)}: {format_count(report.rows, 'row')}{left}"
    yield f"  ours        {_edits(report.ours)}"
    yield f"  theirs      {_edits(report.theirs)}"
    if report.order is not None:
        yield f"  order       that of {report.order}"
    if report.renumbered:
        some = format_some(
            [f"{each.path} ({each.old} to {each.new})" for each in report.renumbered]
        )
        count = format_count(len(report.renumbered), "row")
        yield f"  renumbered  {count} of theirs, with ids that ours has taken: {some}"
    if report.decided is not None:
        count = format_count(len(report.conflicts), "conflict")
        yield f"  decided     {count}, by {report.decided}"
    if report.new_classes:
        yield f"  classes     only theirs names {format_some(report.new_classes)}"


def _edits(edits: Edits) -> str:
    return f"{edits.added:,} added, {edits.removed:,} removed, {edits.changed:,} changed"


def _conflict_lines(conflicts: Sequence[Conflict], page: Page) -> Iterator[str]:
    for each in conflicts[:_SHOWN]:
        yield f"conflict: {_say_conflict(each)}"
        for side, row in (("base", each.base), ("ours", each.ours), ("theirs", each.theirs)):
            yield f"  {side:<7} {_say_row(row, page)}"
    if len(conflicts) > _SHOWN:
        yield f"and {len(conflicts) - _SHOWN:,} more conflicts; --json lists them all"


def _say_conflict(conflict: Conflict) -> str:
    if conflict.base is None:
        return "both added the file, with different labels"
    if conflict.what == "removed":
        who, other = ("ours", "theirs") if conflict.ours is None else ("theirs", "ours")
        return f"removed in {who}, changed in {other}"
    return f"the sides disagree about the {conflict.what.replace(',', ' and the ')}"


def _say_row(row: Row | None, page: Page) -> str:
    if row is None:
        return "-"
    return "  ".join(page.shown(str(each).replace("\t", " ")) for each in row)


def _name(path: str) -> str:
    return "<stdout>" if path == "-" else path

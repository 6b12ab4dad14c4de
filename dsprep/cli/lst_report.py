"""What the commands of ``dsprep lst`` print: on stdout, or on stderr if stdout gets a list."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import click

from dsprep.cli.bars import Page, draw_bars, page_of, width_of
from dsprep.cli.report import print_json, skipped_text
from dsprep.cli.streams import until_nobody_reads
from dsprep.commands.lists import (
    CheckReport,
    CreateReport,
    DiffReport,
    EditReport,
    ListWritten,
    MergeReport,
    OtherName,
    RelabelReport,
    SampleReport,
)
from dsprep.findings import Finding, MisfitReject, Reject
from dsprep.lists.check import READERS, Fault
from dsprep.lists.diff import ClassChange, Edits, Move, format_diff
from dsprep.lists.merge import Conflict, Renumbered
from dsprep.lists.relabel import Change
from dsprep.lists.stats import ClassCount, Spread, Statistics
from dsprep.lists.store import write_text
from dsprep.units import format_count, format_some

_SHOWN = 20
_FAULTS_SHOWN = 50
_CLASSES_SHOWN = 40
_PATCH = Page(80, "utf-8")
"""A patch is UTF-8 whatever the terminal is, as the list is."""

_WRITTEN = "written already_done"
_NAMES = {
    "create": "lists added known classes per_class rejects skipped skipped_counts duplicates seed "
    "written notes already_done",
    "edit": f"path rows changed removed {_WRITTEN}",
    "patch": f"path rows added removed changed reordered {_WRITTEN}",
    "relabel": f"lists unit moves classes dropped idle {_WRITTEN}",
    "merge": "path rows ours theirs order renumbered conflicts decided new_classes",
    "check": "list rows classes root reader kinds faults",
    "stats": "list rows kind widths distinct classes largest smallest imbalance unused objects "
    "objects_per_row",
    "sample": f"list output rows kept wanted classes short seed {_WRITTEN}",
}
"""The names in the JSON of each command, in their order."""

_TABLES = ("removed", "added", "changed", "reordered")
_IDS = {"index": "id", "new_index": "new_id"}

_RECORDS = {
    ListWritten: "path rows",
    Finding: "kind path detail",
    Reject: "path reason",
    MisfitReject: "path reason",
    Move: "old new moved",
    Change: "line old new",
    ClassChange: "number name before after added removed gained lost",
    OtherName: "number before after",
    Edits: "added removed changed",
    Renumbered: "path old new",
    Conflict: "what base ours theirs",
    Fault: "line kind message",
    ClassCount: "number name rows objects",
    Spread: "least mean most",
}
"""The names in the JSON of each kind of record."""


def _to_json(value: Any, names: str | None = None) -> Any:
    if names := names or _RECORDS.get(type(value)):
        return {name: _to_json(getattr(value, name)) for name in names.split()}
    if isinstance(value, Mapping):
        return {str(name): _to_json(item) for name, item in value.items()}
    return [_to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def print_report(command: str, report: Any, as_json: bool, quiet: bool = False) -> None:
    """Print what a command did."""
    names = _NAMES["create" if command == "append" else command]
    paths = [written.path for written in getattr(report, "lists", ())]
    paths += [getattr(report, "path", ""), getattr(report, "output", "")]
    to_stderr = "-" in paths and getattr(report, "written", True)
    stream = sys.stderr if to_stderr else sys.stdout
    lines = () if quiet else _LINES[command](report)
    _print(_to_json(report, names) if as_json else lines, stream)


def print_diff(report: DiffReport, summary: bool, as_json: bool, quiet: bool) -> None:
    """Print what differs: a patch on stdout, with a summary in its comments."""
    if as_json:
        _print(_diff_json(report, summary), sys.stdout)
    elif report.diff.is_empty and not quiet:
        _print(_other_names(report.other_names, page_of(sys.stderr)), sys.stderr)
    elif not quiet:
        text = "".join(f"# {line}".rstrip() + "\n" for line in _diff_lines(report))
        with until_nobody_reads(sys.stdout):
            write_text("-", text if summary else text + format_diff(report.diff))


def print_merge(report: MergeReport, as_json: bool, quiet: bool) -> None:
    """Print what a merge did, and the conflicts, on stderr; undecided ones are never hidden."""
    if report.conflicts and not as_json and not (quiet and report.decided):
        _print(_conflict_lines(report.conflicts, page_of(sys.stderr)), sys.stderr)
    print_report("merge", report, as_json, quiet)


def _print(content: Mapping[str, Any] | Iterable[str], stream: TextIO) -> None:
    with until_nobody_reads(stream):
        if isinstance(content, Mapping):
            print_json(content, stream)
            return
        for line in content:
            click.echo(line, file=stream)


def _name(path: str) -> str:
    return "<stdout>" if path == "-" else path


def _first(lines: Sequence[str], name: str, more: str) -> Iterator[str]:
    """Yield lines of a report, and how many more there are."""
    for line in lines[:_SHOWN]:
        yield f"  {name}{line}"
    if len(lines) > _SHOWN:
        yield f"  {name}{len(lines) - _SHOWN:,} more{more}; --json tells all"


def _headings(report: CreateReport | RelabelReport) -> Iterator[str]:
    for path, rows in report.lists:
        yield f"{_name(path)}: {format_count(rows, 'row')}"
    yield from _unwritten(report)


def _unwritten(report: CreateReport | RelabelReport | SampleReport) -> Iterator[str]:
    if report.already_done:
        yield "  already done, nothing was written"
    elif not report.written:
        yield "  nothing was written"


def _create_lines(report: CreateReport) -> Iterator[str]:
    yield from _headings(report)
    if report.per_class:
        counts = list(report.per_class.values())
        yield f"  classes   {len(counts):,}, of {min(counts):,} to {max(counts):,} samples"
    order = "that of the source" if report.seed is None else f"shuffled, seed {report.seed}"
    yield f"  order     {order}"
    yield from _noticed(report)


def _append_lines(report: CreateReport) -> Iterator[str]:
    (written,) = report.lists
    done = "added" if report.written or not report.added else "would be added"
    yield f"{written.path}: {format_count(report.added, 'row')} {done}, {written.rows:,} in all"
    if report.known:
        yield f"  known     {report.known:,} were listed already"
    yield from _noticed(report)


def _noticed(report: CreateReport) -> Iterator[str]:
    if report.skipped:
        yield f"  skipped   {skipped_text(report.skipped)}"
    if report.duplicates:
        names = format_some([finding.path for finding in report.duplicates])
        yield f"  note      {len(report.duplicates):,} paths are named more than once: {names}"
    for note in report.notes:
        yield f"  note      {note}"
    rejects = [f"{reject.path}: {reject.reason}" for reject in report.rejects]
    yield from _first(rejects, "rejected  ", "")


def _edit_lines(report: EditReport) -> Iterator[str]:
    counts = (
        (report.added, "added"),
        (report.removed, "removed"),
        (report.changed, "changed"),
        (report.reordered, "put elsewhere"),
    )
    done = [f"{format_count(number, 'row')} {what}" for number, what in counts if number]
    unwritten = "" if report.written or not done else ", if it were written"
    what = ", ".join(done) or ("already done" if report.already_done else "nothing changed")
    yield f"{_name(report.path)}: {what}, {report.rows:,} in all{unwritten}"


def _relabel_lines(report: RelabelReport) -> Iterator[str]:
    yield from _headings(report)
    if report.classes is not None:
        yield f"  classes   {len(report.classes):,}"
    moves = [
        f"{format_count(move.moved, report.unit)} from {move.old} to {move.new}"
        for move in report.moves
        if move.old != move.new
    ]
    yield from _first(moves, "moved     ", " such")
    if report.moves:
        same = sum(move.moved for move in report.moves if move.old == move.new)
        yield f"  kept      {format_count(same, report.unit)} of the same class"
    if report.dropped:
        names = format_some(report.dropped)
        yield f"  dropped   {format_count(len(report.dropped), 'class')} without rows: {names}"
    if report.idle:
        lines = format_some([f"{change.old} (line {change.line})" for change in report.idle])
        yield f"  note      no row matches {lines}"


def _counts(report: DiffReport) -> dict[str, int]:
    diff = report.diff
    changed = {"relabeled": "label", "moved": "path", "renumbered": "index"}
    return {
        "added": len(diff.added),
        "removed": len(diff.removed),
        **{name: len(diff.changed_in(column)) for name, column in changed.items()},
        "reordered": len(diff.reordered),
    }


def _diff_json(report: DiffReport, summary: bool) -> dict[str, Any]:
    found = {
        "a": report.a,
        "b": report.b,
        "rows": list(report.rows),
        "counts": _counts(report),
        "classes": _to_json(report.classes),
        "relabelings": _to_json(report.relabelings),
        "other_names": _to_json(report.other_names),
        "unread": report.unread,
    }
    if not summary:
        tables = {name: getattr(report.diff, name) for name in _TABLES}
        found |= {name: rows.rename(_IDS, strict=False).to_dicts() for name, rows in tables.items()}
    return found


def _diff_lines(report: DiffReport) -> Iterator[str]:
    for path, rows in zip((report.a, report.b), report.rows, strict=True):
        yield f"{_PATCH.shown(path)}: {format_count(rows, 'row')}"
    for name, number in _counts(report).items():
        if number:
            yield f"  {name:<10}  {number:,}"
    counted = {"ids": report.ids, "order": report.order}
    if ignored := [name for name, counts in counted.items() if not counts]:
        yield f"  ignored     {', '.join(ignored)}"
    if report.unread:
        yield f"  unread      {format_count(report.unread, 'file')} missing or empty"
    yield from _other_names(report.other_names, _PATCH)
    yield from _class_table(report.classes)
    moves = [
        f"{format_count(move.moved, 'row')} from {_PATCH.shown(move.old)} to "
        f"{_PATCH.shown(move.new)}"
        for move in report.relabelings
    ]
    yield from _first(moves, "relabeled   ", " such")


def _other_names(names: Sequence[OtherName], page: Page) -> Iterator[str]:
    lines = []
    for number, before, after in names:
        now = "has no name now" if after is None else f"is {page.shown(after)} now"
        then = "had none" if before is None else f"was {page.shown(before)}"
        lines.append(f"{number} {now}, {then}: labels are compared by number")
    yield from _first(lines, "classes     ", " such")


def _class_table(classes: Sequence[ClassChange]) -> Iterator[str]:
    """Draw a table of the classes that changed most."""
    if not classes:
        return
    by_change = sorted(classes, key=lambda change: -sum(change[4:]))[:_CLASSES_SHOWN]
    titles = {
        change: f"{change.number} {_PATCH.shown(change.name or '')}".rstrip()
        for change in sorted(by_change)
    }
    wide = max(5, *map(width_of, titles.values()))
    yield f"  {'class':<{wide}}  before   after   added removed  gained    lost"
    for change, title in titles.items():
        blanks = " " * (wide - width_of(title))
        yield f"  {title}{blanks}" + "".join(f"{value:>8,}" for value in change[2:])
    if len(classes) > len(by_change):
        yield f"  and {len(classes) - len(by_change):,} more classes; --json tells all"


def _merge_lines(report: MergeReport) -> Iterator[str]:
    undecided = bool(report.conflicts) and report.decided is None
    conflicts = format_count(len(report.conflicts), "conflict")
    left = f", and {conflicts} to decide" if undecided else ""
    yield f"{_name(report.path)}: {format_count(report.rows, 'row')}{left}"
    for side, edits in (("ours", report.ours), ("theirs", report.theirs)):
        counts = f"{edits.added:,} added, {edits.removed:,} removed, {edits.changed:,} changed"
        yield f"  {side:<11} {counts}"
    if report.order is not None:
        yield f"  order       that of {report.order}"
    if report.renumbered:
        some = format_some([f"{row.path} ({row.old} to {row.new})" for row in report.renumbered])
        count = format_count(len(report.renumbered), "row")
        yield f"  renumbered  {count} of theirs, with ids that ours has taken: {some}"
    if report.decided is not None:
        yield f"  decided     {conflicts}, by {report.decided}"
    if report.new_classes:
        yield f"  classes     only theirs names {format_some(report.new_classes)}"


def _conflict_lines(conflicts: Sequence[Conflict], page: Page) -> Iterator[str]:
    for conflict in conflicts[:_SHOWN]:
        what = f"the sides disagree about the {conflict.what.replace(',', ' and the ')}"
        if conflict.base is None:
            what = "both added the file, with different labels"
        elif conflict.what == "removed":
            sides = ("ours", "theirs") if conflict.ours is None else ("theirs", "ours")
            what = "removed in {}, changed in {}".format(*sides)
        yield f"conflict: {what}"
        for side in ("base", "ours", "theirs"):
            row = getattr(conflict, side) or "-"
            fields = [page.shown(str(field).replace("\t", " ")) for field in row]
            yield f"  {side:<7} {'  '.join(fields)}"
    if len(conflicts) > _SHOWN:
        yield f"and {len(conflicts) - _SHOWN:,} more conflicts; --json lists them all"


def _check_lines(report: CheckReport) -> Iterator[str]:
    faults = report.faults
    yield f"{report.list}: {format_count(len(faults), 'fault') if faults else 'no faults'}"
    yield f"  rows      {report.rows:,}"
    checked = ["lines, ids, paths, labels"]
    if report.classes is not None:
        checked.append(format_count(len(report.classes), "class"))
    if report.root is not None:
        checked.append(f"files below {report.root}")
    if report.reader is not None:
        checked.append(f"what {READERS[report.reader].title} requires")
    yield f"  checked   {', '.join(checked)}"
    if not faults:
        return
    for number, (kind, count) in enumerate(report.kinds.items()):
        yield f"  {'' if number else 'faults':<9} {count:,} {kind}"
    yield ""
    for fault in faults[:_FAULTS_SHOWN]:
        yield f"  {report.list}:{fault.line}: {fault.kind}: {fault.message}"
    if len(faults) > _FAULTS_SHOWN:
        yield f"  and {len(faults) - _FAULTS_SHOWN:,} more; --json lists them all"


def _stats_lines(report: Statistics) -> Iterator[str]:
    page = page_of(sys.stdout)

    def title(one: ClassCount) -> str:
        return f"{one.number}" if one.name is None else f"{one.number} {page.shown(one.name)}"

    yield f"{report.list}: {format_count(report.rows, 'row')}"
    widths = sorted(report.widths)
    span = f"{widths[0]:,} to {widths[-1]:,} numbers"
    if report.kind == "classes":
        yield "  labels    one class each"
    elif report.kind == "detection":
        yield f"  labels    objects for detection, {span}"
    else:
        size = format_count(widths[0], "number") if len(widths) == 1 else span
        yield f"  labels    {size} each, {report.distinct:,} different"
    if report.objects is not None and report.objects_per_row is not None:
        least, mean, most = report.objects_per_row
        yield f"  objects   {report.objects:,}; {least:,} to {most:,} a row, {mean:.1f} on average"
    if report.largest is not None and report.smallest is not None:
        yield f"  classes   {len(report.classes):,}"
        for name, one in (("largest", report.largest), ("smallest", report.smallest)):
            noun = "row" if one.objects is None else "object"
            yield f"  {name:<9} {title(one)}, {format_count(one.weight, noun)}"
        yield f"  imbalance {report.imbalance:.3g}"
        if report.unused:
            unused = format_some([title(one) for one in report.classes if not one.weight])
            yield f"  unused    {format_count(report.unused, 'class')} without rows: {unused}"
    if report.classes:
        yield ""
        yield from _histogram(report.classes, page)


def _histogram(classes: Sequence[ClassCount], page: Page) -> Iterator[str]:
    """Draw all classes by number; of too many, the largest and the smallest."""
    half = len(classes)
    if half > _CLASSES_SHOWN:
        half = _CLASSES_SHOWN // 2
        by_size = sorted(classes, key=lambda one: (-one.weight, one.number))
        classes, more = [*by_size[:half], *by_size[-half:]], len(classes) - 2 * half
    entries = [(f"{one.number} {one.name or ''}".rstrip(), one.weight) for one in classes]
    lines = list(draw_bars(entries, page))
    yield from lines[:half]
    if half < len(classes):
        yield f"  ({more:,} more between the largest and the smallest)"
        yield from lines[half:]


def _sample_lines(report: SampleReport) -> Iterator[str]:
    share = 100 * report.kept / report.rows
    rows = format_count(report.rows, "row")
    yield f"{_name(report.output)}: {report.kept:,} of {rows}, {share:.3g}%"
    yield from _unwritten(report)
    yield f"  seed      {report.seed}"
    if report.classes:
        least, most = min(report.classes.values()), max(report.classes.values())
        size = format_count(most, "row") if least == most else f"{least:,} to {most:,} rows"
        yield f"  classes   {len(report.classes):,}, {size} each"
    elif report.wanted is not None and report.kept < report.wanted:
        yield f"  short     {report.wanted:,} were asked for"
    if report.short:
        some = format_some([f"{label} ({rows:,})" for label, rows in report.short.items()])
        count = format_count(len(report.short), "class")
        yield f"  short     {count} of fewer than {report.wanted:,} rows: {some}"


_LINES: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "create": _create_lines,
    "append": _append_lines,
    "edit": _edit_lines,
    "patch": _edit_lines,
    "relabel": _relabel_lines,
    "merge": _merge_lines,
    "check": _check_lines,
    "stats": _stats_lines,
    "sample": _sample_lines,
}

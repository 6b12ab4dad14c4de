"""What the commands of ``dsprep lst`` print: on stdout, or on stderr where stdout gets a list."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from dsprep.cli.report import print_json, skipped_text
from dsprep.cli.streams import until_nobody_reads
from dsprep.units import format_count, format_some

if TYPE_CHECKING:
    from dsprep.listing.creating import CreateReport, ListWritten
    from dsprep.listing.editing import EditReport
    from dsprep.listing.relabeling import RelabelReport

_SHOWN = 20

ALREADY_DONE = "  already done, nothing was written"


def print_create_report(report: CreateReport, as_json: bool, quiet: bool) -> None:
    """Print what ``create`` did."""
    _print(report, as_json, quiet, [each.path for each in report.lists], _create_lines(report))


def print_append_report(report: CreateReport, as_json: bool, quiet: bool) -> None:
    """Print what ``append`` did."""
    _print(report, as_json, quiet, [each.path for each in report.lists], _append_lines(report))


def print_edit_report(report: EditReport, as_json: bool, quiet: bool) -> None:
    """Print what ``set``, ``remove`` or ``replace`` did."""
    _print(report, as_json, quiet, [report.path], _edit_lines(report))


def print_relabel_report(report: RelabelReport, as_json: bool, quiet: bool) -> None:
    """Print what ``relabel`` did."""
    _print(report, as_json, quiet, [each.path for each in report.lists], _relabel_lines(report))


def _print(
    report: Any, as_json: bool, quiet: bool, lists: Sequence[str], lines: Iterator[str]
) -> None:
    to_stderr = "-" in lists
    stream = sys.stderr if to_stderr else sys.stdout
    with until_nobody_reads(stream):
        if as_json:
            print_json(report, stream)
        elif not quiet:
            for line in lines:
                click.echo(line, file=stream)


def _create_lines(report: CreateReport) -> Iterator[str]:
    yield from _lists(report.lists, report)
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


def _edit_lines(report: EditReport) -> Iterator[str]:
    done = [
        f"{format_count(number, 'row')} {what}"
        for number, what in ((report.changed, "changed"), (report.removed, "removed"))
        if number
    ]
    unwritten = "" if report.written or not done else ", if it were written"
    nothing = "already done" if report.already_done else "nothing changed"
    what = ", ".join(done) or nothing
    yield f"{_name(report.path)}: {what}, {report.rows:,} in all{unwritten}"


def _relabel_lines(report: RelabelReport) -> Iterator[str]:
    yield from _lists(report.lists, report)
    if report.classes is not None:
        yield f"  classes   {len(report.classes):,}"
    moves = [move for move in report.moves if move.old != move.new]
    same = sum(move.moved for move in report.moves if move.old == move.new)
    for move in moves[:_SHOWN]:
        yield f"  moved     {format_count(move.moved, report.unit)} from {move.old} to {move.new}"
    if len(moves) > _SHOWN:
        yield f"  moved     {len(moves) - _SHOWN:,} more such; --json tells all"
    if report.moves:
        yield f"  kept      {format_count(same, report.unit)} of the same class"
    if report.dropped:
        names = format_some(report.dropped)
        yield f"  dropped   {format_count(len(report.dropped), 'class')} without rows: {names}"
    if report.idle:
        lines = format_some([f"{change.old} (line {change.line})" for change in report.idle])
        yield f"  note      no row is of {lines}"


def _lists(lists: Sequence[ListWritten], report: CreateReport | RelabelReport) -> Iterator[str]:
    for each in lists:
        yield f"{_name(each.path)}: {format_count(each.rows, 'row')}"
    if report.already_done:
        yield ALREADY_DONE
    elif not report.written:
        yield "  nothing was written"


def _name(path: str) -> str:
    return "<stdout>" if path == "-" else path


def _noticed(report: CreateReport) -> Iterator[str]:
    if report.skipped:
        yield f"  skipped   {skipped_text(report.skipped)}"
    if report.duplicates:
        names = format_some([finding.path for finding in report.duplicates])
        yield f"  note      {len(report.duplicates):,} paths are named more than once: {names}"
    for note in report.notes:
        yield f"  note      {note}"
    for reject in report.rejects[:_SHOWN]:
        yield f"  rejected  {reject.path}: {reject.reason}"
    if len(report.rejects) > _SHOWN:
        yield f"  rejected  {len(report.rejects) - _SHOWN:,} more; --json tells all"

"""What ``dsprep split`` prints."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dsprep.cli.records import print_json
from dsprep.cli.report import print_rows, skipped_text
from dsprep.cli.streams import until_nobody_reads
from dsprep.units import format_count, format_duration, format_some

if TYPE_CHECKING:
    from dsprep.commands.split import ListFacts, SplitReport
    from dsprep.splits.leaks import Leak

_SHOWN = 20
_FAR = 1.0
"""Counts that are less than this off are as near as whole numbers come."""


def print_split_report(report: SplitReport, as_json: bool, quiet: bool) -> None:
    """Print what splitting did."""
    with until_nobody_reads(sys.stdout):
        if as_json:
            print_json(report)
        elif not quiet or report.leaks or report.rejects:
            count = format_count(report.samples, "sample")
            print_rows(f"{report.destination}: {count} {report.state}", _rows(report))
            if report.state == "planned":
                click.echo("  nothing was written")


def _rows(report: SplitReport) -> Iterator[tuple[str, str]]:
    yield "how", f"{report.method}, seed {report.seed}"
    width = max(len(facts.name) for facts in report.lists)
    for facts in report.lists[:_SHOWN]:
        yield f"{facts.name:<{width}}", _list_line(facts, report)
    if len(report.lists) > _SHOWN:
        yield "and", f"{len(report.lists) - _SHOWN:,} more lists"
    if report.classes:
        yield "classes", _classes_line(report)
    for note in report.notes:
        yield "note", note
    if report.skipped:
        yield "skipped", skipped_text(report.skipped)
    for reject in report.rejects[:_SHOWN]:
        yield "rejected", f"{reject.path}: {reject.reason}"
    if len(report.rejects) > _SHOWN:
        yield "rejected", f"{len(report.rejects) - _SHOWN:,} more; --json lists them all"
    for leak in report.leaks[:_SHOWN]:
        yield "leak", _leak_line(leak)
    if len(report.leaks) > _SHOWN:
        yield "leak", f"{len(report.leaks) - _SHOWN:,} more; --json lists them all"
    if report.materialized and report.state != "planned":
        yield "files", f"{report.materialized}, in directories of the sides"
    yield "time", format_duration(report.seconds)


def _list_line(facts: ListFacts, report: SplitReport) -> str:
    line = f"{format_count(facts.samples, 'sample')}, {facts.samples / report.samples:.1%}"
    if facts.wanted is not None and abs(facts.samples - facts.wanted) >= _FAR:
        line += f", {facts.samples - facts.wanted:+,.1f} from its share"
    return line


def _classes_line(report: SplitReport) -> str:
    line = f"{len(report.classes):,}"
    worst = max(report.classes, key=lambda facts: facts.off)
    if worst.off < _FAR:
        return line if not worst.off else f"{line}, each within one sample of its shares"
    return f"{line}; farthest from its shares: {worst.name}, by {worst.off:,.1f} samples"


def _leak_line(leak: Leak) -> str:
    where = [f"{path} ({side})" for side, path in leak.samples]
    what = "the same" if leak.kind == "same" else "alike"
    return f"{what}: {format_some(where)}"

"""What ``verify`` and ``shard index`` print when they are done."""

from __future__ import annotations

import sys
from collections import defaultdict

import click

from dsprep.cli.records import print_json
from dsprep.cli.report import print_problems, print_rows, print_verify_report
from dsprep.cli.streams import until_nobody_reads
from dsprep.errors import REJECTS_EXIT_CODE
from dsprep.units import format_duration, format_size, format_some
from dsprep.verifying.report import IndexReport, VerifyReport

_SHOWN = 5  # how many of the files that were wrong are named


def end(report: VerifyReport | IndexReport, as_json: bool, quiet: bool) -> int:
    """Print a report; return the exit code."""
    with until_nobody_reads(sys.stdout):
        if as_json:
            print_json(report)
        elif quiet and not report.problems:
            pass
        elif isinstance(report, VerifyReport):
            print_verify_report(report)
        else:
            _print_index_report(report)
    return REJECTS_EXIT_CODE if report.problems else 0


def _print_index_report(report: IndexReport) -> None:
    names = defaultdict(list)
    for file in report.files:
        names[file.state].append(file.name)
    rows = [
        ("samples", f"{report.samples:,}"),
        ("shards", f"{report.shards:,}"),
        ("size", format_size(report.bytes)),
        *((state, f"{len(some):,} ({format_some(some)})") for state, some in names.items()),
        *(("note", note) for note in report.notes),
        ("time", format_duration(report.seconds)),
    ]
    print_rows(f"{report.destination}: {report.state} as {report.format}", rows)
    replaced = [file for file in report.files if file.state == "replaced"]
    if replaced:
        click.echo("\nwrong before" if report.state == "indexed" else "\nwrong")
    for file in replaced[:_SHOWN]:
        click.echo(f"  {file.name}: {file.detail}")
    if len(replaced) > _SHOWN:
        click.echo(f"  and {len(replaced) - _SHOWN:,} more; --json lists them all")
    if report.state == "planned":
        click.echo("\nnothing was written")
    print_problems(report.problems)

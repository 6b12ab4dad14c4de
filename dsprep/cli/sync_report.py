"""What ``dsprep sync`` says: how far it is, and what it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TextIO

import click

from dsprep.cli.report import print_json
from dsprep.cli.streams import visible
from dsprep.cli.sync_bars import Bars
from dsprep.cli.sync_lines import Lines
from dsprep.transfers.events import Events
from dsprep.units import format_count, format_duration, format_size

if TYPE_CHECKING:
    from dsprep.syncing.orphans import Orphan
    from dsprep.syncing.report import SyncReport

_SHOWN = 10
"""How many of a long list are named."""

_WORDS = {
    "missing": "not there",
    "size": "of another size",
    "etag": "of another ETag",
    "checksum": "of another checksum",
    "metadata": "of another checksum in its metadata",
    "time": "older there",
    "withdrawn": "removed there until all that it names is replaced",
}
"""Why a file is sent, by what decided it."""


@contextmanager
def events_for(stream: TextIO, quiet: bool) -> Iterator[Events]:
    """What listens to a sync: nobody, or what suits a stream."""
    if quiet:
        yield Events()
        return
    with closing(Bars(stream) if stream.isatty() else Lines(stream)) as events:
        yield events


def print_sync_report(report: SyncReport, as_json: bool, quiet: bool) -> None:
    """Print what a sync did, or would do."""
    if as_json:
        print_json(report)
    elif not quiet or report.failures:
        for line in _lines(report):
            click.echo(visible(line))


def print_orphans(place: str, orphans: Sequence[Orphan], as_json: bool, quiet: bool) -> None:
    """Print which unfinished uploads there were, and what became of them."""
    if as_json:
        print_json({"place": place, "uploads": orphans})
        return
    if quiet:
        return
    size = format_size(sum(each.bytes for each in orphans))
    aborted = all(each.aborted for each in orphans) and orphans
    said = f"{format_count(len(orphans), 'unfinished upload')} of your own, {size}"
    click.echo(f"{place}: {said}{', aborted' if aborted else ''}")
    texts = [
        f"{each.url}: begun {format_duration(each.seconds)} ago, "
        f"{format_count(each.parts, 'part')}, {format_size(each.bytes)}"
        for each in orphans
    ]
    for line in _some(texts):
        click.echo(visible(line))


def _lines(report: SyncReport) -> Iterator[str]:
    planned = report.state == "planned"
    verb = "would be sent" if planned else "sent"
    yield f"{report.source} → {report.destination}: {report.state}"
    parts = sum(each.parts for each in report.sent)
    size = format_size(report.bytes)
    yield f"  {verb:<15}{format_count(len(report.sent), 'file')}, {size}, {parts:,} parts"
    if planned:
        yield from _some([f"{each.path}: {_WORDS[each.by]}" for each in report.sent])
        requests = report.requests
        cost = f"{format_count(requests.total, 'request')}, about ${requests.dollars:.4f}"
        yield f"  {'requests':<15}{cost} at list prices, without storage and traffic"
    if report.resumed:
        yield f"  {'resumed':<15}{format_size(report.resumed)} were there from an earlier run"
    if report.same:
        by = ", ".join(f"{count:,} by {name}" for name, count in report.same.most_common())
        yield f"  {'there already':<15}{format_count(report.same.total(), 'file')} ({by})"
    if report.deleted:
        verb = "would be deleted" if planned else "deleted"
        yield f"  {verb:<15} {format_count(len(report.deleted), 'file')}"
        yield from _some(report.deleted)
    if report.moved:
        yield f"  {'moved':<15}{format_count(report.moved, 'local file')} deleted"
    if report.verified:
        yield f"  {'verified':<15}{format_count(report.verified, 'file')}"
    if report.left:
        yield f"  {'left out':<15}{format_count(len(report.left), 'file')}"
        yield from _some([f"{each.path}: {each.why}" for each in report.left])
    if report.failures:
        yield f"  {'failed':<15}{format_count(len(report.failures), 'file')}"
        yield from _some([f"{each.path}: {each.message}" for each in report.failures])
    yield from (f"  {note}" for note in report.notes)
    if not planned:
        rate = f", {format_size(report.bytes / report.seconds)}/s" if report.bytes else ""
        yield f"  {'time':<15}{format_duration(report.seconds)}{rate}"


def _some(texts: Sequence[str]) -> Iterator[str]:
    yield from (f"    {text}" for text in texts[:_SHOWN])
    if len(texts) > _SHOWN:
        yield f"    and {len(texts) - _SHOWN:,} more (--json names all)"

"""What ``dsprep sync`` reports: what it did, or would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from dsprep.cli.records import print_json
from dsprep.cli.streams import visible
from dsprep.units import format_count, format_duration, format_size

if TYPE_CHECKING:
    from collections import Counter

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
    "download": "of other bytes, which were read back",
    "time": "older there",
    "withdrawn": "removed there until all that it names is replaced",
}
"""Why a file is sent, by what decided it."""

_TOLD = {
    "size": "size",
    "etag": "ETag",
    "checksum": "checksum",
    "metadata": "the checksum in their metadata",
    "time": "time",
    "download": "reading them",
}
"""What tells that a file is there, or proves it."""


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
    count = format_count(len(orphans), "unfinished upload")
    size = format_size(sum(orphan.bytes for orphan in orphans))
    if not orphans:
        click.echo(f"{place}: no unfinished uploads of your own")
    elif all(orphan.aborted for orphan in orphans):
        click.echo(f"{place}: {count} of your own, {size}, aborted")
    else:
        click.echo(f"{place}: {count}, {size}; those that you began would be aborted")
    for line in _some(map(_orphan_line, orphans)):
        click.echo(visible(line))


def _orphan_line(orphan: Orphan) -> str:
    by = f" by {orphan.initiator}" if orphan.initiator else ""
    parts, size = format_count(orphan.parts, "part"), format_size(orphan.bytes)
    return f"{orphan.url}: begun {format_duration(orphan.seconds)} ago{by}, {parts}, {size}"


def _lines(report: SyncReport) -> Iterator[str]:
    planned = report.state == "planned"
    would = "would be " if planned else ""
    yield f"{report.source} → {report.destination}: {report.state}"
    if report.sent or not report.same:
        files = format_count(len(report.sent), "file")
        parts = sum(send.parts for send in report.sent)
        several = f" in {parts:,} parts" if parts > len(report.sent) else ""
        yield _row(f"{would}sent", f"{files}, {format_size(report.bytes)}{several}")
    if planned:
        yield from _some(f"{send.path}: {_WORDS[send.by]}" for send in report.sent)
        count = report.requests.writes + report.requests.reads
        yield _row("requests", f"about {count:,}")
    if report.resumed:
        yield _row("resumed", f"{format_size(report.resumed)} were there from an earlier run")
    if report.same:
        yield _row("there already", _by(report.same))
    yield from _files(f"{would}deleted", report.deleted)
    if report.verified:
        yield _row("verified", _by(report.verified))
    yield from _files("left out", map(": ".join, report.left))
    yield from _files("failed", map(": ".join, report.failures))
    yield from (_row("note", note) for note in report.notes)
    if not planned:
        rate = f", {format_size(report.bytes / report.seconds)}/s" if report.bytes else ""
        yield _row("time", f"{format_duration(report.seconds)}{rate}")


def _files(name: str, texts: Iterable[str]) -> Iterator[str]:
    """Return how many files there are, and some of them; nothing if there are none."""
    texts = list(texts)
    if texts:
        yield _row(name, format_count(len(texts), "file"))
        yield from _some(texts)


def _row(name: str, text: str) -> str:
    return f"  {name:<17}{text}"


def _by(counts: Counter[str]) -> str:
    """How many files, and what told it: ``3 files (2 by etag, 1 by checksum)``."""
    files = format_count(counts.total(), "file")
    if len(counts) == 1:
        return f"{files}, by {_TOLD[next(iter(counts))]}"
    return f"{files} ({', '.join(f'{n:,} by {_TOLD[by]}' for by, n in counts.most_common())})"


def _some(texts: Iterable[str]) -> Iterator[str]:
    texts = list(texts)
    yield from (f"    {text}" for text in texts[:_SHOWN])
    if len(texts) > _SHOWN:
        yield f"    and {len(texts) - _SHOWN:,} more (--json names all)"

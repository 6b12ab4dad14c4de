"""``--watch``: files are sent as they get their names, until the data set is complete."""

from __future__ import annotations

from collections.abc import Callable

from dsprep.syncing.ranks import is_manifest
from dsprep.syncing.report import SyncReport
from dsprep.syncing.sides import Directory

_INTERVAL = 3.0
"""Seconds between two looks."""


def watch(
    source: Directory,
    once: Callable[[bool], SyncReport],
    pause: Callable[[float], object],
    tell: Callable[[str], object],
) -> SyncReport:
    """Sync again and again.

    It ends with the run that begins when the directory holds a manifest, which is written last.
    """
    whole: SyncReport | None = None
    told = False
    while True:
        listing = source.list()
        complete = any("/" not in path and is_manifest(path) for path in listing.files)
        if listing.files or listing.left or listing.unseen:
            report = once(complete)
            whole = report if whole is None else _joined(whole, report)
            if complete:
                return whole
        elif not told and whole is None:
            told = True
            tell(f"{source.root}: holds nothing yet; waiting for shards and their manifest")
        pause(_INTERVAL)


def _joined(whole: SyncReport, report: SyncReport) -> SyncReport:
    """The report of several runs, the last of which saw everything."""
    report.sent = [*whole.sent, *report.sent]
    report.bytes += whole.bytes
    report.resumed += whole.resumed
    report.deleted = [*whole.deleted, *report.deleted]
    report.moved += whole.moved
    report.requests += whole.requests
    report.seconds += whole.seconds
    if report.sent and report.state == "already there":
        report.state = "synced"
    return report

"""``--watch``: files are sent as they get their names, until the data set is complete."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dsprep.errors import SourceError
from dsprep.syncing.ranks import is_manifest
from dsprep.syncing.report import SyncReport

_INTERVAL = 3.0
"""Seconds between two looks."""


def watch(
    directory: Path, once: Callable[[], SyncReport], pause: Callable[[float], object]
) -> SyncReport:
    """Sync again and again.

    It ends when the directory holds a manifest, which is written last, and all of it is there.

    Args:
        directory: Where something writes a data set.
        once: Syncs it once.
        pause: Waits so many seconds; raises to end it all.
    """
    whole: SyncReport | None = None
    while True:
        complete = _is_complete(directory)
        if directory.is_dir():
            try:
                report = once()
            except SourceError:
                if any(directory.iterdir()):
                    raise
            else:
                whole = report if whole is None else _joined(whole, report)
                if complete and not report.failures:
                    return whole
        pause(_INTERVAL)


def _is_complete(directory: Path) -> bool:
    return directory.is_dir() and any(is_manifest(each.name) for each in directory.iterdir())


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

"""``--watch``: files are sent as they get their names, until the data set is complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from dsprep.stores.local import SCRATCH
from dsprep.syncing.ranks import is_manifest
from dsprep.syncing.report import SyncReport

_INTERVAL = 3.0
"""Seconds between two looks."""


def watch(
    directory: Path,
    once: Callable[[], SyncReport],
    pause: Callable[[float], object],
    tell: Callable[[str], object],
) -> SyncReport:
    """Sync again and again.

    It ends with the run that begins when the directory holds a manifest, which is written last.

    Args:
        directory: Where something writes a data set.
        once: Syncs it once.
        pause: Waits so many seconds; raises to end it all.
        tell: Told once if there is nothing yet.
    """
    whole: SyncReport | None = None
    told = False
    while True:
        complete = _is_complete(directory)
        if _holds_something(directory):
            report = once()
            whole = report if whole is None else _joined(whole, report)
            if complete:
                return whole
        elif not told and whole is None:
            told = True
            tell(f"{directory}: holds nothing yet; waiting for shards and their manifest")
        pause(_INTERVAL)


def _is_complete(directory: Path) -> bool:
    return directory.is_dir() and any(is_manifest(each.name) for each in directory.iterdir())


def _holds_something(directory: Path) -> bool:
    """Whether there is anything but what an unfinished run keeps for itself."""
    return any(names for above, _, names in os.walk(directory) if SCRATCH not in Path(above).parts)


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

"""Removes what a run leaves at its target: its notes, and the data set that it replaced."""

from __future__ import annotations

from contextlib import suppress

from dsprep.dataset.manifest import Manifest, parse_manifest
from dsprep.errors import DestinationError, SourceError
from dsprep.formats.listing import LISTING
from dsprep.plan.destination import Destination
from dsprep.run.finished import holds_folder
from dsprep.run.folder import remove_folder
from dsprep.run.identity import has_published
from dsprep.run.notes import LEASES, PLAN, RECEIPTS, REPLACED, REPLACED_LISTING, RUN, Target
from dsprep.run.target import target_of


def files_of_run(target: Target) -> list[str]:
    """Return the names of the files that the unfinished run at a target may have written."""
    files = (target.noted_run() or {}).get("files")
    named = files if isinstance(files, list) else []
    may_hold = target.destination.may_hold
    return [name for name in named if isinstance(name, str) and may_hold(name)]


def remove_replaced(target: Target, finished: Manifest | None) -> None:
    """Remove the files of a data set that has been replaced, without those of the finished one."""
    if (data := small_file(target, target.notes + REPLACED)) is None:
        return
    with suppress(SourceError):  # dsprep did not write the manifest, so no other file is removed
        if (replaced := parse_manifest(data, target.manifest)) != finished:
            names = set(filter(target.destination.may_hold, replaced.names()))
            listing = target.destination.companion(LISTING).name
            kept = finished is not None and listing in finished.names()
            remove_folder(target, names, target.destination.url(listing) if kept else "")
            target.delete(names - (finished.names() if finished else set()))
    target.delete_notes(REPLACED)


def small_file(target: Target, name: str) -> bytes | None:
    """Read a small file; None also if it is no regular one, which dsprep did not write."""
    with suppress(DestinationError):
        return target.find(name)
    return None


def tidy_up(target: Target, finished: Manifest) -> None:
    """Remove the notes, receipts and open uploads of a run after it has published its manifest."""
    remove_replaced(target, finished)
    target.abort_uploads([*files_of_run(target), *finished.names()])
    if holds_folder(finished):
        target.delete([*target.listings(), target.notes + REPLACED_LISTING])
    target.delete_notes(RECEIPTS, RUN, PLAN, LEASES)


def remove_leftovers(destination: Destination, finished: Manifest) -> None:
    """Remove what a run left that was killed after it had published this manifest."""
    # What belongs to a run that has not published its manifest stays: that run can go on.
    target = target_of(destination)
    if not target.has_notes():
        return
    hold = target.hold((), lambda _: None)
    try:
        if has_published(target.noted_run(), finished):
            tidy_up(target, finished)
            hold.remove()
    finally:
        hold.release(keep=True)

"""An unfinished run: what the notes at a target tell of it, and how it begins and ends."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from dsprep.dataset.manifest import Manifest, parse_manifest
from dsprep.errors import DestinationError, SourceError
from dsprep.plan.destination import Destination
from dsprep.progress import Progress
from dsprep.run.folder import remove_folder, whole_units
from dsprep.run.target import RECEIPTS, REPLACED, RUN, Hold, Target, Written, target_of
from dsprep.storage.local import destination_errors


class RunState:
    """An unfinished run: it keeps others out, and knows which shards and pieces are done.

    Pieces of shards, and the tree of a folder, stay on this machine until they are joined. They lie
    in a directory that is a target of its own, with the same notes.
    """

    def __init__(
        self, target: Target, identity: dict[str, Any], files: Sequence[str], progress: Progress
    ) -> None:
        """Take a target for a command that may write these files, and see what is done there."""
        self.target, self._identity, self._files = target, identity, files
        self.done: dict[str, Written] = {}
        self.other = ""  # how the command of an unfinished run there differs from this one
        self.hold: Hold = target.hold(files, progress.note)
        self.pieces = Target(Destination(target.work / "pieces"), target._run, durable=False)
        try:
            self.resumed, self.other = self._compare(target)
            if self.resumed:
                self.done |= target.receipts()
            self._goes_on_here, _ = self._compare(self.pieces)
            if self._goes_on_here:
                self.done |= whole_units(self.pieces, target.destination)
        except BaseException:
            self.release()
            raise

    def _compare(self, target: Target) -> tuple[bool, str]:
        """Return whether an unfinished run there is of this command, and else how it differs."""
        known = target.noted_run()
        other = "" if known is None else differences(known.get("identity"), self._identity)
        return known is not None and not other, other

    def begin(self, files: Iterable[str]) -> None:
        """Begin to write, or go on; from now on, these files are known as those of this run."""
        with destination_errors(self.target.work):
            for leftover in self.target.work.glob("partial-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            if not self._goes_on_here:
                shutil.rmtree(self.pieces.destination.directory, ignore_errors=True)
            self.pieces.temporary.mkdir(parents=True)
            self.target.temporary.mkdir()
        run = json.dumps({"identity": self._identity, "files": sorted(files)}).encode()
        if not self._goes_on_here:
            self.pieces.note(RUN, run)
        if not self.resumed:
            self.target.note(RUN, run)

    def forget(self) -> None:
        """Remove all that an unfinished run has written: nothing is left to go on with."""
        ours = files_of_run(self.target)
        remove_folder(self.target.destination, ours)
        self.target.delete(ours)
        self.target.abort_uploads(ours)
        self.target.delete_notes(RECEIPTS, RUN)
        shutil.rmtree(self.pieces.destination.directory, ignore_errors=True)
        self.done.clear()
        self.resumed, self._goes_on_here, self.other = False, False, ""

    def release(self) -> None:
        """Stop; keep what a later run needs, or nothing if nothing was written."""
        shutil.rmtree(self.target.temporary, ignore_errors=True)
        shutil.rmtree(self.pieces.temporary, ignore_errors=True)
        work = self.target.work
        keep = self.other != "" or (self.pieces.work / RECEIPTS).exists()
        if self.target.destination.remote is None:  # the notes lie there as well
            files = map(self.target.destination.directory.joinpath, self._files)
            is_begun = (work / RUN).exists() and any(map(os.path.lexists, files))
            keep = keep or is_begun or (work / REPLACED).exists()
        self.hold.release(keep)


def files_of_run(target: Target) -> list[str]:
    """Return the names of the files that the unfinished run at a target may have written."""
    files = (target.noted_run() or {}).get("files")
    named = files if isinstance(files, list) else []
    return [name for name in named if isinstance(name, str) and "/" not in name]


def remove_replaced(target: Target, finished: Manifest | None) -> None:
    """Remove the files of a data set that has been replaced, without those of the finished one."""
    data = None
    with suppress(DestinationError):  # it is no regular file
        data = target.read_note(REPLACED)
    if data is None:
        return
    with suppress(SourceError):  # dsprep did not write that manifest, so no other file is its own
        replaced = parse_manifest(data, REPLACED)
        names = {file.name for file in replaced.every_file()}
        if replaced != finished:
            remove_folder(target.destination, names)
            kept = {file.name for file in finished.every_file()} if finished else set()
            target.delete(names - kept)
    target.delete_notes(REPLACED)


def tidy_up(target: Target, finished: Manifest) -> None:
    """Remove what a run needed whose manifest is published."""
    remove_replaced(target, finished)
    names = (file.name for file in finished.every_file())
    target.abort_uploads([*files_of_run(target), *names])
    target.delete_notes(RECEIPTS, RUN)


def remove_leftovers(destination: Destination, finished: Manifest) -> None:
    """Remove what a run left that was killed after it had published this manifest.

    What belongs to a run that has not published its manifest stays: that run can go on.
    """
    target = target_of(destination)
    if not target.has_leftovers():
        return
    hold = target.hold((), lambda _: None)
    try:
        if has_published(target.noted_run(), finished):
            tidy_up(target, finished)
            hold.remove()
    finally:
        hold.release(keep=True)


def has_published(run: dict[str, Any] | None, finished: Manifest) -> bool:
    """Whether the run with this note has published this manifest."""
    identity = (run or {}).get("identity")
    if not isinstance(identity, dict):
        return True
    if (base := identity.get("appended to")) is None:
        return not unlike(finished, identity)
    added = (finished.options.get("appended") or [None])[-1]
    shards = [shard.name for shard in finished.shards]
    return (
        isinstance(added, dict)
        and (added.get("source"), added.get("first_shard")) == (identity.get("source"), len(base))
        and shards[: len(base)] == base
    )


def unlike(finished: Manifest, identity: dict[str, Any]) -> str:
    """Say how a command differs from the one that wrote a data set; empty if it does not."""
    known = {**finished.options, "name": finished.name, "source": finished.source}
    return differences({**identity, **known}, identity)


def differences(known: Any, identity: dict[str, Any]) -> str:
    """Say how another command differs from this one; empty if it does not."""
    if known == identity:
        return ""
    every = {**identity, **known} if isinstance(known, dict) else {}
    keys = [key for key in every if known.get(key) != identity.get(key)]
    return "other " + ", ".join(keys) if keys else "another version"

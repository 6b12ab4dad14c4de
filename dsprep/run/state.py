"""An unfinished run, as the notes at its target describe it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dsprep.plan.destination import Destination
from dsprep.progress import Progress
from dsprep.run.folder import forget_units, receipts_of, remove_folder, whole_units
from dsprep.run.hold import Hold
from dsprep.run.identity import differences
from dsprep.run.leftovers import files_of_run
from dsprep.run.notes import PLAN, RECEIPTS, REPLACED, RUN, Target, is_unit
from dsprep.run.receipt import Receipt
from dsprep.run.target import InPlace
from dsprep.storage.local import destination_errors


class RunState:
    """An unfinished run: it keeps others out, and knows which shards and pieces are done.

    Pieces of shards stay on this machine until they are joined, and so does the tree of a folder
    that one machine writes to its disk. They lie in a directory that is a target of its own, with
    the same notes.
    """

    def __init__(
        self, target: Target, identity: dict[str, Any], files: Sequence[str], progress: Progress
    ) -> None:
        """Take a target for a command that may write these files, and see what is done there."""
        self.target, self.identity, self._files = target, identity, files
        self.done: dict[str, Receipt] = {}
        self.other = ""  # how the command of an unfinished run there differs from this one
        self.hold: Hold = target.hold(files, progress.note)
        pieces = Destination(target.work / "pieces")
        self.pieces = InPlace(pieces, _run=target._run, durable=False)
        self.units: Target = self.pieces  # where the listings of the units of a folder are
        try:
            self.resumed, self.other = self._compare(target)
            # a part reads only the receipts of its own shards
            if self.resumed and target.part is None:
                self.done |= receipts_of(target)
                if any(map(is_unit, self.done)):  # parts, or a cluster, began to write the folder
                    self.units = target
            self._goes_on_here, _ = self._compare(self.pieces)
            if self._goes_on_here:
                found = whole_units(self.pieces, target.destination)
                is_shared = self.units is target
                self.done |= {n: it for n, it in found.items() if not (is_shared and is_unit(n))}
        except BaseException:
            self.release()
            raise

    def _compare(self, target: Target) -> tuple[bool, str]:
        """Return whether an unfinished run there is of this command, and else how it differs."""
        known = target.noted_run()
        other = "" if known is None else differences(known.get("identity"), self.identity)
        return known is not None and not other, other

    def begin(
        self, files: Iterable[str], words: Sequence[str] = (), cuts: Mapping[str, Any] | None = None
    ) -> None:
        """Begin to write, or go on: note the files of this run, and the words of its command.

        ``cuts`` is where the samples are cut into shards, if that takes time to find out.
        """
        with destination_errors(self.target.work):
            for leftover in self.target.work.glob("partial-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            if not self._goes_on_here:
                shutil.rmtree(self.pieces.destination.directory, ignore_errors=True)
            self.pieces.temporary.mkdir(parents=True)
            self.target.temporary.mkdir()
        noted = {"identity": self.identity, "files": sorted(files), "command": words}
        noted |= {"cuts": cuts} if cuts else {}
        run = json.dumps(noted).encode()
        if not self._goes_on_here:
            self.pieces.write(self.pieces.notes + RUN, run)
        if not self.resumed:
            self.target.write(self.target.notes + RUN, run)

    def share_units(self) -> None:
        """Leave the units of a folder at the target, for other machines or because it is remote."""
        if self.units is self.pieces:
            for name in list(filter(is_unit, self.done)):
                del self.done[name]
            self.units = self.target

    def forget(self) -> None:
        """Remove all that an unfinished run has written: nothing is left to go on with."""
        ours = files_of_run(self.target)
        forget_units(self.target)
        if self.target.destination.remote is None:
            remove_folder(self.target, ours)
        self.target.delete(ours)
        self.target.abort_uploads(ours)
        self.target.delete_notes(RECEIPTS, RUN, PLAN)
        shutil.rmtree(self.pieces.destination.directory, ignore_errors=True)
        self.done.clear()
        self.resumed, self._goes_on_here, self.other = False, False, ""

    def take_back(self) -> None:
        """Remove the shards of this run, which goes on to its manifest without them."""
        # The receipts go first: whoever goes on after a kill writes the shards again.
        self.target.delete_notes(RECEIPTS)
        self.target.delete(file.name for done in self.done.values() for file in done.files)
        self.done.clear()

    def release(self) -> None:
        """Stop; keep what a later run needs, or nothing if nothing was written."""
        shutil.rmtree(self.target.temporary, ignore_errors=True)
        shutil.rmtree(self.pieces.temporary, ignore_errors=True)
        work = self.target.destination.scratch
        keep = self.other != "" or (self.pieces.destination.scratch / RECEIPTS).exists()
        if self.target.destination.remote is None:  # the notes lie there as well
            files = map(self.target.destination.directory.joinpath, self._files)
            has_some = any(map(os.path.lexists, files)) or (work / RECEIPTS).exists()
            is_begun = (work / RUN).exists() and has_some
            keep = keep or is_begun or (work / REPLACED).exists()
        self.hold.release(keep)

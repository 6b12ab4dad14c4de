"""The state of an unfinished run, in a hidden directory at its destination.

``run.json`` tells which command is running. ``receipts.jsonl`` gets a line for each shard, and each
other file, before it gets its final name; files that have none yet are in a ``partial-*``
directory. ``replaced.json`` is the manifest of a data set that is being removed. All of it goes
when the manifest is written.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from dsprep.dataset.manifest import Manifest
from dsprep.errors import DestinationError
from dsprep.findings import Reject
from dsprep.plan.destination import Destination
from dsprep.run.shard import Written
from dsprep.run.tree import is_whole
from dsprep.storage.local import (
    APPEND,
    LARGEST_TABLE,
    ScratchLock,
    destination_errors,
    free_bytes,
    open_regular,
    read_whole,
    sync_directory,
    write_whole,
)
from dsprep.units import format_count, format_size


class RunState:
    """An unfinished run: locked against others, and telling what is done already."""

    def __init__(self, destination: Destination, identity: dict[str, Any]) -> None:
        """Lock a destination, and see what an earlier run left there."""
        self._destination, self._identity = destination, identity
        self._scratch = destination.scratch
        self._receipts = self._scratch / "receipts.jsonl"
        self.pieces = self._scratch / "pieces"
        self.tree = self._scratch / "tree"
        self.partial = self._scratch / f"partial-{os.getpid()}"
        self.done: dict[str, Written] = {}
        self._noted: set[Path] = set()
        self._log: TextIO | None = None
        with destination_errors(destination.directory):
            above = (destination.directory, *destination.directory.parents)
            self._made = [path for path in above if not path.exists()]
        guarded = str(destination) if destination.remote else destination.directory
        self._lock = ScratchLock(self._scratch, guarded)
        try:
            with destination_errors(self._scratch):
                known = _read_json(self._scratch / "run.json")
                self.resumed = self._is_noted = known == identity
                self.other = "" if known is None else differences(known, identity)
                self._read_receipts()
        except BaseException:
            self._lock.release()
            raise

    def _read_receipts(self) -> None:
        if not self._receipts.exists():
            return
        text = read_whole(self._receipts, LARGEST_TABLE).decode(errors="replace")
        lines = text.splitlines(keepends=True)
        for number, line in enumerate(lines):
            try:
                unit, values = json.loads(line)
                written = written_from(values) if values else None
            except (ValueError, KeyError, TypeError):
                # The run was killed while it wrote this line.
                self._receipts.write_text("".join(lines[:number]))
                return
            self._noted.update(self._files(unit, written))
            if written is not None and self._is_there(unit, written):
                self.done[unit] = written

    def begin(self) -> None:
        """Begin to write, or go on; what has the name of a shard is taken to be one from now on."""
        with destination_errors(self._scratch):
            for leftover in self._scratch.glob("partial-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            self.partial.mkdir()
            self.pieces.mkdir(exist_ok=True)
            if not self._is_noted:
                known = json.dumps(self._identity).encode()
                write_whole(self._scratch / "run.json", known, self.partial)
            self._log = os.fdopen(open_regular(self._receipts, APPEND), "a")

    def make_spool_directory(self, size: int) -> Path:
        """The directory for what of the source is laid out anew; a later run finds it there."""
        directory = self._scratch / "spool"
        with destination_errors(directory):
            directory.mkdir(exist_ok=True)
            there = sum(path.stat().st_size for path in directory.iterdir())
        free = free_bytes(directory)
        if size - there > free:
            raise DestinationError(
                f"{directory}: the source has to be unpacked, which takes {format_size(size)}, "
                f"but only {format_size(free)} are free on this disk"
            )
        return directory

    def path_of(self, unit: str) -> Path:
        """The final path of a unit: a piece's has a slash in its name."""
        if "/" in unit:
            return self.pieces / unit.replace("/", "-")
        return self._destination.directory / unit

    def record(self, unit: str, written: Written) -> None:
        """Note what a unit is that is about to get its final name."""
        self._note(unit, written)
        self.done[unit] = written

    def announce(self, name: str) -> None:
        """Note that a file which is no unit of work is about to get its final name."""
        self._note(name, None)

    def _note(self, unit: str, written: Written | None) -> None:
        assert self._log is not None, "begin() comes first"
        self._noted.update(self._files(unit, written))
        with destination_errors(self._receipts):
            self._log.write(json.dumps([unit, written and asdict(written)]) + "\n")
            self._log.flush()

    def _files(self, unit: str, written: Written | None) -> Iterator[Path]:
        yield self.path_of(unit)
        for suffix in written.sidecars if written else ():
            yield self.path_of(unit).with_suffix(suffix)

    def _is_there(self, unit: str, written: Written) -> bool:
        if self.path_of(unit).is_dir():
            return is_whole(self.path_of(unit), written.crc32c)
        sizes = [written.bytes, *(size for size, _ in written.sidecars.values())]
        return all(
            path.exists() and path.stat().st_size == size
            for path, size in zip(self._files(unit, written), sizes, strict=True)
        )

    def forget(self) -> None:
        """Remove all that an unfinished run has written: there will be nothing to go on with."""
        with destination_errors(self._scratch):
            for path in self._noted:
                if path.parent != self.pieces:
                    path.unlink(missing_ok=True)
            for name in ("run.json", "receipts.jsonl"):
                (self._scratch / name).unlink(missing_ok=True)
        for directory in (self.pieces, self.tree, self._scratch / "spool"):
            shutil.rmtree(directory, ignore_errors=True)
        self._noted.clear()
        self.done.clear()
        self.resumed, self._is_noted, self.other = False, False, ""

    def give_up(self) -> None:
        """Remove all that is there, as there will be no data set."""
        self.forget()

    def may_begin(self, unit: str, size: int) -> bool:
        """Whether there is room for one more unit of about so many bytes; always, on a disk."""
        return True

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes may lie there before the first shard is finished."""
        return True

    def finished(self, shard: str) -> None:
        """A shard has its final name."""

    def check(self) -> None:
        """See that the run can go on."""

    def settle(self) -> None:
        """See all shards to where they go."""

    def kept(self, shards: Sequence[str]) -> str:
        """What there is of these shards, for who has to stop."""
        there = sum(name in self.done for name in shards)
        return f"{there} of {format_count(len(shards), 'shard')} are written"

    def publish(self, manifest: Manifest) -> None:
        """Publish the manifest, now that all that it names is there."""
        directory = self._destination.directory
        sync_directory(directory)
        write_whole(self._destination.manifest, manifest.to_json().encode(), self.partial)
        sync_directory(directory)
        self.remove()

    def remove(self) -> None:
        """Remove all traces: the run is finished."""
        self._lock.remove()
        self.release()

    def release(self) -> None:
        """Stop, leaving what a later run needs: nothing, if nothing was written."""
        shutil.rmtree(self.partial, ignore_errors=True)
        if not (self._noted or self.other or replaced_in(self._destination).exists()):
            self._lock.remove()
            with suppress(OSError):  # somebody else has put something there
                for path in self._made:
                    path.rmdir()
        if self._log is not None:
            with suppress(OSError):  # the disk is full, which was said
                self._log.close()
        self._lock.release()


def written_from(values: dict[str, Any]) -> Written:
    """What a receipt says, from the values that JSON has of it; changes them."""
    values["rejects"] = [Reject(*each) for each in values["rejects"]]
    values["listed"] = [
        (id, tuple(label) if isinstance(label, list) else label, name)
        for id, label, name in values["listed"]
    ]
    values["sidecars"] = {suffix: tuple(each) for suffix, each in values["sidecars"].items()}
    return Written(**values)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_whole(path))
    except (FileNotFoundError, ValueError):
        return None


def has_published(scratch: Path, finished: Manifest) -> bool:
    """Whether the run whose state is in a hidden directory has published this manifest."""
    run = _read_json(scratch / "run.json")
    if not isinstance(run, dict):
        return True
    if (base := run.get("appended to")) is None:
        known = {**finished.options, "name": finished.name, "source": finished.source}
        return not differences({**run, **known}, run)
    added = (finished.options.get("appended") or [None])[-1]
    shards = [shard.name for shard in finished.shards]
    return (
        isinstance(added, dict)
        and (added.get("source"), added.get("first_shard")) == (run.get("source"), len(base))
        and shards[: len(base)] == base
    )


def replaced_in(destination: Destination) -> Path:
    """Where the manifest of a data set is kept while that is being removed."""
    return destination.scratch / "replaced.json"


def differences(known: dict[str, Any], identity: dict[str, Any]) -> str:
    """How another command differs from this one, in words; empty if it does not."""
    if known == identity:
        return ""
    every = {**identity, **known} if isinstance(known, dict) else {}
    keys = [key for key in every if known.get(key) != identity.get(key)]
    return "other " + ", ".join(keys) if keys else "another version"

"""The state of an unfinished run, in a hidden directory at its destination.

``run.json`` tells which command is running, ``receipts.jsonl`` gets a line for each shard that has
reached its final name, and the ``partial-*`` directory holds files that have not. All of it
is removed when the manifest is written.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dsprep.destination import Destination
from dsprep.errors import DestinationError
from dsprep.findings import Reject
from dsprep.manifest import Manifest, read_manifest
from dsprep.shard import Written
from dsprep.stores.local import Lock, destination_errors, write_whole


class RunState:
    """An unfinished run: locked against others, and telling what is done already.

    Attributes:
        done: What was reported for each unit of work (a shard, or a piece of one), by its name.
        partial: A directory for files that are not whole yet.
        pieces: A directory for pieces, which a later run can use.
        resumed: Whether an earlier run of this command was here.
    """

    def __init__(self, destination: Destination, identity: dict[str, str], overwrite: bool) -> None:
        """Begin a run, or go on with one.

        Args:
            destination: Where it writes.
            identity: What tells this command from others.
            overwrite: Whether to remove what another command left or finished there.

        Raises:
            DestinationError: If the destination cannot be written, is in use, or holds something
                else.
        """
        self._destination = destination
        scratch = destination.scratch
        with destination_errors(destination.directory):
            scratch.mkdir(parents=True, exist_ok=True)
        self._lock = Lock(scratch / "lock")
        try:
            self._receipts = scratch / "receipts.jsonl"
            self.pieces = scratch / "pieces"
            self.partial = scratch / f"partial-{os.getpid()}"
            self.done: dict[str, Written] = {}
            with destination_errors(scratch):
                self._begin(identity, overwrite)
        except BaseException:
            self.release()
            raise

    def _begin(self, identity: dict[str, str], overwrite: bool) -> None:
        scratch = self._destination.scratch
        for leftover in scratch.glob("partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        known = _read_json(scratch / "run.json")
        if known is not None and known != identity:
            if not overwrite:
                raise DestinationError(
                    f"{self._destination}: an unfinished run of another command is there "
                    f"({_difference(known, identity)}); give that command again to finish it, "
                    "or --overwrite to start over"
                )
            self._remove_unfinished()
        self.resumed = known == identity
        self.partial.mkdir()
        self.pieces.mkdir(exist_ok=True)
        if not self.resumed:
            write_whole(scratch / "run.json", json.dumps(identity).encode(), self.partial)
        self._read_receipts()
        self._log = self._receipts.open("a")

    def _read_receipts(self) -> None:
        if not self._receipts.exists():
            return
        whole = []
        for line in self._receipts.read_text().splitlines():
            try:
                unit, values = json.loads(line)
                written = _written(values)
            except (ValueError, KeyError, TypeError):
                break  # the run was killed while it wrote this line
            whole.append(line + "\n")
            if _same_sizes(self.path_of(unit), written):
                self.done[unit] = written
        self._receipts.write_text("".join(whole))

    def path_of(self, unit: str) -> Path:
        """The final path of a unit: a piece's has a slash in its name."""
        if "/" in unit:
            return self.pieces / unit.replace("/", "-")
        return self._destination.directory / unit

    def record(self, unit: str, written: Written) -> None:
        """Note that a unit has its final name."""
        self.done[unit] = written
        self._log.write(json.dumps([unit, asdict(written)]) + "\n")
        self._log.flush()

    def _remove_unfinished(self) -> None:
        self._read_receipts()
        for unit, written in self.done.items():
            path = self.path_of(unit)
            path.unlink(missing_ok=True)
            for suffix in written.sidecars:
                path.with_suffix(suffix).unlink(missing_ok=True)
        self.done.clear()
        self._receipts.unlink(missing_ok=True)
        shutil.rmtree(self.pieces, ignore_errors=True)

    def remove(self) -> None:
        """Remove all traces: the run is finished."""
        self._log.close()
        shutil.rmtree(self._destination.scratch, ignore_errors=True)
        self._lock.release()

    def release(self) -> None:
        """Stop, leaving what a later run needs."""
        shutil.rmtree(self.partial, ignore_errors=True)
        self._lock.release()


def finished_manifest(destination: Destination) -> Manifest | None:
    """The manifest of the data set that is at a destination, or None if there is none."""
    return read_manifest(destination.manifest) if destination.manifest.exists() else None


def remove_data_set(destination: Destination, manifest: Manifest) -> None:
    """Remove a finished data set, its manifest first."""
    with destination_errors(destination.manifest):
        destination.manifest.unlink()
        for file in manifest.every_file():
            (destination.directory / file.name).unlink(missing_ok=True)


def _same_sizes(path: Path, written: Written) -> bool:
    sizes = {path: written.bytes}
    sizes.update({path.with_suffix(suffix): size for suffix, (size, _) in written.sidecars.items()})
    return all(each.exists() and each.stat().st_size == size for each, size in sizes.items())


def _written(values: dict[str, Any]) -> Written:
    values["rejects"] = [Reject(*each) for each in values["rejects"]]
    values["sidecars"] = {suffix: tuple(each) for suffix, each in values["sidecars"].items()}
    return Written(**values)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _difference(known: dict[str, str], identity: dict[str, str]) -> str:
    keys = [key for key in identity if known.get(key) != identity[key]]
    return "other " + " and ".join(keys) if keys else "another version"

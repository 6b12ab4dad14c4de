"""Where a data set goes: what is there already, and how it makes way for a new one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from dsprep.dataset.manifest import Manifest, parse_manifest, parse_rejects
from dsprep.errors import DestinationError, SourceError
from dsprep.findings import Reject
from dsprep.formats.folder import LISTING
from dsprep.plan.destination import Destination
from dsprep.plan.plan import Plan
from dsprep.progress import Progress
from dsprep.run.state import RunState, has_published, replaced_in
from dsprep.run.tree import remove_tree
from dsprep.storage.local import ScratchLock, destination_errors, free_bytes, read_whole
from dsprep.units import format_size


class Place(Protocol):
    """Where a data set goes: a directory, or a prefix on S3.

    Its methods raise `DestinationError` if the place refuses.
    """

    @property
    def destination(self) -> Destination:
        """What its files are called."""

    def there(self, names: Iterable[str]) -> list[str]:
        """Those of these files that are there."""

    def read(self, name: str) -> bytes:
        """A small file that is there."""

    def open(self, plan: Plan, identity: dict[str, Any]) -> RunState:
        """Keep other runs out, and see what an earlier one has left."""

    def require_room(self, sizes: Sequence[int], freed: int) -> None:
        """See that shards of these sizes can be written, once so many bytes have made way."""

    def withdraw(self, overwrite: bool) -> None:
        """Make a finished data set make way; or end what a killed run has begun of that."""

    def remove_leftovers(self, plan: Plan, identity: dict[str, Any], finished: Manifest) -> None:
        """Remove what a run of this command has left that had published this manifest.

        On a disk, `remove_leftovers` does it before, whichever command has left something.
        """

    def close(self) -> None:
        """Let go of it."""


class Directory:
    """A directory on this machine."""

    def __init__(self, destination: Destination) -> None:
        """Look at it later."""
        self.destination = destination

    def there(self, names: Iterable[str]) -> list[str]:
        """Those of these files that are there."""
        with destination_errors(self.destination.directory):
            return [name for name in names if (self.destination.directory / name).exists()]

    def read(self, name: str) -> bytes:
        """A small file."""
        return self._read(self.destination.directory / name)

    def _read(self, path: Path) -> bytes:
        try:
            return read_whole(path)
        except OSError as error:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from None

    def open(self, plan: Plan, identity: dict[str, Any]) -> RunState:
        """Lock it."""
        return RunState(self.destination, identity)

    def require_room(self, sizes: Sequence[int], freed: int) -> None:
        """See that its disk can take these files."""
        directory, needed = self.destination.directory, sum(sizes)
        free = free_bytes(directory) + freed
        if needed > free:
            raise DestinationError(
                f"{directory}: {format_size(needed)} are to be written, but only "
                f"{format_size(free)} are free on its disk"
            )

    def withdraw(self, overwrite: bool) -> None:
        """Remove the data set, its manifest first."""
        destination = self.destination
        replaced = replaced_in(destination)
        with destination_errors(destination.manifest):
            if overwrite and os.path.lexists(destination.manifest):
                if destination.manifest.is_dir() and not destination.manifest.is_symlink():
                    raise DestinationError(
                        f"{destination.manifest}: is a directory; remove it, or choose another "
                        "destination"
                    )
                destination.manifest.replace(replaced)
            if os.path.lexists(replaced):
                with suppress(SourceError):  # not a manifest of ours, so no other file is
                    self._remove_files(parse_manifest(self._read(replaced), str(replaced)))
                replaced.unlink()

    def _remove_files(self, known: Manifest) -> None:
        destination = self.destination
        listing = destination.companion(LISTING)
        if destination.single and listing.name in {file.name for file in known.files}:
            remove_tree(destination.directory / destination.single, listing)
        for file in known.every_file():
            (destination.directory / file.name).unlink(missing_ok=True)

    def remove_leftovers(self, plan: Plan, identity: dict[str, Any], finished: Manifest) -> None:
        """There is nothing left."""

    def close(self) -> None:
        """Nothing is held."""


def place_of(destination: Destination, spool: int | None, progress: Progress) -> Place:
    """Where a data set goes."""
    if destination.remote is None:
        return Directory(destination)
    from dsprep.run.remote.prefix import Prefix  # who writes to a disk needs no S3

    return Prefix(destination, spool, progress)


def remove_leftovers(destination: Destination, finished: Manifest) -> None:
    """Remove what a run left that was killed after it had published this manifest.

    What belongs to a run that has not published its manifest stays: it will go on.
    """
    scratch = destination.scratch
    if not scratch.is_dir() or replaced_in(destination).exists():
        return
    lock = ScratchLock(scratch, destination.directory)
    try:
        with destination_errors(scratch):
            if has_published(scratch, finished):
                lock.remove()
    finally:
        lock.release()


def finished_manifest(
    place: Place, advice: str = "give --overwrite to replace it"
) -> Manifest | None:
    """The manifest of the data set that is at a place, or None if there is none."""
    name = place.destination.manifest.name
    if not place.there([name]):
        return None
    try:
        return parse_manifest(place.read(name), place.destination.url(name))
    except SourceError as error:
        raise DestinationError(f"{error}; {advice}") from None


def data_set_to_replace(place: Place) -> Manifest | None:
    """The manifest of the data set that is to make way, if it can be read."""
    with suppress(DestinationError):
        return finished_manifest(place)
    return None


def rejects_of(place: Place, finished: Manifest) -> list[Reject]:
    """The rejects of a finished run, from its report."""
    if not finished.rejected:
        return []
    name = place.destination.companion("rejects.jsonl").name
    try:
        return parse_rejects(place.read(name), place.destination.url(name))
    except SourceError as error:
        raise DestinationError(f"{error}; give --overwrite to pack again") from None

"""A prefix on S3 as the place that a data set goes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from dsprep.dataset.manifest import Manifest
from dsprep.errors import DestinationError, OptionError, SourceError, StoreError
from dsprep.plan.destination import Destination
from dsprep.plan.plan import Plan
from dsprep.progress import Progress
from dsprep.run.remote.objects import Objects, refusals
from dsprep.run.remote.state import StagedState
from dsprep.storage.bucket import S3Store
from dsprep.storage.local import free_bytes
from dsprep.storage.pace import Pace
from dsprep.storage.retries import tell_retry
from dsprep.storage.urls import LONGEST_KEY
from dsprep.units import format_size

_SPOOL = 20_000_000_000
"""Bytes that may wait in the stage, unless more or less is asked for."""

_SHARE = 0.8
"""How much of what is free on the stage's disk these may be."""


class Prefix:
    """A prefix on S3; see `Place`. Shards wait for upload in the destination's directory."""

    def __init__(self, destination: Destination, spool: int | None, progress: Progress) -> None:
        """Connect, which sends nothing yet."""
        assert destination.remote is not None
        self.destination, self._progress, self._asked = destination, progress, spool
        fitting = int(_SHARE * free_bytes(destination.directory))
        self._spool = min(_SPOOL, fitting) if spool is None else spool
        self._pace = Pace()
        with refusals():
            self._store = S3Store(
                destination.remote.bucket,
                wait=self._pace.wait,
                on_retry=tell_retry,
                on_fallback=progress.note,
            )
        self._objects = Objects(destination, self._store, self._pace)

    def there(self, names: Iterable[str]) -> list[str]:
        """Those of these files that are there."""
        with refusals():
            found = self._objects.files()
        return [name for name in names if name in found]

    def read(self, name: str) -> bytes:
        """A small file."""
        try:
            return self._objects.read(self._objects.key(name))
        except StoreError as error:
            raise SourceError(str(error)) from None

    def open(self, plan: Plan, identity: dict[str, Any]) -> StagedState:
        """Take its lease."""
        longest = max((self._objects.key(name).encode() for name in plan.files()), key=len)
        if len(longest) > LONGEST_KEY:
            raise OptionError(
                f"{self.destination}: too long a name: keys on S3 have at most {LONGEST_KEY:,} "
                "bytes"
            )
        with refusals():
            return StagedState(self._objects, plan, identity, self._spool, self._progress)

    def require_room(self, sizes: Sequence[int], freed: int) -> None:
        """See that the largest shard may wait, and that the disk can take what may."""
        largest, waiting = max(sizes, default=0), min(self._spool, sum(sizes))
        if self._asked is not None and largest > self._asked:
            raise DestinationError(
                f"{self.destination}: a shard of {format_size(largest)} does not fit into --spool "
                f"{format_size(self._asked)}; give a larger one, or smaller shards"
            )
        stage = self.destination.directory
        free, needed = free_bytes(stage), max(largest, waiting)
        if needed > free:
            raise DestinationError(
                f"{stage}: {format_size(needed)} are to wait there for their way to S3, but only "
                f"{format_size(free)} are free on its disk; set TMPDIR to a directory on another "
                "one, or give a smaller --spool"
            )

    def withdraw(self, overwrite: bool) -> None:
        """Remove the manifest."""
        name = self.destination.manifest.name
        if overwrite and self.there([name]):
            with refusals():
                self._objects.withdraw(name)

    def remove_leftovers(self, plan: Plan, identity: dict[str, Any], finished: Manifest) -> None:
        """Remove the stage, the notes, and what the finished data set has replaced."""
        with refusals():
            if not (self._objects.notes() or self.destination.directory.exists()):
                return
        with suppress(DestinationError):  # another run is at it
            state = self.open(plan, identity)
            try:
                if self.there([self.destination.manifest.name]):
                    state.clean_up(finished)
            finally:
                state.release()

    def close(self) -> None:
        """Let all transfers end."""
        self._pace.stop()
        self._pace.close()
        self._store.close()

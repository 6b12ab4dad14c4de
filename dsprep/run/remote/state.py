"""The state of an unfinished run whose shards go to S3, half of it there and half in the stage.

A shard is written to the stage as to any directory, sent, noted in a receipt beside the data set,
and removed here. What waits in the stage, another run on this machine goes on with; what is noted
there, a run on any machine does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dsprep.dataset.manifest import Manifest
from dsprep.plan.plan import Plan
from dsprep.progress import Progress
from dsprep.run.remote.lease import LEASE, Lease
from dsprep.run.remote.objects import RUN, Objects, refusals
from dsprep.run.remote.uploads import Uploads
from dsprep.run.shard import Written
from dsprep.run.state import RunState, differences, written_from
from dsprep.storage.local import make_stage, remove_all_but
from dsprep.storage.preflight import require_rights
from dsprep.storage.upload import Sent, upload
from dsprep.units import format_count

_TELL_EVERY = 15.0
"""Seconds between two words about what is waited for."""


class StagedState(RunState):
    """An unfinished run whose shards go to S3; see `RunState`."""

    def __init__(
        self,
        objects: Objects,
        plan: Plan,
        identity: dict[str, Any],
        spool: int,
        progress: Progress,
    ) -> None:
        """Keep others out, here and there, and see what earlier runs have left."""
        self._objects, self._plan, self._spool, self._progress = objects, plan, spool, progress
        self._arrived: set[str] = set()
        self._uploads = Uploads(spool)
        self._told = time.monotonic()
        destination, store = objects.destination, objects.store
        self._lease = Lease(store, objects.note_key(LEASE), str(destination), objects.pace)
        make_stage(destination.directory)
        super().__init__(destination, identity)
        try:
            require_rights(store, objects.key(""), deleting=True)
            self._lease.take(self._scratch / "holder", progress.note)
            self._lease.keep()
            self._read_notes()
        except BaseException:
            self.release()
            raise

    def _read_notes(self) -> None:
        """See what is noted there, which counts, and whether what is here belongs to it."""
        noted = RUN in self._objects.notes()
        known = (self._objects.noted(RUN).get("identity") or {}) if noted else None
        other = "" if known is None else differences(known, self._identity)
        if self.other and not other:  # of a run that is no longer there
            super().forget()
        self.other, self.resumed = other, known == self._identity
        if self.resumed:
            self._read_receipts_there()

    def _read_receipts_there(self) -> None:
        """See which shards have arrived: those whose receipts tell of what is there."""
        there = self._objects.files()
        planned = {shard.name for shard in self._plan.shards}
        for receipt in self._objects.receipts():
            with suppress(LookupError, TypeError, ValueError):  # it is written again
                shard, written = receipt["shard"], written_from(receipt["written"])
                sizes = [written.bytes, *(size for size, _ in written.sidecars.values())]
                told = {
                    path.name: (size, receipt["etags"][path.name])
                    for path, size in zip(self._files(shard, written), sizes, strict=True)
                }
                found = {name: (there[name].size, there[name].etag) for name in told}
                if shard in planned and found == told:
                    self.done[shard] = written
                    self._arrived.add(shard)

    def begin(self) -> None:
        """Begin to write, or go on: with what waits here, first of all."""
        if not self.resumed:
            run = {"identity": self._identity, "files": list(self._plan.files())}
            with refusals():
                self._objects.note(RUN, json.dumps(run).encode(), new=True)
        super().begin()
        for shard in [name for name in self.done if "/" not in name]:
            if shard in self._arrived:
                self._remove(shard)
            else:
                self.finished(shard)

    def may_begin(self, unit: str, size: int) -> bool:
        """Whether there is room in the stage for one more shard."""
        self.check()
        if "/" in unit or self._uploads.take_room(unit, size):
            return True
        self._tell()
        return False

    def has_room_for(self, size: int) -> bool:
        """Whether so many bytes may lie in the stage."""
        return size <= self._spool

    def finished(self, shard: str) -> None:
        """Send a shard."""
        written = self.done[shard]
        size = written.bytes + sum(size for size, _ in written.sidecars.values())
        self._uploads.add(shard, size, lambda: self._send(shard, written))

    def _send(self, shard: str, written: Written) -> None:
        """Send a shard after its sidecars, note that it has arrived, and remove it here."""
        self._lease.check()
        etags = {}
        checksums = [written.crc32c, *(crc32c for _, crc32c in written.sidecars.values())]
        files = list(zip(self._files(shard, written), checksums, strict=True))
        for path, crc32c in reversed(files):
            sent = self._upload(path, crc32c)
            etags[path.name] = sent.etag
        receipt = {"shard": shard, "written": asdict(written), "etags": etags}
        self._objects.note_receipt(shard, receipt)
        self._arrived.add(shard)
        self._remove(shard)

    def _upload(self, path: Path, crc32c: int) -> Sent:
        objects = self._objects
        key = objects.key(path.name)
        return upload(path, objects.store, key, crc32c=crc32c, pace=objects.pace)

    def _remove(self, shard: str) -> None:
        for path in self._files(shard, self.done[shard]):
            path.unlink(missing_ok=True)

    def check(self) -> None:
        """See that no upload has failed, and that no other run has gone on with this one."""
        with refusals():
            self._uploads.check()
            self._lease.check()

    def settle(self) -> None:
        """Wait until all shards have arrived."""
        with refusals():
            while not self._uploads.wait(0.5):
                self._lease.check()
                self._tell()

    def _tell(self) -> None:
        """Say now and then what is waited for."""
        if time.monotonic() - self._told > _TELL_EVERY:
            self._told = time.monotonic()
            self._progress.note(f"waiting for uploads: {self._uploads.left()}")

    def kept(self, shards: Sequence[str]) -> str:
        """How many shards have arrived, and what waits here."""
        here = sum(name in self.done and name not in self._arrived for name in shards)
        there = f"{len(self._arrived)} of {format_count(len(shards), 'shard')} are on S3"
        stage = self._destination.directory
        return f"{there}, {here} more in {stage}" if here else there

    def publish(self, manifest: Manifest) -> None:
        """Send what stands beside the shards, then the manifest; then remove what is noted."""
        objects, name = self._objects, self._destination.manifest.name
        with refusals():
            for file in manifest.files:
                self._upload(self._destination.directory / file.name, file.crc32c)
            self.check()
            objects.store.publish(objects.key(name), manifest.to_json().encode())
        self.clean_up(manifest)

    def clean_up(self, finished: Manifest) -> None:
        """Remove all that a run needs, now that its data set is there."""
        with refusals():
            self._objects.sweep(finished)
        self._lease.give_back()
        self.remove()

    def forget(self) -> None:
        """Remove all that an unfinished run has written, here and there."""
        super().forget()
        with refusals():
            self._objects.forget()
        self._arrived.clear()

    def give_up(self) -> None:
        """Remove all that an unfinished run has written, and what it was to replace."""
        super().forget()
        with refusals():
            self._objects.sweep(None)

    def remove(self) -> None:
        """Remove the stage, which `release` does when it is empty."""
        with suppress(OSError):
            remove_all_but(self._destination.directory, self._scratch.name)
        super().remove()

    def release(self) -> None:
        """Stop, leaving what a later run needs, here and there."""
        self._objects.pace.stop()
        self._uploads.close()
        self._lease.give_back()
        self.other = ""  # is there, not here
        super().release()
        with suppress(OSError):  # something waits there
            self._destination.directory.rmdir()

"""What is at a prefix on S3: the files of a data set, and the notes of an unfinished run.

The notes are objects in a directory beside the files. ``run.json`` tells which command is running,
and the names of its files; ``receipts/`` has an object for each shard that has arrived,
``replaced/`` the manifests of data sets that are being replaced. ``lease.json`` says that a run is
alive.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import google_crc32c

from dsprep.dataset.manifest import Manifest, parse_manifest
from dsprep.errors import DestinationError, SourceError, StoreError
from dsprep.plan.destination import Destination
from dsprep.run.remote.lease import LEASE
from dsprep.storage.base import Stored
from dsprep.storage.bucket import S3Store
from dsprep.storage.pace import Pace
from dsprep.storage.readback import read_small

RUN = "run.json"
_RECEIPTS, _REPLACED = "receipts/", "replaced/"


class Objects:
    """The objects of a destination on S3. All methods raise `StoreError` if it refuses or fails."""

    def __init__(self, destination: Destination, store: S3Store, pace: Pace) -> None:
        """Look at them later."""
        assert destination.remote is not None
        self.destination, self.store, self.pace = destination, store, pace
        self._before = destination.remote.key
        self._scratch = self.key(destination.scratch.name + "/")

    def key(self, name: str) -> str:
        """The key of a file."""
        return self._before + name

    def note_key(self, name: str = "") -> str:
        """The key of a note; or what all of them begin with."""
        return self._scratch + name

    def files(self) -> dict[str, Stored]:
        """The files that are there, and what else may be, by name."""
        before = self.key(self.destination.stem)
        return {
            each.key.removeprefix(self._before): each
            for level in self.store.levels(before)
            for each in level.files
        }

    def read(self, key: str) -> bytes:
        """A small object."""
        return read_small(self.store, key)[0]

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects."""
        for refused in self.store.delete(keys):
            raise refused.error

    def notes(self, below: str = "") -> list[str]:
        """The names of all notes."""
        return [
            each.key.removeprefix(self._scratch)
            for page in self.store.list(self._scratch + below)
            for each in page
        ]

    def note(self, name: str, data: bytes, new: bool = False) -> None:
        """Note something; if it is to be new and is not, the error's kind is ``exists``."""
        self.store.put(self._scratch + name, data, new=new)

    def noted(self, name: str) -> dict[str, Any]:
        """What a note says; nothing if it is not there, or is not one of ours."""
        try:
            found = json.loads(self.read(self._scratch + name))
        except StoreError as error:
            if error.kind != "missing":
                raise
            return {}
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def note_receipt(self, shard: str, receipt: dict[str, Any]) -> None:
        """Note that a shard has arrived."""
        self.note(f"{_RECEIPTS}{shard}.json", json.dumps(receipt).encode())

    def receipts(self) -> list[dict[str, Any]]:
        """The receipts of all shards that have arrived."""
        return self.pace.each(self.noted, self.notes(_RECEIPTS))

    def withdraw(self, manifest: str) -> None:
        """Remove a manifest. What it names goes when the data set that replaces it is there."""
        data = self.read(self.key(manifest))
        self.note(f"{_REPLACED}{google_crc32c.value(data):08x}.json", data)
        self.delete([self.key(manifest)])

    def forget(self) -> None:
        """Remove all that an unfinished run has written, and its notes."""
        ours = set(self._files_of_run())
        self.delete([each.key for name, each in self.files().items() if name in ours])
        self._abort(ours)
        self.delete([self._scratch + name for name in (*self.notes(_RECEIPTS), RUN)])

    def sweep(self, finished: Manifest | None) -> None:
        """Remove what is not of the data set that is there now, and all notes but the lease."""
        ours = set(self._files_of_run())
        for name in self.notes(_REPLACED):
            with suppress(SourceError):  # not a manifest of ours, so no other file is
                replaced = parse_manifest(self.read(self._scratch + name), name)
                ours.update(file.name for file in replaced.every_file())
        kept = {file.name for file in finished.every_file()} if finished else set()
        self.delete([each.key for name, each in self.files().items() if name in ours - kept])
        self._abort(ours | kept)
        self.delete([self._scratch + name for name in self.notes() if name != LEASE])

    def _files_of_run(self) -> Iterator[str]:
        """The names of the files that the unfinished run may have written."""
        files = self.noted(RUN).get("files")
        for name in files if isinstance(files, list) else ():
            if isinstance(name, str) and "/" not in name:
                yield name

    def _abort(self, names: set[str]) -> None:
        """Abort unfinished uploads of these files, which killed runs have left."""
        keys = {self.key(name) for name in names}
        with suppress(StoreError):  # it is not allowed to look for them
            for page in self.store.list_uploads(self.key(self.destination.stem)):
                for upload in page:
                    if upload.key in keys:
                        self.store.abort(upload)


@contextmanager
def refusals() -> Iterator[None]:
    """Let what S3 refuses or fails at be an error of the destination, as it is of any other."""
    try:
        yield
    except StoreError as error:
        raise DestinationError(str(error)) from None

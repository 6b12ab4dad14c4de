"""What a run keeps where a data set goes: receipts of its shards, and notes of what runs.

The notes lie in a hidden directory beside the files, on S3 under a prefix of that name.
``run.json`` tells which command is running and which files it may write, ``receipts/`` has a file
for each shard that has its final name, and ``replaced.json`` is the manifest of a data set that
makes way for another. On S3, ``lease.json`` says that the run is alive. How these and the data set
get there is in `dsprep.run.target`.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from dsprep.dataset.manifest import FileEntry
from dsprep.errors import DestinationError, SourceError
from dsprep.formats.listing import LISTING, File, read_listing
from dsprep.frozen import Frozen
from dsprep.patterns import pattern
from dsprep.plan.destination import Destination
from dsprep.run.hold import Hold
from dsprep.run.part import Part
from dsprep.run.receipt import Receipt
from dsprep.storage.files import entries, read_bytes, results
from dsprep.workers.worker import yield_core

T = TypeVar("T")

RUN, RECEIPTS, REPLACED, HOLDER = "run.json", "receipts", "replaced.json", "holder"
REPLACED_LISTING = f"replaced.{LISTING}"  # of a folder on S3, whose files stay
PLAN, LEASES = "plan.zip", "leases"  # of a run in parts
NOWHERE: Mapping[str, str] = {}
_UNIT = pattern("units-[0-9]{6,}")  # the name of a unit of a folder
# What reading a note raises that is cut short, or that dsprep did not write.
_DAMAGED = LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError


class Target(Frozen, ABC):
    """Where a data set goes, and what a run keeps there, as plain data for workers.

    Methods raise `DestinationError` if the target refuses.
    """

    destination: Destination
    part: Part | None = None  # the part of a run that writes; None if the run has no parts
    # no number of a process, which another machine may have as well
    _run: str = field(default_factory=lambda: os.urandom(16).hex())
    # whether files that have their names survive a power cut; if not, their checksum is compared
    durable: bool = True
    # for workers on other machines: the name of the holder of the lease, if there is one
    spread: str | None = None

    @property
    def temporary(self) -> Path:
        """The directory for the temporary files of this run, which no later run needs."""
        return self.work / f"partial-{self._run}"

    @property
    def work(self) -> Path:
        """The directory for what no other part of the run uses."""
        scratch = self.destination.scratch
        return scratch if self.part is None else scratch / self.part.name

    @property
    def tree(self) -> Path:
        """The directory with the files of a folder, until it gets its name."""
        # Pieces on this machine lie beside their notes.
        above = self.destination.scratch if self._has_folder else self.destination.directory
        return above / "tree"

    @property
    def _has_folder(self) -> bool:
        """Whether this is where a folder goes, rather than where pieces of it wait for others."""
        return self.destination.single is not None

    def tree_of(self, unit: str) -> Path:
        """Return the directory that the files of a unit of a folder are written to."""
        return self.temporary / f"{unit}.tree" if self._has_folder else self.tree

    def listing(self, unit: str) -> str:
        """Return the name of the listing of a unit of a folder."""
        return f"{self.notes}{unit}" if self._has_folder else unit

    def listings(self) -> list[str]:
        """Return the names of the listings of all units that lie among the notes."""
        names = self._below(self.notes)
        return [name for name in names if is_unit(name.removeprefix(self.notes))]

    @property
    def manifest(self) -> str:
        return self.destination.manifest.name

    @property
    def remedy(self) -> str:
        """What to do about a file that is there; a part does not take --overwrite."""
        return "remove it" if self.part else "give --overwrite to replace it"

    @property
    def remedy_of_damage(self) -> str:
        """What to do about a data set that lacks some of its files."""
        if self.part is None:
            return "give --overwrite to make it again"
        return "remove the whole data set, and give the commands of all parts again"

    @property
    def notes(self) -> str:
        """The prefix of the names of notes."""
        return f"{self.destination.scratch.name}/"

    def partial(self, name: str) -> Path:
        return self.temporary / os.path.basename(name)

    def path(self, name: str) -> Path:
        return self.destination.directory / name

    def leave(self, name: str, written: Receipt, urls: Mapping[str, str] = NOWHERE) -> None:
        """Publish a shard after its sidecars, then leave its receipt.

        ``urls`` is where files of another data set lie, which are not temporary files: by name, or
        those of a folder by their paths.
        """
        yield_core()
        tree = self.tree_of(name)
        if not is_unit(name) or tree == self.tree:
            etags = self.publish(written.files, urls)
        else:
            files = [file for each in read_listing(self.partial(name)) for file in each.files]
            # The listing comes first, so that each file that is there is named by one.
            etags = self.publish(written.files)
            written.etags = digest_of(self.publish_tree(tree, files, urls))
        receipt = {"shard": name, "written": written.to_json(), "etags": etags}
        self.write(self._receipt(name), json.dumps(receipt).encode())

    def _receipt(self, shard: str) -> str:
        return f"{self.notes}{RECEIPTS}/{os.path.basename(shard)}.json"

    def without_receipts(self, shards: Iterable[str]) -> list[str]:
        """Return those of these shards that have no receipt, good or not; none is read."""
        there = set(self._below(f"{self.notes}{RECEIPTS}/"))
        return [shard for shard in shards if self._receipt(shard) not in there]

    def receipts(self, shards: Iterable[str] | None = None) -> Iterator[tuple[str, Receipt]]:
        """Return the receipts, or those of some shards, whose files are as these tell."""
        found: list[tuple[str, Receipt, dict[str, str]]] = []
        names = set(self._below(f"{self.notes}{RECEIPTS}/"))
        if shards is not None:
            names &= set(map(self._receipt, shards))
        for data in filter(None, results(self.destination.url(""), self.find, sorted(names))):
            with suppress(*_DAMAGED):
                receipt = json.loads(data)
                written = Receipt.from_json(receipt["written"])
                if written.files:
                    found.append((str(receipt["shard"]), written, dict(receipt["etags"])))
        there = self.stamps([file.name for _, written, _ in found for file in written.files])
        for shard, written, etags in found:
            stamps = {each.name: (each.bytes, etags.get(each.name, "")) for each in written.files}
            if stamps.items() <= there.items():
                yield shard, written

    def noted_run(self) -> dict[str, Any] | None:
        """Return what ``run.json`` says; None if there is none, or dsprep did not write it."""
        with suppress(*_DAMAGED):
            found = json.loads(self.find(self.notes + RUN) or b"null")
            return found if isinstance(found, dict) else None
        return None

    def delete_notes(self, *names: str) -> None:
        """Delete notes, or all of a kind."""
        for name in names:
            self.delete([self.notes + name, *self._below(f"{self.notes}{name}/")])

    def find(self, name: str) -> bytes | None:
        """Read a small file; None if there is none."""
        return _look(self.destination.url(name), read_bytes)

    def _below(self, prefix: str) -> list[str]:
        """Return the names of the files below a prefix, which ends in a slash."""

        def files(url: str) -> list[str]:
            return sorted(prefix + each.name for each in entries(url) if each.is_file())

        return _look(self.destination.url(prefix), files) or []

    # What differs between the ways of writing

    @abstractmethod
    def for_machines(self) -> Target:
        """Return this target for workers on other machines, where `trying` makes it ready."""

    @abstractmethod
    def trying(self) -> AbstractContextManager[Target]:
        """Give a try at a shard temporary files of its own, if there may be several at once."""

    @abstractmethod
    def require_seen(self) -> None:
        """Refuse a machine that does not see what the driver of this run has made there."""

    @abstractmethod
    def has_notes(self) -> bool:
        """Whether a run is writing there, or has left something."""

    @abstractmethod
    def stamps(self, names: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return the size and the ETag, if there are such, of those of these files that exist."""

    @abstractmethod
    def inside(self) -> list[str]:
        """Return the names of what lies in a directory for shards alone."""

    @abstractmethod
    def publish(
        self, files: Sequence[FileEntry], urls: Mapping[str, str] = NOWHERE
    ) -> dict[str, str]:
        """Give temporary files, or those that lie elsewhere, their final names; returns ETags."""

    @abstractmethod
    def publish_tree(
        self, tree: Path, files: Sequence[File], urls: Mapping[str, str] = NOWHERE
    ) -> list[str]:
        """Give files in a directory, or elsewhere, their paths in the folder; returns ETags."""

    @abstractmethod
    def folder_files(self) -> dict[str, tuple[int, str]]:
        """Return the size and the ETag, if there are such, of all files in the folder, by path."""

    @abstractmethod
    def delete_files(self, paths: Iterable[str]) -> None:
        """Delete those of these files of the folder that exist."""

    @abstractmethod
    def keep_listing(self) -> None:
        """Keep the listing of a folder that makes way, if its files stay until then."""

    @abstractmethod
    def publish_manifest(self, data: bytes) -> None:
        """Publish the manifest, when the names of all files in it are there."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a note."""

    @abstractmethod
    def delete(self, names: Iterable[str]) -> None:
        """Delete those of these files that exist."""

    @abstractmethod
    def remove_place(self) -> None:
        """Remove a directory for shards alone that has none."""

    @abstractmethod
    def hold(self, names: Iterable[str], tell: Callable[[str], None]) -> Hold:
        """Keep other runs out; ``names`` are the files that this one may write."""

    @abstractmethod
    def alone(self, task: str, tell: Callable[[str], None]) -> AbstractContextManager[None]:
        """Do a task while no other part does it; one that does is waited for."""

    @abstractmethod
    def require_room(self, sizes: Sequence[int], freed: int) -> None:
        """Refuse shards of these sizes if there is no room, when ``freed`` bytes have made way."""

    @abstractmethod
    def abort_uploads(self, names: Iterable[str]) -> None:
        """Abort unfinished uploads of these files, which killed runs have left."""


def is_unit(name: str) -> bool:
    """Return whether a name is that of a unit of a folder, rather than of a shard or a piece."""
    return _UNIT.fullmatch(name) is not None


def digest_of(etags: Sequence[str]) -> str:
    """Return one text for the ETags of files; empty if there are none."""
    import hashlib  # slow to load, and files on a disk have no ETags

    return hashlib.sha256("\n".join(etags).encode()).hexdigest() if any(etags) else ""


def _look(url: str, read: Callable[[str], T]) -> T | None:
    """Read what a run keeps at its target; None if it is not there."""
    try:
        return read(url)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except SourceError as error:
        raise DestinationError(str(error)) from None
    except OSError as error:
        raise DestinationError(f"{url}: cannot be read ({error.strerror})") from None

"""Where a data set goes, a directory or a prefix on S3, and the notes of an unfinished run there.

The notes lie in a hidden directory beside the files, on S3 under a prefix of that name.
``run.json`` tells which command is running and which files it may write, ``receipts/`` has a file
for each shard that has its final name, and ``replaced.json`` is the manifest of a data set that
makes way for another. On S3, ``lease.json`` says that the run is alive.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import uuid4

from dsprep.dataset.manifest import FileReceipt
from dsprep.errors import (
    DestinationError,
    DestinationStoreError,
    OptionError,
    SourceError,
    StoreError,
    source_errors,
)
from dsprep.findings import MisfitReject, Reject
from dsprep.plan.destination import Destination
from dsprep.run.part import Part
from dsprep.storage.files import entries, read_bytes, results
from dsprep.storage.local import (
    Lock,
    ScratchLock,
    destination_errors,
    free_bytes,
    make_stage,
    open_regular,
    publish,
    read_whole,
    remove_all_but,
    stage_for,
    sync_path,
    try_directory,
    write_whole,
)
from dsprep.storage.location import LONGEST_KEY, is_s3
from dsprep.storage.objects import as_source
from dsprep.storage.store import Store, publish_manifest
from dsprep.units import format_size
from dsprep.workers.worker import machine_name, yield_core

if TYPE_CHECKING:
    from dsprep.storage.lease import Lease
    from dsprep.storage.pool import Pace
    from dsprep.storage.s3.store import S3Store
    from dsprep.storage.stored import Stored

T = TypeVar("T")

# The id, the label and the name of a sample, as an index beside a shard has them.
Listed: TypeAlias = tuple[int, int | tuple[float, ...] | None, str]

RUN, RECEIPTS, REPLACED, _HOLDER = "run.json", "receipts", "replaced.json", "holder"
PLAN, LEASES = "plan.zip", "leases"  # of a run in parts
_NOWHERE: Mapping[str, str] = {}
# What reading a note raises that is cut short, or that dsprep did not write.
_DAMAGED = LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError


@dataclass
class Written:
    """What a shard, or a piece of one, holds: its receipt."""

    samples: int = 0
    files: Sequence[FileReceipt] = ()  # the files beside it, and last its own
    rejects: list[Reject] = field(default_factory=list)  # its samples that were not packed
    effects: Counter[str] = field(default_factory=Counter)  # those of its samples
    # the names of classes, by their numbers as text, that samples themselves tell
    class_names: dict[str, str] = field(default_factory=dict)
    unlabeled: int = 0  # how many samples lack the label that others have
    objects: int = 0  # how many its samples have, if these are typed
    with_objects: int = 0  # how many samples have any
    rejected: list[int] = field(default_factory=list)  # the positions of the rejects in its rows
    # of a piece, for the index of its shard: the bytes of each sample, and the samples if what is
    # listed of them was not known before
    sizes: list[int] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)

    @classmethod
    def merged(cls, parts: Sequence[Written], source: str) -> Written:
        """Add up what parts hold, without their files; ``source`` is for messages."""
        whole = cls()
        for part in parts:
            start = whole.samples + len(whole.rejected)
            whole.rejected += [start + position for position in part.rejected]
            whole.samples += part.samples
            whole.rejects += part.rejects
            whole.sizes += part.sizes
            whole.listed += part.listed
            whole.effects.update(part.effects)
            whole.unlabeled += part.unlabeled
            whole.objects += part.objects
            whole.with_objects += part.with_objects
            for number, name in part.class_names.items():
                if (known := whole.class_names.setdefault(number, name)) != name:
                    raise two_names(source, number, known, name)
        return whole

    def to_json(self) -> dict[str, Any]:
        rejects = [(each.path, each.reason, type(each) is MisfitReject) for each in self.rejects]
        values = {name: getattr(self, name) for name in _PLAIN}
        return values | {"files": [file.to_json() for file in self.files], "rejects": rejects}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Written:
        """Read a receipt; anything that is none raises a LookupError, TypeError or ValueError."""
        written = cls(**{name: kind(values[name]) for name, kind in _PLAIN.items()})
        written.files = list(map(FileReceipt.from_json, values["files"]))
        written.rejects = [
            (MisfitReject if misfit else Reject)(path, reason)
            for path, reason, misfit in values["rejects"]
        ]
        written.listed = [
            (id, tuple(label) if isinstance(label, list) else label, name)
            for id, label, name in written.listed
        ]
        return written


# What a receipt has as it is. These names are also on the disk.
_PLAIN: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("samples", "unlabeled", "objects", "with_objects"), int),
    "class_names": dict,
    "effects": Counter,
    **dict.fromkeys(("rejected", "sizes", "listed"), list),
}


@dataclass(frozen=True)
class Target:
    """A directory that a data set goes to, as plain data for workers; see also `PrefixTarget`.

    Methods raise `DestinationError` if the target refuses.
    """

    destination: Destination
    part: Part | None = None  # the part of a run that writes; None if the run has no parts
    # not its process, the number of which another machine may have as well
    _run: str = field(default_factory=lambda: uuid4().hex)
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
        return self.destination.directory / "tree"

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
        """What the names of notes begin with."""
        return f"{self.destination.scratch.name}/"

    def for_machines(self) -> Target:
        """Return this target for workers on other machines, where `trying` makes it ready."""
        return replace(self, spread="")

    @contextmanager
    def trying(self) -> Iterator[Target]:
        """Give a try at a shard temporary files of its own, if there may be several at once."""
        if self.spread is None:
            yield self
            return
        own = replace(self, _run=uuid4().hex)
        with destination_errors(own.temporary):
            own.temporary.mkdir()  # not the directory above: the run may have ended
        try:
            yield own
        finally:
            shutil.rmtree(own.temporary, ignore_errors=True)

    def require_seen(self) -> None:
        """Refuse a machine that does not see what the driver of this run has made there."""
        if not self.temporary.is_dir():
            raise DestinationError(
                f"{self.destination}: {machine_name()} does not see this directory as the machine "
                "that runs dsprep does: let all nodes mount it under this name, or write to s3://"
            )

    def partial(self, name: str) -> Path:
        return self.temporary / os.path.basename(name)

    def path(self, name: str) -> Path:
        return self.destination.directory / name

    def leave(self, name: str, written: Written, urls: Mapping[str, str] = _NOWHERE) -> None:
        """Publish a shard after its sidecars, then leave its receipt.

        ``urls`` is where files of another data set lie, by name, which are not temporary files.
        """
        yield_core()
        etags = self.publish(written.files, urls)
        receipt = {"shard": name, "written": written.to_json(), "etags": etags}
        self.write(self._receipt(name), json.dumps(receipt).encode())

    def _receipt(self, shard: str) -> str:
        return f"{self.notes}{RECEIPTS}/{os.path.basename(shard)}.json"

    def without_receipts(self, shards: Iterable[str]) -> list[str]:
        """Return those of these shards that have no receipt, good or not; none is read."""
        there = set(self._below(f"{self.notes}{RECEIPTS}/"))
        return [shard for shard in shards if self._receipt(shard) not in there]

    def receipts(self, shards: Iterable[str] | None = None) -> Iterator[tuple[str, Written]]:
        """Return the receipts, or those of some shards, whose files are as these tell."""
        found: list[tuple[str, Written, dict[str, str]]] = []
        names = set(self._below(f"{self.notes}{RECEIPTS}/"))
        if shards is not None:
            names &= set(map(self._receipt, shards))
        reads = ((0, partial(self.find, name)) for name in sorted(names))
        for data in filter(None, results(self.destination.url(""), reads)):
            with suppress(*_DAMAGED):
                receipt = json.loads(data)
                written = Written.from_json(receipt["written"])
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

    def has_notes(self) -> bool:
        """Whether a run is writing there, or has left something."""
        return self.destination.scratch.is_dir()

    def stamps(self, names: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return the size and the ETag, if there are such, of those of these files that exist."""
        found = {}
        with destination_errors(self.destination.directory):
            for name in names:
                with suppress(FileNotFoundError, NotADirectoryError):
                    found[name] = self.path(name).stat().st_size, ""
        return found

    def publish(
        self, files: Sequence[FileReceipt], urls: Mapping[str, str] = _NOWHERE
    ) -> dict[str, str]:
        """Give temporary files, or those that lie elsewhere, their final names; returns ETags."""
        if self.destination.apart:
            with destination_errors(place := self.destination.place):
                place.mkdir(exist_ok=True)
        for file in files:
            final = self.path(file.name)
            if file.name in urls:
                _bring(urls[file.name], file, self.partial(file.name))
            if self.durable:
                publish(self.partial(file.name), final)
            else:
                with destination_errors(final):
                    self.partial(file.name).replace(final)
        return {}

    def publish_manifest(self, data: bytes) -> None:
        """Publish the manifest, when the names of all files in it are on the disk."""
        directory = self.destination.directory
        sync_path(self.destination.place)
        sync_path(directory)
        write_whole(self.destination.manifest, data, self.temporary)
        sync_path(directory)

    def delete(self, names: Iterable[str]) -> None:
        """Delete those of these files that exist."""
        for path in map(self.destination.directory.joinpath, names):
            with destination_errors(path), suppress(IsADirectoryError):
                path.unlink(missing_ok=True)

    def inside(self) -> list[str]:
        """Return the names of what lies in a directory for shards alone."""
        try:
            return sorted(map(self.destination.shard, os.listdir(self.destination.place)))
        except FileNotFoundError:
            return []

    def remove_place(self) -> None:
        """Remove a directory for shards alone that has none."""
        if self.destination.apart and self.destination.remote is None:
            with suppress(OSError):
                self.destination.place.rmdir()

    def find(self, name: str) -> bytes | None:
        """Read a small file; None if there is none."""
        return _look(self.destination.url(name), read_bytes)

    def _below(self, prefix: str) -> list[str]:
        """Return the names of the files below a prefix, which ends in a slash."""

        def files(url: str) -> list[str]:
            return sorted(prefix + each.name for each in entries(url) if each.is_file())

        return _look(self.destination.url(prefix), files) or []

    def write(self, name: str, data: bytes) -> None:
        path = self.destination.directory / name
        with destination_errors(path):
            # The notes of a part, or a try, that comes late may have been removed.
            alone = self.part is None and self.spread is None
            path.parent.mkdir(parents=alone, exist_ok=True)
            if f"/{RECEIPTS}/" in name:  # not flushed: a shard without one is written again
                temporary = path.with_suffix(".tmp")
                temporary.write_bytes(data)
                temporary.replace(path)
            else:
                write_whole(path, data, path.parent)

    def hold(self, names: Iterable[str], tell: Callable[[str], None]) -> Hold:
        """Keep other runs out; ``names`` are the files that this one may write."""
        if self.part is None:
            return Hold(self.work, self.destination.directory)
        whole = ScratchLock(self.destination.scratch, self.destination.directory, shared=True)
        try:
            return Hold(self.work, f"{self.destination}: {self.part}", whole=whole)
        except BaseException:
            whole.release()
            raise

    @contextmanager
    def alone(self, task: str, tell: Callable[[str], None]) -> Iterator[None]:
        """Do a task while no other part does it; one that does is waited for."""
        scratch = self.destination.scratch
        with destination_errors(scratch):
            made = [path for path in (scratch, *scratch.parents) if not path.exists()]
            scratch.mkdir(parents=True, exist_ok=True)
        path = scratch / f"{task}.lock"
        try:
            lock = Lock(path, self.destination.directory, hidden=True)
        except DestinationError:
            tell(f"{self.destination}: waits for another part, which {task}s")
            lock = Lock(path, self.destination.directory, math.inf, hidden=True)
        try:
            yield
        except BaseException:
            with suppress(OSError):
                for each in made:
                    if each == scratch:
                        path.unlink()
                    each.rmdir()
            raise
        finally:
            lock.release()

    def require_room(self, sizes: Sequence[int], freed: int) -> None:
        """Refuse shards of these sizes if there is no room, when ``freed`` bytes have made way."""
        free, needed = free_bytes(self.destination.directory) + freed, sum(sizes)
        if needed > free:
            raise DestinationError(
                f"{self.destination.directory}: the shards need {format_size(needed)}, but only "
                f"{format_size(free)} are free on the disk"
            )

    def abort_uploads(self, names: Iterable[str]) -> None:
        """Abort unfinished uploads of these files, which killed runs have left."""


class PrefixTarget(Target):
    """A prefix on S3.

    A worker writes a shard to the stage, a directory on this machine, uploads it, and removes it
    there. Only this machine can go on with pieces of shards, which stay in the stage.
    """

    @property
    def work(self) -> Path:
        return self.destination.scratch  # in a stage of its own

    @property
    def _lease(self) -> str:
        """The name of the note that says that this run, or this part of one, is alive."""
        own = "lease.json" if self.part is None else f"{LEASES}/{self.part.name}.json"
        return self.notes + own

    @property
    def _store(self) -> S3Store:
        assert self.destination.remote is not None
        return _connect(self.destination.remote.bucket)

    def _key(self, name: str = "") -> str:
        assert self.destination.remote is not None
        return self.destination.remote.key + name

    def stamps(self, names: Iterable[str]) -> dict[str, tuple[int, str]]:
        keys = {self._key(name): name for name in names}
        found = (each for each in self._listed() if each.key in keys)
        if len(keys) < 2:  # a listing is a request for each thousand files of the data set
            found = (each for each in map(self._store.stat, keys) if each)
        return {keys[each.key]: (each.size, each.etag) for each in found}

    def inside(self) -> list[str]:
        prefix = self._key(self.destination.shard(""))
        levels = list(self._store.levels(prefix))
        found = [file.key for level in levels for file in level.files if file.key != prefix]
        return [key.removeprefix(self._key()) for key in found]

    def _listed(self) -> Iterator[Stored]:
        """List the objects that may be files of this data set."""
        destination = self.destination
        prefixes = [destination.stem or destination.own_name]
        prefixes += [destination.shard("")] if destination.apart else []
        for prefix in prefixes:
            for level in self._store.levels(self._key(prefix)):
                yield from level.files

    def publish(
        self, files: Sequence[FileReceipt], urls: Mapping[str, str] = _NOWHERE
    ) -> dict[str, str]:
        from dsprep.storage.transfer import TransferOptions

        store, etags = self._store, {}
        # Tries at once must not send parts of one upload.
        is_own = self.spread is not None
        way = TransferOptions(_pace(), keep=not is_own, resume=not is_own)
        # A try that goes on when the run has ended must replace nothing that is there by then.
        before = [store.stat(self._key(file.name)) if is_own else None for file in files]
        self._require_lease()
        for file, seen in zip(files, before, strict=True):
            path, key, url = self.partial(file.name), self._key(file.name), urls.get(file.name)
            if is_own:
                way = way._replace(replaces=seen.etag if seen else "")
            try:
                if url is not None and is_s3(url):
                    sent = store.copy_file(*_found(url, file), key, way)
                else:
                    sent = store.send_file(Path(url or path), key, way, file.crc32c)
                stored = sent.stored
            except StoreError as error:
                there = store.stat(key) if is_own and error.kind == "exists" else None
                if there is None or (there.size, there.any_crc32c) != (file.bytes, file.crc32c):
                    raise DestinationError(str(error)) from None
                stored = there  # another try was first
            etags[file.name] = stored.etag
            if url is None:
                path.unlink()
        return etags

    def _require_lease(self) -> None:
        from dsprep.storage.lease import find_lease, lost_lease

        lease = find_lease(self._store, self._key(self._lease))
        if lease is None or lease[0].encode() != read_whole(self.destination.scratch / _HOLDER):
            raise lost_lease(str(self.destination))

    def for_machines(self) -> Target:
        holder = read_whole(self.destination.scratch / _HOLDER)
        return replace(self, spread=holder.decode("ascii", "replace"))

    @contextmanager
    def trying(self) -> Iterator[Target]:
        if self.spread is None:
            yield self
            return
        stage = stage_for(str(self.destination))
        stage = stage.with_name(f"{stage.name}-tries")
        with try_directory(stage) as directory:
            own = replace(self, destination=replace(self.destination, directory=directory))
            with destination_errors(directory):
                own.temporary.mkdir(parents=True)
                (own.work / _HOLDER).write_text(self.spread)
            yield own

    def require_seen(self) -> None:
        """See that this machine can read from the bucket, with its own credentials."""
        self._store.stat(self._key(self.notes + RUN))

    def has_notes(self) -> bool:
        return super().has_notes() or any(self._store.list(self._key(self.notes)))

    def publish_manifest(self, data: bytes) -> None:
        """Store the manifest on the condition that there is none."""
        publish_manifest(self._store, self._key(self.manifest), data)

    def delete(self, names: Iterable[str]) -> None:
        for error in self._store.delete([self._key(name) for name in names]).values():
            raise error

    def write(self, name: str, data: bytes) -> None:
        if self.spread is not None:
            self._require_lease()
        self._store.put(self._key(name), data)

    def hold(self, names: Iterable[str], tell: Callable[[str], None]) -> Hold:
        """Take the lease; the lock of the stage keeps out other runs on this machine."""
        from dsprep.storage.lease import Lease, end_parts
        from dsprep.storage.s3.upload import require_rights

        if any(len(self._key(name).encode()) > LONGEST_KEY for name in names):
            raise OptionError(
                f"{self.destination}: the name is too long: keys on S3 have at most "
                f"{LONGEST_KEY:,} bytes"
            )
        make_stage(self.destination.directory)
        place = str(self.destination) if self.part is None else f"{self.destination}: {self.part}"
        lease = Lease(self._store, self._key(self._lease), place)
        hold = Hold(self.destination.scratch, place, lease)
        try:
            require_rights(self._store, self._key(), deleting=True)
            lease.take(self.destination.scratch / _HOLDER, tell)
            if self.part is None and names:  # without any, what is left is removed
                end_parts(self._store, self._key(f"{self.notes}{LEASES}/"), place, tell)
        except BaseException:
            hold.release(keep=any(path.is_dir() for path in self.destination.scratch.iterdir()))
            raise
        return hold

    @contextmanager
    def alone(self, task: str, tell: Callable[[str], None]) -> Iterator[None]:
        from dsprep.storage.lease import LEASE, Lease

        make_stage(self.destination.directory)
        with destination_errors(scratch := self.destination.scratch):
            scratch.mkdir(exist_ok=True)
        # A run that is not in parts neither begins while one plans, nor do parts while it runs.
        note = LEASE if task == "plan" else f"{LEASES}/{task}.json"
        key = self._key(self.notes + note)
        lease = Lease(self._store, key, str(self.destination))
        lease.take(scratch / f"{task}-holder", tell, waits=True)
        try:
            yield
        finally:
            lease.give_back()
            with suppress(OSError):
                (scratch / f"{task}-holder").unlink()

    def require_room(self, sizes: Sequence[int], freed: int) -> None:
        """Compare the shards that are in the stage at once with what is free on its disk."""
        stage = self.destination.directory
        free, needed = free_bytes(stage), max(sizes, default=0)
        if needed > free:
            raise DestinationError(
                f"{stage}: a shard of {format_size(needed)} has to wait there for its upload, but "
                f"only {format_size(free)} are free on the disk; set TMPDIR to a directory on "
                "another disk, or make smaller shards"
            )

    def abort_uploads(self, names: Iterable[str]) -> None:
        keys = {self._key(name) for name in names}
        with suppress(StoreError):
            prefix = self.destination.stem or self.destination.own_name
            for upload in self._store.list_uploads(self._key(prefix)):
                if upload.key in keys:
                    self._store.abort(upload)


class Hold:
    """The right to write to a target, which one run at a time has: a lock and, on S3, a lease."""

    def __init__(
        self,
        work: Path,
        guarded: Path | str,
        lease: Lease | None = None,
        whole: ScratchLock | None = None,
    ) -> None:
        """Take the lock; of a part of a run, ``whole`` is the lock that all parts share."""
        with destination_errors(work.parent):
            above = (work.parent, *work.parent.parents)
            self._made = [path for path in above if not path.exists()]
        self._lock, self._lease, self._work = ScratchLock(work, guarded), lease, work
        self._whole = whole

    def check(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def remove(self) -> None:
        """Remove the hidden directory, and a stage as a whole, then let other runs in."""
        if self._lease is not None:
            self._lease.give_back()
            with suppress(OSError):
                remove_all_but(self._work.parent, self._work.name)
        self._lock.remove()
        if self._whole is not None:
            self._whole.remove()
        if self._lease is not None:
            with suppress(OSError):
                self._work.parent.rmdir()

    def release(self, keep: bool) -> None:
        """Let other runs in; keep what a later run needs, or remove it all."""
        if self._whole is not None:
            self._lock.remove()
            self._whole.leave()
        elif not keep:
            self.remove()
            with suppress(OSError):  # another program has put something there
                for path in self._made:
                    path.rmdir()
        if self._lease is not None:
            self._lease.give_back()
        self._lock.release()


def two_names(where: str, number: object, one: str, other: str) -> SourceError:
    """Return the error for a class that has two names."""
    return SourceError(
        f"{where}: the class {number} is called {one!r} and {other!r}: correct the samples"
    )


def _bring(url: str, file: FileReceipt, partial: Path) -> None:
    """Give a file that lies elsewhere a second name; copy it if its disk is another one."""
    if is_s3(url):
        from dsprep.storage.transfer import TransferOptions

        store, stored = _found(url, file)
        with as_source(url):
            store.fetch_file(stored.key, partial, TransferOptions(_pace()), crc32c=file.crc32c)
        return
    try:
        os.link(os.path.realpath(url), partial)
    except OSError:
        with (
            source_errors(url),
            open(url, "rb", opener=open_regular) as source,
            destination_errors(partial),
            partial.open("wb") as copy,
        ):
            shutil.copyfileobj(source, copy, 1 << 20)
        if FileReceipt.of(partial) != FileReceipt(partial.name, file.bytes, file.crc32c):
            raise _not_the_file(url) from None


def _found(url: str, file: FileReceipt) -> tuple[Store, Stored]:
    """Return the store of a file that a manifest names, and what it holds there."""
    with as_source(url) as (store, key):
        stored = store.stat(key)
    if stored is None or stored.size != file.bytes:
        raise _not_the_file(url)
    if stored.any_crc32c not in (None, file.crc32c) and not stored.may_be_wrong:
        raise _not_the_file(url)
    return store, stored


def _not_the_file(url: str) -> SourceError:
    return SourceError(
        f"{url}: is not the file that its manifest names; check it with dsprep verify"
    )


def target_of(destination: Destination, part: Part | None = None) -> Target:
    """Return where a data set goes, or a part of it; nothing is looked at yet."""
    if destination.remote is None:
        return Target(destination, part)
    if part is not None:
        stage = stage_for(f"{destination} {part.name}")
        destination = replace(destination, directory=stage)
    return PrefixTarget(destination, part)


@cache
def _pace() -> Pace:
    from dsprep.storage.pool import Pace  # a run on a disk needs none

    return Pace()


@cache
def _connect(bucket: str) -> S3Store:
    from dsprep.storage.s3.store import store_of  # a run on a disk needs no S3

    try:
        return store_of(bucket).in_role(DestinationStoreError)
    except StoreError as error:
        raise DestinationError(str(error)) from None


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

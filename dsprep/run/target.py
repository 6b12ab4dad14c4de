"""Where a data set goes, and the two ways to write there: in place, or from a stage.

In place, files are written in a hidden directory beside the data set, and renamed. Where a store
has no rename, they are written on a stage, a directory on this machine, sent, and removed there.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dsprep.dataset.manifest import FileEntry
from dsprep.errors import (
    DestinationError,
    DestinationStoreError,
    OptionError,
    SourceError,
    StoreError,
    source_errors,
)
from dsprep.formats.listing import LISTING, File
from dsprep.plan.destination import Destination
from dsprep.run.folder import delete_files, files_below, folder_of, move_files
from dsprep.run.hold import Hold
from dsprep.run.notes import HOLDER, LEASES, NOWHERE, RECEIPTS, REPLACED_LISTING, RUN, Target
from dsprep.run.part import Part
from dsprep.storage.files import results, system_path
from dsprep.storage.local import (
    Lock,
    ScratchLock,
    destination_errors,
    free_bytes,
    is_scratch,
    make_stage,
    open_regular,
    publish,
    read_whole,
    stage_for,
    sync_path,
    try_directory,
    write_whole,
)
from dsprep.storage.objects import as_source
from dsprep.storage.store import Store, publish_manifest, store_of
from dsprep.units import format_size
from dsprep.workers.worker import machine_name

if TYPE_CHECKING:
    from dsprep.storage.pool import Pace
    from dsprep.storage.stored import Stored
    from dsprep.storage.transfer import TransferOptions


class InPlace(Target):
    """A directory whose files get their names by a rename, and whose runs keep locks."""

    @contextmanager
    def trying(self) -> Iterator[Target]:
        if self.spread is None:
            yield self
            return
        own = replace(self, _run=os.urandom(16).hex())
        with destination_errors(own.temporary):
            own.temporary.mkdir()  # do not create the directory above: the run may have ended
        try:
            yield own
        finally:
            shutil.rmtree(own.temporary, ignore_errors=True)

    def require_seen(self) -> None:
        if not self.temporary.is_dir():
            raise DestinationError(
                f"{self.destination}: {machine_name()} does not see this directory as the machine "
                "that runs dsprep does: let all nodes mount it under this name, or write to s3://"
            )

    def has_notes(self) -> bool:
        return self.destination.scratch.is_dir()

    def stamps(self, names: Iterable[str]) -> dict[str, tuple[int, str]]:
        found = {}
        with destination_errors(self.destination.directory):
            for name in names:
                with suppress(FileNotFoundError, NotADirectoryError):
                    found[name] = self.path(name).stat().st_size, ""
        return found

    def publish(
        self, files: Sequence[FileEntry], urls: Mapping[str, str] = NOWHERE
    ) -> dict[str, str]:
        if self.destination.apart:
            with destination_errors(place := self.destination.place):
                place.mkdir(exist_ok=True)
        for file in files:
            final = self.path(file.name)
            if is_divided := final.parent != self.destination.place and "/" in file.name:
                with destination_errors(final.parent):
                    final.parent.mkdir(exist_ok=True)
            if file.name in urls:
                _bring(urls[file.name], file, self.partial(file.name))
            if self.durable:
                publish(self.partial(file.name), final)
            else:
                with destination_errors(final):
                    self.partial(file.name).replace(final)
            if is_divided and self.durable:
                sync_path(final.parent)
        return {}

    def publish_tree(
        self, tree: Path, files: Sequence[File], urls: Mapping[str, str] = NOWHERE
    ) -> list[str]:
        elsewhere = [file for file in files if file.path in urls]
        own = [tree / file.path for file in elsewhere]
        for above in {path.parent for path in own}:
            with destination_errors(above):
                above.mkdir(parents=True, exist_ok=True)
        receipts = (FileEntry(file.path, file.bytes, file.crc32c) for file in elsewhere)
        where = [urls[file.path] for file in elsewhere]
        for _ in results(where, _bring, where, receipts, own):
            pass
        with destination_errors(self.tree):
            # A try that comes late must not make it again when it has got its name.
            if not self.tree.is_dir():
                if self._has_folder and os.path.lexists(final := folder_of(self.destination)):
                    raise DestinationError(
                        f"{final}: has its files, and lacks its manifest; give the command "
                        "without --part to finish it"
                    )
                self.tree.mkdir(exist_ok=True)
            move_files(tree, self.tree, [file.path for file in files])
        return []

    def folder_files(self) -> dict[str, tuple[int, str]]:
        with destination_errors(folder := folder_of(self.destination)):
            return {path: (size, "") for path, size in files_below(folder)}

    def delete_files(self, paths: Iterable[str]) -> None:
        delete_files(folder_of(self.destination), paths)

    def keep_listing(self) -> None:
        pass  # nothing to keep: on a disk, files of the old folder are removed at once

    def publish_manifest(self, data: bytes) -> None:
        """Publish the manifest, when the names of all files in it are on the disk."""
        directory, manifest = self.destination.directory, self.destination.manifest
        partial = self.partial(manifest.name)
        with destination_errors(manifest):
            partial.write_bytes(data)
            # first: most file systems then write the names of all files along with it
            sync_path(partial)
            for place in {self.destination.place, directory}:
                sync_path(place)
            partial.replace(manifest)
            sync_path(directory)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            path = self.destination.directory / name
            with destination_errors(path), suppress(IsADirectoryError, NotADirectoryError):
                path.unlink(missing_ok=True)
                is_divided = path.parent not in (self.destination.directory, self.destination.place)
                if is_divided and not is_scratch(name):
                    with suppress(OSError):  # other files are in the directory of a side
                        path.parent.rmdir()

    def inside(self) -> list[str]:
        try:
            return sorted(map(self.destination.shard, os.listdir(self.destination.place)))
        except FileNotFoundError:
            return []

    def remove_place(self) -> None:
        if self.destination.apart:
            with suppress(OSError):
                self.destination.place.rmdir()

    def write(self, name: str, data: bytes) -> None:
        path = self.destination.directory / name
        with destination_errors(path):
            # The notes of a part, or a try, that comes late may have been removed.
            alone = self.part is None and self.spread is None
            path.parent.mkdir(parents=alone, exist_ok=True)
            # receipts and notes on pieces are not flushed: if lost, their files are made again
            if f"/{RECEIPTS}/" in name or not self.durable:
                temporary = path.with_suffix(".tmp")
                temporary.write_bytes(data)
                temporary.replace(path)
            else:
                write_whole(path, data, path.parent)

    def hold(self, names: Iterable[str], tell: Callable[[str], None]) -> Hold:
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
        free, needed = free_bytes(self.destination.directory) + freed, sum(sizes)
        if needed > free:
            raise DestinationError(
                f"{self.destination.directory}: the shards need {format_size(needed)}, but only "
                f"{format_size(free)} are free on the disk"
            )

    def abort_uploads(self, names: Iterable[str]) -> None:
        pass  # there are none on a disk

    def for_machines(self) -> Target:
        return replace(self, spread="")


class Staged(Target):
    """A prefix of keys in a store, whose runs keep leases.

    A worker writes a shard to the stage, sends it, and removes it there. Only this machine can go
    on with pieces of shards, which stay in the stage.
    """

    @property
    def work(self) -> Path:
        return self.destination.scratch  # a directory in the stage of this run

    @property
    def _lease(self) -> str:
        """The name of the note that says that this run, or this part of one, is alive."""
        own = "lease.json" if self.part is None else f"{LEASES}/{self.part.name}.json"
        return self.notes + own

    @property
    def _store(self) -> Store:
        return store_of(self.destination.url(""))[0].in_role(DestinationStoreError)

    def _key(self, name: str = "") -> str:
        return store_of(self.destination.url(""))[1] + name

    def stamps(self, names: Iterable[str]) -> dict[str, tuple[int, str]]:
        keys = {self._key(name): name for name in names}
        own = [self.notes] if any(name.startswith(self.notes) for name in keys.values()) else []
        above = {os.path.dirname(name) for name in keys.values()} - {self.destination.apart or ""}
        own += sorted(f"{name}/" for name in above if name and not is_scratch(name))
        found = (each for each in self._listed(own) if each.key in keys)
        if len(keys) < 2:  # a listing is a request for each thousand files of the data set
            found = (each for each in map(self._store.stat, keys) if each)
        return {keys[each.key]: (each.size, each.etag) for each in found}

    def inside(self) -> list[str]:
        prefix = self._key(self.destination.shard(""))
        levels = list(self._store.levels(prefix))
        found = [file.key for level in levels for file in level.files if file.key != prefix]
        return [key.removeprefix(self._key()) for key in found]

    def _listed(self, more: Sequence[str]) -> Iterator[Stored]:
        """List the objects that may be files of this data set; ``more`` is where notes are."""
        destination = self.destination
        prefixes = [destination.stem or destination.own_name, *more]
        prefixes += [destination.shard("")] if destination.apart else []
        for prefix in prefixes:
            for level in self._store.levels(self._key(prefix)):
                yield from level.files

    def publish(
        self, files: Sequence[FileEntry], urls: Mapping[str, str] = NOWHERE
    ) -> dict[str, str]:
        store, etags = self._store, {}
        # A try that goes on when the run has ended must replace nothing that is there by then.
        before = {file.name: self._etag_before(file.name) for file in files}
        self._require_lease()
        for file in files:
            path, url = self.partial(file.name), urls.get(file.name)
            way = self._way(_pace(), before[file.name])
            etags[file.name] = self._send(store, file, Path(url or path), way, url)
            if url is None:
                path.unlink()
        return etags

    def _etag_before(self, name: str) -> str | None:
        """Return the ETag of what a try may replace, empty if there is none; None for anything."""
        if self.spread is None:
            return None
        seen = self._store.stat(self._key(name))
        return seen.etag if seen else ""

    def _way(self, pace: Pace, before: str | None) -> TransferOptions:
        from dsprep.storage.transfer import TransferOptions

        # Tries at once must not send parts of one upload.
        is_own = self.spread is not None
        return TransferOptions(pace, keep=not is_own, resume=not is_own, replaces=before)

    def _send(
        self,
        store: Store,
        file: FileEntry,
        path: Path,
        way: TransferOptions,
        url: str | None = None,
    ) -> str:
        """Send a file of this machine, or of another store, to its key; return its ETag."""
        key = self._key(file.name)
        try:
            if url is not None and system_path(url) is None:
                sent = store.copy_file(*_found(url, file), key, way)
            else:
                sent = store.send_file(path, key, way, file.crc32c)
        except StoreError as error:
            is_own = self.spread is not None
            there = store.stat(key) if is_own and error.kind == "exists" else None
            if there is None or (there.size, there.any_crc32c) != (file.bytes, file.crc32c):
                raise DestinationError(str(error)) from None
            return there.etag  # another try at this task has uploaded the same bytes
        return sent.stored.etag

    def publish_tree(
        self, tree: Path, files: Sequence[File], urls: Mapping[str, str] = NOWHERE
    ) -> list[str]:
        from dsprep.storage.pool import Pace

        store, name = self._store, self.destination.in_folder
        receipts = [FileEntry(name(file.path), file.bytes, file.crc32c) for file in files]
        for each in receipts:
            if len(self._key(each.name).encode()) > store.longest_key:
                raise DestinationError(
                    f"{self.destination.url(each.name)}: the name is too long: keys on "
                    f"{store.name} have at most {store.longest_key:,} bytes; rename this sample, "
                    "or give --key index to name files by number"
                )
        pace = Pace()  # a failure stops all transfers of the pace
        try:
            before = pace.each(self._etag_before, [each.name for each in receipts])
            self._require_lease()

            def send(number: int) -> str:
                way = self._way(pace, before[number])
                path = files[number].path
                url = urls.get(path)
                return self._send(store, receipts[number], Path(url or tree / path), way, url)

            etags = dict(pace.in_threads(send, range(len(files))))
        finally:
            pace.close()
        shutil.rmtree(tree, ignore_errors=bool(urls))
        return [etags[number] for number in range(len(files))]

    def folder_files(self) -> dict[str, tuple[int, str]]:
        prefix = self._key(self.destination.in_folder(""))
        found = (each for page in self._store.list(prefix) for each in page)
        # What has the name of a directory is made by other programs, and holds nothing.
        return {
            each.key.removeprefix(prefix): (each.size, each.etag)
            for each in found
            if not each.key.endswith("/")
        }

    def delete_files(self, paths: Iterable[str]) -> None:
        self.delete(map(self.destination.in_folder, paths))

    def keep_listing(self) -> None:
        listing = self.destination.companion(LISTING).name
        if (stored := self._store.stat(self._key(listing))) is not None:
            key = self._key(self.notes + REPLACED_LISTING)
            self._store.copy_file(self._store, stored, key, self._way(_pace(), None))

    def _require_lease(self) -> None:
        from dsprep.storage.lease import find_lease, lost_lease

        lease = find_lease(self._store, self._key(self._lease))
        if lease is None or lease[0].encode() != read_whole(self.destination.scratch / HOLDER):
            raise lost_lease(str(self.destination))

    def for_machines(self) -> Target:
        holder = read_whole(self.destination.scratch / HOLDER)
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
                (own.work / HOLDER).write_text(self.spread)
            yield own

    def require_seen(self) -> None:
        """See that this machine can read from the bucket, with its own credentials."""
        self._store.stat(self._key(self.notes + RUN))

    def has_notes(self) -> bool:
        return self.destination.scratch.is_dir() or any(self._store.list(self._key(self.notes)))

    def remove_place(self) -> None:
        pass  # S3 has no directories

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

        longest = self._store.longest_key
        if any(len(self._key(name).encode()) > longest for name in names):
            raise OptionError(
                f"{self.destination}: the name is too long: keys on S3 have at most "
                f"{longest:,} bytes"
            )
        make_stage(self.destination.directory)
        place = str(self.destination) if self.part is None else f"{self.destination}: {self.part}"
        lease = Lease(self._store, self._key(self._lease), place)
        hold = Hold(self.destination.scratch, place, lease)
        try:
            self._store.require_rights(self._key(), deleting=True)
            lease.take(self.destination.scratch / HOLDER, tell)
            # a run that names no files only removes leftovers
            if self.part is None and names:
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
            self._store.abort_uploads(self._key(prefix), keys)


def _bring(url: str, file: FileEntry, partial: Path) -> None:
    """Give a file that lies elsewhere a second name; copy it if its disk is another one."""
    if system_path(url) is None:
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
        if FileEntry.of(partial) != FileEntry(partial.name, file.bytes, file.crc32c):
            raise _not_the_file(url) from None


def _found(url: str, file: FileEntry) -> tuple[Store, Stored]:
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
        return InPlace(destination, part)
    if part is not None:
        stage = stage_for(f"{destination} {part.name}")
        destination = replace(destination, directory=stage)
    return Staged(destination, part)


@cache
def _pace() -> Pace:
    from dsprep.storage.pool import Pace  # a run on a disk needs none

    return Pace()

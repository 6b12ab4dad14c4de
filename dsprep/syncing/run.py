"""One run of ``sync``: make one side hold what the other does, nothing being half visible."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import escape
from shlex import quote
from typing import TYPE_CHECKING

from dsprep.dataset.names import UNFINISHED, is_manifest
from dsprep.errors import (
    DestinationError,
    DsprepError,
    OptionError,
    SourceError,
    StoreError,
    source_errors,
)
from dsprep.storage.store import publish_manifest
from dsprep.storage.stored import Stored, crc32c, stops_all
from dsprep.storage.transfer import TransferOptions, plan_copy, plan_parts
from dsprep.syncing.checksums import Sums, look
from dsprep.syncing.compare import BY_CONTENT, Verdict, by_content, has_crc32c, prove
from dsprep.syncing.options import SyncOptions
from dsprep.syncing.plan import Filters, Pair, lies_in, plan_sync, why_not
from dsprep.syncing.report import Failure, Requests, Send, SyncReport
from dsprep.syncing.sides import ROOT, Directory, Prefix, Side, require_idle
from dsprep.units import format_count, format_size, format_some

if TYPE_CHECKING:
    from dsprep.dataset.manifest import FileEntry

_BATCHES = 64  # number of batches of files whose contents are compared
_PAGE = 1000  # keys in a page of a listing


class Sync:
    """One run, from one side to the other. Its steps are methods, in the order of `run`."""

    def __init__(
        self, source: Side, destination: Side, way: TransferOptions, options: SyncOptions
    ) -> None:
        self._source, self._destination, self._way, self._pace = source, destination, way, way.pace
        self._options, self._filters = options, Filters(options.rules)
        self._report = SyncReport(source.name(""), destination.name(""))
        self._notes = self._report.notes
        self._arrived: set[str] = set()
        self._failures: list[Failure] = []  # beside what could not be listed

    def run(self) -> SyncReport:
        began, report = time.monotonic(), self._report
        self._take_inventory()
        try:
            self._make_plan()
            self._settle_manifests()
            blind, most = bool(report.failures), self._options.max_delete
            report.notes += self._plan.limit_deletions(report.destination, blind, most)
            self._describe_plan()
            if self._options.dry_run:
                report.seconds = time.monotonic() - began
                return report
            self._carry_out()
            self._delete()
            # Report what was done, instead of what was planned.
            report.sent = [send for send in report.sent if send.path in self._arrived]
            report.bytes = sum(send.size for send in report.sent)
            report.failures += self._failures
            report.state = "synced" if report.sent or report.deleted else "already there"
            if report.failures:
                report.state = "incomplete"
            report.seconds = time.monotonic() - began
            if self._options.verify:
                self._verify()
        finally:
            for side in (self._source, self._destination):
                if isinstance(side, Directory) and not self._options.dry_run:
                    side.checksums.save()
        return report

    def _take_inventory(self) -> None:
        """List both sides, and read the manifests of the source."""
        sides = (self._source, self._destination)
        listings = dict(self._pace.in_threads(lambda side: side.list(), sides))
        self._ours, self._theirs = (listings[side] for side in sides)
        for side, error in zip(sides, (SourceError, DestinationError), strict=True):
            for path, why in listings[side].unseen:
                if path == ROOT:
                    raise error(f"{side.name('')}: {why}; nothing has been done")
                # the directory could not be read, so its files count as unknown, not absent
                if self._filters.may_admit(path):
                    advice = f"leave it out with --exclude {quote(escape(path) + '*')}"
                    message = f"{side.name(path)}: {why}; repair that, or {advice}"
                    self._report.failures.append(Failure(path, message))
        if not (self._ours.files or self._ours.left or self._ours.unseen):
            why = self._source.why_empty() if isinstance(self._source, Prefix) else "holds nothing"
            raise SourceError(f"{self._source.name('')}: {why}")
        # What has the name of a manifest, and the files that each manifest among these names.
        self._documents = {
            path: self._source.read(path) for path in self._ours.files if is_manifest(path)
        }
        self._manifests = _files_named(self._documents, self._documents.__getitem__)
        self._checksums = {
            path: file.crc32c for files in self._manifests.values() for path, file in files.items()
        }

    def _make_plan(self) -> None:
        left = {*(skipped.path for skipped in self._ours.left), *self._theirs.linked}
        ours, theirs = self._ours.files, self._theirs.files
        etags = self._source.has_etags and self._destination.has_etags
        self._plan = plan_sync(
            ours, theirs, self._options, named=self._checksums, spared=left, etags=etags
        )

        def compare(pair: Pair) -> Verdict:
            self._pace.check()
            assert pair.found is not None
            source = self._source.content(pair.source, self._checksums.get(pair.path))
            found = self._destination.content(pair.found)
            written = pair.source.modified
            if isinstance(self._destination, Directory):  # a download has only seconds of S3
                written = int(written)
            return by_content(source, found, written > pair.found.modified)

        # Several files a call, because a small one takes less time than a call.
        undecided = self._plan.undecided
        size = max(1, len(undecided) // _BATCHES)
        batches = [undecided[start : start + size] for start in range(0, len(undecided), size)]
        for batch, verdicts in self._pace.in_threads(lambda some: [*map(compare, some)], batches):
            for pair, verdict in zip(batch, verdicts, strict=True):
                self._plan.decide(pair, verdict)

    def _settle_manifests(self) -> None:
        """Plan which manifests at the destination go before what they name is replaced."""
        # A data set without its manifest is incomplete; with an old manifest, it is wrong.
        plan = self._plan
        if not (plan.replaced or plan.deletions):
            return
        there = _files_named(self._theirs.files, self._destination.read)
        replaced = {pair.path for pair in plan.replaced}
        plan.withdrawn = [path for path, files in there.items() if replaced & files.keys()]
        left = {skipped.path for skipped in self._ours.left}
        for path in plan.withdrawn:
            if lies_in(path, left) or not self._filters.admit(path):
                raise OptionError(
                    f"{self._destination.name(path)}: names files that would be replaced, but is "
                    "excluded itself; include it, or exclude these files too; nothing has been done"
                )
        # A manifest that seems the same is sent again if what it names changes.
        changed = replaced.union(plan.deletions)
        for path in sorted(plan.same.keys() & there.keys()):
            if changed & there[path].keys():
                del plan.same[path]
                pair = Pair(path, self._ours.files[path], self._theirs.files[path])
                plan.sends.append((pair, "withdrawn"))
        going = {*plan.deletions, *(pair.path for pair, _ in plan.sends)}
        staying = {file for path, files in there.items() if path not in going for file in files}
        plan.spare(staying)

    def _describe_plan(self) -> None:
        plan, report, filters = self._plan, self._report, self._filters
        self._notes += [
            f"{self._source.name(path)}: is not a manifest that this dsprep reads; it is sent like "
            "any other file"
            for path in sorted(self._documents.keys() - self._manifests.keys())
            if filters.admit(path)
        ]
        self._notes += [
            f"{self._source.name(path)}: is left out: {UNFINISHED}"
            for path in self._ours.unfinished
            if filters.may_admit(f"{path}/")
        ]
        right = [path for path, by in plan.same.items() if by == "download"]
        changed = [pair.path for pair, by in plan.sends if by == "download"]
        self._note_read_back(right, changed)
        self._notes += [
            f"{self._destination.name(path)}: removed while what it names is replaced"
            for path in sorted(plan.withdrawn)
        ]
        report.sent = [
            Send(pair.path, pair.source.size, by, self._count_parts(pair))
            for pair, by in sorted(plan.sends)
        ]
        report.bytes = plan.bytes
        report.same = Counter(plan.same.values())
        report.deleted, report.left = plan.deletions, self._ours.left
        requests = self._estimate([send.parts for send in report.sent])
        pages = max(1, -(-len(self._theirs.files) // _PAGE))
        report.requests = requests._replace(writes=requests.writes + pages)

    def _note_read_back(self, right: Sequence[str], changed: Sequence[str]) -> None:
        """Say which objects were read, as the server keeps a checksum that is not the file's."""
        for paths, found in (
            (right, "the server keeps a wrong checksum, and the bytes are right"),
            (changed, "the bytes differ"),
        ):
            if paths:
                size = format_size(sum(self._ours.files[path].size for path in paths))
                count, names = format_count(len(paths), "object"), format_some(sorted(paths))
                self._notes.append(f"{count} read back ({size}): {found}: {names}")

    def _carry_out(self) -> None:
        """Send the planned files: no file becomes visible before the files that it names."""
        plan = self._plan
        changed = [*(pair.path for pair, _ in plan.sends), *plan.deletions]
        require_idle(self._destination, self._theirs.leases, changed, self._way)
        if plan.sends:
            self._way.events("plan", files=len(plan.sends), bytes=plan.bytes)
            if isinstance(self._destination, Prefix):  # the first file makes a local directory
                self._destination.store.require_rights(self._destination.prefix)
        if plan.withdrawn:
            self._withdraw()
        shards, indexes, manifests = plan.by_rank()
        self._send(shards)
        self._send(indexes)
        self._publish(manifests)

    def _withdraw(self) -> None:
        """Remove the manifests that would be wrong during this run."""

        def require_true(pair: Pair) -> None:
            expected = self._checksums.get(pair.path)
            known = None if expected is None else self._source.content(pair.source).crc32c()
            if known is not None and known[0] != expected:
                raise SourceError(
                    f"{self._source.name(pair.path)}: its crc32c is {known[0]:08x}, but its "
                    f"manifest has {expected:08x}: see dsprep verify; nothing has been sent"
                )

        for _ in self._pace.in_threads(require_true, self._plan.replaced):
            pass
        for failed in self._destination.delete(sorted(self._plan.withdrawn)):
            raise DestinationError(
                f"{self._destination.name(failed.path)}: names files that would be replaced, "
                f"and cannot be removed before: {failed.message}"
            )

    def _send(self, pairs: Sequence[Pair]) -> None:
        def send(pair: Pair) -> int:
            resumed = 0
            with self._one_failure(pair.path):
                resumed = self.transfer(pair, self._checksums.get(pair.path))
                self._arrived.add(pair.path)
            return resumed

        self._report.resumed += sum(resumed for _, resumed in self._pace.in_threads(send, pairs))

    @contextmanager
    def _one_failure(self, path: str) -> Iterator[None]:
        """Note an error that concerns only one file; it stops no other."""
        try:
            yield
        except (DsprepError, OSError) as error:
            if stops_all(error):
                raise
            self._failures.append(Failure(path, str(error)))

    def _publish(self, pairs: Sequence[Pair]) -> None:
        """Publish the manifests whose files are all there."""
        failed = [failure.path for failure in self._failures]
        there = {*self._theirs.files, *self._arrived}
        for pair in pairs:
            path, files = pair.path, self._manifests.get(pair.path, {})
            with self._one_failure(path):
                self._pace.check()
                why = why_not(path, files, there, failed) or self._why_wrong(files)
                if why:
                    raise DestinationError(why)
                new = path in self._plan.withdrawn
                self._publish_one(pair, self._documents[path], new)
                self._arrived.add(path)
            if path not in self._arrived:
                with self._one_failure(path):
                    self._remove_wrong(path)

    def _why_wrong(self, files: Mapping[str, FileEntry]) -> str:
        """Return why a manifest would name other files than are there; empty if it would not."""
        same = self._plan.same

        def is_right(path: str) -> bool:
            with self._one_failure(path):
                if path in self._arrived:
                    return self._checksums[path] == files[path].crc32c
                there, contents = self._theirs.files[path], []
                if same.get(path) != "download":
                    contents.append(self._destination.content(there))
                if same.get(path) in BY_CONTENT:
                    contents.append(self._source.content(self._ours.files[path]))
                return there.size == files[path].bytes and has_crc32c(files[path].crc32c, contents)
            return False

        wrong = sorted(path for path, right in self._pace.in_threads(is_right, files) if not right)
        if not wrong:
            return ""
        return (
            f"is not published, because other files are at the destination than those it names: "
            f"{format_some(wrong)}; send these too (without --exclude and --size-only)"
        )

    def _remove_wrong(self, path: str) -> None:
        """Remove a manifest that names other files than this run has put there."""
        try:
            named = _files_named([path], self._destination.read).get(path, {})
        except StoreError as error:
            if error.kind == "missing":
                return
            raise
        arrived = self._arrived & named.keys()
        if all(named[name].crc32c == self._checksums.get(name) for name in arrived):
            return
        refused = self._destination.delete([path])
        self._failures += refused
        if not refused:
            self._notes.append(
                f"{self._destination.name(path)}: was removed, because this run has replaced files "
                "that it names (another run may have published it meanwhile); give the command "
                "again"
            )

    def _delete(self) -> None:
        """Delete what the source has not, if everything before went well."""
        paths, self._report.deleted = self._plan.deletions, []
        if paths and self._failures:
            self._notes.append(self._plan.nothing_deleted())
            return
        withdrawn = self._plan.withdrawn
        deleted = [path for path in paths if path in withdrawn]
        left = [path for path in paths if path not in withdrawn]
        # Manifests go first: if one of them stays, what it names stays as well.
        for are_manifests in (True, False):
            some = [path for path in left if is_manifest(path) is are_manifests]
            if not self._failures:
                self._failures += self._destination.delete(some)
                kept = {failure.path for failure in self._failures}
                deleted += [path for path in some if path not in kept]
        self._report.deleted = sorted(deleted)

    def _verify(self) -> None:
        """Prove all files by the checksums that a store keeps, also those not sent now."""
        sides = (self._destination, self._source)
        remote = next(side for side in sides if isinstance(side, Prefix))
        other = self._source if remote is self._destination else self._destination
        # The checksums in the source's manifests are no proof of what was downloaded.
        checksums = self._checksums if other is self._source else {}

        def check(path: str) -> tuple[str, str]:
            file = self._ours.files[path]
            if isinstance(other, Directory):
                file = file._replace(key=path)
            content = other.content(file, checksums.get(path))
            try:
                stored = remote.store.stat(remote.prefix + path)
                return prove(
                    content,
                    stored,
                    lambda stored: remote.content(stored).read_crc32c(),
                    remote.store.name,
                )
            except DsprepError as error:
                if stops_all(error):
                    raise
                return "", str(error)

        paths = filter(self._filters.admit, self._ours.files)
        read: dict[bool, list[str]] = {True: [], False: []}
        for path, (by, problem) in sorted(self._pace.in_threads(check, paths)):
            if problem:
                self._report.failures.append(Failure(path, problem))
                self._report.state = "incomplete"
            else:
                self._report.verified[by] += 1
            if by == "download":
                read[not problem].append(path)
        self._note_read_back(read[True], read[False])

    def _count_parts(self, pair: Pair) -> int:
        if isinstance(self._source, Prefix) and isinstance(self._destination, Prefix):
            return len(plan_copy(pair.source.size))
        return len(plan_parts(pair.source.size, self._way.part_size, pair.path))

    def _estimate(self, parts: Sequence[int]) -> Requests:
        """Estimate the requests for files of these numbers of parts."""
        total, several = sum(parts), sum(count > 1 for count in parts)
        if isinstance(self._destination, Directory):  # several parts take a HEAD more
            return Requests(0, total + several, total)
        # Several parts take a search, a beginning and a completion; a copy a HEAD of both objects.
        heads = 2 * len(parts) if isinstance(self._source, Prefix) else several
        return Requests(total + 3 * several, heads, total)

    def transfer(self, pair: Pair, crc32c: int | None) -> int:
        """Transfer a file; return the number of its bytes that an earlier run had sent."""
        # `crc32c` is that in a manifest.
        source, destination = self._source, self._destination
        if isinstance(source, Directory):
            assert isinstance(destination, Prefix)
            key = destination.prefix + pair.path
            path = source.root / pair.path
            with source_errors(path):
                sight = look(path)
            done = destination.store.send_file(path, key, self._way, crc32c)
            if done.crc32c is not None:
                source.checksums.note(path, sight, Sums(done.crc32c, done.stored.md5))
        elif isinstance(destination, Directory):
            path, key = destination.root / pair.path, pair.source.key
            done = source.store.fetch_file(key, path, self._way, pair.source, crc32c)
        else:
            name, stored = source.name(pair.path), source.store.stat(pair.source.key)
            if stored is None or stored.etag != pair.source.etag:
                raise StoreError(f"{name}: has changed since it was listed", "exists")
            _require(crc32c, source, stored, name)
            key = destination.prefix + pair.path
            done = destination.store.copy_file(source.store, stored, key, self._way)
            _require(crc32c, destination, done.stored, name, proven=True)
        return done.stored.size - done.moved

    def _publish_one(self, pair: Pair, data: bytes, new: bool) -> None:
        # In a store, it replaces only the one that was found there, or none if `new`.
        if isinstance(self._destination, Directory):
            self.transfer(pair, crc32c(data))
            return
        guard = "" if new or pair.found is None else pair.found.etag
        key = self._destination.prefix + pair.path
        publish_manifest(self._destination.store, key, data, guard)
        name = self._destination.name(pair.path)
        self._way.events("moved", name=name, bytes=len(data))
        self._way.events("end", name=name, bytes=len(data), proof="md5")


def _require(
    expected: int | None, side: Prefix, stored: Stored, name: str, proven: bool = False
) -> None:
    """Raise if an object does not have the crc32c in its manifest, if that names one."""
    known = stored.any_crc32c
    doubtful = proven if known is None else known != expected and stored.may_be_wrong
    if doubtful and expected is not None:
        known = side.content(stored).read_crc32c()
    if None not in (expected, known) and known != expected:
        raise StoreError(
            f"{name}: is not what its manifest names: its crc32c is {known:08x}, and "
            f"{expected:08x} is right; check it with dsprep verify",
            "damaged",
        )


def _files_named(
    paths: Collection[str], read: Callable[[str], bytes]
) -> dict[str, dict[str, FileEntry]]:
    """Return the files that each manifest among some files names, as `files_named` does."""
    if not any(map(is_manifest, paths)):
        return {}
    from dsprep.dataset.find import files_named  # slow to load, and few places have manifests

    return files_named(paths, read)

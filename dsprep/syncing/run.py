"""One run of ``sync``: make one side hold what the other does, nothing being half visible."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dsprep.dataset.manifest import UNFINISHED, FileReceipt
from dsprep.errors import DestinationError, DsprepError, Interrupted, StoreError
from dsprep.storage.store import FATAL, Stored
from dsprep.storage.transfer import TransferOptions
from dsprep.syncing.compare import BY_CONTENT, Verdict, by_content, has_crc32c
from dsprep.syncing.inventory import (
    Inventory,
    checksums_in,
    files_of,
    manifests_in,
    names_in,
    take_inventory,
)
from dsprep.syncing.leases import require_idle
from dsprep.syncing.manifests import require_true, settle_manifests
from dsprep.syncing.movers import Moved, Mover
from dsprep.syncing.plan import (
    INDEXES,
    MANIFEST,
    SHARDS,
    Filters,
    Pair,
    SyncPlan,
    delete_in_order,
    limit_deletions,
    nothing_deleted,
    plan_sync,
    why_not,
)
from dsprep.syncing.report import Failure, Requests, Send, SyncReport, read_back_notes
from dsprep.syncing.sides import Side
from dsprep.syncing.threads import in_threads
from dsprep.units import format_some

A = TypeVar("A")
B = TypeVar("B")

_BATCHES = 64  # files whose contents are compared are divided among so many calls
_PAGE = 1000  # keys in a page of a listing


@dataclass(frozen=True)
class SyncOptions:
    """What is asked for."""

    filters: Filters = Filters()  # which files take part
    size_only: bool = False  # whether files of equal sizes are taken for equal
    delete: bool = False  # whether what the source has not is deleted at the destination
    max_delete: int | None = None  # the most files that may be deleted; None for any number
    dry_run: bool = False  # whether nothing is done


@dataclass(frozen=True)
class Outcome:
    """What became of a run."""

    report: SyncReport  # for the user
    files: Mapping[str, Stored]  # all files of the source that take part, by path
    checksums: Mapping[str, int]  # the crc32c of files of the source, from manifests, by path


class Sync:
    """One run, from one side to the other."""

    def __init__(
        self,
        source: Side,
        destination: Side,
        mover: Mover,
        options: SyncOptions,
        way: TransferOptions,
        threads: int,
    ) -> None:
        """Prepare."""
        self._source, self._destination = source, destination
        self._mover, self._options, self._way = mover, options, way
        self._threads = threads
        self._arrived: set[str] = set()
        self._resumed = 0
        self._failures: list[Failure] = []
        self._notes: list[str] = []

    def run(self) -> Outcome:
        """Do it; once."""
        began = time.monotonic()
        options, place = self._options, self._destination.name("")
        found = take_inventory(self._source, self._destination, options.filters, self._way.pace)
        plan = self._plan(found)
        withdrawn = settle_manifests(
            plan, found.ours, found.theirs, self._destination, options.filters
        )
        self._notes += limit_deletions(plan, place, bool(found.unseen), options.max_delete)
        report = self._report(plan, found, withdrawn)
        if not options.dry_run:
            self._carry_out(plan, found, withdrawn)
            self._delete(plan.deletions, withdrawn, report)
            self._conclude(report)
        report.seconds = time.monotonic() - began
        admit = options.filters.admit
        files = {path: file for path, file in found.ours.files.items() if admit(path)}
        return Outcome(report, files, found.checksums)

    def _plan(self, found: Inventory) -> SyncPlan:
        options = self._options
        named = [names_in(path, manifest) for path, manifest in found.manifests.items()]
        plan = plan_sync(
            found.ours.files,
            found.theirs.files,
            options.filters,
            size_only=options.size_only,
            delete=options.delete,
            named=frozenset().union(*named),
            spared={*(skipped.path for skipped in found.ours.left), *found.theirs.linked},
        )

        def compare(pairs: Sequence[Pair]) -> list[Verdict]:
            return [self._compare(pair, found.checksums.get(pair.path)) for pair in pairs]

        # Several files a call, because a small one takes less time than a call.
        undecided, size = plan.undecided, max(1, len(plan.undecided) // _BATCHES)
        batches = [undecided[start : start + size] for start in range(0, len(undecided), size)]
        for batch, verdicts in self._each(compare, batches):
            for pair, verdict in zip(batch, verdicts, strict=True):
                plan.decide(pair, verdict)
        return plan

    def _compare(self, pair: Pair, crc32c: int | None) -> Verdict:
        self._way.pace.check()
        assert pair.found is not None
        return by_content(
            self._source.content(pair.source, crc32c),
            self._destination.content(pair.found, None),
            self._mover.is_newer(pair.source, pair.found),
        )

    def _report(self, plan: SyncPlan, found: Inventory, withdrawn: Collection[str]) -> SyncReport:
        sends = [
            Send(pair.path, pair.source.size, by, self._mover.parts(pair, self._way))
            for pair, by in sorted(plan.sends)
        ]
        others = sorted(found.documents.keys() - found.manifests.keys())
        self._notes += [
            f"{self._source.name(path)}: is not a manifest that this dsprep reads; it is sent like "
            "any other file"
            for path in others
            if self._options.filters.admit(path)
        ]
        self._notes += [
            f"{self._source.name(path)}: is left out: {UNFINISHED}"
            for path in found.ours.unfinished
            if self._options.filters.may_admit(f"{path}/")
        ]
        right = [path for path, by in plan.same if by == "download"]
        changed = [pair.path for pair, by in plan.sends if by == "download"]
        self._notes += read_back_notes(found.ours.files, right, changed)
        self._notes += [
            f"{self._destination.name(path)}: removed while what it names is replaced"
            for path in sorted(withdrawn)
        ]
        requests = self._mover.requests([send.parts for send in sends])
        pages = max(1, -(-len(found.theirs.files) // _PAGE))
        return SyncReport(
            source=self._source.name(""),
            destination=self._destination.name(""),
            sent=sends,
            bytes=plan.bytes,
            same=Counter(by for _, by in plan.same),
            deleted=plan.deletions,
            left=found.ours.left,
            failures=found.unseen,
            notes=self._notes,
            requests=Requests(requests.writes + pages, requests.reads, requests.parts),
        )

    def _carry_out(self, plan: SyncPlan, found: Inventory, withdrawn: Collection[str]) -> None:
        """Send what is to be sent, in the order in which it may be seen."""
        changed = [*(pair.path for pair, _ in plan.sends), *plan.deletions]
        pace, events = self._way.pace, self._way.events
        require_idle(self._destination, found.theirs.leases, changed, pace, events.waiting)
        if plan.sends:
            events.plan(len(plan.sends), plan.bytes)
            self._mover.require_rights()
        self._withdraw(plan, found, withdrawn)
        ranks = plan.by_rank()
        self._send(ranks[SHARDS], found)
        self._send(ranks[INDEXES], found)
        self._publish(ranks[MANIFEST], plan, found, withdrawn)

    def _withdraw(self, plan: SyncPlan, found: Inventory, withdrawn: Collection[str]) -> None:
        """Remove the manifests that would be wrong during this run."""
        if not withdrawn:
            return

        def require(pair: Pair) -> None:
            require_true(self._source, pair.source, found.checksums.get(pair.path))

        replacing = [pair for pair, _ in plan.sends if pair.found is not None]
        for _ in self._each(require, replacing):
            pass
        failed = self._mover.delete(sorted(withdrawn))
        if failed:
            raise DestinationError(
                f"{self._destination.name(failed[0].path)}: names files that would be replaced, "
                f"and cannot be removed before: {failed[0].message}"
            )

    def _send(self, pairs: Sequence[Pair], found: Inventory) -> None:
        def send(pair: Pair) -> Moved | None:
            crc32c = found.checksums.get(pair.path)
            return self._or_failure(pair.path, partial(self._mover.send, pair, crc32c, self._way))

        for pair, moved in self._each(send, pairs):
            if moved is not None:
                self._arrived.add(pair.path)
                self._resumed += moved.resumed

    def _or_failure(self, path: str, do: Callable[[], A]) -> A | None:
        """Do something for one file; an error that concerns only this file stops no other."""
        try:
            return do()
        except (DsprepError, OSError) as error:
            if stops_all(error):
                raise
            self._failures.append(Failure(path, str(error)))
            return None

    def _publish(
        self, pairs: Sequence[Pair], plan: SyncPlan, found: Inventory, withdrawn: Collection[str]
    ) -> None:
        """Publish the manifests whose files are all there."""
        failed = [failure.path for failure in self._failures]
        there = {*found.theirs.files, *self._arrived}

        def publish(pair: Pair) -> Moved:
            self._way.pace.check()
            manifest = found.manifests.get(pair.path)
            files = files_of(pair.path, manifest) if manifest else {}
            why = why_not(pair.path, files, there, failed) or self._why_wrong(files, plan, found)
            if why:
                raise DestinationError(why)
            data = found.documents[pair.path]
            return self._mover.publish(pair, data, pair.path in withdrawn, self._way)

        for pair in pairs:
            if self._or_failure(pair.path, partial(publish, pair)):
                self._arrived.add(pair.path)
            else:
                self._or_failure(pair.path, partial(self._remove_wrong, pair.path, found))

    def _why_wrong(self, files: Mapping[str, FileReceipt], plan: SyncPlan, found: Inventory) -> str:
        """Return why a manifest would name other files than are there; empty if it would not."""
        same = {path for path, by in plan.same if by in BY_CONTENT}
        read = {path for path, by in plan.same if by == "download"}

        def is_right(path: str) -> bool:
            if path in self._arrived:
                return found.checksums[path] == files[path].crc32c
            there = found.theirs.files[path]
            contents = [] if path in read else [self._destination.content(there, None)]
            if path in same:
                contents.append(self._source.content(found.ours.files[path], None))
            return there.size == files[path].bytes and has_crc32c(files[path].crc32c, contents)

        def check(path: str) -> bool | None:
            return self._or_failure(path, partial(is_right, path))

        wrong = sorted(path for path, right in self._each(check, files) if not right)
        if not wrong:
            return ""
        return (
            f"is not published, because other files are at the destination than those it names: "
            f"{format_some(wrong)}; send these too (without --exclude and --size-only)"
        )

    def _remove_wrong(self, path: str, found: Inventory) -> None:
        """Remove a manifest that names other files than this run has put there."""
        try:
            manifests = manifests_in([path], self._destination.read)
        except StoreError as error:
            if error.kind == "missing":
                return
            raise
        named = checksums_in(manifests)
        arrived = self._arrived & named.keys()
        if all(named[name] == found.checksums.get(name) for name in arrived):
            return
        refused = self._mover.delete([path])
        self._failures += refused
        if not refused:
            self._notes.append(
                f"{self._destination.name(path)}: was removed, because this run has replaced files "
                "that it names (another run may have published it meanwhile); give the command "
                "again"
            )

    def _delete(self, paths: Sequence[str], withdrawn: Collection[str], report: SyncReport) -> None:
        """Delete what the source has not, if everything before went well."""
        report.deleted = []
        if not paths:
            return
        if self._failures:
            report.notes.append(nothing_deleted(paths))
            return
        gone = [path for path in paths if path in withdrawn]
        there = [path for path in paths if path not in withdrawn]
        deleted, self._failures = delete_in_order(there, self._mover.delete)
        report.deleted = sorted([*gone, *deleted])

    def _conclude(self, report: SyncReport) -> None:
        """Report what was done, instead of what was planned."""
        report.sent = [send for send in report.sent if send.path in self._arrived]
        report.bytes = sum(send.size for send in report.sent)
        report.resumed = self._resumed
        report.failures = [*report.failures, *self._failures]
        report.state = "synced" if report.sent or report.deleted else "already there"
        if report.failures:
            report.state = "incomplete"

    def _each(self, do: Callable[[A], B], items: Collection[A]) -> Iterator[tuple[A, B]]:
        return in_threads(do, items, self._threads, self._way.pace)


def stops_all(error: Exception) -> bool:
    """Whether all other files would meet this error, too."""
    return isinstance(error, Interrupted) or (isinstance(error, StoreError) and error.kind in FATAL)

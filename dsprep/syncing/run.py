"""One run of ``sync``: make one side hold what the other does, nothing being half visible."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dsprep.errors import DestinationError, DsprepError, Interrupted, SourceError, StoreError
from dsprep.manifests.manifest import Manifest
from dsprep.stores.base import FATAL, Stored
from dsprep.syncing.compare import Verdict, by_content
from dsprep.syncing.contents import all_names_in, checksums_in, manifests_in, names_in
from dsprep.syncing.cost import to_list
from dsprep.syncing.deleting import delete_in_order, limit_deletions, nothing_deleted
from dsprep.syncing.filters import Filters
from dsprep.syncing.movers import Moved, Mover, Way
from dsprep.syncing.plan import Pair, SyncPlan, plan_sync, why_not
from dsprep.syncing.ranks import INDEXES, MANIFEST, SHARDS
from dsprep.syncing.report import Failure, Send, SyncReport
from dsprep.syncing.sides import Listing, Side
from dsprep.syncing.unseen import require_listed, unseen_in
from dsprep.syncing.withdrawing import require_true, settle_manifests

A = TypeVar("A")
B = TypeVar("B")

_GRACE = 8.0
"""Seconds that files under way have to end when all is to stop."""

_BATCHES = 64
"""Among how many turns the files are divided whose contents are looked at."""


@dataclass(frozen=True)
class Wishes:
    """What is asked for.

    Attributes:
        filters: Which files take part.
        size_only: Whether files of equal sizes are taken for equal.
        delete: Whether what the source has not is deleted at the destination.
        max_delete: The most files that may be deleted; None for any number.
        dry_run: Whether nothing is done.
    """

    filters: Filters = Filters()
    size_only: bool = False
    delete: bool = False
    max_delete: int | None = None
    dry_run: bool = False


class Sync:
    """One run, from one side to the other.

    Attributes:
        before_first: Called before anything is written, if anything is to be.
        planned: How many files are to be sent.
        arrived: Paths of the files that were sent.
        same: Paths of those that were there already, and what told so.
        files: All files of the source that take part, by path.
        checksums: The crc32c of files of the source, as manifests tell it, by path.
        linked: Paths of links to directories in the source.
    """

    def __init__(
        self, source: Side, destination: Side, mover: Mover, wishes: Wishes, way: Way, threads: int
    ) -> None:
        """Prepare.

        Args:
            source: What is to be there.
            destination: Where.
            mover: Moves files from the one to the other.
            wishes: What is asked for.
            way: What transfers share.
            threads: How many files are worked on at once.
        """
        self._source, self._destination = source, destination
        self._mover, self._wishes, self._way = mover, wishes, way
        self._threads = ThreadPoolExecutor(threads, "file")
        self.before_first: Callable[[], None] = lambda: None
        self._failures: list[Failure] = []
        self._withdrawn: Sequence[str] = ()
        self._manifests: dict[str, Manifest] = {}
        self.planned = 0
        self.arrived: set[str] = set()
        self.same: Sequence[tuple[str, str]] = ()
        self.files: Mapping[str, Stored] = {}
        self.checksums: Mapping[str, int] = {}
        self.linked: Collection[str] = ()
        self._resumed = 0

    def run(self) -> SyncReport:
        """Do it.

        Raises:
            OptionError: If a manifest is left out, and not what it names.
            SourceError: If the source is not there, or cannot be listed.
            DestinationError: If the destination refuses, or too much would be deleted.
            StoreError: If S3 refuses what every file needs.
            Interrupted: If it is stopped.
        """
        began = time.monotonic()
        try:
            report = self._carry_out()
        except BaseException:
            self.close()
            raise
        report.seconds = time.monotonic() - began
        return report

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _carry_out(self) -> SyncReport:
        ours, theirs = self._threads.map(
            lambda side: side.list(), (self._source, self._destination)
        )
        require_listed(self._source, ours, SourceError)
        require_listed(self._destination, theirs, DestinationError)
        if not (ours.files or ours.left or ours.unseen):
            raise SourceError(f"{self._source.name('')}: {self._source.why_empty()}")
        self._manifests = manifests_in(ours.files, self._source.read)
        self.checksums = checksums_in(self._manifests)
        plan = self._plan(ours, theirs)
        wishes = self._wishes
        self._withdrawn = settle_manifests(plan, ours, theirs, self._destination, wishes.filters)
        unseen = unseen_in(self._source, ours, wishes.filters)
        unseen += unseen_in(self._destination, theirs, wishes.filters)
        place = self._destination.name("")
        notes = limit_deletions(plan, place, bool(unseen), wishes.max_delete)
        self.planned, self.same, self.linked = len(plan.sends), plan.same, ours.linked
        admit = wishes.filters.admit
        self.files = {path: file for path, file in ours.files.items() if admit(path)}
        report = self._report(plan, ours, theirs)
        report.failures, report.notes = unseen, [*report.notes, *notes]
        if wishes.dry_run:
            return report
        if plan.sends:
            self._way.events.plan(len(plan.sends), plan.bytes)
            self.before_first()
        self._withdraw(plan)
        ranks = plan.by_rank()
        self._send(ranks[SHARDS])
        self._send(ranks[INDEXES])
        there = {*theirs.files, *self.arrived}
        self._publish(ranks[MANIFEST], there)
        self._delete(plan.deletions, report)
        report.sent = [each for each in report.sent if each.path in self.arrived]
        report.bytes = sum(each.size for each in report.sent)
        report.resumed = self._resumed
        report.failures = [*report.failures, *self._failures]
        report.state = "synced" if report.sent or report.deleted else "already there"
        if report.failures:
            report.state = "incomplete"
        return report

    def _plan(self, ours: Listing, theirs: Listing) -> SyncPlan:
        wishes = self._wishes
        plan = plan_sync(
            ours.files,
            theirs.files,
            wishes.filters,
            size_only=wishes.size_only,
            delete=wishes.delete,
            named=all_names_in(self._manifests),
            spared={*(each.path for each in ours.left), *theirs.linked},
        )
        at_once = max(1, len(plan.unsettled) // _BATCHES)
        batches = [
            plan.unsettled[start : start + at_once]
            for start in range(0, len(plan.unsettled), at_once)
        ]
        for batch, verdicts in self.each(self._settle, batches):
            for pair, verdict in zip(batch, verdicts, strict=True):
                plan.settle(pair, verdict)
        return plan

    def _settle(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Look at the contents of files; several at once, as small ones take less than a call."""
        return [self._look(pair) for pair in pairs]

    def _look(self, pair: Pair) -> Verdict:
        self._way.pace.check()
        assert pair.found is not None
        return by_content(
            self._source.content(pair.source, self.checksums.get(pair.path)),
            self._destination.content(pair.found, None),
            pair.source.modified > pair.found.modified,
        )

    def _report(self, plan: SyncPlan, ours: Listing, theirs: Listing) -> SyncReport:
        sends = [
            Send(pair.path, pair.source.size, by, self._mover.parts(pair, self._way))
            for pair, by in sorted(plan.sends)
        ]
        return SyncReport(
            source=self._source.name(""),
            destination=self._destination.name(""),
            sent=sends,
            bytes=plan.bytes,
            same=Counter(by for _, by in plan.same),
            deleted=plan.deletions,
            left=ours.left,
            notes=[
                f"{self._destination.name(path)}: removed while what it names is replaced"
                for path in sorted(self._withdrawn)
            ],
            requests=self._mover.requests([each.parts for each in sends])
            + to_list(len(theirs.files)),
        )

    def _withdraw(self, plan: SyncPlan) -> None:
        """Remove the manifests that would be wrong while this run is on."""
        if not self._withdrawn:
            return
        replacing = [pair for pair, _ in plan.sends if pair.found is not None]
        for _ in self.each(self._require_true, replacing):
            pass
        failed = self._mover.delete(sorted(self._withdrawn))
        if failed:
            raise DestinationError(
                f"{self._destination.name(failed[0].path)}: tells of files that are to be "
                f"replaced, and cannot be removed before: {failed[0].message}"
            )

    def _require_true(self, pair: Pair) -> None:
        require_true(self._source, pair.source, self.checksums.get(pair.path))

    def _send(self, pairs: Sequence[Pair]) -> None:
        for pair, moved in self.each(self._send_one, pairs):
            if moved is not None:
                self.arrived.add(pair.path)
                self._resumed += moved.resumed

    def _send_one(self, pair: Pair) -> Moved | None:
        crc32c = self.checksums.get(pair.path)
        return self._or_failure(pair.path, partial(self._mover.send, pair, crc32c, self._way))

    def _or_failure(self, path: str, do: Callable[[], A]) -> A | None:
        """Do something for one file; what only concerns this file does not stop the others."""
        try:
            return do()
        except Interrupted:
            raise
        except StoreError as error:
            if error.kind in FATAL:
                raise
            self._failures.append(Failure(path, str(error)))
        except (DsprepError, OSError) as error:
            self._failures.append(Failure(path, str(error)))
        return None

    def _publish(self, manifests: Sequence[Pair], there: Collection[str]) -> None:
        """Publish the manifests of which all that they name is there."""
        failed = [each.path for each in self._failures]
        ready = []
        for pair in manifests:
            manifest = self._manifests.get(pair.path)
            named = names_in(pair.path, manifest) if manifest else ()
            why = why_not(pair.path, named, there, failed)
            if why:
                self._failures.append(Failure(pair.path, why))
            else:
                ready.append(pair)
        for pair in ready:
            self._way.pace.check()
            before = len(self._failures)
            new = pair.path in self._withdrawn
            self._or_failure(pair.path, partial(self._mover.publish, pair, new))
            if len(self._failures) == before:
                self.arrived.add(pair.path)
                name, size = self._destination.name(pair.path), pair.source.size
                self._way.events.moved(name, size)
                self._way.events.end(name, size, "md5")

    def _delete(self, paths: Sequence[str], report: SyncReport) -> None:
        """Delete what the source has not, if everything before went well."""
        report.deleted = []
        if not paths:
            return
        if self._failures:
            report.notes.append(nothing_deleted(paths))
            return
        gone = [path for path in paths if path in self._withdrawn]
        there = [path for path in paths if path not in self._withdrawn]
        deleted, self._failures = delete_in_order(there, self._mover.delete)
        report.deleted = sorted([*gone, *deleted])

    def each(self, do: Callable[[A], B], items: Sequence[A]) -> Iterator[tuple[A, B]]:
        """Do something with all items, several at once; a stop is seen to at once."""
        futures = [self._threads.submit(do, item) for item in items]
        try:
            for item, future in zip(items, futures, strict=True):
                yield item, future.result()
        except BaseException:
            self._way.pace.stop()
            for future in futures:
                future.cancel()
            wait(futures, _GRACE)  # they end by themselves, and abort what is not to be kept
            raise

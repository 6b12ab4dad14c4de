"""One run of ``sync``: make one side hold what the other does, nothing being half visible."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dsprep.dataset.manifest import UNFINISHED, FileReceipt
from dsprep.errors import DestinationError, DsprepError, Interrupted, StoreError
from dsprep.storage.base import FATAL, Stored
from dsprep.syncing.compare import BY_CONTENT, Verdict, by_content, is_as_told
from dsprep.syncing.contents import all_names_in, checksums_in, manifests_in, told_in
from dsprep.syncing.cost import to_list
from dsprep.syncing.deleting import delete_in_order, limit_deletions, nothing_deleted
from dsprep.syncing.filters import Filters
from dsprep.syncing.leases import require_idle
from dsprep.syncing.movers import Moved, Mover, Way
from dsprep.syncing.plan import Pair, SyncPlan, plan_sync, why_not
from dsprep.syncing.ranks import INDEXES, MANIFEST, SHARDS
from dsprep.syncing.report import Failure, Send, SyncReport, read_back_notes
from dsprep.syncing.seeing import Seen, see
from dsprep.syncing.sides import Side
from dsprep.syncing.threads import each
from dsprep.syncing.withdrawing import require_true, settle_manifests
from dsprep.units import format_some

A = TypeVar("A")
B = TypeVar("B")

_BATCHES = 64
"""Among how many turns the files are divided whose contents are looked at."""


@dataclass(frozen=True)
class Wishes:
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
    checksums: Mapping[str, int]  # the crc32c of files of the source, as manifests tell it, by path
    same: Sequence[tuple[str, str]]  # paths of files that were there already, and what told so
    arrived: Set[str]  # paths of the files that were sent
    linked: Set[str]  # paths of links to directories in the source


class Sync:
    """One run, from one side to the other."""

    def __init__(
        self, source: Side, destination: Side, mover: Mover, wishes: Wishes, way: Way, threads: int
    ) -> None:
        """Prepare."""
        self._source, self._destination = source, destination
        self._mover, self._wishes, self._way = mover, wishes, way
        self._threads = threads
        self._arrived: set[str] = set()
        self._resumed = 0
        self._failures: list[Failure] = []
        self._notes: list[str] = []

    def run(self) -> Outcome:
        """Do it; once."""
        began = time.monotonic()
        wishes, place = self._wishes, self._destination.name("")
        seen = see(self._source, self._destination, wishes.filters, self._way.pace)
        plan = self._plan(seen)
        withdrawn = settle_manifests(
            plan, seen.ours, seen.theirs, self._destination, wishes.filters
        )
        self._notes += limit_deletions(plan, place, bool(seen.unseen), wishes.max_delete)
        report = self._report(plan, seen, withdrawn)
        if not wishes.dry_run:
            self._carry_out(plan, seen, withdrawn)
            self._delete(plan.deletions, withdrawn, report)
            self._conclude(report)
        report.seconds = time.monotonic() - began
        admit, linked = wishes.filters.admit, seen.ours.linked
        files = {path: file for path, file in seen.ours.files.items() if admit(path)}
        return Outcome(report, files, seen.checksums, plan.same, self._arrived, linked)

    def _plan(self, seen: Seen) -> SyncPlan:
        wishes = self._wishes
        plan = plan_sync(
            seen.ours.files,
            seen.theirs.files,
            wishes.filters,
            size_only=wishes.size_only,
            delete=wishes.delete,
            named=all_names_in(seen.manifests),
            spared={*(each.path for each in seen.ours.left), *seen.theirs.linked},
        )
        at_once = max(1, len(plan.unsettled) // _BATCHES)
        batches = [
            plan.unsettled[start : start + at_once]
            for start in range(0, len(plan.unsettled), at_once)
        ]
        for batch, verdicts in self._each(partial(self._settle, seen.checksums), batches):
            for pair, verdict in zip(batch, verdicts, strict=True):
                plan.settle(pair, verdict)
        return plan

    def _settle(self, checksums: Mapping[str, int], pairs: Sequence[Pair]) -> list[Verdict]:
        """Look at the contents of files; several at once, as small ones take less than a call."""
        return [self._look(pair, checksums.get(pair.path)) for pair in pairs]

    def _look(self, pair: Pair, crc32c: int | None) -> Verdict:
        self._way.pace.check()
        assert pair.found is not None
        return by_content(
            self._source.content(pair.source, crc32c),
            self._destination.content(pair.found, None),
            self._mover.is_newer(pair.source, pair.found),
        )

    def _report(self, plan: SyncPlan, seen: Seen, withdrawn: Collection[str]) -> SyncReport:
        sends = [
            Send(pair.path, pair.source.size, by, self._mover.parts(pair, self._way))
            for pair, by in sorted(plan.sends)
        ]
        others = sorted(seen.documents.keys() - seen.manifests.keys())
        self._notes += [
            f"{self._source.name(path)}: is not a manifest that this dsprep reads; it is sent like "
            "any other file"
            for path in others
            if self._wishes.filters.admit(path)
        ]
        self._notes += [
            f"{self._source.name(path)}: takes no part: {UNFINISHED}"
            for path in seen.ours.unfinished
            if self._wishes.filters.may_admit(f"{path}/")
        ]
        right = [path for path, by in plan.same if by == "download"]
        changed = [pair.path for pair, by in plan.sends if by == "download"]
        self._notes += read_back_notes(seen.ours.files, right, changed)
        self._notes += [
            f"{self._destination.name(path)}: removed while what it names is replaced"
            for path in sorted(withdrawn)
        ]
        return SyncReport(
            source=self._source.name(""),
            destination=self._destination.name(""),
            sent=sends,
            bytes=plan.bytes,
            same=Counter(by for _, by in plan.same),
            deleted=plan.deletions,
            left=seen.ours.left,
            failures=seen.unseen,
            notes=self._notes,
            requests=self._mover.requests([each.parts for each in sends])
            + to_list(len(seen.theirs.files)),
        )

    def _carry_out(self, plan: SyncPlan, seen: Seen, withdrawn: Collection[str]) -> None:
        """Send what is to be sent, in the order in which it may be seen."""
        changed = [*(pair.path for pair, _ in plan.sends), *plan.deletions]
        pace, events = self._way.pace, self._way.events
        require_idle(self._destination, seen.theirs.leases, changed, pace, events.waiting)
        if plan.sends:
            events.plan(len(plan.sends), plan.bytes)
            self._mover.require_rights()
        self._withdraw(plan, seen, withdrawn)
        ranks = plan.by_rank()
        self._send(ranks[SHARDS], seen)
        self._send(ranks[INDEXES], seen)
        self._publish(ranks[MANIFEST], plan, seen, withdrawn)

    def _withdraw(self, plan: SyncPlan, seen: Seen, withdrawn: Collection[str]) -> None:
        """Remove the manifests that would be wrong while this run is on."""
        if not withdrawn:
            return

        def require(pair: Pair) -> None:
            require_true(self._source, pair.source, seen.checksums.get(pair.path))

        replacing = [pair for pair, _ in plan.sends if pair.found is not None]
        for _ in self._each(require, replacing):
            pass
        failed = self._mover.delete(sorted(withdrawn))
        if failed:
            raise DestinationError(
                f"{self._destination.name(failed[0].path)}: tells of files that are to be "
                f"replaced, and cannot be removed before: {failed[0].message}"
            )

    def _send(self, pairs: Sequence[Pair], seen: Seen) -> None:
        def send(pair: Pair) -> Moved | None:
            crc32c = seen.checksums.get(pair.path)
            return self._or_failure(pair.path, partial(self._mover.send, pair, crc32c, self._way))

        for pair, moved in self._each(send, pairs):
            if moved is not None:
                self._arrived.add(pair.path)
                self._resumed += moved.resumed

    def _or_failure(self, path: str, do: Callable[[], A]) -> A | None:
        """Do something for one file; what only concerns this file does not stop the others."""
        try:
            return do()
        except (DsprepError, OSError) as error:
            if stops_all(error):
                raise
            self._failures.append(Failure(path, str(error)))
            return None

    def _publish(
        self, manifests: Sequence[Pair], plan: SyncPlan, seen: Seen, withdrawn: Collection[str]
    ) -> None:
        """Publish the manifests of which all that they name is there."""
        failed = [each.path for each in self._failures]
        there = {*seen.theirs.files, *self._arrived}

        def publish(pair: Pair) -> Moved:
            self._way.pace.check()
            manifest = seen.manifests.get(pair.path)
            told = told_in(pair.path, manifest) if manifest else {}
            why = why_not(pair.path, told, there, failed) or self._why_untrue(told, plan, seen)
            if why:
                raise DestinationError(why)
            data = seen.documents[pair.path]
            return self._mover.publish(pair, data, pair.path in withdrawn, self._way)

        for pair in manifests:
            if self._or_failure(pair.path, partial(publish, pair)):
                self._arrived.add(pair.path)
            else:
                self._or_failure(pair.path, partial(self._remove_untrue, pair.path, seen))

    def _why_untrue(self, told: Mapping[str, FileReceipt], plan: SyncPlan, seen: Seen) -> str:
        """Why a manifest would tell of other files than are there; empty if it would not."""
        same = {path for path, by in plan.same if by in BY_CONTENT}
        read = {path for path, by in plan.same if by == "download"}

        def is_true(path: str) -> bool:
            if path in self._arrived:
                return seen.checksums[path] == told[path].crc32c
            there = seen.theirs.files[path]
            contents = [] if path in read else [self._destination.content(there, None)]
            if path in same:
                contents.append(self._source.content(seen.ours.files[path], None))
            return there.size == told[path].bytes and is_as_told(told[path].crc32c, contents)

        def check(path: str) -> bool | None:
            return self._or_failure(path, partial(is_true, path))

        untrue = sorted(path for path, is_so in self._each(check, told) if not is_so)
        if not untrue:
            return ""
        return (
            f"is not published, as what is at the destination is not what it tells of: "
            f"{format_some(untrue)}; send that, too (without --exclude and --size-only)"
        )

    def _remove_untrue(self, path: str, seen: Seen) -> None:
        """Remove a manifest that tells of other files than this run has put in their place."""
        try:
            manifests = manifests_in([path], self._destination.read)
        except StoreError as error:
            if error.kind == "missing":
                return
            raise
        told = checksums_in(manifests)
        if all(told[each] == seen.checksums.get(each) for each in self._arrived & told.keys()):
            return
        refused = self._mover.delete([path])
        self._failures += refused
        if not refused:
            self._notes.append(
                f"{self._destination.name(path)}: was removed, as this run has put other files in "
                "the place of what it names (another run may have published it meanwhile); give "
                "the command again"
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
        report.sent = [each for each in report.sent if each.path in self._arrived]
        report.bytes = sum(each.size for each in report.sent)
        report.resumed = self._resumed
        report.failures = [*report.failures, *self._failures]
        report.state = "synced" if report.sent or report.deleted else "already there"
        if report.failures:
            report.state = "incomplete"

    def _each(self, do: Callable[[A], B], items: Collection[A]) -> Iterator[tuple[A, B]]:
        return each(do, items, self._threads, self._way.pace)


def stops_all(error: Exception) -> bool:
    """Whether all other files would meet this error, too."""
    return isinstance(error, Interrupted) or (isinstance(error, StoreError) and error.kind in FATAL)

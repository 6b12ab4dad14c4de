"""Carry out a plan: hand the shards that are not done to workers, and collect their receipts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from dsprep.errors import DestinationError, RunStopped
from dsprep.findings import MisfitReject, Reject, misfits_error, most_misfits
from dsprep.plan.cut import PlannedShard, cut_pieces
from dsprep.plan.plan import Plan
from dsprep.progress import Progress
from dsprep.rows import Reader
from dsprep.run.shard import JoinTask, ShardTask, join_pieces, write_shard
from dsprep.run.state import RunState
from dsprep.run.target import Written
from dsprep.storage.local import destination_errors, free_bytes
from dsprep.units import format_count, format_size
from dsprep.workers.pool import Pool

_PIECE_BYTES = 16_000_000  # smaller pieces are not worth the joining
_SMALL_FILE = 32_000  # bytes of a file that takes longer to open than to copy twice
_PIECES = 32  # about how many a run of few shards is cut into, so that all workers end together


def unpack(task: tuple[Reader, int, str], report: Callable[[int], None]) -> None:
    """Unpack a file of the source to a path; the copy has this name when it is complete."""
    reader, number, path = task
    with destination_errors(path):
        reader.write_spool(number, path + ".partial")
        os.replace(path + ".partial", path)
        report(os.path.getsize(path))


class Run:
    """One attempt to carry out a plan."""

    def __init__(self, plan: Plan, state: RunState, max_errors: int | None) -> None:
        self._plan, self._state = plan, state
        self._shards, self._pipeline = plan.shards, plan.job.pipeline(plan.catalog)
        self._sizes: list[int] = plan.catalog.table["size"].to_list()
        self._max_errors = max_errors
        self._rejects = self._misfits = 0
        self._max_misfits = most_misfits(len(self._sizes))

    def carry_out(self, pool: Pool, progress: Progress) -> Written:
        """Write everything that is not done yet; returns what all shards hold together."""
        self._progress, done = progress, self._state.done
        self._unpack(pool)
        # What workers write: shards or, if too few of these are left, pieces of them.
        units = {shard.name: [shard] for shard in self._shards}
        if self._writes_pieces(pool.size):
            units = {shard.name: self._pieces(shard) for shard in self._shards}
        missing = []
        rejects = list(self._plan.lost)
        for shard in self._shards:
            for unit in [shard] if shard.name in done else units[shard.name]:
                if unit.name in done:
                    rejects += done[unit.name].rejects
                else:
                    missing.append(unit)
        self._count(rejects)
        rows = sum(unit.stop - unit.start for unit in missing)
        progress.begin("writing", rows, sum(self._sizes))
        check = self._state.hold.check
        try:
            tasks = (self._task(unit, is_whole=unit.name in units) for unit in missing)
            for position, written in pool.run(write_shard, tasks, self._report, check):
                done[missing[position].name] = written
            cut = [shard for shard in self._shards if shard.name not in done]
            joins = (self._join(shard, units[shard.name]) for shard in cut)
            for position, written in pool.run(join_pieces, joins, self._report, check):
                done[cut[position].name] = written
                for unit in units[cut[position].name]:
                    self._state.pieces.path(unit.name).unlink(missing_ok=True)
        finally:
            progress.end()
        return Written.merged([done[each.name] for each in self._shards], self._plan.catalog.root)

    def _unpack(self, pool: Pool) -> None:
        """Unpack what cannot be read at random, as far as no earlier run did."""
        reader = self._pipeline.reader
        sizes = reader.spools()
        if not sizes or (self._plan.in_order and not self._pipeline.copies):
            return
        directory = self._state.pieces.destination.directory / "unpacked"
        with destination_errors(directory):
            directory.mkdir(exist_ok=True)
            there = sum(path.stat().st_size for path in directory.iterdir())
        if (needed := sum(sizes)) - there > (free := free_bytes(directory)):
            raise DestinationError(
                f"{directory}: dsprep has to unpack the source there, which takes "
                f"{format_size(needed)}, but only {format_size(free)} are free on this disk"
            )
        missing = [n for n in range(len(sizes)) if not (directory / str(n)).exists()]
        self._progress.begin("unpacking", 0, sum(sizes[number] for number in missing))
        try:
            tasks = [(reader, number, f"{directory}/{number}") for number in missing]
            for _ in pool.run(unpack, tasks, lambda size: self._progress.advance(0, size)):
                pass
        finally:
            self._progress.end()
        self._pipeline = replace(self._pipeline, reader=reader.spooled(str(directory)))

    def _writes_pieces(self, workers: int) -> bool:
        """Whether shards are cut into pieces, because workers would be idle otherwise."""
        # Joining pieces copies all bytes once more. Decoding an image costs more than that, and so
        # does opening a small file, but not copying a large one.
        plan, layout, shards = self._plan, self._pipeline.layout, len(self._shards)
        pipeline, reader = self._pipeline, plan.catalog.reader
        # Only the worker that writes a shard finds out whether its keys differ.
        keys_known = layout.distinct != "key" or plan.catalog.keys_known
        is_one_stream = layout.compressed or (reader.spools() and plan.in_order)
        if workers == 1 or not layout.concatenative or not keys_known or is_one_stream:
            return False
        if plan.job.destination.remote is not None:  # pieces wait on this disk
            needed = 2 * sum(shard.bytes for shard in plan.shards)
            if needed > free_bytes(self._state.target.work):
                return False
        if pipeline.images.transform is not None or pipeline.images.check == "decode":
            return shards < 4 * workers
        if reader.reads_samples and not pipeline.copies:
            return shards < workers
        return shards == 1 and sum(self._sizes) / len(self._sizes) < _SMALL_FILE

    def _pieces(self, shard: PlannedShard) -> list[PlannedShard]:
        size = max(_PIECE_BYTES, sum(self._sizes) // _PIECES)
        cuts = cut_pieces(self._sizes, shard.start, shard.stop, size)
        if len(cuts) == 1:
            return [shard]
        return [PlannedShard(f"{shard.name}/{low}-{high}", low, high, 0) for low, high in cuts]

    def _task(self, unit: PlannedShard, is_whole: bool) -> ShardTask:
        target = self._state.pieces if "/" in unit.name else self._state.target
        rows = self._plan.rows(unit.start, unit.stop)
        return ShardTask(target, unit.name, self._pipeline, rows, is_whole)

    def _join(self, shard: PlannedShard, units: Sequence[PlannedShard]) -> JoinTask:
        parts = [(unit, self._state.done[unit.name]) for unit in units]
        rejected = {
            unit.start - shard.start + position
            for unit, part in parts
            for position in part.rejected
        }
        return JoinTask(
            self._state.target,
            shard.name,
            self._pipeline.layout,
            self._plan.rows(shard.start, shard.stop).without(rejected),
            self._plan.catalog.root,
            [(str(self._state.pieces.path(unit.name)), part) for unit, part in parts],
        )

    def _report(self, samples: int, size: int, rejects: list[Reject]) -> None:
        self._progress.advance(samples + len(rejects), size)
        self._count(rejects)

    def _count(self, rejects: list[Reject]) -> None:
        self._rejects += len(rejects)
        misfits = [each for each in rejects if isinstance(each, MisfitReject)]
        self._misfits += len(misfits)
        if self._max_errors is None and self._misfits > self._max_misfits and misfits:
            raise misfits_error(self._misfits, misfits[-1])
        if self._max_errors is not None and self._rejects > self._max_errors and rejects:
            last = rejects[-1]
            raise RunStopped(
                f"stopped: {format_count(self._rejects, 'sample')} cannot be packed, the last one "
                f"being {last.path}: {last.reason}; fix or remove these samples, or let more of "
                f"them be rejected (--on-error skip, --max-errors {self._rejects} or more)"
            )

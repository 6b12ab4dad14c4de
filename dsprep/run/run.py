"""Carry out a plan: hand the shards that are not done to workers, and collect their receipts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from dsprep.errors import DestinationError, RunStopped
from dsprep.findings import MisfitReject, Reject, misfits_error, most_misfits
from dsprep.plan.cut import PlannedShard, cut_pieces
from dsprep.plan.plan import Plan
from dsprep.plan.weigh import encoded_sizes
from dsprep.progress import Progress
from dsprep.rows import Reader
from dsprep.run.part import Part
from dsprep.run.receipt import Receipt
from dsprep.run.shard import ShardTask, write_shard
from dsprep.run.state import RunState
from dsprep.storage.local import destination_errors, free_bytes
from dsprep.units import format_count, format_size
from dsprep.workers.executor import Executor, WorkerLost

PIECE_BYTES = 16_000_000  # smaller pieces cost more time to join than they save
_LONG = 1_000_000_000  # bytes of one file from which a run keeps pieces, to go on after a kill
_SMALL_FILE = 32_000  # bytes of a file that takes longer to open than to copy twice
_PIECES = 32  # about how many pieces a run has if shards are few: workers then end together
_SHARED_BYTES = 4_000_000  # pieces of one file take less than a millisecond each to begin and end
_SHARED = 4  # how many of these each worker has, so that all end at about the same time


def unpack(task: tuple[Reader, int, str], report: Callable[[int], None]) -> None:
    """Unpack a file of the source to a path; the copy has this name when it is complete."""
    reader, number, path = task
    partial = f"{path}.{uuid4().hex}"  # there may be several tries at once
    with destination_errors(path):
        reader.write_spool(number, partial)
        os.replace(partial, path)
        report(os.path.getsize(path))


class Run:
    """One attempt to carry out a plan."""

    def __init__(
        self, plan: Plan, state: RunState, max_errors: int | None, part: Part | None = None
    ) -> None:
        self._plan, self._state, self._part = plan, state, part
        self._shards, self._pipeline = plan.shards, plan.job.pipeline(plan.catalog)
        if part is not None:
            self._shards = part.share(plan.shards)
        self._sizes = plan.catalog.table["size"]
        self._bytes = int(self._sizes.cast(int).sum())
        self._max_errors = max_errors
        self._rejects = self._misfits = 0
        self._max_misfits = most_misfits(sum(each.stop - each.start for each in self._shards))
        self._is_whole = part is not None  # whether shards are never written as pieces
        self._places: dict[str, range] = {}  # the bytes of pieces in the files of their shards
        self._wholes: dict[str, str] = {}  # shard of each piece

    def carry_out(self, pool: Executor, progress: Progress) -> Receipt:
        """Write everything that is not done yet; returns what all shards hold together."""
        self._progress, done = progress, self._state.done
        self._is_whole |= pool.is_cluster
        is_shared = self._is_whole or self._plan.job.destination.remote is not None
        if self._plan.job.writes_tree and is_shared:
            self._state.share_units()
        self._unpack(pool)
        # What workers write: shards or, if too few of these are left, pieces of them.
        cuts = self._writes_pieces(pool.size)
        units = {each.name: self._pieces(each) if cuts else [each] for each in self._shards}
        if not cuts:
            units |= self._shared(pool.size)
        missing = []
        rejects = [] if self._part else list(self._plan.lost)
        for shard in self._shards:
            for unit in [shard] if shard.name in done else units[shard.name]:
                if unit.name in done:
                    rejects += done[unit.name].rejects
                else:
                    missing.append(unit)
        # Shards first; then the first piece of each, for few to write to one file at a time.
        places = self._places
        missing.sort(key=lambda unit: places[unit.name].start if unit.name in places else -1)
        self._count(rejects)
        rows = sum(unit.stop - unit.start for unit in missing)
        if self._state.resumed and (self._part is None or len(missing) < len(self._shards)):
            complete = sum(shard.name in done for shard in self._shards)
            kept = f"{complete:,} of {format_count(len(self._shards), 'shard')} complete, "
            kept = "" if self._plan.job.writes_tree else kept
            left = f"{kept}{format_count(rows, 'sample')} left to write"
            progress.note(f"{self._plan.job.destination}: continues; {left}")
        where = f" on {pool}" if pool.is_cluster else ""
        with progress.running(f"writing{where}", rows, self._bytes):
            self._write(pool, missing, {})
            self._write(pool, [each for each in self._shards if each.name not in done], units)
        return Receipt.merged([done[each.name] for each in self._shards], self._plan.catalog.root)

    def outcome(self) -> Receipt:
        """Return what all shards hold together, when parts of the run have written them."""
        outcome = Receipt.merged(
            [self._state.done[each.name] for each in self._shards], self._plan.catalog.root
        )
        self._count([*self._plan.lost, *outcome.rejects])
        return outcome

    def _write(
        self,
        pool: Executor,
        missing: Sequence[PlannedShard],
        pieces: Mapping[str, Sequence[PlannedShard]],
    ) -> None:
        """Write shards or pieces of them, or join the pieces that shards are written as."""
        state, done = self._state, self._state.done
        own_target = state.target.for_machines() if pool.is_cluster else state.target
        shards = {shard.name for shard in self._shards}

        def task(unit: PlannedShard) -> ShardTask:
            pipeline = self._pipeline
            own, place = pieces.get(unit.name, ()), self._places.get(unit.name)
            if any(piece.name in self._places for piece in own):
                place = range(unit.bytes)
            # A unit of a tree is no shard: it is a piece, without trailer and sidecars.
            whole = unit.name in shards and not self._plan.job.writes_tree
            is_shared = whole or place or state.units is not state.pieces
            target = own_target if is_shared else state.pieces
            name = self._wholes.get(unit.name, unit.name)
            shared = str(target.partial(name))
            parts = [
                (shared if place else str(state.pieces.path(piece.name)), there, done[piece.name])
                for piece, there in ((piece, self._places.get(piece.name)) for piece in own)
            ]
            rows, source = self._plan.rows(unit.start, unit.stop), self._plan.catalog.root
            catalog = self._plan.catalog
            if catalog.sides:
                side = catalog.sides[catalog.table["side"][unit.start]]
                pipeline = replace(pipeline, layout=pipeline.layout.with_options(side=side))
            spared = self._plan.spared
            return ShardTask(target, name, pipeline, rows, whole, source, place, parts, spared)

        tasks = map(task, missing)
        where = str(pool)

        def beat() -> None:
            nonlocal where
            state.hold.check()
            self._progress.beat()
            if pool.is_cluster and where != (where := str(pool)):
                self._progress.note(f"{self._plan.job.destination}: now on {where}")

        try:
            for position, written in pool.run(write_shard, tasks, self._report, beat):
                name = missing[position].name
                done[name] = written
                for piece in pieces.get(name, ()):
                    state.pieces.path(piece.name).unlink(missing_ok=True)
        except WorkerLost as error:
            unit = missing[error.position]
            paths = self._plan.rows(unit.start, unit.stop).paths
            raise RunStopped(
                f"{unit.name}, which takes {format_count(len(paths), 'sample')} from {paths[0]} to "
                f"{paths[-1]}: {error}"
            ) from None

    def _unpack(self, pool: Executor) -> None:
        """Unpack what cannot be read at random, as far as no earlier run did."""
        reader = self._pipeline.reader
        if not (sizes := self._plan.unpacked()):
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
        tasks = [(reader, number, f"{directory}/{number}") for number in missing]
        with self._progress.running("unpacking", 0, sum(sizes[number] for number in missing)):
            pool.map(unpack, tasks, lambda size: self._progress.advance(0, size))
        self._pipeline = replace(self._pipeline, reader=reader.spooled(str(directory)))

    def _writes_pieces(self, workers: int) -> bool:
        """Whether shards are cut into pieces, because workers would be idle otherwise."""
        # Joining pieces copies all bytes once more. Decoding an image costs more than that, and so
        # does opening a small file, but not copying a large one.
        plan, pipeline, shards = self._plan, self._pipeline, len(self._shards)
        if workers == 1 or not self._can_be_cut():
            return False
        # pieces stay on this disk until they are joined
        needed = 2 * sum(shard.bytes for shard in self._shards)
        is_remote = plan.job.destination.remote is not None
        if is_remote and needed > free_bytes(self._state.target.destination.scratch):
            return False
        if pipeline.images.changes or pipeline.images.check == "decode":
            return shards < 4 * workers
        if not (pipeline.reads_images or pipeline.copies):
            return shards < workers
        is_small = self._bytes / len(self._sizes) < _SMALL_FILE
        return shards == 1 and is_small and self._bytes > _LONG

    def _can_be_cut(self) -> bool:
        """Whether several workers can write one shard."""
        layout, reader = self._pipeline.layout, self._plan.catalog.reader
        # Only the worker that writes a shard finds out whether its keys differ.
        keys_known = layout.distinct != "key" or self._plan.catalog.keys_known
        is_one_stream = layout.compressed or (reader.spools() and self._plan.in_order)
        is_one_stream = is_one_stream or bool(layout.head)
        return layout.concatenative and keys_known and not (is_one_stream or self._is_whole)

    def _shared(self, workers: int) -> dict[str, list[PlannedShard]]:
        """Cut the last shards into pieces of one file each, if some workers would have none."""
        job, catalog, shards = self._plan.job, self._plan.catalog, self._shards
        known = not self._plan.estimated and (job.copies or catalog.tells_all)
        if not known or not self._can_be_cut():
            return {}
        last, found = shards[len(shards) - len(shards) % workers :], {}
        size = sum(shard.bytes for shard in last) // (_SHARED * workers)
        for shard in last:
            sizes = self._sizes[shard.start : shard.stop].cast(int)
            if not job.copies:
                rows = catalog.slice(shard.start, len(sizes))
                sizes = encoded_sizes(job, rows, sizes)
            cuts = cut_pieces(sizes, 0, len(sizes), max(_SHARED_BYTES, size))
            ends = [0, *sizes.cum_sum()]
            pieces = []
            for low, high in cuts if len(cuts) > 1 else ():
                name = f"{os.path.basename(shard.name)}-at-{ends[low]}"
                pieces.append(PlannedShard(name, shard.start + low, shard.start + high, 0))
                self._places[name] = range(ends[low], ends[high])
                self._wholes[name] = shard.name
            if pieces:
                found[shard.name] = pieces
        return found

    def _pieces(self, shard: PlannedShard) -> list[PlannedShard]:
        size = max(PIECE_BYTES, self._bytes // _PIECES)
        cuts = cut_pieces(self._sizes, shard.start, shard.stop, size)
        if len(cuts) == 1:
            return [shard]
        name = os.path.basename(shard.name)
        return [PlannedShard(f"{name}-{low}-{high}", low, high, 0) for low, high in cuts]

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

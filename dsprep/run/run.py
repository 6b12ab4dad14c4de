"""Carrying a plan out: hand out the work, publish what is whole, go on after a kill."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dsprep.dataset.manifest import FileReceipt, ShardReceipt
from dsprep.errors import RunStopped
from dsprep.findings import MisfitReject, Reject
from dsprep.plan.cuts import PlannedShard, cut_pieces
from dsprep.plan.plan import Plan
from dsprep.plan.recipe import Recipe
from dsprep.progress import Progress
from dsprep.run.shard import (
    JoinTask,
    PieceTask,
    Written,
    join_pieces,
    rows_of_listed,
    two_names,
    write_piece,
)
from dsprep.run.spool import SpoolTask, write_spool
from dsprep.run.state import RunState
from dsprep.storage.local import destination_errors, publish
from dsprep.units import format_count
from dsprep.workers.pool import Pool

_PIECE_BYTES = 16_000_000
"""Smaller pieces are not worth the joining; see :func:`_needs_pieces` for when there are any."""

_SMALL_FILE = 32_000
"""Bytes of a file that takes longer to open than to copy twice."""

_MOST_MISFITS = 1000
"""Samples that may not fit the schema, or 1 % of all, before a run stops."""

_PIECES = 32
"""Into about how many pieces a run of few shards is cut, so that all workers end together."""


@dataclass
class Outcome:
    """What a run wrote, over all its attempts."""

    # receipts, in the order of the plan; a shard is empty if all of its samples were rejected
    shards: list[ShardReceipt]
    rejects: list[Reject]  # in the order of the catalog, shard by shard
    lost_frames: int  # how many images are the first frame of an animation
    class_names: dict[int, str]  # the names of classes that samples themselves tell, by number
    unlabeled: int  # how many samples lack the label that others have


@dataclass
class _Unit:
    """A shard, or a piece of one, to be written by one worker; a piece's bytes are not known."""

    name: str
    start: int
    stop: int
    whole: bool
    bytes: int


class Run:
    """One attempt to carry out a plan."""

    def __init__(self, plan: Plan, state: RunState, max_errors: int | None) -> None:
        """Prepare."""
        self._plan, self._state = plan, state
        self._shards = plan.shards
        self._sizes: list[int] = plan.catalog.table["size"].to_list()
        self._recipe = plan.recipe
        whole = sum(shard.bytes for shard in plan.shards)
        self._may_cut = _may_cut(plan) and state.has_room_for(2 * whole)  # pieces, and the joined
        self._max_errors = max_errors
        self._rejects = self._misfits = 0
        self._max_misfits = min(_MOST_MISFITS, max(1, len(self._sizes) // 100))

    def carry_out(self, pool: Pool, progress: Progress) -> Outcome:
        """Write all that is not done yet."""
        self._progress = progress
        self._spool(pool)
        units = {shard.name: self._units(shard, pool.size) for shard in self._shards}
        done = self._state.done
        rejects = list(self._plan.lost)
        missing = []
        for shard in self._shards:
            if shard.name in done:
                rejects += done[shard.name].rejects
                continue
            for unit in units[shard.name]:
                if unit.name in done:
                    rejects += done[unit.name].rejects
                else:
                    missing.append(unit)
        self._count(rejects)
        rows = sum(unit.stop - unit.start for unit in missing)
        progress.begin("writing", rows, sum(self._sizes))

        def may_begin(position: int) -> bool:
            unit = missing[position]
            return self._state.may_begin(unit.name, unit.bytes)

        try:
            tasks = map(self._task, missing)
            for position, written in pool.run(write_piece, tasks, self._report, may_begin):
                self._finish(missing[position].name, written)
            joins = [
                shard
                for shard in self._shards
                if len(units[shard.name]) > 1 and shard.name not in self._state.done
            ]
            joined = (self._join(shard, units[shard.name]) for shard in joins)
            for position, written in pool.run(join_pieces, joined, self._report):
                name = joins[position].name
                parts = [self._state.done[unit.name] for unit in units[name]]
                written.rejects = [reject for part in parts for reject in part.rejects]
                written.lost_frames = sum(part.lost_frames for part in parts)
                written.unlabeled = sum(part.unlabeled for part in parts)
                written.class_names = dict(_class_names(parts, self._plan.catalog.root))
                self._finish(name, written)
                for unit in units[name]:
                    self._state.path_of(unit.name).unlink(missing_ok=True)
            self._state.settle()
        finally:
            progress.end()
        return Outcome(
            [shard_receipt(shard.name, done[shard.name]) for shard in self._shards],
            [reject for shard in self._shards for reject in done[shard.name].rejects],
            sum(done[shard.name].lost_frames for shard in self._shards),
            {
                int(number): name
                for number, name in _class_names(
                    [done[shard.name] for shard in self._shards], self._plan.catalog.root
                )
            },
            sum(done[shard.name].unlabeled for shard in self._shards),
        )

    def _spool(self, pool: Pool) -> None:
        """Lay out anew what cannot be read at random, as far as no earlier run did."""
        reader = self._recipe.reader
        sizes = reader.spools()
        if not sizes or (self._plan.in_order and not self._recipe.copies):
            return
        directory = self._state.make_spool_directory(sum(sizes))
        missing = [n for n in range(len(sizes)) if not (directory / str(n)).exists()]
        self._progress.begin("unpacking", 0, sum(sizes[number] for number in missing))
        try:
            tasks = [SpoolTask(reader, number, str(directory)) for number in missing]
            for _ in pool.run(write_spool, tasks, lambda size: self._progress.advance(0, size)):
                pass
        finally:
            self._progress.end()
        self._recipe = replace(self._recipe, reader=reader.spooled(str(directory)))

    def _units(self, shard: PlannedShard, workers: int) -> list[_Unit]:
        whole = _Unit(shard.name, shard.start, shard.stop, True, shard.bytes)
        mean_size = sum(self._sizes) / len(self._sizes)
        if not self._may_cut or not _needs_pieces(
            len(self._shards), workers, self._recipe, mean_size
        ):
            return [whole]
        piece = max(_PIECE_BYTES, sum(self._sizes) // _PIECES)
        cuts = cut_pieces(self._sizes, shard.start, shard.stop, piece)
        if len(cuts) == 1:
            return [whole]
        return [_Unit(f"{shard.name}/{low}-{high}", low, high, False, 0) for low, high in cuts]

    def _task(self, unit: _Unit) -> PieceTask:
        path = self._state.partial / unit.name.replace("/", "-")
        return PieceTask(
            str(path), self._recipe, self._plan.rows(unit.start, unit.stop), unit.whole
        )

    def _join(self, shard: PlannedShard, units: Sequence[_Unit]) -> JoinTask:
        parts = [(unit, self._state.done[unit.name]) for unit in units]
        rejected = {
            unit.start - shard.start + position
            for unit, part in parts
            for position in part.rejected
        }
        return JoinTask(
            str(self._state.partial / shard.name),
            self._recipe.layout,
            [(str(self._state.path_of(unit.name)), part.crc32c) for unit, part in parts],
            rows_of_listed([each for _, part in parts for each in part.listed])
            if any(part.listed for _, part in parts)
            else self._plan.rows(shard.start, shard.stop).without(rejected),
            [size for _, part in parts for size in part.sizes],
        )

    def _finish(self, name: str, written: Written) -> None:
        """Give a file, after its sidecars, its final name, having noted that."""
        self._state.record(name, written)
        final = self._state.path_of(name)
        partial = self._state.partial / name.replace("/", "-")
        if "/" in name:  # a piece need not outlive a power cut: joining compares its checksum
            with destination_errors(final):
                if final.is_dir():  # what is left of one that could not be trusted
                    shutil.rmtree(final)
                partial.replace(final)
            return
        # The workers have their next shards already, so they do not wait for the disk.
        for suffix in written.sidecars:
            publish(Path(f"{partial}{suffix}"), final.with_suffix(suffix))
        publish(partial, final)
        self._state.finished(name)

    def _report(self, samples: int, size: int, rejects: list[Reject]) -> None:
        self._state.check()
        self._progress.advance(samples + len(rejects), size)
        self._count(rejects)

    def _count(self, rejects: list[Reject]) -> None:
        self._rejects += len(rejects)
        self._misfits += sum(isinstance(each, MisfitReject) for each in rejects)
        if self._max_errors is None and self._misfits > self._max_misfits:
            misfit = next(each for each in reversed(rejects) if isinstance(each, MisfitReject))
            raise RunStopped(
                f"stopped: {format_count(self._misfits, 'sample')} do not fit the schema, the last "
                f"one being {misfit.path}: {misfit.reason}; to reject more of them, give "
                "--max-errors N"
            )
        if self._max_errors is not None and self._rejects > self._max_errors and rejects:
            last = rejects[-1]
            raise RunStopped(
                f"stopped: {format_count(self._rejects, 'sample')} cannot be packed, the last one "
                f"being {last.path}: {last.reason}; mend or remove such samples, or let more of "
                f"them be rejected (--on-error skip, --max-errors {self._rejects} or more)"
            )


def _class_names(parts: Sequence[Written], source: str) -> Iterator[tuple[str, str]]:
    """Put together the names of classes that several parts tell."""
    known: dict[str, str] = {}
    for part in parts:
        for number, name in part.class_names.items():
            if known.setdefault(number, name) != name:
                raise two_names(source, number, known[number], name)
    yield from known.items()


def _may_cut(plan: Plan) -> bool:
    """Whether several workers may write one shard.

    Not where samples come front to back out of one compressed file, nor where nobody knows yet
    whether their keys differ, which the worker that writes a shard finds out.
    """
    layout, reader = plan.packing.layout, plan.catalog.reader
    if not layout.concatenative or (layout.equal_keys == "merged" and not plan.catalog.keys_known):
        return False
    return not (reader.spools() and plan.in_order)


def _needs_pieces(shards: int, workers: int, recipe: Recipe, mean_size: float) -> bool:
    """Whether workers would be idle if each shard were written by one, and joining is worth it.

    Joining copies all bytes once more. Decoding an image costs more than that, and so does opening
    a small file, but not copying a large one. A compressed shard is one stream, never joined.
    """
    if recipe.layout.compressed or workers == 1:
        return False
    if recipe.transform is not None or recipe.check == "decode":
        return shards < 4 * workers
    if recipe.reader.whole and not recipe.copies:
        return shards < workers
    return shards == 1 and mean_size < _SMALL_FILE


def shard_receipt(name: str, written: Written) -> ShardReceipt:
    """What the manifest says of a shard."""
    sidecars = tuple(
        FileReceipt(Path(name).with_suffix(suffix).name, size, crc)
        for suffix, (size, crc) in written.sidecars.items()
    )
    return ShardReceipt(name, written.bytes, written.crc32c, written.samples, sidecars)

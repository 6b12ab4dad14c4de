"""How long a run will take, told by writing some of its samples to a temporary directory.

A trial does what the run will do: as many workers unpack and read the source, make samples, and
write them to a disk. The number of samples grows until they take long enough to be measured. The
difference between two trials is the time of their samples, without that of starting.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from dsprep.errors import DestinationError
from dsprep.pipeline import Pipeline
from dsprep.plan.plan import Plan
from dsprep.progress import Progress
from dsprep.run.run import PIECE_BYTES, unpack
from dsprep.run.shard import try_shard
from dsprep.storage.local import destination_errors, free_bytes, stage_for, try_directory
from dsprep.workers.executor import Executor

_SAMPLES = 16  # that each worker writes after its first one, which takes the time of starting
_GROWTH = 4  # how many times as many it writes next
_ENOUGH = 0.5  # seconds that can be measured
_NOISE = 0.5  # by how much of these two equal trials may differ
_MOST_BYTES = 1 << 28  # of the samples of one trial
_MOST_UNPACKED = 1 << 29  # bytes of a source that are unpacked to see how long it takes


def seconds_to_write(plan: Plan, pool: Executor, progress: Progress) -> float | None:
    """Return how long it will take to write a plan; None if no trial can tell."""
    reader, unpacked = plan.catalog.reader, plan.unpacked()
    # A trial says nothing of a network, nor of a source that takes long to unpack.
    untold = pool.is_cluster or plan.job.destination.remote is not None
    if untold or sum(unpacked) > _MOST_UNPACKED or (reader.spools() and not unpacked):
        return None
    try:
        with try_directory(stage_for("trials")) as directory:
            with destination_errors(directory):
                if free_bytes(directory) < 2 * (_MOST_BYTES + sum(unpacked)):
                    return None
            pipeline = plan.job.pipeline(plan.catalog)
            with progress.running("estimating the time", 0):
                began = time.monotonic()
                tasks = [(pipeline.reader, at, f"{directory}/{at}") for at in range(len(unpacked))]
                pool.map(unpack, tasks, _ignore)
                taken = time.monotonic() - began
                if unpacked:
                    spooled = pipeline.reader.spooled(str(directory))
                    pipeline = replace(pipeline, reader=spooled)
                of_samples = _seconds_of_samples(plan, pipeline, pool, directory)
                return None if of_samples is None else taken + of_samples
    except DestinationError:  # there is no room for temporary files
        return None


def _seconds_of_samples(
    plan: Plan, pipeline: Pipeline, pool: Executor, directory: Path
) -> float | None:
    """Return how long workers take for all samples, by trials of more and more of them.

    What counts is by how much a trial is longer than the one before, as workers may take long to
    start. The last trial is made twice, because a machine may stall in one of them. None if these
    two do not agree.
    """
    count, mean = len(plan.catalog), _bytes(plan) / len(plan.catalog)
    share, trials = 1, list[tuple[int, float]]()
    while True:
        tried, taken = _try_samples(plan, pipeline, pool, directory, share)
        trials.append((tried, taken))
        if tried == count:
            break
        is_largest = mean * tried * _GROWTH > _MOST_BYTES
        before = trials[-2][1] if len(trials) > 1 else taken
        if len(trials) > 1 and (taken - before >= _ENOUGH or is_largest):
            _, again = _try_samples(plan, pipeline, pool, directory, share)
            if abs(taken - again) > _NOISE * (min(taken, again) - before):
                return None
            trials[-1] = tried, min(taken, again)
            break
        share = max(_SAMPLES, share * _GROWTH)
    # In the first trial workers start, as they do in the run.
    (few, starting), (less, shorter), (more, longer) = trials[0], trials[-2:][0], trials[-1]
    each = max(longer - shorter, 0.0) / max(more - less, 1)
    return starting + each * (count - few)


def _try_samples(
    plan: Plan, pipeline: Pipeline, pool: Executor, directory: Path, share: int
) -> tuple[int, float]:
    """Let each worker write up to ``share`` samples; return their number and the seconds."""
    count, workers = len(plan.catalog), _workers(plan, pool)
    tasks = []
    for at in range(workers):
        start, end = at * count // workers, (at + 1) * count // workers
        rows = plan.rows(start, min(start + share, end))
        tasks.append((pipeline, rows, f"{directory}/{uuid4().hex}"))
    began = time.monotonic()
    pool.map(try_shard, tasks, _ignore)
    return sum(len(rows.ids) for _, rows, _ in tasks), time.monotonic() - began


def _workers(plan: Plan, pool: Executor) -> int:
    """Return how many workers have something to do."""
    layout, units = plan.job.layout, len(plan.shards)
    if layout.concatenative and not layout.compressed:  # workers may share a shard
        units = max(units, _bytes(plan) // PIECE_BYTES)
    return max(1, min(pool.size, units, len(plan.catalog)))


def _bytes(plan: Plan) -> int:
    return int(plan.catalog.table["size"].cast(int).sum())


def _ignore(*progress: object) -> None:
    """Report nothing: the samples of a trial are written again."""

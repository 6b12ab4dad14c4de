"""The figures of runs, and what limits them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, pvariance
from typing import Any

from dsprep.benching.loops import LoopRun, Step
from dsprep.printable import json_values
from dsprep.tuples import NamedTuple

# Shares from which on, or up to which, something is clear; between them, nothing is said.
_COMPUTES = 0.9  # share of the time of steps that the training step itself takes
_BUSY, _IDLE = 0.85, 0.5  # shares of the cores that the loop could use
_FREE = 0.3  # idle cores without which waiting may be waiting for the processor
_SCALES, _STAYS = 0.75, 0.1  # shares of the gain that more workers could bring


class Figures(NamedTuple):
    """What was measured of one run, or the medians of several. Times are in seconds."""

    images_per_second: float
    bytes_per_second: float | None  # None if the reader does not tell bytes
    step_mean: float
    step_variance: float
    step_p50: float
    step_p95: float
    step_p99: float
    first_batch: float  # from the start of the loop to its first batch
    cpu_per_1000: float  # processor time for a thousand images
    memory: float  # peak of all processes, in bytes
    utilization: float  # share of the time in which the training step took place

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "images_per_second": self.images_per_second,
                "bytes_per_second": self.bytes_per_second,
                "step_mean": self.step_mean,
                "step_variance": self.step_variance,
                "step_p50": self.step_p50,
                "step_p95": self.step_p95,
                "step_p99": self.step_p99,
                "first_batch": self.first_batch,
                "cpu_per_1000": self.cpu_per_1000,
                "memory": self.memory,
                "utilization": self.utilization,
            }
        )


def figures_of(run: LoopRun, warmup: int, compute: float) -> Figures:
    """Return the figures of a run whose training step takes ``compute`` seconds."""
    steps = measured(run.steps, warmup)
    times = [step.seconds for step in steps]
    total, images = sum(times), sum(step.images for step in steps)
    sizes = [step.size for step in steps if step.size is not None]
    ordered = sorted(times)
    every_image = sum(step.images for step in run.steps)
    return Figures(
        images_per_second=images / total,
        bytes_per_second=sum(sizes) / total if len(sizes) == len(steps) else None,
        step_mean=fmean(times),
        step_variance=pvariance(times),
        step_p50=_percentile(ordered, 0.5),
        step_p95=_percentile(ordered, 0.95),
        step_p99=_percentile(ordered, 0.99),
        first_batch=max(run.steps[0].seconds - compute, 0.0),
        cpu_per_1000=1000 * run.cpu / every_image,
        memory=float(run.memory),
        utilization=min(compute * len(steps) / total, 1.0),
    )


def measured(steps: Sequence[Step], warmup: int) -> Sequence[Step]:
    """Return the steps that count: neither the first nor the warmup, but at least one."""
    return steps[min(1 + warmup, len(steps) - 1) :]


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def windows_of(steps: Sequence[Step], every: int) -> list[tuple[float, float]]:
    """Return mean and variance of the times of each ``every`` steps; a rest is a window, too."""
    times = [step.seconds for step in steps]
    parts = (times[at : at + every] for at in range(0, len(times), every))
    return [(fmean(part), pvariance(part)) for part in parts]


def medians(rounds: Sequence[Figures]) -> Figures:
    """Return the median of each figure."""
    columns = zip(*rounds, strict=True)
    found: list[Any] = [None if None in column else median(column) for column in columns]
    return Figures(*found)


class LimitEvidence(NamedTuple):
    """What tells the limit of a combination."""

    speed: float  # images in a second
    workers: int
    cores: int  # cores that this machine has
    busy: float  # how many cores were busy, on average
    utilization: float  # share of the time in which the training step took place
    idle: float  # how many cores of the machine had nothing to do, on average


def limit_of(one: LimitEvidence, others: Sequence[LimitEvidence] = ()) -> str:
    """Return what limits a combination.

    Args:
        one: The combination.
        others: The same with other numbers of workers.

    Returns:
        ``compute``: the training step itself. ``processor``: reading and decoding. ``latency``:
        waiting, which more workers share. ``bandwidth``: waiting, which more workers do not
        shorten. ``storage``: waiting, of either kind. ``undecided``: no figure is clear.
    """
    if one.utilization >= _COMPUTES:
        return "compute"
    if _share_busy(one) >= _BUSY:
        return "processor"
    if not _waits(one):
        return "undecided"
    for other in filter(_waits, others):
        few, many = sorted((one, other), key=lambda each: each.workers)
        wanted = max(many.workers, 1) / max(few.workers, 1)
        if wanted >= 1.5:
            gained = (many.speed / few.speed - 1) / (wanted - 1)
            if gained >= _SCALES or gained <= _STAYS:
                return "latency" if gained >= _SCALES else "bandwidth"
    return "undecided" if others else "storage"


def _share_busy(one: LimitEvidence) -> float:
    return one.busy / min(max(one.workers, 1), one.cores)


def _waits(one: LimitEvidence) -> bool:
    """Return whether a combination waits, and neither computes nor is kept from a core."""
    return max(_share_busy(one), one.utilization) <= _IDLE and one.idle >= _FREE


_LIMITS = {
    "compute": "the training step itself limits it",
    "processor": "the processor limits it",
    "latency": "waiting for each read limits it, so that more workers help",
    "bandwidth": "the bandwidth of the storage limits it",
    "storage": "waiting for the storage limits it",
    "undecided": "no single limit is clear",
}


def sentence(speeds: Sequence[tuple[str, float, str]]) -> str:
    """Say which combination is the fastest, and what limits it and the others.

    Each comes with its name, its images in a second, and its limit.
    """
    if not speeds:
        return "Nothing was measured."
    ordered = sorted(speeds, key=lambda each: -each[1])
    (name, speed, limit), *rest = ordered
    text = f"{name}: {speed:,.0f} images/s, the most; {_LIMITS[limit]}."
    for kind, words in _LIMITS.items():
        same = [name for name, _, limit in rest if limit == kind]
        if same:
            them = words.replace("limits it", "limits them") if len(same) > 1 else words
            text += f" {'; '.join(same)}: {them}."
    return text


def epochs_to_beat(copying: float, size: int, local: float, streamed: float) -> int | None:
    """Return after how many epochs copying first is faster than streaming; None if never.

    The copy takes ``copying`` seconds. An epoch has ``size`` images. ``local`` and
    ``streamed`` are images a second, from the copy and from S3.
    """
    saved = size / streamed - size / local
    return math.ceil(copying / saved) if saved > 0 else None

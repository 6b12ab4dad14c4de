"""What was measured: plain values, which are kept as JSON and reported as a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .measure import Run


@dataclass
class Result:
    """What was measured of one contender in one contest.

    Attributes:
        contest: The contest's name.
        place: Where the output went: `disk` or `memory`; or `S3`.
        contender: The contender's name.
        runs: The timed runs.
        memory: Peak of all its processes together, in bytes.
        worker: Peak of its largest process but the first, in bytes.
        written: Bytes of all output files.
        psnr: Fidelity of the images, in decibels.
        sent: Bytes that a server of S3 stored.
        left: Unfinished uploads that stayed there, and the bytes that it keeps for them.
        error: Why there is nothing to tell.
    """

    contest: str
    place: str
    contender: str
    runs: list[Run] = field(default_factory=list)
    memory: int = 0
    worker: int = 0
    written: int = 0
    psnr: float | None = None
    sent: int = 0
    left: tuple[int, int] = (0, 0)
    error: str | None = None


@dataclass(frozen=True)
class Figures:
    """All of one benchmark.

    Attributes:
        machine: What it was measured on.
        data: The number of files, and of bytes, of each data set.
        runs: How many runs a median is of.
        results: What was measured.
    """

    machine: dict[str, str]
    data: dict[str, tuple[int, int]]
    runs: int
    results: list[Result]


def save(figures: Figures, path: Path) -> None:
    """Write figures as JSON."""
    path.write_text(json.dumps(asdict(figures), indent=1) + "\n")


def load(paths: Sequence[Path]) -> Figures:
    """Read what `save` wrote; what a later file measured takes the place of what was before."""
    first, *others = map(_load, paths)
    for each in others:
        held = {result.contest for result in each.results}
        first = Figures(
            first.machine | each.machine,
            first.data | each.data,
            first.runs,
            [result for result in first.results if result.contest not in held] + each.results,
        )
    return first


def _load(path: Path) -> Figures:
    read = json.loads(path.read_text())
    results = [
        Result(**{**result, "runs": [Run(**run) for run in result["runs"]]})
        for result in read["results"]
    ]
    data = {name: (files, size) for name, (files, size) in read["data"].items()}
    return Figures(read["machine"], data, read["runs"], results)

"""What was measured: plain values, which are kept as JSON and reported as a page and a chart."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
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
        told: How many seconds `--dry-run` says that it will take; None if it was not asked, or does
            not tell.
        sent: Bytes that a server of S3 stored.
        left: Unfinished uploads that stayed there, and the bytes that it keeps for them.
        error: Why there is nothing to report.
        commit: The version of dsprep.
    """

    contest: str
    place: str
    contender: str
    runs: list[Run] = field(default_factory=list)
    memory: int = 0
    worker: int = 0
    written: int = 0
    psnr: float | None = None
    told: float | None = None
    sent: int = 0
    left: tuple[int, int] = (0, 0)
    error: str | None = None
    commit: str = ""

    @property
    def spent(self) -> float:
        """Seconds of all timed runs."""
        return sum(run.wall for run in self.runs)


@dataclass(frozen=True)
class Figures:
    """All results of one benchmark.

    Attributes:
        machine: What it was measured on.
        data: The number of files, and of bytes, of each data set.
        runs: The largest number of timed runs of a contender.
        results: What was measured.
    """

    machine: dict[str, str]
    data: dict[str, tuple[int, int]]
    runs: int
    results: list[Result]


# Values that need no place in the file.
_EMPTY: tuple[object, ...] = (None, 0, "", (0, 0), [])


def save(figures: Figures, path: Path) -> None:
    """Write figures as JSON: a line for each result, without what has its default value."""
    head = json.dumps({**asdict(figures), "results": None}, ensure_ascii=False)
    lines = (
        json.dumps({name: value for name, value in asdict(result).items() if value not in _EMPTY})
        for result in figures.results
    )
    path.write_text(head.replace("null}", "[\n") + ",\n".join(lines) + "\n]}\n", "utf-8")


def load(path: Path) -> Figures:
    """Read what `save` wrote."""
    read = json.loads(path.read_text("utf-8"))
    results = [
        Result(**{**result, "runs": [Run(**run) for run in result.get("runs", ())]})
        for result in read["results"]
    ]
    data = {name: (files, size) for name, (files, size) in read["data"].items()}
    return Figures(read["machine"], data, read["runs"], results)


def merge(before: Figures, new: Figures) -> Figures:
    """Replace the results of the contests that were measured again on the same machine."""
    held = {result.contest for result in new.results}
    kept = [result for result in before.results if result.contest not in held]
    results = sorted(kept + new.results, key=lambda result: result.contest)
    return replace(new, data=before.data | new.data, results=results)

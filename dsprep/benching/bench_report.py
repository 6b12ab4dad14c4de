"""What ``bench`` measured: the report, its table, its page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dsprep.benching.figures import Figures
from dsprep.frozen import Frozen
from dsprep.pages.charts import Bar, Line, bars, lines
from dsprep.pages.page import drawing, render
from dsprep.printable import json_values
from dsprep.storage.local import write_whole
from dsprep.units import format_size


class BenchRow(Frozen):
    """What was measured of one combination. Times are in seconds."""

    data: str  # the data set, as it was given
    format: str
    reader: str  # name of the library; its version follows after the first run
    access: str  # the way to the data, or the label of what is mounted
    workers: int
    name: str  # the combination, in words
    cache: str = "–"  # what the page cache was: `warm`, `cold`, `warm in part`
    figures: Figures | None = None  # medians of all rounds; None if it failed, or did not run
    rounds: int = 0  # how many rounds there were
    busy: float = 0.0  # how many cores it kept busy, on average
    idle: float = 0.0  # how many cores of the machine had nothing to do, on average
    noise: float = 0.0  # the range of their speeds, as a share of the median
    cached_share: float | None = None  # the speed as a share of the speed with one batch repeated
    requests: int | None = None  # requests to S3 in the last round; None if not counted
    fetched: int | None = None  # bytes of their answers
    copy_seconds: float | None = None  # how long the copy took, for `download`
    limit: str = "undecided"  # what limits it
    windows: Sequence[tuple[float, float]] = ()  # mean and variance of the times of steps
    error: str = ""  # why it failed

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "data": self.data,
                "format": self.format,
                "reader": self.reader,
                "access": self.access,
                "workers": self.workers,
                "name": self.name,
                "cache": self.cache,
                "figures": self.figures,
                "rounds": self.rounds,
                "busy": self.busy,
                "idle": self.idle,
                "noise": self.noise,
                "cached_share": self.cached_share,
                "requests": self.requests,
                "fetched": self.fetched,
                "copy_seconds": self.copy_seconds,
                "limit": self.limit,
                "windows": self.windows,
                "error": self.error,
            }
        )


class BenchReport(Frozen):
    """The report of ``bench``: the measured combinations, and which is the fastest."""

    state: str  # ``measured``, ``planned`` or ``interrupted``
    rows: Sequence[BenchRow]
    sentence: str  # which combination is the fastest, and what limits it and the others
    notes: Sequence[str]
    work: str
    batch: int
    cores: int  # cores that this process may use
    memory: int  # bytes of memory that this machine has
    seconds: float  # how long it took

    @property
    def setting(self) -> str:
        """The training step, the batch size and the machine, in words."""
        where = f"{self.cores} cores, {format_size(self.memory)} of memory"
        return f"{self.work}, batches of {self.batch}, {where}"

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "state": self.state,
                "rows": self.rows,
                "sentence": self.sentence,
                "notes": self.notes,
                "work": self.work,
                "batch": self.batch,
                "cores": self.cores,
                "memory": self.memory,
                "seconds": self.seconds,
            }
        )


HEAD = (
    *("data", "reader", "by", "workers", "images/s", "MB/s", "mean ms", "var ms2", "p50", "p95"),
    *("p99", "first s", "CPU s/1000", "memory", "requests", "fetched", "cached", "noise", "cache"),
    "limit",
)


def cells_of(row: BenchRow) -> list[str]:
    """Return the cells of a row of the table."""
    start = [row.data, row.reader, row.access, str(row.workers)]
    found = row.figures
    if found is None:
        return [*start, row.error or "not run", *[""] * (len(HEAD) - 5)]

    def optional(value: float | None, form: str) -> str:
        return "–" if value is None else form.format(value)

    mb = None if found.bytes_per_second is None else found.bytes_per_second / 1e6
    times = (found.step_mean, found.step_p50, found.step_p95, found.step_p99)
    mean, p50, p95, p99 = (f"{1000 * each:,.2f}" for each in times)
    return [
        *start,
        f"{found.images_per_second:,.0f}",
        optional(mb, "{:,.1f}"),
        mean,
        f"{1e6 * found.step_variance:,.2f}",
        *(p50, p95, p99),
        f"{found.first_batch:.2f}",
        f"{found.cpu_per_1000:.2f}",
        format_size(found.memory),
        optional(row.requests, "{:,}"),
        "–" if row.fetched is None else format_size(row.fetched),
        optional(row.cached_share, "{:.0%}"),
        f"{row.noise:.0%}",
        row.cache,
        row.limit,
    ]


def filled_columns(rows: Sequence[BenchRow]) -> list[list[str]]:
    """Return the table with its head, without columns that are empty in all rows."""
    table = [HEAD, *map(cells_of, rows)]
    shown = [n for n in range(len(HEAD)) if {row[n] for row in table[1:]} - {"–", ""}]
    return [[row[n] for n in shown] for row in table]


def write_page(report: BenchReport, directory: str) -> None:
    """Write ``index.html``, a page of the report."""
    done = [(row, row.figures) for row in report.rows if row.figures]
    ways = list(dict.fromkeys(row.access for row, _ in done))
    speeds = [
        Bar(row.name, figures.images_per_second, f"{figures.images_per_second:,.0f}", color)
        for color, way in enumerate(ways)
        for row, figures in done
        if row.access == way
    ]
    times = [Line(row.name, [1000 * mean for mean, _ in row.windows]) for row, _ in done]
    head, *cells = filled_columns([row for row, _ in done])
    values = {
        "sentence": report.sentence,
        "setting": report.setting,
        "drawings": [
            ("Images a second", drawing(bars("Images a second", speeds))),
            (
                "Mean time of a step, over the run",
                drawing(lines("Mean time of a step", times, "ms")),
            ),
        ],
        "head": head,
        "rows": cells,
        "errors": [(row.name, row.error) for row in report.rows if row.error],
        "notes": report.notes,
    }
    page = render("bench.html", "How fast training is fed", values).encode()
    write_whole(Path(directory, "index.html"), page, Path(directory))

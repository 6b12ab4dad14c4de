"""``bench``: how fast a training loop is fed, by each reader and each way to the data."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from statistics import median

from dsprep import keywords as of
from dsprep.benching import cache
from dsprep.benching.cells import READERS, Cell, cells_of, parse_access, read_data, shard_notes
from dsprep.benching.figures import (
    Evidence,
    Figures,
    epochs_to_beat,
    figures_of,
    limit_of,
    measured,
    medians,
    noise_of,
    sentence,
    windows_of,
)
from dsprep.benching.loops import Asked, Run, Step, copied_from, files_of, reached, run_loop
from dsprep.declared import called_with
from dsprep.errors import OptionError
from dsprep.progress import Progress
from dsprep.syncing.sync import sync
from dsprep.units import format_count, format_duration, format_size

_ENOUGH = 5  # times the memory: less data than that may come from the page cache


@dataclass(frozen=True)
class BenchRow:
    """What was measured of one combination. Times are in seconds."""

    data: str  # the data set, as it was given
    format: str
    reader: str  # its name, with its version once it has run
    access: str  # the way to the data, or the label of what is mounted
    workers: int
    name: str  # the combination, in words
    differs: str = ""  # what the reader does that others do not
    cache: str = "–"  # what the page cache was: `warm`, `cold`, `warm in part`
    figures: Figures | None = None  # medians of all rounds; None if it failed, or did not run
    rounds: int = 0  # how many rounds there were
    busy: float = 0.0  # how many cores were busy, on average
    noise: float = 0.0  # the range of their speeds, as a share of the median
    cached_share: float | None = None  # the speed as a share of the speed with one batch repeated
    requests: int | None = None  # to S3, in the last round; None if they were not counted
    fetched: int | None = None  # bytes of their answers
    copy_seconds: float | None = None  # how long the copy took, for `download`
    limit: str = "undecided"  # what limits it
    windows: Sequence[tuple[float, float]] = ()  # mean and variance of the times of steps
    error: str = ""  # why it failed


@dataclass(frozen=True)
class BenchReport:
    """What was measured."""

    state: str  # ``measured``, ``planned`` or ``interrupted``
    rows: Sequence[BenchRow]
    sentence: str  # which combination is the fastest, and what limits it and the others
    notes: Sequence[str]
    work: str
    batch: int
    cores: int  # that this process may use
    memory: int  # bytes of this machine
    seconds: float  # how long it took


@called_with(of.BenchOptions)
def bench(options: of.BenchOptions) -> BenchReport:
    """Measure how fast a training loop is fed from data sets.

    ``sources`` are data sets of any format that a reader knows, or folders of images, on a disk or
    on S3. Each combination of data, reader, way to the data and workers runs in processes of its
    own, several times, in a rotated order.

    Returns:
        The report. A combination that failed is a row with its error.

    Raises:
        OptionError: If a combination that was asked for is impossible, or needs what is not
            installed.
        SourceError: If a data set is missing or cannot be read.
    """
    began = time.monotonic()
    given = options.sources
    data = [read_data(str(each)) for each in ([given] if isinstance(given, str) else given)]
    access = parse_access(options.access)
    cells, notes = cells_of(data, options.readers, access, options.workers)
    _require_cache(cells, options)
    notes = [*notes, *shard_notes(cells), *_memory_notes(cells, options)]
    measuring = _Measuring(options, {cell: _Found() for cell in cells})
    state = "planned"
    if not options.dry_run:
        state = measuring.run(cells)
    rows = [measuring.row(cell) for cell in cells]
    rows = [replace(row, limit=_limit_of(row, rows)) if row.figures else row for row in rows]
    notes += _copy_notes(cells, rows)
    speeds = [(row.name, row.figures.images_per_second, row.limit) for row in rows if row.figures]
    return BenchReport(
        state=state,
        rows=rows,
        sentence="" if options.dry_run else sentence(speeds),
        notes=notes,
        work=options.work,
        batch=options.batch,
        cores=_cores(),
        memory=cache.total_memory(),
        seconds=time.monotonic() - began,
    )


@dataclass
class _Found:
    """What the runs of one combination showed so far."""

    figures: list[Figures] = field(default_factory=list)
    cached: list[Figures] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)  # cores
    cache: str = "–"
    last: Run | None = None
    copy_seconds: float | None = None
    error: str = ""


class _Measuring:
    """Runs all combinations, several times."""

    def __init__(self, options: of.BenchOptions, found: Mapping[Cell, _Found]) -> None:
        self._options, self._found = options, found
        self._copies: dict[str, tuple[str, float]] = {}  # and how long they took, by data set
        self._progress = options.progress or Progress()

    def run(self, cells: Sequence[Cell]) -> str:
        """Run them, in rounds; return the state in which that ended."""
        options = self._options
        runs = len(cells) * options.rounds * (1 + options.cached)
        images = runs * options.steps * options.batch
        with ExitStack() as stack:
            stack.enter_context(self._progress.running("measured", images))
            self._scratch = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="dsprep-bench-", ignore_cleanup_errors=True)
            )
            try:
                for number in range(options.rounds):
                    at = number % len(cells)
                    for cell in (*cells[at:], *cells[:at]):
                        self._measure(cell, self._found[cell])
            except KeyboardInterrupt:
                return "interrupted"
        return "measured"

    def _measure(self, cell: Cell, found: _Found) -> None:
        options = self._options
        if found.error:
            return
        copy = None
        if cell.access == "download":
            copy, found.copy_seconds = self._copy(cell)
        files = files_of(cell, copy) if copy or not cell.data.is_remote else ()
        if options.cache and files:
            (cache.warm if options.cache == "warm" else cache.drop)(files)
        asked = Asked(*(getattr(options, name) for name in Asked._fields[:-1]))
        with reached(cell, copy) as data:
            run = self._timed(cell, data, asked, found.figures, found)
            if not found.error and options.cached:
                self._timed(cell, data, asked._replace(cached=True), found.cached, found)
        if found.error:
            return
        total = sum(step.seconds for step in run.steps)
        found.busy.append(run.cpu / total)
        found.last = run
        if options.cache and files:
            size = sum(step.size or 0 for step in run.steps)
            now = cache.proof(options.cache, run.from_device, min(size, cell.data.size))
            found.cache = now if found.cache in ("–", now) else "warm in part"

    def _timed(
        self, cell: Cell, data: Sequence[str], asked: Asked, into: list[Figures], found: _Found
    ) -> Run:
        def each(step: Step) -> None:
            self._progress.advance(step.images, step.size or 0)

        run = run_loop(cell, data, asked, each)
        if run.error:
            found.error = run.error
        else:
            into.append(figures_of(run, self._options.warmup, self._options.compute / 1000))
        return run

    def _copy(self, cell: Cell) -> tuple[str, float]:
        """Copy a data set from S3, once."""
        name = cell.data.name
        if name not in self._copies:
            place, began = os.path.join(self._scratch, str(len(self._copies))), time.monotonic()
            sync(copied_from(cell.data), place)
            self._copies[name] = place, time.monotonic() - began
        return self._copies[name]

    def row(self, cell: Cell) -> BenchRow:
        """Return what was measured of a combination."""
        found, options, last = self._found[cell], self._options, self._found[cell].last
        access = options.label if options.label and cell.access == "file" else cell.access
        row = BenchRow(
            data=cell.data.name,
            format=cell.data.format,
            reader=(last.reader if last else "") or cell.reader,
            access=access,
            workers=cell.workers,
            name=cell.named(access),
            differs=READERS[cell.reader].differs,
            error=found.error,
        )
        if not found.figures or last is None:
            return row
        figures = medians(found.figures)
        share = None
        if found.cached:
            share = figures.images_per_second / medians(found.cached).images_per_second
        return replace(
            row,
            cache=found.cache,
            figures=figures,
            rounds=len(found.figures),
            noise=noise_of(found.figures),
            cached_share=share,
            requests=last.requests,
            fetched=last.fetched,
            copy_seconds=found.copy_seconds,
            busy=median(found.busy),
            windows=windows_of(measured(last.steps, options.warmup), options.every),
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _limit_of(row: BenchRow, rows: Sequence[BenchRow]) -> str:
    def evidence(one: BenchRow) -> Evidence:
        assert one.figures is not None
        speed, share = one.figures.images_per_second, one.figures.utilization
        return Evidence(speed, one.workers, _cores(), one.busy, share)

    same = (row.data, row.reader, row.access)
    others = [
        evidence(one)
        for one in rows
        if one is not row and one.figures and (one.data, one.reader, one.access) == same
    ]
    return limit_of(evidence(row), others)


def _require_cache(cells: Sequence[Cell], options: of.BenchOptions) -> None:
    """Refuse a state of the page cache that cannot be had."""
    local = [cell for cell in cells if not cell.data.is_remote or cell.access == "download"]
    if options.cache and not local:
        raise OptionError(f"--cache {options.cache}: nothing is read from a disk; leave it out")
    if options.cache == "cold":
        for cell in local:
            path = tempfile.gettempdir() if cell.data.is_remote else cell.data.files[0]
            if cache.in_memory(path):
                raise OptionError(f"--cache cold: {path} is in memory and has no device behind it")


def _memory_notes(cells: Sequence[Cell], options: of.BenchOptions) -> Iterator[str]:
    memory = cache.total_memory()
    for data in dict.fromkeys(cell.data for cell in cells):
        if not data.is_remote and not options.cache and data.size < _ENOUGH * memory:
            yield (
                f"{data.name}: {format_size(data.size)} is less than {_ENOUGH} times the memory "
                f"({format_size(memory)}): it may come from the page cache; --cache cold drops it"
            )


def _copy_notes(cells: Sequence[Cell], rows: Sequence[BenchRow]) -> Iterator[str]:
    """Say after how many epochs a copy is faster than streaming."""
    for cell, row in zip(cells, rows, strict=True):
        if row.copy_seconds is None or row.figures is None:
            continue
        took = f"{row.name}: the copy took {format_duration(row.copy_seconds)}"
        sizes = row.figures.bytes_per_second
        images = cell.data.samples
        if images is None and sizes:
            images = round(cell.data.size * row.figures.images_per_second / sizes)
        for other in rows:
            if other.data != row.data or other.copy_seconds is not None or images is None:
                continue
            if other.workers != row.workers or other.figures is None:
                continue
            speeds = row.figures.images_per_second, other.figures.images_per_second
            epochs = epochs_to_beat(row.copy_seconds, images, *speeds)
            when = (
                f"after {format_count(epochs, 'epoch')}" if epochs else "after no number of epochs"
            )
            yield f"{took}; it beats {other.name} {when}"

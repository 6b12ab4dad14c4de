"""``bench``: how fast a training loop is fed, by each reader and each way to the data."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from shlex import quote
from statistics import median

from dsprep.benching import cache
from dsprep.benching.bench_report import BenchReport, BenchRow, write_page
from dsprep.benching.cells import (
    READERS,
    Cell,
    cells_of,
    copy_notes,
    parse_access,
    read_data,
    shard_notes,
)
from dsprep.benching.figures import (
    Figures,
    LimitEvidence,
    epochs_to_beat,
    figures_of,
    limit_of,
    measured,
    medians,
    sentence,
    windows_of,
)
from dsprep.benching.loops import (
    LoopError,
    LoopOptions,
    LoopRun,
    Step,
    copied_from,
    files_of,
    reached,
    run_loop,
    start_once,
)
from dsprep.benching.options import BenchOptions
from dsprep.declared import called_with
from dsprep.errors import Interrupted, OptionError, SourceError
from dsprep.progress import Progress
from dsprep.storage.files import require_disk
from dsprep.storage.local import destination_errors
from dsprep.syncing.sync import sync
from dsprep.units import format_count, format_duration, format_size, format_some

_ENOUGH = 5  # times the memory: less data than that may come from the page cache


@called_with(BenchOptions)
def bench(options: BenchOptions) -> BenchReport:
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
    for name in ("batch", "steps", "every", "rounds"):
        if (number := getattr(options, name)) < 1:
            raise OptionError(f"--{name} {number}: give 1 or more")
    if options.steps < (enough := options.warmup + 2):
        raise OptionError(
            f"--steps {options.steps}: the first step and --warmup {options.warmup} do not count; "
            f"give at least {enough}"
        )
    if not options.workers or min(options.workers) < 0 or not 0 <= options.compute < math.inf:
        raise OptionError("--workers and --compute: give numbers from 0 on")
    if options.output is not None:
        require_disk(str(options.output))
        with destination_errors(options.output):
            os.makedirs(options.output, exist_ok=True)
    given = options.sources
    names = dict.fromkeys(map(str, [given] if isinstance(given, str) else given))
    data = [read_data(name) for name in names]
    access = parse_access(options.access)
    cells, notes = cells_of(data, options.readers, access, options.workers)
    _require_effect(cells, options)
    differs = {cell.reader: READERS[cell.reader].differs for cell in cells}
    notes += [f"{reader} {what}" for reader, what in differs.items() if what]
    notes = [*notes, *shard_notes(cells), *copy_notes(cells), *_memory_notes(cells, options)]
    measuring = _Measuring(options, {cell: _CellRuns() for cell in cells})
    state = "planned"
    if not options.dry_run:
        state = measuring.run(cells)
    rows = [measuring.row(cell) for cell in cells]
    rows = [replace(row, limit=_limit_of(row, rows)) if row.figures else row for row in rows]
    notes += _copy_notes(cells, rows)
    bad = dict.fromkeys(row.data for row in rows if "image" in row.error)
    notes += [f"dsprep inspect {quote(name)} names images that cannot be read" for name in bad]
    speeds = [(row.name, row.figures.images_per_second, row.limit) for row in rows if row.figures]
    report = BenchReport(
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
    if options.output is not None and not options.dry_run:
        write_page(report, str(options.output))
    return report


@dataclass
class _CellRuns:
    """The measurements of the runs of one combination so far."""

    figures: list[Figures] = field(default_factory=list)
    cached: list[Figures] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)  # cores
    idle: list[float] = field(default_factory=list)
    cache: str = "–"
    last: LoopRun | None = None
    copy_seconds: float | None = None
    error: str = ""


class _Measuring:
    """Runs all combinations, several times."""

    def __init__(self, options: BenchOptions, found: Mapping[Cell, _CellRuns]) -> None:
        self._options, self._found = options, found
        # copy of each data set on this disk, and how long copying took
        self._copies: dict[str, tuple[str, float]] = {}
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
                for reader in {cell.reader for cell in cells} if options.cache == "cold" else ():
                    start_once(reader)
                for number in range(options.rounds):
                    at = number % len(cells)
                    for cell in (*cells[at:], *cells[:at]):
                        found = self._found[cell]
                        try:
                            if not found.error:
                                self._measure(cell, found)
                        except (LoopError, SourceError) as error:
                            found.error = str(error)
            except (KeyboardInterrupt, Interrupted):
                return "interrupted"
        return "measured"

    def _measure(self, cell: Cell, found: _CellRuns) -> None:
        """Run a combination once; with ``cached``, twice."""
        options, copy = self._options, None
        if cell.access == "download":
            copy, found.copy_seconds = self._copy(cell)
        files = files_of(cell, copy) if copy or not cell.data.is_remote else ()
        if options.cache and files:
            (cache.warm if options.cache == "warm" else cache.drop)(files)
        asked = LoopOptions(*(getattr(options, name) for name in LoopOptions._fields[:-1]))
        with reached(cell, copy) as data:
            found.last = run = self._timed(cell, data, asked, found.figures)
            if options.cached:
                self._timed(cell, data, asked._replace(cached=True), found.cached)
        found.busy.append(run.cpu / sum(step.seconds for step in run.steps))
        found.idle.append(run.idle)
        if options.cache and files:
            sizes = [step.size for step in run.steps if step.size is not None]
            told = sum(sizes) if len(sizes) == len(run.steps) else cell.data.size
            now = cache.proof(options.cache, run.from_device, min(told, cell.data.size))
            found.cache = now if found.cache in ("–", now) else "warm in part"

    def _timed(
        self, cell: Cell, data: Sequence[str], asked: LoopOptions, into: list[Figures]
    ) -> LoopRun:
        def each(step: Step) -> None:
            self._progress.advance(step.images, step.size or 0)

        run = run_loop(cell, data, asked, each)
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
            reader=last.reader if last else cell.reader,
            access=access,
            workers=cell.workers,
            name=cell.named(access),
            cache=found.cache,
            rounds=len(found.busy),
            copy_seconds=found.copy_seconds,
            error=found.error,
        )
        if found.error or last is None or not found.busy:
            return row
        figures, speeds = medians(found.figures), [each.images_per_second for each in found.figures]
        speed, cached = figures.images_per_second, [one.images_per_second for one in found.cached]
        return replace(
            row,
            figures=figures,
            noise=(max(speeds) - min(speeds)) / speed,
            cached_share=speed / median(cached) if cached else None,
            requests=last.requests,
            fetched=last.fetched,
            busy=median(found.busy),
            idle=median(found.idle),
            windows=windows_of(measured(last.steps, options.warmup), options.every),
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _limit_of(row: BenchRow, rows: Sequence[BenchRow]) -> str:
    def evidence(one: BenchRow) -> LimitEvidence:
        assert one.figures is not None
        speed, share = one.figures.images_per_second, one.figures.utilization
        return LimitEvidence(speed, one.workers, _cores(), one.busy, share, one.idle)

    same = (row.data, row.reader, row.access)
    others = [
        evidence(one)
        for one in rows
        if one is not row and one.figures and (one.data, one.reader, one.access) == same
    ]
    return limit_of(evidence(row), others)


def _require_effect(cells: Sequence[Cell], options: BenchOptions) -> None:
    """Refuse a label, or a state of the page cache, that cannot be had."""
    local = [cell for cell in cells if not cell.data.is_remote or cell.access == "download"]
    if options.cache and not local:
        raise OptionError(f"--cache {options.cache}: nothing is read from a disk; leave it out")
    if options.label and all(cell.access != "file" for cell in cells):
        raise OptionError(f"--label {options.label}: no data is read by file; leave it out")
    for cell in local if options.cache == "cold" else ():
        path = tempfile.gettempdir() if cell.data.is_remote else cell.data.files[0]
        if cache.in_memory(path):
            raise OptionError(f"--cache cold: {path} is in memory and has no device behind it")


def _memory_notes(cells: Sequence[Cell], options: BenchOptions) -> Iterator[str]:
    memory = cache.total_memory()
    local = [cell.data for cell in cells if not cell.data.is_remote and not options.cache]
    small = dict.fromkeys(data.name for data in local if data.size < _ENOUGH * memory)
    if small:
        yield (
            f"{format_some([*small])}: smaller than {_ENOUGH} times the memory "
            f"({format_size(memory)}), so the page cache may hold it; --cache cold drops that"
        )


def _copy_notes(cells: Sequence[Cell], rows: Sequence[BenchRow]) -> Iterator[str]:
    """Say after how many epochs a copy is faster than streaming."""
    for cell, row in zip(cells, rows, strict=True):
        if row.copy_seconds is None or row.figures is None:
            continue
        images, sizes = cell.data.samples, row.figures.bytes_per_second
        if images is None and sizes:
            images = round(cell.data.size * row.figures.images_per_second / sizes)
        streamed = [
            (one.figures.images_per_second, one.name)
            for one in rows
            if (one.data, one.workers) == (row.data, row.workers)
            if one.figures and one.copy_seconds is None
        ]
        text = f"{row.name}: the copy took {format_duration(row.copy_seconds)}"
        if streamed and images:
            speed, name = max(streamed)
            local = row.figures.images_per_second
            epochs = epochs_to_beat(row.copy_seconds, images, local, speed)
            when = f"after {format_count(epochs, 'epoch')}" if epochs else "never"
            text += f"; with it, this is faster than {name} {when}"
        yield text

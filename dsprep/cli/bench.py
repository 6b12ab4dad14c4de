"""``dsprep bench``."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import dsprep
from dsprep.cli.help import option_group
from dsprep.cli.options import command
from dsprep.cli.report import NOTHING_WRITTEN, rows_of, show, table_of
from dsprep.errors import INTERRUPTED_EXIT_CODE, REJECTS_EXIT_CODE, OptionError
from dsprep.keywords import BenchOptions
from dsprep.progress import progress_for
from dsprep.units import format_duration, format_size

if TYPE_CHECKING:
    from dsprep.commands.bench import BenchReport, BenchRow

_output = option_group("Output")


@command(
    "DATA...",
    BenchOptions,
    _output("--csv", "as_csv", is_flag=True, help="Print the table as CSV."),
    _output("--show-code", is_flag=True, help="Print the loop of each reader, run nothing."),
)
def bench(
    data: tuple[str, ...], as_csv: bool, show_code: bool, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Measure how fast data sets feed a training loop.

    DATA is a data set of any format that a reader knows, or a folder of images, on a disk or on
    s3://; give several to compare them. Each combination of data, reader, way to the data and
    number of workers is a fresh process that runs an empty training loop, whose steps are timed.
    --show-code prints that loop, as a start for your own.

    \b
    Examples:
      dsprep bench photos/ shards/
      dsprep bench shards/ --work bytes --workers 0,2,4 --cache cold
      dsprep bench s3://bucket/shards --access boto3,download --compute 50 -o report/
      dsprep bench shards/ --reader webdataset --show-code
    """
    if as_csv and as_json:
        raise OptionError("--csv and --json are two forms of one report; give one of them")
    if show_code:
        from dsprep.benching.cells import read_data, read_loop, readers_of

        for reader in options["readers"] or readers_of([read_data(each) for each in data]):
            click.echo(read_loop(reader), nl=False)
        return 0
    report = dsprep.bench(data, progress=progress_for(sys.stderr, quiet), **options)
    if as_csv:
        _write_csv(report)
    else:
        show(report, _lines, as_json, quiet)
    if report.state == "interrupted":
        return INTERRUPTED_EXIT_CODE
    return REJECTS_EXIT_CODE if any(row.error for row in report.rows) else 0


_HEAD = (
    *("data", "reader", "by", "workers", "images/s", "MB/s", "mean ms", "var ms2", "p50", "p95"),
    *("p99", "first s", "CPU s/1000", "memory", "requests", "fetched", "cached", "noise", "cache"),
    "limit",
)


def _cells(row: BenchRow) -> list[str]:
    """Return the cells of a row of the table."""
    start = [row.data, row.reader, row.access, str(row.workers)]
    found = row.figures
    if found is None:
        return [*start, row.error or "not run", *[""] * (len(_HEAD) - 5)]

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


def _lines(report: BenchReport) -> Iterator[str]:
    counts = f"{report.cores} cores, {format_size(report.memory)} of memory"
    yield f"{report.state}: {report.work}, batches of {report.batch}, {counts}"
    if report.state == "planned":
        yield from (f"  {row.name}" for row in report.rows)
    else:
        yield from table_of([_HEAD, *map(_cells, report.rows)])
        yield from ("", report.sentence, "")
    differs = {row.reader: row.differs for row in report.rows if row.differs}
    yield from rows_of(
        *((reader, what) for reader, what in differs.items()),
        *(("note", note) for note in report.notes),
        ("time", format_duration(report.seconds)),
    )
    if report.state == "planned":
        yield from NOTHING_WRITTEN


def _write_csv(report: BenchReport) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_HEAD)
    writer.writerows(map(_cells, report.rows))

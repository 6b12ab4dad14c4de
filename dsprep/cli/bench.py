"""``dsprep bench``."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dsprep
from dsprep.benching.options import BenchOptions
from dsprep.cli.help import option_group
from dsprep.cli.options import command
from dsprep.cli.report import NOTHING_WRITTEN, rows_of, show, table_of
from dsprep.cli.streams import echo_as_is
from dsprep.declared import unchecked
from dsprep.errors import INTERRUPTED_EXIT_CODE, REJECTS_EXIT_CODE
from dsprep.printable import visible
from dsprep.progress import progress_for
from dsprep.units import format_duration

if TYPE_CHECKING:
    from dsprep.benching.bench_report import BenchReport

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
    if show_code:
        from dsprep.benching.cells import read_loops

        for code in read_loops(data, options["readers"], options["access"]):
            echo_as_is(code, nl=False)
        return 0
    report = unchecked(dsprep.bench)(data, progress=progress_for(sys.stderr, quiet), **options)
    if as_csv:
        _write_csv(report)
    else:
        show(report, _lines, as_json, quiet)
    if report.state == "interrupted":
        return INTERRUPTED_EXIT_CODE
    return REJECTS_EXIT_CODE if any(row.error for row in report.rows) else 0


def _lines(report: BenchReport) -> Iterator[str]:
    from dsprep.benching.bench_report import filled_columns

    yield f"{report.state}: {report.setting}"
    if report.state == "planned":
        yield from (f"  {row.name}" for row in report.rows)
    else:
        if rows := [row for row in report.rows if not row.error]:
            yield from list(table_of(filled_columns(rows)))[1:]
        yield from ("", report.sentence, "")
    yield from rows_of(
        *(("failed", f"{row.name}: {row.error}") for row in report.rows if row.error),
        *(("note", note) for note in report.notes),
        ("time", format_duration(report.seconds)),
    )
    if report.state == "planned":
        yield from NOTHING_WRITTEN


def _write_csv(report: BenchReport) -> None:
    from dsprep.benching.bench_report import HEAD, cells_of

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(HEAD)
    for row in report.rows:
        cells = cells_of(row)
        plain = [cell.replace(",", "") for cell in cells] if row.figures else cells
        writer.writerow(map(visible, (*cells[:4], *plain[4:])))

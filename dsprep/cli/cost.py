"""``dsprep cost``, and the prices that a sync ends with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import dsprep
from dsprep.cli.options import command
from dsprep.cli.report import rows_of, show, table_of
from dsprep.declared import unchecked
from dsprep.storage.location import is_s3
from dsprep.training.options import CostOptions
from dsprep.units import format_count, format_size

if TYPE_CHECKING:
    from dsprep.syncing.report import SyncReport
    from dsprep.training.cost import CostReport


@command("", click.Argument(["data"], metavar="DATA...", nargs=-1), CostOptions)
def cost(as_json: bool, quiet: bool, **options: Any) -> int:
    """Say what DATA costs on S3, as files and as shards of several sizes, and in file systems.

    DATA is data sets with a manifest, or directories of images, on a disk or on S3. The report has
    storage a month, requests of the upload, and requests of an epoch: one for each object (File and
    Pipe mode), one for each 8 MiB (FastFile, and readers that stream), or one for each sample
    (random access). Below are EFS, FSx for Lustre and EBS, which jobs mount: storage of the
    smallest size that is sold and holds the data, and what writing and reading all of it costs.
    Prices are list prices of a date, in a table that --prices replaces.

    \b
    Examples:
      dsprep cost shards/
      dsprep cost photos/ --prices prices.toml
      dsprep cost --samples 1000000000 --size 100TB --shard-size 100MB
      dsprep cost shards/ --gpu-hour 5.67 --epoch-hours 2 --utilization 0.6
    """
    show(unchecked(dsprep.cost)(**options), _lines, as_json, quiet)
    return 0


def money(amount: float) -> str:
    """Write US dollars with two digits, or with four if they are few."""
    if 0 < amount < 0.00005:
        return "<$0.0001"
    return f"${amount:,.2f}" if amount >= 0.095 or not amount else f"${amount:.4f}"


def _lines(report: CostReport) -> Iterator[str]:
    yield f"{format_count(report.samples, 'sample')}, {format_size(report.bytes)}"
    head = ("", "objects", "a month", "upload", "epoch: objects", "8 MiB ranges", "samples")
    rows = [(each.layout, f"{each.objects:,}", *map(money, each[2:])) for each in report.layouts]
    yield from table_of([head, *rows], "on S3, in US dollars")
    machines = report.epoch and "{} an epoch, {} if input-bound".format(*map(money, report.epoch))
    same, other, internet = map(money, report.transfer.values())
    yield from rows_of(
        ("transfer", f"{same} an epoch in one region, {other} to another, {internet} outside"),
        ("conversion", f"{money(report.conversion)} an epoch, if a function converts on the way"),
        ("machines", machines),
        ("prices", report.prices),
        width=10,
    )
    if report.file_systems:
        titles = ("", "size", "a month", "upload", "an epoch", "prices")
        mounted = [
            (
                each.name + (f", {each.needed} of them" if each.needed > 1 else ""),
                format_size(each.bytes),
                *map(money, each[2:5]),
                each.date,
            )
            for each in report.file_systems
        ]
        yield from table_of([titles, *mounted], "in a file system instead, in US dollars")


def sync_lines(report: SyncReport) -> Iterator[str]:
    """Yield what a planned sync would cost."""
    from dsprep.training.cost import price_of, read_prices

    prices = read_prices()
    requests = money(prices.requests(report.requests.writes, report.requests.reads))
    storage = money(price_of(prices.storage, report.bytes))
    internet = money(price_of(prices.transfer["internet"], report.bytes))
    transfer = f"up to {internet} for transfer, as to the internet; none in the same region"
    costs = {report.destination: f"{storage} a month for what is sent", report.source: transfer}
    yield from rows_of(
        ("cost", f"{requests} in requests"),
        *(("", cost) for place, cost in costs.items() if is_s3(place)),
        ("prices", f"{prices.date}, {prices.region}"),
        width=16,
    )

"""``cost``: what data costs on S3, as files and as shards, and in file systems, by a table.

A GB is 10^9 bytes. All of it is arithmetic on counts and sizes: nothing is measured or looked up.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dsprep.declared import called_with
from dsprep.errors import OptionError, SourceError
from dsprep.frozen import Frozen
from dsprep.options import option_name, require_effect
from dsprep.printable import json_values
from dsprep.storage.transfer import DEFAULT_PART
from dsprep.text import read_text
from dsprep.training.facts import TEXTS, facts_of
from dsprep.training.options import CostOptions
from dsprep.tuples import NamedTuple
from dsprep.units import format_size, parse_size

_GB = 10**9
_RANGE = 8 << 20  # bytes of a request of readers that stream an object by ranges
_SIZES = ("10MB", "100MB", "1GB")
TRANSFERS = ("same-region", "other-region", "internet")
Tiers = Sequence[tuple[float, float]]  # limits in GB, and prices up to there
_PRICES = Path(__file__).with_name("prices.toml")


class FileSystem(NamedTuple):
    """The prices of a file system that jobs mount."""

    name: str
    date: str
    storage: Tiers
    write: float  # price of writing a GB
    read: float
    least: float  # the smallest size that is sold, in GB
    step: float  # what larger sizes are multiples of, in GB; 0 if any size is sold
    most: float  # the largest size of one, in GB; 0 if there is no limit

    def sold(self, size: float) -> float:
        """Return the bytes that have to be paid for to hold some."""
        if size <= self.least * _GB or not self.step:
            return max(size, self.least * _GB)
        return math.ceil(size / (self.step * _GB)) * self.step * _GB

    def needed(self, size: float) -> int:
        """Return how many of them hold some bytes."""
        return max(math.ceil(size / (self.most * _GB)), 1) if self.most else 1


class Prices(NamedTuple):
    """A table of prices; see ``prices.toml``."""

    date: str
    region: str
    storage: Tiers
    transfer: Mapping[str, Tiers]  # by where it goes
    writes: float
    reads: float
    conversion: float
    file_systems: Sequence[FileSystem] = ()

    def requests(self, writes: float, reads: float = 0) -> float:
        """Return the price of requests."""
        return (writes * self.writes + reads * self.reads) / 1000


def price_of(tiers: Tiers, size: float) -> float:
    """Return the price of bytes; the first ones cost more."""
    total, below, left = 0.0, 0.0, size / _GB
    for limit, price in tiers:
        share = min(left, limit - below) if limit else left
        total, below, left = total + share * price, limit, left - share
    return total


def read_prices(path: str | None = None) -> Prices:
    """Read a table of prices: a file, or the built-in one."""
    try:
        values = tomllib.loads(read_text(path or str(_PRICES)))
        return Prices(
            date=str(values["date"]),
            region=str(values["region"]),
            storage=_tiers(values["storage"]),
            transfer={name: _tiers(values["transfer"][name]) for name in TRANSFERS},
            writes=float(values["requests"]["writes"]),
            reads=float(values["requests"]["reads"]),
            conversion=float(values["conversion"]["object-lambda"]),
            file_systems=[
                _file_system(name, {"date": values["date"]} | own)
                for name, own in values.get("file-systems", {}).items()
            ],
        )
    except (ValueError, LookupError, TypeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise SourceError(
            f"{path}: is not a table of prices ({what:.100}): change a copy of {_PRICES}"
        ) from None


def _file_system(name: str, values: Mapping[str, Any]) -> FileSystem:
    costs = [float(values.get(each, 0)) for each in ("write", "read", "least", "step", "most")]
    if not all(0 <= each < math.inf for each in costs):
        raise ValueError(f"{name}: prices and sizes are numbers from 0 on")
    return FileSystem(name, str(values["date"]), _tiers(values["storage"]), *costs)


def _tiers(values: Any) -> Tiers:
    tiers = [(float(limit), float(price)) for limit, price in values]
    if [limit for limit, _ in tiers if limit] != sorted({limit for limit, _ in tiers[:-1]}):
        raise ValueError("limits of tiers rise, and the last is 0")
    return tiers


class LayoutCost(NamedTuple):
    """What one layout of the data costs, in US dollars."""

    layout: str  # `files`, `shards of 100 MB`, or what the data is
    objects: int
    storage: float  # a month
    upload: float  # once
    whole: float  # an epoch, a request for each object
    ranges: float  # an epoch, requests for ranges of 8 MiB
    samples: float  # an epoch, a request for each sample

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "layout": self.layout,
                "objects": self.objects,
                "storage": self.storage,
                "upload": self.upload,
                "whole": self.whole,
                "ranges": self.ranges,
                "samples": self.samples,
            }
        )


class FileSystemCost(NamedTuple):
    """What the data costs in a file system, in US dollars."""

    name: str
    bytes: int  # the size that has to be paid for
    storage: float  # a month
    upload: float  # once, to write all of it
    epoch: float  # to read all of it
    date: str  # date of the prices
    needed: int  # how many of these file systems hold the data, as each has a largest size

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "name": self.name,
                "bytes": self.bytes,
                "storage": self.storage,
                "upload": self.upload,
                "epoch": self.epoch,
                "date": self.date,
                "needed": self.needed,
            }
        )


class EpochCost(NamedTuple):
    """What the machines of an epoch cost, in US dollars."""

    full: float  # cost of an epoch whose GPUs never wait for data
    input_bound: float  # at the utilization that was given

    def to_json(self) -> dict[str, Any]:
        return json_values({"full": self.full, "input_bound": self.input_bound})


class CostReport(Frozen):
    """What data costs on S3, and in file systems."""

    samples: int
    bytes: int
    prices: str  # date and region of the table
    layouts: Sequence[LayoutCost]
    transfer: Mapping[str, float]  # an epoch, by where the data is read, in US dollars
    conversion: float  # an epoch, through a function between S3 and the reader
    epoch: EpochCost | None  # None if nothing was told of the machines
    file_systems: Sequence[FileSystemCost] = ()

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "samples": self.samples,
                "bytes": self.bytes,
                "prices": self.prices,
                "layouts": self.layouts,
                "transfer": self.transfer,
                "conversion": self.conversion,
                "epoch": self.epoch,
                "file_systems": self.file_systems,
            }
        )


@called_with(CostOptions)
def cost(options: CostOptions) -> CostReport:
    """Return what data costs on S3, as single files and as shards, and in file systems.

    ``data`` is data sets on a disk or on S3 with a manifest, or directories of images; without it,
    ``samples`` and ``size`` tell what there is.

    Returns:
        Prices for a month, for the upload, and for an epoch by the way in which it is read.
    """
    require_effect("cost", options.given)
    prices = read_prices(None if options.prices is None else str(options.prices))
    found = [facts for data in options.data for facts in facts_of(str(data))]
    samples, size = options.samples or 0, parse_size(options.size) if options.size else 0
    if bool(found) == bool(samples):
        raise OptionError("give either DATA, or --samples and --size")
    for each in found:
        if each.samples is None or each.bytes is None:
            made = "make a manifest with dsprep shard index"
            if each.format in TEXTS:
                made = f"pack it, dsprep pack {each.place} OUT --to FORMAT, and name OUT"
            raise SourceError(
                f"{each.place}: nothing tells its samples and size: {made}, or give --samples and "
                "--size"
            )
        samples, size = samples + each.samples, size + each.bytes
    counts = {"files": samples}
    for wanted in map(parse_size, options.shard_size or _SIZES):
        counts[f"shards of {format_size(wanted)}"] = math.ceil(size / wanted)
    objects = sum(len(each.files) for each in found)
    if objects not in (0, samples):
        counts["as it is"] = objects
    return CostReport(
        samples=samples,
        bytes=size,
        prices=f"{prices.date}, {prices.region}",
        layouts=[_layout(name, samples, size, count, prices) for name, count in counts.items()],
        transfer={name: price_of(tiers, size) for name, tiers in prices.transfer.items()},
        conversion=size / _GB * prices.conversion,
        epoch=_epoch(options),
        file_systems=[_in_file_system(each, size) for each in prices.file_systems],
    )


def _in_file_system(each: FileSystem, size: int) -> FileSystemCost:
    """Price data in a file system, which has no requests to pay for."""
    sold, amount = each.sold(size), size / _GB
    storage = price_of(each.storage, sold)
    upload, epoch = amount * each.write, amount * each.read
    needed = each.needed(size)
    return FileSystemCost(each.name, int(sold), storage, upload, epoch, each.date, needed)


def _layout(name: str, samples: int, size: int, objects: int, prices: Prices) -> LayoutCost:
    """Price objects of equal size."""
    parts, ranges = (math.ceil(size / max(objects, 1) / each) for each in (DEFAULT_PART, _RANGE))
    # An upload in parts takes a search, a beginning and a completion besides.
    upload = prices.requests(objects * (parts + 3 if parts > 1 else 1))
    epochs = (prices.requests(0, count) for count in (objects, objects * ranges, samples))
    return LayoutCost(name, objects, price_of(prices.storage, size), upload, *epochs)


def _epoch(options: CostOptions) -> EpochCost | None:
    if options.gpu_hour is None or options.epoch_hours is None or options.utilization is None:
        return None
    for name, most in (("gpu_hour", 1e9), ("epoch_hours", 1e9), ("utilization", 1.0)):
        if not 0 < (value := getattr(options, name)) <= most:  # the comparison also refuses nan
            raise OptionError(f"{option_name(name)} {value}: give a number above 0, up to {most:g}")
    full = options.gpu_hour * options.epoch_hours
    return EpochCost(full, full / options.utilization)

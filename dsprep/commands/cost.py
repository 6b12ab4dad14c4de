"""``cost``: what data costs on S3, as files and as shards, by a table of prices.

A GB is 10^9 bytes. All of it is arithmetic on counts and sizes: nothing is measured or looked up.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dsprep import keywords as of
from dsprep.commands.facts import facts_of
from dsprep.declared import called_with
from dsprep.errors import OptionError, SourceError
from dsprep.options import option_name, require_effect
from dsprep.storage.transfer import DEFAULT_PART
from dsprep.text import read_text
from dsprep.units import format_size, parse_size

_GB = 10**9
_RANGE = 8 << 20  # bytes of a request of readers that stream an object by ranges
_SIZES = ("10MB", "100MB", "1GB")
_PRICES = Path(__file__).with_name("prices.toml")


@dataclass(frozen=True)
class Prices:
    """A table of prices; see ``prices.toml``."""

    date: str
    region: str
    storage: Sequence[tuple[float, float]]
    transfer: dict[str, Sequence[tuple[float, float]]]
    writes: float
    reads: float
    conversion: float

    def storing(self, size: float) -> float:
        """Return the price of a month of storage."""
        return _tiered(self.storage, size)

    def requests(self, writes: float, reads: float = 0) -> float:
        """Return the price of requests."""
        return (writes * self.writes + reads * self.reads) / 1000

    def moving(self, size: float, where: str) -> float:
        """Return the price of bytes that leave S3."""
        return _tiered(self.transfer[where], size)


def _tiered(tiers: Sequence[tuple[float, float]], size: float) -> float:
    """Return the price of bytes of which the first are dearer."""
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
            str(values["date"]),
            str(values["region"]),
            _tiers(values["storage"]),
            {name: _tiers(values["transfer"][name]) for name in of.TRANSFERS},
            float(values["requests"]["writes"]),
            float(values["requests"]["reads"]),
            float(values["conversion"]["object-lambda"]),
        )
    except (ValueError, LookupError, TypeError) as error:
        raise SourceError(f"{path}: is no table of prices ({error!s:.100})") from None


def _tiers(values: Any) -> Sequence[tuple[float, float]]:
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


class EpochCost(NamedTuple):
    """What the machines of an epoch cost, in US dollars."""

    full: float  # if they never wait for data
    input_bound: float  # at the utilization that was given


@dataclass(frozen=True)
class CostReport:
    """What data costs on S3."""

    samples: int
    bytes: int
    prices: str  # date and region of the table
    layouts: Sequence[LayoutCost]
    transfer: float  # an epoch, in US dollars
    conversion: float  # an epoch, through a function between S3 and the reader
    epoch: EpochCost | None  # None if nothing was told of the machines


@called_with(of.CostOptions)
def cost(options: of.CostOptions) -> CostReport:
    """Return what data costs on S3: as single files and as shards of several sizes.

    ``data`` is data sets on a disk or on S3 with a manifest, or directories of images; without it,
    ``samples`` and ``size`` tell what there is.

    Returns:
        Prices for a month, for the upload, and for an epoch by the way in which it is read.
    """
    require_effect("cost", options.given)
    prices = read_prices(None if options.prices is None else str(options.prices))
    found = [facts for data in options.data for facts in facts_of(str(data))]
    sizes = [size for facts in found for _, size in facts.files]
    samples, size = options.samples or 0, parse_size(options.size or 1)
    if bool(found) == bool(samples):
        raise OptionError("give either DATA, or --samples and --size")
    if found:
        counts = [facts.samples for facts in found]
        unknown = next((each.place for each in found if None in (each.samples, each.bytes)), None)
        if unknown is not None:
            raise SourceError(
                f"{unknown}: nothing tells its samples and size: make a manifest with dsprep shard "
                "index, or give --samples and --size"
            )
        samples, size = sum(filter(None, counts)), sum(each.bytes or 0 for each in found)
    layouts = [_layout("files", samples, size, samples, prices)]
    for text in options.shard_size or _SIZES:
        wanted = parse_size(text)
        name = f"shards of {format_size(wanted)}"
        layouts.append(_layout(name, samples, size, math.ceil(size / wanted), prices))
    if found and len(sizes) != samples:
        layouts.append(_layout("as it is", samples, size, len(sizes), prices))
    return CostReport(
        samples=samples,
        bytes=size,
        prices=f"{prices.date}, {prices.region}",
        layouts=layouts,
        transfer=prices.moving(size, options.transfer),
        conversion=size / _GB * prices.conversion,
        epoch=_epoch(options),
    )


def _layout(name: str, samples: int, size: int, objects: int, prices: Prices) -> LayoutCost:
    """Price objects of equal size."""
    parts = math.ceil(size / objects / DEFAULT_PART) if objects else 0
    # An upload in parts takes a search, a beginning and a completion besides.
    writes = objects * (parts + 3 if parts > 1 else 1)
    ranges = objects * math.ceil(size / objects / _RANGE) if objects else 0
    storage = prices.storing(size)
    epochs = (prices.requests(0, count) for count in (objects, ranges, samples))
    return LayoutCost(name, objects, storage, prices.requests(writes), *epochs)


def _epoch(options: of.CostOptions) -> EpochCost | None:
    if options.gpu_hour is None or options.epoch_hours is None or options.utilization is None:
        return None
    for name, most in (("gpu_hour", math.inf), ("epoch_hours", math.inf), ("utilization", 1.0)):
        if not 0 < (value := getattr(options, name)) <= most or value == math.inf:
            limit = f"at most {most:g}" if most == 1 else "finite"
            raise OptionError(f"{option_name(name)} {value}: give a number above 0, {limit}")
    full = options.gpu_hour * options.epoch_hours
    return EpochCost(full, full / options.utilization)

"""The figures of a measured table, for each side: counts, distributions, channels, what is odd."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from dsprep.frozen import Frozen
from dsprep.printable import json_values
from dsprep.tuples import NamedTuple
from dsprep.units import format_size

MEASURES: Mapping[str, tuple[str, bool]] = {
    "width": ("pixels", True),
    "height": ("pixels", True),
    "aspect": ("width / height", True),
    "bytes": ("bytes", True),
    "brightness": ("mean of luma, 0 to 1", False),
    "contrast": ("root of the mean variance of red, green and blue, 0 to 1", False),
    "sharpness": ("standard deviation of the Laplacian, 0 to 127", False),
    "objects": ("objects of an image", False),
    "label": ("numbers of the label", False),
}
"""What distributions are of: the unit, and whether bins are of equal ratios."""

HEADS = ("min", "5 %", "median", "mean", "95 %", "max")

_BINS = 32
_SIZES = 12  # the most frequent sizes of images that are told
_TINY = 32  # edges shorter than this are suspicious, unless half of the images have short edges
_LONG = 4.0  # ratio of edges above which an image is suspicious
_UNIFORM = 0.02  # contrast below which an image is nearly uniform


class Distribution(NamedTuple):
    """How a measure is distributed over the images that have it."""

    name: str
    images: int
    least: float
    p5: float
    median: float
    mean: float
    p95: float
    most: float
    edges: Sequence[float]  # edges of the bins, which are the same for all sides
    counts: Sequence[int]  # images in each bin

    def texts(self) -> list[str]:
        """Return the figures of ``HEADS``, for people."""
        figures = (self.least, self.p5, self.median, self.mean, self.p95, self.most)
        return [format_measure(each, self.name) for each in figures]

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "name": self.name,
                "images": self.images,
                "least": self.least,
                "p5": self.p5,
                "median": self.median,
                "mean": self.mean,
                "p95": self.p95,
                "most": self.most,
                "edges": self.edges,
                "counts": self.counts,
            }
        )


class Channels(NamedTuple):
    """Mean and standard deviation of red, green and blue, from 0 to 1.

    Each image counts the same, whatever its size; one of gray has equal channels.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def to_json(self) -> dict[str, Any]:
        return json_values({"mean": self.mean, "std": self.std})


class SideFigures(Frozen):
    """What one side, or one data set, looks like."""

    name: str  # name of the side, or of the data set if several are compared; else empty
    samples: int  # how many it has
    looked_at: int  # number of samples that were looked at, which the other figures are about
    bytes: int  # size of the encoded images in bytes
    # samples by class or label, in the order of the classes; of all samples if `classes_of_all`
    classes: Mapping[str, int]
    classes_of_all: bool
    objects: Mapping[str, int]  # objects by class
    kinds: Mapping[str, int]  # images by format; these are in the order of their frequency
    modes: Mapping[str, int]  # images by color mode, as Pillow names it
    orientations: Mapping[str, int]  # images by EXIF orientation
    sizes: Mapping[str, int]  # images by WIDTHxHEIGHT, the most frequent ones
    distributions: Sequence[Distribution]
    channels: Channels | None  # None if no image was decoded

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "name": self.name,
                "samples": self.samples,
                "looked_at": self.looked_at,
                "bytes": self.bytes,
                "classes": self.classes,
                "classes_of_all": self.classes_of_all,
                "objects": self.objects,
                "kinds": self.kinds,
                "modes": self.modes,
                "orientations": self.orientations,
                "sizes": self.sizes,
                "distributions": self.distributions,
                "channels": self.channels,
            }
        )


class Suspect(NamedTuple):
    """An image that is worth a look."""

    side: str
    path: str
    why: str

    def to_json(self) -> dict[str, Any]:
        return json_values({"side": self.side, "path": self.path, "why": self.why})


def format_measure(value: float, name: str) -> str:
    """Write a value of a measure for people."""
    if math.isnan(value):
        return "–"
    if name == "bytes":
        return format_size(value)
    return f"{value:,.0f}" if name in ("width", "height") or value >= 1000 else f"{value:.3g}"


def with_ratios(table: pl.DataFrame) -> pl.DataFrame:
    """Add the columns that distributions need: ``aspect`` and the number of objects."""
    return table.with_columns(
        aspect=pl.col("width") / pl.col("height"), objects_of=pl.col("objects").list.len()
    )


def label_texts(table: pl.DataFrame) -> pl.Series:
    """Return the labels of measured samples, or the classes of their objects, as a text each."""
    labels, objects = pl.col("labels"), pl.col("objects").list.unique().list.sort()
    own = pl.when(labels.list.len() > 0).then(labels).otherwise(objects).list.join(", ")
    return table.select(label=own.fill_null("")).to_series()


def edges_of(table: pl.DataFrame) -> dict[str, list[float]]:
    """Return the edges of the bins of each measure that some image has."""
    return {
        name: _edges(values, in_ratios)
        for name, (_, in_ratios) in MEASURES.items()
        if len(values := _values(table, name))
    }


def _values(table: pl.DataFrame, name: str) -> pl.Series:
    if name == "label":
        return table[name].drop_nulls().explode(empty_as_null=False)
    return table["objects_of" if name == "objects" else name].drop_nulls().cast(pl.Float64)


def _edges(values: pl.Series, in_ratios: bool) -> list[float]:
    least, most = float(values.min()), float(values.max())  # type: ignore[arg-type]
    if least == most:
        return [least, most]
    if in_ratios and least > 0 and most > 2 * least:
        step = (most / least) ** (1 / _BINS)
        return [*(least * step**at for at in range(_BINS)), most]
    whole = values.is_finite().all() and (values == values.floor()).all()
    most += whole  # the largest whole number gets a bin of its own
    bins = min(_BINS, int(most - least)) if whole else _BINS
    return [*(least + (most - least) / bins * at for at in range(bins)), most]


def figures_of(
    name: str,
    table: pl.DataFrame,
    samples: int,
    classes: Mapping[str, int] | None,
    edges: Mapping[str, Sequence[float]],
) -> SideFigures:
    """Return the figures of the measured samples of a side.

    Args:
        name: The name of the side.
        table: Its measured samples, with :func:`with_ratios`.
        samples: How many samples it has in all.
        classes: The samples of each class in all, if that is known.
        edges: The edges of the bins of each measure.
    """
    labels = _counted(table["labels"].explode(empty_as_null=False))
    return SideFigures(
        name,
        samples,
        table.height,
        int(table["bytes"].sum()),
        labels if classes is None else classes,
        classes is not None,
        _counted(table["objects"].drop_nulls().explode(empty_as_null=False)),
        _counted(table["kind"]),
        _counted(table["mode"]),
        _counted(table["orientation"]),
        _sizes(table),
        [_distribution(each, _values(table, each), edges[each]) for each in edges],
        _channels(table),
    )


def _counted(values: pl.Series) -> dict[str, int]:
    name = values.name
    counts = values.drop_nulls().value_counts().sort(["count", name], descending=[True, False])
    return {str(value): count for value, count in counts.iter_rows()}


def _sizes(table: pl.DataFrame) -> dict[str, int]:
    sized = table.filter(pl.col("width").is_not_null())
    texts = pl.format("{}x{}", "width", "height").alias("size")
    return dict(list(_counted(sized.select(texts).to_series()).items())[:_SIZES])


def _distribution(name: str, values: pl.Series, edges: Sequence[float]) -> Distribution:
    counts = [0] * max(1, len(edges) - 1)
    if len(values):
        inner = pl.Series(edges[1:-1], dtype=pl.Float64)
        bins = inner.search_sorted(values, side="right") if len(inner) else pl.Series([0])
        found = bins.alias("bin").value_counts() if len(inner) else None
        for bin, count in found.iter_rows() if found is not None else [(0, len(values))]:
            counts[bin] = count
    at = [values.quantile(share, "linear") for share in (0.0, 0.05, 0.5, 0.95, 1.0)]
    least, p5, median, p95, most = (math.nan if each is None else float(each) for each in at)
    mean = values.mean()
    mean = math.nan if mean is None else float(mean)  # type: ignore[arg-type]
    return Distribution(name, len(values), least, p5, median, mean, p95, most, list(edges), counts)


def _channels(table: pl.DataFrame) -> Channels | None:
    decoded = table.filter(pl.col("means").is_not_null())
    if decoded.is_empty():
        return None
    mean, square = (
        [float(decoded[name].list.get(at).mean()) for at in range(3)]  # type: ignore[arg-type]
        for name in ("means", "squares")
    )
    std = [math.sqrt(max(0.0, s - m * m)) for m, s in zip(mean, square, strict=True)]
    return Channels((mean[0], mean[1], mean[2]), (std[0], std[1], std[2]))


def suspects(table: pl.DataFrame) -> Iterator[Suspect]:
    """Yield the images that are worth a look, for what each of them is alone."""
    short = pl.min_horizontal("width", "height")
    long = pl.max_horizontal("width", "height")
    typical = table.select(short.median()).item() or 0
    reasons = {
        f"nearly uniform, contrast below {_UNIFORM}": pl.col("contrast") < _UNIFORM,
        f"tiny, an edge below {_TINY} pixels": (short < _TINY) & (typical >= _TINY),
        f"long, an edge more than {_LONG:g} times the other": long > _LONG * short,
    }
    for why, is_odd in reasons.items():
        for side, path in table.filter(is_odd).select("side", "path").iter_rows():
            yield Suspect(side, path, why)

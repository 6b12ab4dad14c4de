"""The options of ``inspect`` and ``dedup``, declared as :mod:`dsprep.declared` says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath
from dsprep.declared import field, option
from dsprep.plan.options import EngineOptions, workers_field
from dsprep.sources.options import ClassOptions, FieldOptions, SourceOptions
from dsprep.splits.options import NearOptions

if TYPE_CHECKING:
    from dsprep.progress import Progress

_looks, _pictures = partial(option, "Looks"), partial(option, "Pictures")


class InspectOptions(EngineOptions, FieldOptions, ClassOptions, SourceOptions):
    """The options of ``inspect``."""

    sources: AnyPath | Sequence[AnyPath] = field(kw_only=False)
    sample: int = _looks(
        "Number of samples of each data set to look at, chosen by their keys and --seed.  "
        "[default: 20000]",
        default=20_000,
    )
    seed: int = _looks("Seed of the choice.  [default: 0]", default=0, least=None)
    decode: bool = _looks(
        "Decode images (default), or tell only what their headers say.", default=True
    )
    max_pixels: int | None = _looks(
        "Largest number of pixels of an image that is decoded.  [default: 178956970]",
        metavar="N",
        rare=True,
    )
    part: str | None = _looks(
        "Look at part I (from 0) of N only, and write what was measured with -o FILE.parquet.",
        metavar="I/N|auto[/N]",
        rare=True,
    )
    measured: Sequence[AnyPath] = _looks(
        "Take what --part has written instead of looking; repeat it for all parts.",
        default=(),
        metavar="FILE",
        rare=True,
    )
    head: int = _pictures("Also show the first N samples.  [default: 0]", default=0, least=0)
    key: str | None = _pictures(
        "Show the sample of this key, with all its fields, instead of figures.", metavar="KEY"
    )
    output: AnyPath | None = option(
        "Output",
        "Write a page with charts and pictures, report.html; what was measured of each sample, as "
        "a table, looks.parquet; or what dsprep understood of DATA, as a layout for --layout: "
        "birds.toml.",
        metavar="FILE",
    )
    workers: int | None = workers_field
    progress: Progress | None = None  # receives the progress


class DedupOptions(NearOptions, EngineOptions, FieldOptions, ClassOptions, SourceOptions):
    """The options of ``dedup``."""

    sources: AnyPath | Sequence[AnyPath] = field(kw_only=False)
    keep: AnyPath = option(
        "Copies",
        "Which one of several copies to keep: that with the most pixels, and of these that with "
        "the most bytes (largest); the first of the data set; or those that FILE names, a CSV or "
        "TSV with a column of keys or paths, before larger ones. Samples of the training side "
        "always give way to those of other sides.  [default: largest]",
        default="largest",
        metavar="largest|first|FILE",
    )
    max_pixels: int | None = option(
        "Samples",
        "Largest number of pixels of an image that is decoded.  [default: 178956970]",
        rare=True,
    )
    output: AnyPath | None = option(
        "Output",
        "Write the copies to FILE, a TSV for --filter-table; - is stdout. Without it, nothing is "
        "written.",
        metavar="FILE",
    )
    overwrite: bool = option("Output", "Replace FILE.", default=False)
    workers: int | None = workers_field
    progress: Progress | None = None  # receives the progress

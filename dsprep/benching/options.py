"""The options of ``bench``, declared as :mod:`dsprep.declared` says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath
from dsprep.declared import Options, field, option

if TYPE_CHECKING:
    from dsprep.progress import Progress

_measure = partial(option, "Measurement")


class BenchOptions(Options):
    """The options of ``bench``."""

    sources: AnyPath | Sequence[AnyPath] = field(kw_only=False)
    readers: Sequence[str] = _measure(
        "Readers: webdataset, wids, torch, tf, mxnet, datasets, mds, litdata, csv, protobuf, "
        "raw.  "
        "[default: the natural one of each format]",
        default=(),
        metavar="NAME[,...]",
    )
    access: Sequence[str] = _measure(
        "Ways to the data: file (also what is mounted), download (copy first), boto3, s3fs, "
        "s3torchconnector, fifo, separated by commas, or 'cmd:COMMAND {url}'. Repeatable.  "
        "[default: file; on S3, the natural one of each reader]",
        default=(),
        metavar="WAY",
    )
    work: str = _measure(
        "Hand out bytes; decode; or decode, crop at random to 224 x 224 and batch.",
        default="train",
        choices=("bytes", "decode", "train"),
    )
    workers: Sequence[int] = _measure(
        "Numbers of workers of a loop, one after the other.  [default: 0,2]",
        default=(0, 2),
        metavar="N[,N...]",
        least=0,
    )
    batch: int = _measure("Images of a batch.  [default: 4]", default=4)
    shuffle: int = _measure(
        "Size of the shuffle buffer.  [default: 0, as they lie]", default=0, least=0
    )
    steps: int = _measure("Steps of a run.  [default: 500]", default=500, least=2)
    every: int = _measure("Steps of a window of the chart of times.  [default: 100]", default=100)
    warmup: int = _measure(
        "Steps that do not count, besides the first.  [default: 10]", default=10, least=0
    )
    rounds: int = _measure("Runs of each combination; medians are shown.  [default: 3]", default=3)
    cached: bool = _measure(
        "Also repeat one batch, which is the limit of the loop itself.", default=False
    )
    compute: float = _measure(
        "Milliseconds that each step sleeps, as if it trained.  [default: 0]",
        default=0.0,
        metavar="MS",
    )
    cache: str | None = _measure(
        "Page cache before each run: read all files, or drop them.  [default: as it is]",
        choices=("warm", "cold"),
    )
    label: str | None = _measure(
        "Name of what is mounted, such as FSx, instead of file.", metavar="NAME"
    )
    output: AnyPath | None = option(
        "Output", "Write a page with charts, index.html, to DIR.", metavar="DIR"
    )
    dry_run: bool = option("Run", "Print the combinations, measure nothing.", default=False)
    progress: Progress | None = None  # receives the progress

"""The options of ``serve``, ``sagemaker`` and ``cost``.

Importing this must stay cheap: ``--help`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dsprep.arguments import AnyPath
from dsprep.declared import Option, Options, field, option
from dsprep.formats import CONCATENATIVE

if TYPE_CHECKING:
    from dsprep.progress import Progress

_run = partial(option, "Run")
_channels = partial(option, "Channels")
_job = partial(option, "Job")
_costs = partial(option, "Data")
_machines = partial(option, "Machines")


CHANNEL = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""What SageMaker allows as the name of a channel."""


class ServeOptions(Options):
    """The options of ``serve``."""

    data: AnyPath | None = Option(default=None, positional=True)
    channels: Mapping[str, AnyPath] | None = _channels(
        "Serve DATA as this channel; repeat it for several. Without it, DATA is the channel train, "
        "or each of its sides is a channel.",
        metavar="NAME=DATA",
    )
    to: str | None = _channels(
        "Convert shards to this format while they are sent.", choices=tuple(CONCATENATIVE)
    )
    attributes: Sequence[str] = _channels(
        "Attributes of an augmented manifest to send, in this order.  [default: source-ref and the "
        "label]",
        default=(),
        metavar="NAME[,NAME...]",
    )
    epochs: int | None = _channels(
        "Number of epochs, each with a pipe of its own.  [default: 1, or until the program ends]"
    )
    shuffle_shards: bool = _channels(
        "Send shards, files or lines in another order in each epoch.", default=False
    )
    seed: int | None = _channels("Seed of --shuffle-shards.  [default: 0]", least=None)
    part: str | None = _channels(
        "Send part I (from 0) of N, as an instance gets it with ShardedByS3Key.", metavar="I/N"
    )
    fifo: AnyPath | None = _run(
        "Directory of the pipes, laid out as /opt/ml. Without it, a program gets a temporary one.",
        metavar="DIR",
    )
    timeout: float | None = None  # seconds without a reader after which it stops
    write: Callable[..., object] | None = None  # called with each block, instead of pipes
    progress: Progress | None = None  # receives the progress
    program: Sequence[str] = ()  # a command to run, with its arguments


BUILT_IN = (
    *("image-classification", "object-detection", "semantic-segmentation"),
    *("linear-learner", "factorization-machines", "xgboost", "knn", "kmeans", "pca", "blazingtext"),
)
"""SageMaker's built-in algorithms that ``sagemaker`` knows."""


class SagemakerOptions(Options):
    """The options of ``sagemaker``."""

    data: Sequence[AnyPath] = field(kw_only=False)
    prefix: AnyPath | None = _channels(
        "Where the data on this disk is, or will be, on S3: DIR is URL/DIR.", metavar="URL"
    )
    mode: str | None = _channels(
        "Input mode of the channels.  [default: Pipe for augmented manifests, File for --algorithm "
        "and for channels with a list or annotations, else FastFile]",
        choices=("File", "FastFile", "Pipe"),
    )
    sharded: bool = _channels(
        "Give each instance a share of the objects (ShardedByS3Key), instead of all.", default=False
    )
    seed: int | None = _channels(
        "Seed of ShuffleConfig, which changes the order of objects in each epoch.",
        least=0,
        rare=True,
    )
    attributes: Sequence[str] = _channels(
        "Attributes of augmented manifests, in this order.  [default: source-ref and the label]",
        default=(),
        metavar="NAME[,NAME...]",
        rare=True,
    )
    lists: AnyPath | None = _channels(
        "Write the lists of shards that channels need to DIR, to be uploaded where the job expects "
        "them.",
        metavar="DIR",
    )
    algorithm: str | None = _job(
        f"Built-in algorithm, for its content types, and the hyperparameters that follow from the "
        f"data: {', '.join(BUILT_IN)}.",
        choices=BUILT_IN,
        metavar="NAME",
    )
    hyper: Mapping[str, str] | None = _job(
        "Hyperparameter, such as epochs=3.", metavar="NAME=VALUE"
    )
    class_names: AnyPath | None = _job(
        "Class names, one a line: their number is num_classes of the job, if the data does not "
        "tell it.",
        metavar="FILE",
        rare=True,
    )
    vpc: Sequence[str] = _job(
        "Subnets and security groups of the job, subnet-1234,sg-5678, which file systems need.",
        default=(),
        metavar="ID[,ID...]",
        rare=True,
    )
    name: str = _job("Name of the job.", default="dsprep-job", metavar="TEXT")
    image: str | None = _job("Container image.", metavar="URI")
    role: str | None = _job("Role of the job.", metavar="ARN")
    output: str | None = _job("Where the job writes on S3.", metavar="URL")
    instances: int = _job("Number of instances.", default=1)
    instance_type: str | None = _job(
        "Type of the instances.  [default: ml.g5.xlarge; ml.m5.xlarge for processing and tables]",
        metavar="TYPE",
        rare=True,
    )
    command: Sequence[str] = ()  # a command of dsprep: the job is a processing job that runs it


class CostOptions(Options):
    """The options of ``cost``."""

    data: Sequence[AnyPath] = Option(default=(), positional=True)
    samples: int | None = _costs("Number of samples, if there is no DATA.")
    size: int | str | None = _costs("Size of all samples, if there is no DATA, such as 100TB.")
    shard_size: Sequence[str] = _costs(
        "Sizes of shards to compare.  [default: 10MB,100MB,1GB]", default=(), metavar="SIZE[,SIZE]"
    )
    prices: AnyPath | None = _costs(
        "Table of prices, instead of the built-in one, dsprep/training/prices.toml.", metavar="FILE"
    )
    gpu_hour: float | None = _machines("Price of an hour of all machines.")
    epoch_hours: float | None = _machines("Hours of an epoch that never waits for data.")
    utilization: float | None = _machines(
        "Share of the time in which the machines do not wait for data, such as 0.6."
    )

"""``sagemaker``: the JSON of a training job, or of a processing job, that a data set decides.

The layouts of the built-in algorithms are those of SageMaker's developer guide: "Input/Output
Interface" of Image Classification, Object Detection and Semantic Segmentation.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from dsprep.declared import called_with
from dsprep.errors import OptionError
from dsprep.frozen import Frozen
from dsprep.options import require_effect
from dsprep.printable import json_values
from dsprep.storage.files import require_disk
from dsprep.storage.local import destination_errors, write_whole
from dsprep.storage.location import parse_url
from dsprep.training.algorithms import (
    ABOUT,
    ALGORITHMS,
    MAP,
    UNKNOWN,
    content_type,
    content_unseen,
    hyperparameters,
)
from dsprep.training.facts import DataFacts, facts_of
from dsprep.training.features import count_features, has_header
from dsprep.training.job_channels import JobChannel, job_channels
from dsprep.training.jobs import GPU, MISSING, STOPPING, needs_upload, resources, vpc_of
from dsprep.training.options import SagemakerOptions
from dsprep.training.processing import processing_job
from dsprep.units import format_count

_LEAST_SIDE = 300  # shortest edge of images in object detection
_MOST_CHANNELS = 20  # API reference, `CreateTrainingJob`, `InputDataConfig`

_UNKNOWN_VPC = {"SecurityGroupIds": [f"sg-{UNKNOWN}"], "Subnets": [f"subnet-{UNKNOWN}"]}


class SagemakerReport(Frozen):
    """The request that creates a job, and what it says of the data."""

    request: str  # `CreateTrainingJob` or `CreateProcessingJob`
    job: Mapping[str, Any]  # its JSON
    channels: Sequence[JobChannel]
    lists: Mapping[str, Sequence[Any]]  # lists of shards that the job expects, by their URLs
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return json_values(
            {
                "request": self.request,
                "job": self.job,
                "channels": self.channels,
                "lists": self.lists,
                "notes": self.notes,
            }
        )


@called_with(SagemakerOptions)
def sagemaker(options: SagemakerOptions) -> SagemakerReport:
    """Return the JSON of a SageMaker job whose channels are data sets.

    Each of ``data`` is ``PLACE`` or ``CHANNEL=PLACE``: a data set on a disk or on S3, a ``.lst``,
    an augmented manifest, a directory of images or of annotations, ``efs://ID/PATH`` or
    ``fsx://ID/PATH``. With ``command``, the job is a processing job that runs this command of
    dsprep on the one place. Nothing is sent to AWS.

    Returns:
        The request's JSON, and the facts that it was made of.
    """
    require_effect("sagemaker", options.given)
    if options.output is not None:
        parse_url(str(options.output))
    missing = [name for name in MISSING if getattr(options, name) is None]
    notes = [f"replace {name} in the JSON, or give --{name}" for name in missing]
    if options.command:
        _require_none_of_training(options)
        job, uploads = processing_job(options)
        return SagemakerReport("CreateProcessingJob", job, (), {}, notes + uploads)
    channels = _channels(options)
    lists = {each.uri: each.listed for each in channels if each.listed}
    _require_used(channels, options)
    notes += _notes_on_instances(channels, options)
    notes += _take_lists(lists, options)
    vpc, unknown_vpc = _network(channels, options)
    found, unknown = _hyperparameters({each.name: each for each in channels}, options)
    notes += unknown_vpc + unknown + _notes(channels, options)
    job = _training_job(channels, options, found)
    if vpc is not None:
        job["VpcConfig"] = vpc
    return SagemakerReport("CreateTrainingJob", job, channels, lists, notes)


def _require_none_of_training(options: SagemakerOptions) -> None:
    """Refuse options that a processing job does not have."""
    training = (
        *("--lists", "--mode", "--seed", "--attributes"),
        *("--algorithm", "--hyper", "--class-names"),
    )
    if given := [name for name in training if name in options.given]:
        raise OptionError(f"{given[0]} is for training jobs; leave it out")


def _channels(options: SagemakerOptions) -> list[JobChannel]:
    """Return the channels of a training job, which differ in their names."""
    channels = [each for data in options.data for each in job_channels(str(data), options)]
    if len(channels) > _MOST_CHANNELS:
        raise OptionError(f"{len(channels)} channels: a training job has at most {_MOST_CHANNELS}")
    names = [channel.name for channel in channels]
    for name in names:
        about = next((name.removesuffix(end) for end in ABOUT if name.endswith(end)), name)
        if names.count(name) > 1 or about not in names:
            why = "is named twice" if about == name else f"goes with a channel {about}"
            raise OptionError(f"channel {name}: {why}; write DATA as CHANNEL=PLACE")
    if options.mode is not None:
        return channels
    return [replace(each, mode="File") if each.is_file(names) else each for each in channels]


def _require_used(channels: Sequence[JobChannel], options: SagemakerOptions) -> None:
    """Refuse options that are for other channels than these."""
    effects = {
        "--prefix": any(each.data and needs_upload(each.data.place) for each in channels),
        "--attributes": any(each.attributes for each in channels),
    }
    if idle := [name for name, effect in effects.items() if name in options.given and not effect]:
        raise OptionError(f"{idle[0]} has no effect: no channel needs it; leave it out")


def _notes_on_instances(channels: Sequence[JobChannel], options: SagemakerOptions) -> list[str]:
    """Name the channels with fewer files than instances that get a share each."""
    notes = []
    for each in channels:
        count = len(each.data.files) if each.data and each.is_sharded(options) else math.inf
        if count < options.instances:
            files = format_count(int(count), "file")
            notes.append(f"{each.name}: {files} for {options.instances} instances; some get none")
    return notes


def _take_lists(lists: Mapping[str, Sequence[Any]], options: SagemakerOptions) -> list[str]:
    """Write the lists of shards to ``--lists``; return notes on those that nobody has written."""
    if options.lists is None:
        return [f"upload {', '.join(lists)}: give --lists DIR to write it"] if lists else []
    if not lists:
        return [f"--lists {options.lists}: no channel needs a list, so none is written"]
    require_disk(str(options.lists))
    _write_lists(str(options.lists), lists)
    return []


def _network(
    channels: Sequence[JobChannel], options: SagemakerOptions
) -> tuple[Mapping[str, Sequence[str]] | None, list[str]]:
    """Return the network of the job, which file systems need, and a note if it is unknown."""
    if options.vpc:
        return vpc_of(options.vpc), []
    if all(each.data is not None for each in channels):
        return None, []
    return _UNKNOWN_VPC, [
        "replace the subnet and the security group in VpcConfig with those of the file system, "
        "or give --vpc subnet-…,sg-…"
    ]


def _training_job(
    channels: Sequence[JobChannel], options: SagemakerOptions, found: Mapping[str, str]
) -> dict[str, Any]:
    """Return the JSON of a training job with these channels and hyperparameters."""
    names = [channel.name for channel in channels]
    instance = ALGORITHMS[options.algorithm].instance if options.algorithm else GPU
    return {
        "TrainingJobName": options.name,
        "AlgorithmSpecification": {
            "TrainingImage": options.image or MISSING["image"],
            "TrainingInputMode": channels[0].mode,
        },
        "RoleArn": options.role or MISSING["role"],
        "InputDataConfig": [channel.entry(options, names) for channel in channels],
        "OutputDataConfig": {"S3OutputPath": options.output or MISSING["output"]},
        "ResourceConfig": resources(
            options, sum(each.stored(options) for each in channels), instance
        ),
        "StoppingCondition": STOPPING,
        "HyperParameters": found,
    }


def _write_lists(directory: str, lists: Mapping[str, Sequence[Any]]) -> None:
    with destination_errors(directory):
        os.makedirs(directory, exist_ok=True)
        for url, values in lists.items():
            path = Path(directory, os.path.basename(url))
            write_whole(path, json.dumps(values).encode() + b"\n", path.parent)


# Hyperparameters


def _hyperparameters(
    channels: Mapping[str, JobChannel], options: SagemakerOptions
) -> tuple[dict[str, str], list[str]]:
    """Return the hyperparameters that follow from the data, and notes on the others."""
    from dsprep.lists.store import read_classes  # polars is slow to import

    given = dict(options.hyper or {})
    if options.algorithm is None:
        return given, []
    algorithm = ALGORITHMS[options.algorithm]

    @cache
    def fact(name: str) -> str | None:
        if name == "classes" and options.class_names is not None:
            return str(len(read_classes(str(options.class_names))))
        return _fact(name, channels, options.algorithm or "")

    found = hyperparameters(algorithm, given, fact)
    notes = [
        f"{name} is {UNKNOWN} in the JSON: give --hyper {name}=VALUE"
        for name, value in found.items()
        if value == UNKNOWN
    ]
    notes += [
        f"{name}={value} is left out: it goes with --hyper {needed.other}={needed.example}"
        for name, needed in algorithm.needed.items()
        if needed.other not in given and name not in found and (value := fact(needed.fact))
    ]
    return found, notes


def _fact(name: str, channels: Mapping[str, JobChannel], algorithm: str) -> str | None:
    """Return a fact of the data, as it stands in the hyperparameters of an algorithm."""
    train = channels.get("train") or next(iter(channels.values()))
    # A list, annotations or a label map know better than a directory of images.
    names = (*(train.name + end for end in ABOUT), MAP, train.name)
    told = [each.data for name in names if (each := channels.get(name)) and each.data]
    value: int | str | None = None
    if name == "samples":
        value = next((each.samples for each in told if each.samples), None)
    elif name == "classes":
        value = next((each.classes for each in told if each.classes), None)
    elif name == "label_width":  # training and validation must have the same label width
        value = max(map(_label_width, channels.values()), default=0) or None
    elif train.data is None:
        return None
    elif name == "features":
        content = content_type(algorithm, train.name, train.data, train.mode) or ""
        value = count_features(train.data, labels=0 if content.endswith("label_size=0") else 1)
    elif train.data.shape is not None:
        width, height = train.data.shape
        if name == "shape":
            value = f"3,{height},{width}"
        elif width == height >= _LEAST_SIDE:
            value = width
    return None if value is None else str(value)


def _label_width(channel: JobChannel) -> int:
    """Return the numbers of the longest detection label of a channel; 0 if nothing tells."""
    if (data := channel.data) is None:
        return 0
    lists = [os.path.join(data.directory, name) for name in data.beside if name.endswith(".lst")]
    told = [data, *(facts for path in lists for facts in facts_of(path))]
    return max(each.label_width or 0 for each in told)


def _notes(channels: Sequence[JobChannel], options: SagemakerOptions) -> list[str]:
    """Return what an algorithm would stumble over."""
    names = [each.name for each in channels]
    notes = [
        f"{each.name}: add the ContentType of its data, as dsprep does not look at file systems"
        for each in channels
        if each.data is None and content_unseen(options.algorithm, each.name, names) is None
    ]
    if options.algorithm is None:
        return notes
    if options.mode == "FastFile":
        notes.append(f"{options.algorithm} is documented for File and Pipe mode, not for FastFile")
    for each in channels:
        if each.data is not None:
            notes += (f"{each.name}: {why}" for why in _doubts(each, each.data, names, options))
    return notes


def _doubts(
    channel: JobChannel, data: DataFacts, names: Sequence[str], options: SagemakerOptions
) -> Iterator[str]:
    """Yield why an algorithm would not read a channel."""
    name = options.algorithm or ""
    is_piped = channel.mode == "Pipe"
    if name == "image-classification" and is_piped and options.sharded and not channel.attributes:
        yield (
            f"{name} needs all records on each instance in Pipe mode (FullyReplicated): leave out "
            "--sharded"
        )
    if has_header(data):
        yield (
            f"{data.place} does not begin with a line of numbers; {name} takes numbers alone, "
            "without a header, the label first"
        )
    if not is_piped and any(file.endswith(".gz") for file, _ in data.files):
        yield f"{data.place} is compressed, and SageMaker decompresses in Pipe mode only"
    for about in (channel.name + end for end in ABOUT):
        if data.format == "files" and about in ALGORITHMS[name].channels and about not in names:
            yield f"{name} reads image files with a channel {about}; add it"

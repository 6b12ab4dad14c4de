"""``sagemaker``: the JSON of a training job, or of a processing job, that a data set decides.

The layouts of the built-in algorithms are those of SageMaker's developer guide: "Input/Output
Interface" of Image Classification, Object Detection and Semantic Segmentation.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from dsprep.dataset.manifest import MANIFEST
from dsprep.declared import called_with
from dsprep.errors import OptionError
from dsprep.formats.augmented import default_attributes
from dsprep.options import require_effect
from dsprep.printable import json_values
from dsprep.storage.files import absolute, is_dir, require_disk
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
    require_channel,
)
from dsprep.training.channels import WRAPPED, channel_name, require_stream
from dsprep.training.facts import DataFacts, facts_of, side_of
from dsprep.training.features import count_features, has_header
from dsprep.training.jobs import (
    GPU,
    MISSING,
    STOPPING,
    WILD,
    needs_upload,
    resources,
    url_of,
    vpc_of,
)
from dsprep.training.options import CHANNEL, SagemakerOptions
from dsprep.training.processing import processing_job
from dsprep.units import format_count, quoted_names

_LEAST_SIDE = 300  # of images in object detection
_MOST_CHANNELS = 20  # API reference, `CreateTrainingJob`, `InputDataConfig`

_UNKNOWN_VPC = {"SecurityGroupIds": [f"sg-{UNKNOWN}"], "Subnets": [f"subnet-{UNKNOWN}"]}
_FILE_SYSTEM = re.compile(r"(efs|fsx)://(fs-[0-9a-f]+)(/\S*)")
_TYPES = {"efs": "EFS", "fsx": "FSxLustre"}

_SHORT = {"val": "validation", "valid": "validation", "training": "train"}  # names of sides
_HELD_OUT = ("validation", "val", "valid", "test", "eval")  # channels that nobody trains on


@dataclass(frozen=True)
class SagemakerReport:
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
        training = (
            "--lists",
            "--mode",
            "--seed",
            "--attributes",
            "--algorithm",
            "--hyper",
            "--class-names",
        )
        if given := [name for name in training if name in options.given]:
            raise OptionError(f"{given[0]} is for training jobs; leave it out")
        job, uploads = processing_job(options)
        return SagemakerReport("CreateProcessingJob", job, (), {}, notes + uploads)
    channels = [each for data in options.data for each in _channels(str(data), options)]
    names = [channel.name for channel in channels]
    if len(channels) > _MOST_CHANNELS:
        raise OptionError(f"{len(channels)} channels: a training job has at most {_MOST_CHANNELS}")
    for name in names:
        about = next((name.removesuffix(end) for end in ABOUT if name.endswith(end)), name)
        if names.count(name) > 1 or about not in names:
            why = "is named twice" if about == name else f"goes with a channel {about}"
            raise OptionError(f"channel {name}: {why}; write DATA as CHANNEL=PLACE")
    if options.mode is None:
        channels = [
            replace(each, mode="File") if each.is_file(names) else each for each in channels
        ]
    lists = {each.uri: each.listed for each in channels if each.listed}
    effects = {
        "--prefix": any(each.data and needs_upload(each.data.place) for each in channels),
        "--attributes": any(each.attributes for each in channels),
    }
    if idle := [name for name, effect in effects.items() if name in options.given and not effect]:
        raise OptionError(f"{idle[0]} has no effect: no channel needs it; leave it out")
    for each in channels:
        count = len(each.data.files) if each.data and each.is_sharded(options) else math.inf
        if count < options.instances:
            files = format_count(int(count), "file")
            notes.append(f"{each.name}: {files} for {options.instances} instances; some get none")
    if options.lists is not None and not lists:
        notes.append(f"--lists {options.lists}: no channel needs a list, so none is written")
    elif options.lists is not None:
        require_disk(str(options.lists))
        _write_lists(str(options.lists), lists)
    elif lists:
        notes.append(f"upload {', '.join(lists)}: give --lists DIR to write it")
    vpc = vpc_of(options.vpc) if options.vpc else None
    if vpc is None and any(each.data is None for each in channels):
        vpc = _UNKNOWN_VPC
        notes.append(
            "replace the subnet and the security group in VpcConfig with those of the file system, "
            "or give --vpc subnet-…,sg-…"
        )
    told, unknown = _hyperparameters({each.name: each for each in channels}, options)
    notes += unknown + _notes(channels, options)
    instance = ALGORITHMS[options.algorithm].instance if options.algorithm else GPU
    job = {
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
        "HyperParameters": told,
    }
    if vpc is not None:
        job["VpcConfig"] = vpc
    return SagemakerReport("CreateTrainingJob", job, channels, lists, notes)


# Channels


@dataclass(frozen=True)
class JobChannel:
    """A channel of a training job."""

    name: str
    uri: str  # on S3, or in a file system
    mode: str
    data: DataFacts | None = None  # None in a file system
    kind: str = "S3Prefix"
    attributes: Sequence[str] = ()
    listed: Sequence[Any] = field(default=(), repr=False)  # the list of shards at the URI

    def is_file(self, names: Sequence[str]) -> bool:
        """Return whether SageMaker's algorithms read it, with what tells of it, in File mode."""
        is_about = self.name.endswith(ABOUT) or self.name == MAP
        return is_about or any(self.name + end in names for end in ABOUT) and self.mode != "Pipe"

    def stored(self, options: SagemakerOptions) -> int:
        """Return the most bytes that an instance downloads before the job begins."""
        if self.mode != "File" or self.data is None:
            return 0
        sizes = [size for _, size in self.data.files]
        if self.is_sharded(options):
            return math.ceil(len(sizes) / options.instances) * max(sizes, default=0)
        return max(self.data.bytes or 0, sum(sizes))

    def is_sharded(self, options: SagemakerOptions) -> bool:
        """Return whether each instance gets a share; lists and annotations go to all."""
        whole = ALGORITHMS[options.algorithm].replicated if options.algorithm else ()
        return options.sharded and not self.name.endswith(ABOUT) and self.name not in whole

    @property
    def is_training(self) -> bool:
        """Whether a model is trained on its samples, whose order then matters."""
        return self.name not in (*_HELD_OUT, MAP) and not self.name.endswith(ABOUT)

    def entry(self, options: SagemakerOptions, names: Sequence[str]) -> dict[str, Any]:
        """Return an entry of ``InputDataConfig``, beside those of these names."""
        if found := _FILE_SYSTEM.fullmatch(self.uri):
            place = {"FileSystemId": found[2], "FileSystemType": _TYPES[found[1]]}
            place |= {"DirectoryPath": found[3], "FileSystemAccessMode": "ro"}
            source = {"FileSystemDataSource": place}
            content = content_unseen(options.algorithm, self.name, names)
            told = {"ContentType": content} if content else {}
            return {"ChannelName": self.name, "DataSource": source, **told, "InputMode": "File"}
        share = "ShardedByS3Key" if self.is_sharded(options) else "FullyReplicated"
        on_s3: dict[str, Any] = {"S3DataType": self.kind, "S3Uri": self.uri}
        on_s3["S3DataDistributionType"] = share
        if self.attributes:
            on_s3["AttributeNames"] = list(self.attributes)
        assert self.data is not None
        # SageMaker decompresses in Pipe mode only.
        is_gzip = self.mode == "Pipe" and self.data.files[0][0].endswith((".gz", ".tgz"))
        is_wrapped = self.data.format in WRAPPED and self.mode == "Pipe"
        entry: dict[str, Any] = {
            "ChannelName": self.name,
            "DataSource": {"S3DataSource": on_s3},
            "ContentType": content_type(options.algorithm, self.name, self.data, self.mode),
            "InputMode": self.mode,
            "CompressionType": "Gzip" if is_gzip else "None",
            "RecordWrapperType": "RecordIO" if is_wrapped else "None",
        }
        if options.seed is not None and self.is_training:
            entry["ShuffleConfig"] = {"Seed": options.seed}
        return {name: value for name, value in entry.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        return json_values({"name": self.name, "uri": self.uri, "data": self.data})


def _channels(text: str, options: SagemakerOptions) -> Iterator[JobChannel]:
    """Return the channel of a data set, or one for each of its sides."""
    name, equals, place = text.partition("=")
    is_named = equals and CHANNEL.fullmatch(name)
    name, place = (name, place) if is_named else ("", text)
    if place.startswith(("efs://", "fsx://")):
        if not _FILE_SYSTEM.fullmatch(place):
            raise OptionError(f"{place}: write it as efs://fs-0123456789abcdef0/path")
        default = place.rstrip("/").rpartition("/")[2]
        yield JobChannel(name or default, place, "File")
        return
    for data in side_of(place, name or None, options.attributes):
        own = name or data.side or os.path.basename(place.rstrip("/")).partition(".")[0]
        if options.algorithm and not name and own not in ALGORITHMS[options.algorithm].channels:
            own = _SHORT.get(own, own)
        yield _located(channel_name(own, place), data, options)


def _located(name: str, data: DataFacts, options: SagemakerOptions) -> JobChannel:
    """Return a channel with what the job reads of its data: a prefix, or a list of objects."""
    place = data.place
    directory, last = os.path.split(absolute(place).rstrip("/"))
    own = [file for file, _ in data.files]
    is_some = last == MANIFEST or (WILD.search(last) is not None and not is_dir(place))
    is_lines = data.format == "augmented-manifest"
    mode = options.mode or ("File" if options.algorithm and not is_lines else "")
    if options.algorithm is not None:
        require_channel(options.algorithm, name, data, mode)
    elif mode == "Pipe":
        require_stream(data)
    uri = url_of(place, options.prefix, os.path.basename(directory) if is_some else "")
    if is_lines:
        if options.mode not in (None, "Pipe"):
            raise OptionError(f"--mode {options.mode}: augmented manifests are read in Pipe mode")
        if unknown := [name for name in options.attributes if name not in data.attributes]:
            names = quoted_names(data.attributes)
            raise OptionError(f"--attributes {unknown[0]}: {place} has the attributes {names}")
        attributes = options.attributes or default_attributes(data.attributes)
        return JobChannel(name, uri, "Pipe", data, "AugmentedManifestFile", attributes)
    is_below = is_some or last in own
    prefix = (os.path.dirname(uri) if is_below else uri.rstrip("/")) + "/"
    channel = JobChannel(name, prefix, mode or "FastFile", data)
    if len(own) == 1 and last in own and not data.beside:
        return replace(channel, uri=uri)
    is_part = bool(data.side) or is_below and last != MANIFEST
    # The built-in algorithms read all files of a channel.
    is_exact = is_part or mode == "Pipe" or options.sharded or options.algorithm is not None
    if not is_exact or not (is_part or data.beside):
        return channel
    common = os.path.commonprefix(own).rstrip("0123456789")
    if common and data.beside and not any(each.startswith(common) for each in data.beside):
        return replace(channel, uri=prefix + common)
    above = os.path.dirname(prefix[:-1])
    url = os.path.join(above if above.count("/") > 1 else prefix, f"{name}.list")
    return replace(channel, uri=url, kind="ManifestFile", listed=[{"prefix": prefix}, *own])


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
    elif name == "label_width":  # one width for training and validation
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

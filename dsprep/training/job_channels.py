"""Channels of a training job: what of its data each reads, and their entries in the JSON."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from dsprep.dataset.names import MANIFEST
from dsprep.errors import OptionError
from dsprep.formats.augmented import default_attributes
from dsprep.frozen import Frozen
from dsprep.printable import json_values
from dsprep.storage.files import absolute, is_dir
from dsprep.training.algorithms import (
    ABOUT,
    ALGORITHMS,
    MAP,
    content_type,
    content_unseen,
    require_channel,
)
from dsprep.training.channels import WRAPPED, channel_name, require_stream
from dsprep.training.facts import DataFacts, side_of
from dsprep.training.jobs import WILD, url_of
from dsprep.training.options import CHANNEL, SagemakerOptions
from dsprep.units import quoted_names

_FILE_SYSTEM = re.compile(r"(efs|fsx)://(fs-[0-9a-f]+)(/\S*)")
_TYPES = {"efs": "EFS", "fsx": "FSxLustre"}

_LINES = "augmented-manifest"
_SHORT = {"val": "validation", "valid": "validation", "training": "train"}  # names of sides
_HELD_OUT = ("validation", "val", "valid", "test", "eval")  # channels that nobody trains on


class JobChannel(Frozen):
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


def job_channels(text: str, options: SagemakerOptions) -> Iterator[JobChannel]:
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
    directory, last = os.path.split(absolute(data.place).rstrip("/"))
    is_some = _names_some(data.place, last)
    mode = _readable_mode(name, data, options)
    uri = url_of(data.place, options.prefix, os.path.basename(directory) if is_some else "")
    if data.format == _LINES:
        return _of_lines(name, uri, data, options)
    files = [file for file, _ in data.files]
    if files == [last] and not data.beside:
        return JobChannel(name, uri, mode or "FastFile", data)
    is_below = is_some or last in files
    prefix = (os.path.dirname(uri) if is_below else uri.rstrip("/")) + "/"
    channel = JobChannel(name, prefix, mode or "FastFile", data)
    is_part = bool(data.side) or is_below and last != MANIFEST
    if not _leaves_out(data, options, mode, is_part):
        return channel
    if common := _prefix_of_all(files, data.beside):
        return replace(channel, uri=prefix + common)
    listed = [{"prefix": prefix}, *files]
    return replace(channel, uri=_url_of_list(name, prefix), kind="ManifestFile", listed=listed)


def _names_some(place: str, last: str) -> bool:
    """Return whether a place names files in a directory: by a manifest there, or a pattern."""
    return last == MANIFEST or (WILD.search(last) is not None and not is_dir(place))


def _readable_mode(name: str, data: DataFacts, options: SagemakerOptions) -> str:
    """Return the input mode that is asked for, or empty; refuse data that cannot be read so."""
    mode = options.mode or ("File" if options.algorithm and data.format != _LINES else "")
    if options.algorithm is not None:
        require_channel(options.algorithm, name, data, mode)
    elif mode == "Pipe":
        require_stream(data)
    return mode


def _of_lines(name: str, uri: str, data: DataFacts, options: SagemakerOptions) -> JobChannel:
    """Return the channel of an augmented manifest, whose lines name the objects."""
    if options.mode not in (None, "Pipe"):
        raise OptionError(f"--mode {options.mode}: augmented manifests are read in Pipe mode")
    if unknown := [each for each in options.attributes if each not in data.attributes]:
        names = quoted_names(data.attributes)
        raise OptionError(f"--attributes {unknown[0]}: {data.place} has the attributes {names}")
    attributes = options.attributes or default_attributes(data.attributes)
    return JobChannel(name, uri, "Pipe", data, "AugmentedManifestFile", attributes)


def _leaves_out(data: DataFacts, options: SagemakerOptions, mode: str, is_part: bool) -> bool:
    """Return whether the job must not read all that lies below the prefix."""
    # The built-in algorithms read all files of a channel.
    is_exact = is_part or mode == "Pipe" or options.sharded or options.algorithm is not None
    return is_exact and (is_part or bool(data.beside))


def _prefix_of_all(files: Sequence[str], beside: Sequence[str]) -> str:
    """Return a prefix that all files have, and none of those beside them; empty if none is."""
    common = os.path.commonprefix(list(files)).rstrip("0123456789")
    is_known = bool(beside) and not any(each.startswith(common) for each in beside)
    return common if is_known else ""


def _url_of_list(name: str, prefix: str) -> str:
    """Return where the list of a channel's objects lies: above them, if that is in the bucket."""
    above = os.path.dirname(prefix[:-1])
    return os.path.join(above if above.count("/") > 1 else prefix, f"{name}.list")

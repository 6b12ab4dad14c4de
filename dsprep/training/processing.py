"""The JSON of a SageMaker processing job that runs a command of dsprep.

Without ``--sharded``, dsprep itself reads the data from S3 and writes there, each instance a part.
With it, what an instance makes of its own files is written to the instance's volume, from where
SageMaker uploads it when the job ends.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from dsprep.declared import options_in
from dsprep.errors import OptionError, SourceError
from dsprep.formats import writes_tree
from dsprep.options import option_name
from dsprep.places.scan import scan_below
from dsprep.plan.options import AugmentOptions, ConvertOptions, PackOptions, ShardOptions
from dsprep.storage.location import parse_url
from dsprep.training.facts import facts_of
from dsprep.training.jobs import (
    CPU,
    MISSING,
    STOPPING,
    WILD,
    needs_upload,
    resources,
    url_of,
    vpc_of,
)
from dsprep.training.options import SagemakerOptions
from dsprep.tuples import NamedTuple

COMMANDS = {
    "pack": PackOptions,
    "convert": ConvertOptions,
    "shard": ShardOptions,
    "augment": AugmentOptions,
}
"""The commands that a job runs, with their options."""

_PLACE = "/opt/ml/processing"
_OUTPUT = f"{_PLACE}/output"

# API reference, `CreateProcessingJob` and `AppSpecification`
_MOST_INPUTS = 10
_MOST_WORDS = 100
_LONGEST_WORD = 256

# Each instance packs the files that it gets, under names of its own; at most 256 characters.
SHARE = (
    'n=$(sed \'s/.*"current_host": *"//;s/".*//\' /opt/ml/config/resourceconfig.json); '
    'c=$1; shift; cd /opt/ml/processing; exec dsprep "$c" input "output/$n" "$@"'
)
SHARE_OF_SHARDS = SHARE + ' --name "train-$n"'

_WRITTEN = ("--schema-out", "--preview")  # files that a command writes besides DEST


class _Input(NamedTuple):
    """A file, a folder, or files of a pattern on this disk, which SageMaker brings to the job."""

    place: str  # a path on this disk, as the user gave it
    url: str  # on S3
    name: str
    path: str  # in the job
    size: int  # in bytes


def processing_job(options: SagemakerOptions) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON of a job that runs a command of dsprep on the one place, and notes on it."""
    command, *rest = options.command
    if command not in COMMANDS:
        raise OptionError(f"{command}: choose {', '.join(COMMANDS)} as the command of the job")
    if len(options.data) != 1:
        raise OptionError("a processing job has one DATA")
    if options.output is None:
        raise OptionError("a processing job needs --output s3://BUCKET/PATH")
    source = str(options.data[0])
    url = url_of(source, options.prefix)
    words, needed = _moved(command, rest, options.prefix)
    if options.prefix is not None and not needs_upload(source) and not needed:
        raise OptionError("--prefix has no effect: all files are on S3; leave it out")
    is_tree = _is_tree(rest)
    inputs = [_input(each.name, each.url, "FullyReplicated") for each in needed]
    app: dict[str, Any] = {"ImageUri": options.image or MISSING["image"]}
    size = 0
    if options.sharded:
        inputs.insert(0, _input("input", url, "ShardedByS3Key"))
        app["ContainerEntrypoint"] = ["sh", "-c", SHARE if is_tree else SHARE_OF_SHARDS, "sh"]
        arguments = [command, *words]
    else:
        if is_tree and not parse_url(options.output).key.strip("/"):
            raise OptionError(f"--output {options.output}: give s3://BUCKET/PATH for a folder")
        part = ["--part", "auto"] if options.instances > 1 else []
        arguments = [command, url, options.output, *words, *part]
    app["ContainerArguments"] = arguments
    _require_room(inputs, arguments)
    places: dict[str, Any] = {"ProcessingInputs": inputs} if inputs else {}
    if options.sharded:
        size = 2 * sum(size for data in facts_of(source) for _, size in data.files)
        places["ProcessingOutputConfig"] = {"Outputs": [_output(options.output)]}
    if options.vpc:
        places["NetworkConfig"] = {"VpcConfig": vpc_of(options.vpc)}
    volume = math.ceil(size / options.instances) + sum(each.size for each in needed)
    job = {
        "ProcessingJobName": options.name,
        "RoleArn": options.role or MISSING["role"],
        "AppSpecification": app,
        "ProcessingResources": {"ClusterConfig": resources(options, volume, CPU)},
        "StoppingCondition": STOPPING,
    }
    notes = [f"the job reads {each.place} from {each.url}: upload it" for each in needed]
    return job | places, notes


def _moved(
    command: str, words: Sequence[str], prefix: object
) -> tuple[list[str], Sequence[_Input]]:
    """Return a command for the container, and the files of this disk that it needs there."""
    declared = options_in(COMMANDS[command]).values()
    files = {option_name(each.name) for each in declared if "AnyPath" in each.hint and each.group}
    moved: list[str] = []
    needed: dict[str, _Input] = {}
    for option, value in _pairs(words, files | {"--part"}):
        if option == "--part":
            raise OptionError("--part: the job gives each instance its part; leave it out")
        if option in _WRITTEN:
            raise OptionError(f"{option} {value}: is lost when the job ends; leave it out")
        if option and needs_upload(value):
            place = os.path.abspath(value)
            if place not in needed:
                needed[place] = _needed(option, value, prefix, list(needed.values()))
            value = needed[place].path
        moved += [option, value] if option else [value]
    return moved, list(needed.values())


def _pairs(words: Sequence[str], valued: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield these options with their values, and other words without an option."""
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option in valued:
            yield option, value if equals else next(rest, "")
        else:
            yield "", word


def _needed(option: str, place: str, prefix: object, others: Sequence[_Input]) -> _Input:
    """Return the input that a file, a folder or a pattern on this disk becomes."""
    directory, last = os.path.split(os.path.abspath(place))
    if (wild := WILD.search(last)) and not os.path.exists(place):
        stem = last[: wild.start()]
        names = [each for each in os.listdir(directory) if each.startswith(stem)]
        size = sum(os.path.getsize(os.path.join(directory, each)) for each in names)
        url = f"{url_of(directory, prefix)}/{stem}"
    elif os.path.isdir(place):
        size = sum(sum(scan.sizes) for scan in scan_below(place, None))
        url, last = f"{url_of(place, prefix)}/", ""
    elif os.path.exists(place):
        size, url = os.path.getsize(place), url_of(place, prefix)
    else:
        raise SourceError(f"{option} {place}: does not exist; name a file here, or one on S3")
    if any(each.url == url for each in others):
        raise OptionError(
            f"{option} {place}: would be {url}, as another file is; rename one of them, or give "
            "its address on S3"
        )
    own = option.removeprefix("--")
    count = sum(each.name.rstrip("0123456789").rstrip("-") == own for each in others)
    name = f"{own}-{count + 1}" if count else own
    return _Input(place, url, name, f"{_PLACE}/{name}/{last}".rstrip("/"), size)


def _is_tree(words: Sequence[str]) -> bool:
    """Return whether the command writes a folder of files."""
    asked = [value for option, value in _pairs(words, {"--to"}) if option]
    return bool(asked) and writes_tree(asked[-1])


def _input(name: str, url: str, share: str) -> dict[str, Any]:
    given = {"S3Uri": url, "LocalPath": f"{_PLACE}/{name}", "S3DataType": "S3Prefix"}
    given |= {"S3InputMode": "File", "S3DataDistributionType": share}
    return {"InputName": name, "S3Input": given}


def _output(url: str) -> dict[str, Any]:
    made = {"S3Uri": url, "LocalPath": _OUTPUT, "S3UploadMode": "EndOfJob"}
    return {"OutputName": "output", "S3Output": made}


def _require_room(inputs: Sequence[object], arguments: Sequence[str]) -> None:
    """Refuse what the service would refuse."""
    if len(inputs) > _MOST_INPUTS:
        raise OptionError(
            f"{len(inputs)} inputs: a processing job has at most {_MOST_INPUTS}; give some files "
            "by their addresses on S3"
        )
    if len(arguments) > _MOST_WORDS:
        raise OptionError(f"{len(arguments)} words: a job's command has at most {_MOST_WORDS}")
    for word in arguments:
        if len(word) > _LONGEST_WORD:
            raise OptionError(
                f"{word:.40}…: has {len(word)} characters, and a word of a job's command has at "
                f"most {_LONGEST_WORD}"
            )

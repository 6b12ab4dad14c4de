"""``dsprep sagemaker``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

import dsprep
from dsprep.cli.help import given_on_the_command_line
from dsprep.cli.options import command
from dsprep.cli.report import show
from dsprep.cli.serve import ProgramCommand
from dsprep.cli.streams import echo_as_is, say, until_nobody_reads
from dsprep.declared import unchecked
from dsprep.options import require_effect
from dsprep.training.options import SagemakerOptions
from dsprep.units import format_count, format_size

if TYPE_CHECKING:
    from dsprep.training.job_channels import JobChannel


class _JobCommand(ProgramCommand):
    """Takes what follows ``--`` as the command of a processing job."""

    program = "[-- COMMAND...]"


@command("DATA...", SagemakerOptions, cls=_JobCommand)
@click.pass_context
def sagemaker(context: click.Context, /, as_json: bool, quiet: bool, **options: Any) -> int:
    """Print the JSON of a SageMaker training job whose channels are DATA.

    DATA is PLACE or CHANNEL=PLACE: a data set, a table, a .lst, an augmented manifest, or a
    directory of images or annotations, on a disk or on S3; or a file system, efs://fs-1234/path.
    With -- and pack, convert, shard or augment, it is a processing job that runs this on DATA.

    Nothing is sent to AWS: aws sagemaker create-training-job --cli-input-json file://job.json does
    that. Notes on stderr say what is still to be replaced.

    \b
    Examples:
      dsprep sagemaker train=s3://bucket/train validation=s3://bucket/val > job.json
      dsprep sagemaker train=rec/ --prefix s3://bucket/ --algorithm image-classification > job.json
      dsprep sagemaker s3://bucket/photos --output s3://bucket/shards --instances 4 \\
          -- pack --to webdataset > job.json
    """
    words = context.meta["program"]
    _require_command(context, words)
    report = unchecked(dsprep.sagemaker)(command=words, **options)
    if not quiet:
        for channel in report.channels:
            say(f"{channel.name}: {_facts(channel)}")
        for note in report.notes:
            say(f"note: {note}")
    if as_json:
        show(report, list, as_json)
        return 0
    with until_nobody_reads(sys.stdout):
        # the output is JSON for the AWS command line: not escaped
        echo_as_is(json.dumps(report.job, indent=1))
    return 0


def _require_command(context: click.Context, words: Sequence[str]) -> None:
    """Refuse a command that the job could not run, as dsprep itself would in the container."""
    # imported here because --help does not need the module
    from dsprep.training.processing import COMMANDS

    root = context.find_root()
    if not words or words[0] not in COMMANDS:  # the public function says what it takes
        return
    command = root.command
    for name in (words[0], ""):  # shard is a group, whose command has no name
        if isinstance(command, click.Group):
            command = command.get_command(root, name) or command
    with command.make_context(words[0], ["SOURCE", "DEST", *words[1:]], root) as parsed:
        if (parsed.params["source"], parsed.params["dest"]) != (("SOURCE",), "DEST"):
            raise click.UsageError("DATA is SOURCE, and --output is DEST; leave them out.", parsed)
        require_effect(words[0], given_on_the_command_line(parsed))


def _facts(channel: JobChannel) -> str:
    """Describe the data of a channel."""
    if channel.data is None:
        return f"not looked at, in {channel.uri}"
    data = channel.data
    counts = ((data.samples, "sample"), (data.classes, "class"), (len(data.files), "file"))
    told = [format_count(count, noun) for count, noun in counts if count is not None]
    told += [format_size(data.bytes)] if data.bytes is not None else []
    return f"{', '.join(told)} in {channel.uri}"

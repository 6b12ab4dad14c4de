"""``dsprep shard append``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import GroupedCommand
from dsprep.cli.options import options_of, output_options, sources_argument
from dsprep.keywords import AppendOptions


@click.command(cls=GroupedCommand)
@sources_argument
@click.argument("dest", metavar="DATASET")
@options_of(AppendOptions)
@output_options
def append(sources: tuple[str, ...], dest: str, as_json: bool, quiet: bool, **options: Any) -> int:
    """Add the samples of SOURCE, as new shards, to DATASET.

    DATASET is a directory that pack, convert or shard wrote. Its shards stay as they are. The new
    ones have its format, its classes and the transform that it was made with; a class that it does
    not have is an error. The manifest and the indexes are replaced last.

    \b
    Examples:
      dsprep shard append more-photos/ shards/
      dsprep shard append new.zip shards/ --target-size 100MB --dry-run
    """
    from dsprep.cli.report import end
    from dsprep.commands import write as command
    from dsprep.progress import progress_for

    report = command.append(sources, dest, progress=progress_for(sys.stderr, quiet), **options)
    return end(report, sources[0], as_json, quiet)

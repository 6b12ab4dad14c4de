"""``dsprep shard``: cut shards again, append to them, index them."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import DefaultGroup, GroupedCommand
from dsprep.cli.options import options_of, output_options, sources_argument
from dsprep.keywords import ShardOptions

COMMANDS = {
    "append": ("dsprep.cli.shard_append", "Add new samples, as new shards, to a data set."),
    "index": ("dsprep.cli.shard_index", "Write the indexes that shards lack, and a manifest."),
}
"""The commands besides cutting, which has no name of its own."""


@click.command(cls=GroupedCommand, alias={"format": "to"})
@sources_argument
@click.argument("dest", metavar="DEST")
@options_of(ShardOptions)
@output_options
def cut(sources: tuple[str, ...], dest: str, as_json: bool, quiet: bool, **options: Any) -> int:
    """Write SOURCE as shards of another size or order at DEST.

    SOURCE is shards (a file, a pattern, a directory, a manifest), or anything that convert reads.
    Small shards are merged and large ones split; the order is kept, or shuffled as a whole. DEST is
    a directory or a file, and may be on S3: s3://bucket/prefix/.

    \b
    Examples:
      dsprep shard wds/ again/ --target-size 200MB
      dsprep shard 'part-*.tar' train.tar
      dsprep shard wds/ even/ --shards 64 --shuffle --seed 7
      dsprep shard recs/ for64/ --target-size 100MB --multiple-of 64
      dsprep shard wds/ cats/ --filter "class LIKE '%cat%' AND size > 10000"
    """
    from dsprep.cli.report import end
    from dsprep.commands import write as command
    from dsprep.progress import progress_for

    report = command.shard(sources, dest, progress=progress_for(sys.stderr, quiet), **options)
    return end(report, sources[0], as_json, quiet)


shard = DefaultGroup(name="shard", default=cut, lazy=COMMANDS)

"""``dsprep shard``: cut shards again, append to them, index them."""

from __future__ import annotations

from typing import Any

import click

from dsprep.cli.help import DefaultGroup, GroupedCommand, option_group
from dsprep.cli.options import options_of, output_options, sources_argument
from dsprep.keywords import AppendOptions, ShardOptions
from dsprep.verifying.options import IndexOptions

COMMANDS = {
    "append": (__name__, "Add new samples, as new shards, to a data set."),
    "index": (__name__, "Write the indexes that shards lack, and a manifest."),
}
"""The commands besides cutting, which has no name of its own."""

_index = option_group("Index")


@click.command(cls=GroupedCommand, alias={"format": "to"})
@sources_argument
@click.argument("dest", metavar="DEST")
@options_of(ShardOptions)
@output_options
def cut(**options: Any) -> int:
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
    from dsprep.cli.report import write
    from dsprep.commands.write import shard

    return write(shard, **options)


@click.command(cls=GroupedCommand)
@sources_argument
@click.argument("dest", metavar="DATASET")
@options_of(AppendOptions)
@output_options
def append(**options: Any) -> int:
    """Add the samples of SOURCE, as new shards, to DATASET.

    DATASET is a directory that pack, convert or shard wrote. Its shards stay as they are. The new
    ones have its format, its classes and the transform that it was made with; a class that it does
    not have is an error. The manifest and the indexes are replaced last.

    \b
    Examples:
      dsprep shard append more-photos/ shards/
      dsprep shard append new.zip shards/ --target-size 100MB --dry-run
    """
    from dsprep.cli.report import write
    from dsprep.commands.write import append

    return write(append, **options)


@click.command(cls=GroupedCommand)
@click.argument("dest", metavar="DATASET")
@_index(
    "--kind",
    "kinds",
    type=click.Choice(["mxnet", "dali", "wids", "manifest"]),
    multiple=True,
    help="Write only this index; can be repeated.  [default: all of the format]",
)
@options_of(IndexOptions)
@output_options
def index(**options: Any) -> int:
    """Write the indexes of existing shards.

    DATASET is a directory of shards, one shard, or a manifest, written by any tool. A correct index
    stays as it is, a wrong one is replaced. dsprep reads only the headers of shards, but for a
    manifest, which has checksums, it reads them whole.

    \b
    RecordIO    mxnet     SHARD.idx, for MXIndexedRecordIO and ImageRecordIter
    WebDataset  dali      SHARD.idx, as DALI's wds2idx writes it
                wids      NAME.json, over all shards
    TFRecord    dali      SHARD.idx, as DALI's tfrecord2idx writes it
    all         manifest  manifest.json, if there is none

    A damaged shard gets no index; it is named with the offset, and makes the exit code 3. A shard
    that is gzip gets no index either, as nothing in it can be found by its offset.

    \b
    Examples:
      dsprep shard index shards/
      dsprep shard index shards/ --kind dali
      dsprep shard index train.rec --check
    """
    from dsprep.cli.report import check, index_lines
    from dsprep.verifying.indexing import index

    return check(index, index_lines, **options)


shard = DefaultGroup(name="shard", default=cut, lazy=COMMANDS)

"""``dsprep shard``: cut shards again, append to them, index them."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import DefaultGroup, GroupedCommand, option_group
from dsprep.cli.options import (
    Count,
    output_options,
    parse_pairs,
    source_options,
    sources_argument,
    split_commas,
    workers_option,
)
from dsprep.cli.writing_options import (
    compression_option,
    end,
    error_options,
    features_option,
    key_option,
    overwrite_option,
    plan_option,
    schema_out_option,
    selection_options,
    shard_size_options,
)

_shards = option_group("Shards")
_samples = option_group("Samples")

COMMANDS = {
    "append": ("dsprep.cli.shard_append", "Add new samples, as new shards, to a data set."),
    "index": ("dsprep.cli.shard_index", "Write the indexes that shards lack, and a manifest."),
}
"""The commands besides cutting, which has no name of its own."""


@click.command(cls=GroupedCommand)
@sources_argument
@click.argument("dest", metavar="DEST")
@source_options
@_shards(
    "--to",
    type=click.Choice(["webdataset", "tfrecord", "recordio", "recordio-protobuf", "parquet"]),
    help="Format to write.  [default: that of SOURCE, whose samples are then copied unparsed]",
)
@shard_size_options()
@_shards(
    "--multiple-of",
    type=Count(),
    help="Make the number of shards a multiple of this: as many for each of so many readers.",
)
@compression_option
@features_option
@selection_options
@schema_out_option
@_samples("--shuffle", is_flag=True, help="Shuffle all samples, however large the data set.")
@_samples("--seed", type=int, help="Of what is drawn at random.  [default: 0]")
@_samples(
    "--filter",
    metavar="EXPR",
    help="Take the samples of which this is true: SQL on key, label, class, size, index.",
)
@_samples(
    "--filter-table",
    metavar="FILE",
    help="A CSV or TSV with a column of keys or paths, whose other columns EXPR may use.",
)
@_samples(
    "--balance",
    type=click.Choice(["classes"]),
    help="Take as many samples of each class as there are of the rarest.",
)
@_samples("--oversample", is_flag=True, help="Balance by repeating samples of rarer classes.")
@key_option
@error_options
@overwrite_option
@plan_option
@workers_option
@output_options
def cut(
    sources: tuple[str, ...],
    dest: str,
    label_column: str | None,
    extensions: str | None,
    pairs: tuple[str, ...],
    renamed: tuple[str, ...],
    only: str | None,
    drop: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Cut SOURCE into shards of another size at DEST.

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
      dsprep shard wds/ fair/ --balance classes --oversample
    """
    from dsprep.commands import shard as command
    from dsprep.progress import progress_for

    report = command.shard(
        sources,
        dest,
        label_columns=split_commas(label_column),
        extensions=split_commas(extensions),
        pairs=parse_pairs(pairs, "--pair"),
        rename=parse_pairs(renamed, "--rename"),
        only=split_commas(only),
        drop=split_commas(drop),
        progress=progress_for(sys.stderr, quiet),
        **options,
    )
    return end(report, sources[0], as_json, quiet)


shard = DefaultGroup(name="shard", default=cut, lazy=COMMANDS)

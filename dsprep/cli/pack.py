"""``dsprep pack``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import (
    output_options,
    parse_pairs,
    source_options,
    sources_argument,
    split_commas,
    workers_option,
)
from dsprep.cli.writing_options import (
    end,
    image_options,
    keep_fields_option,
    layout_options,
    overwrite_option,
    plan_option,
    sample_options,
    schema_out_option,
    selection_options,
    shard_size_options,
    take_transform,
)

_shards = option_group("Shards")
_samples = option_group("Samples")


@click.command(cls=GroupedCommand)
@sources_argument
@click.argument("dest", metavar="DEST")
@source_options
@_shards(
    "--format",
    type=click.Choice(["webdataset", "tfrecord", "recordio", "recordio-protobuf", "parquet"]),
    help="Format of the shards; the name of a single file tells it by itself.",
)
@shard_size_options()
@layout_options
@_samples("--shuffle/--no-shuffle", default=True, help="Shuffle (default), or keep the order.")
@_samples("--seed", type=int, default=0, show_default=True, help="Seed of the shuffle.")
@sample_options
@image_options
@selection_options
@schema_out_option
@keep_fields_option
@overwrite_option
@plan_option
@workers_option
@output_options
def pack(
    sources: tuple[str, ...],
    dest: str,
    label_column: str | None,
    extensions: str | None,
    pairs: tuple[str, ...],
    renamed: tuple[str, ...],
    only: str | None,
    drop: str | None,
    keep_fields: str | None,
    shuffle: bool,
    seed: int,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Pack the images in SOURCE into shards at DEST.

    SOURCE is a directory or an archive (zip, tar) of images. Each directory in it is a class,
    numbered in sorted order; or --list or --labels tell the labels. It may also be anything that
    convert reads: shards, Parquet, CIFAR, MNIST. DEST is a directory, or one file: train.tar,
    train.rec, train.tfrecord. All of these may be on S3, s3://bucket/prefix/; written there, each
    shard goes while the next is made.

    Without a transform option the images' bytes are copied untouched. The same command gives the
    same bytes on any machine with any number of workers; given again after a kill, it continues.

    \b
    Examples:
      dsprep pack photos/ shards/ --format webdataset
      dsprep pack dogs.zip shards/ --format webdataset
      dsprep pack s3://bucket/photos/ shards/ --format webdataset
      dsprep pack photos/ rec/train.rec --list train.lst
      dsprep pack photos/ shards/ --format tfrecord --labels train.csv --target-size 100MB
      dsprep pack photos/ shards/ --format recordio --resize 256 --encode jpeg
      dsprep pack photos/ s3://bucket/train/ --format webdataset
      dsprep pack photos/ shards/ --format webdataset --dry-run
    """
    from dsprep.commands import pack as command
    from dsprep.progress import progress_for

    report = command.pack(
        sources,
        dest,
        label_columns=split_commas(label_column),
        extensions=split_commas(extensions),
        pairs=parse_pairs(pairs, "--pair"),
        only=split_commas(only),
        drop=split_commas(drop),
        keep_fields=split_commas(keep_fields),
        rename=parse_pairs(renamed, "--rename"),
        transform=take_transform(options),
        seed=seed if shuffle else None,
        progress=progress_for(sys.stderr, quiet),
        **options,
    )
    return end(report, sources[0], as_json, quiet)

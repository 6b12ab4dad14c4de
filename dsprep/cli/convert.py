"""``dsprep convert``."""

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


@click.command(cls=GroupedCommand)
@sources_argument
@click.argument("dest", metavar="DEST")
@source_options
@selection_options
@schema_out_option
@keep_fields_option
@_shards(
    "--to",
    type=click.Choice(
        [
            *("webdataset", "tfrecord", "recordio", "recordio-protobuf"),
            *("parquet", "folder", "manifest"),
        ]
    ),
    help="Format to write; the name of a single file tells it by itself.",
)
@_shards(
    "--prefix",
    default="",
    metavar="URL",
    help="Prefix of the URLs in --to manifest, such as s3://bucket/path/.",
)
@shard_size_options("a shard for each in SOURCE, otherwise 200MB")
@layout_options
@sample_options
@image_options
@overwrite_option
@plan_option
@workers_option
@output_options
def convert(
    sources: tuple[str, ...],
    dest: str,
    label_column: str | None,
    extensions: str | None,
    pairs: tuple[str, ...],
    renamed: tuple[str, ...],
    only: str | None,
    drop: str | None,
    keep_fields: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Convert SOURCE to another format, without loss.

    SOURCE is shards (a file, a pattern like 'train-{000000..000146}.tar', a directory, a manifest),
    or anything else that holds samples: a directory or an archive of images, Parquet, CIFAR, MNIST,
    a SageMaker manifest. Each shard becomes one shard of the same name, unless a size is given.
    DEST is a directory or a file; shards may go to S3, too: s3://bucket/prefix/.

    All fields are carried over, with their types. What the format cannot hold is listed, and
    refused until --drop names it. With - for SOURCE and DEST, one shard is read from stdin and
    written to stdout, record by record.

    \b
    Examples:
      dsprep convert wds/ tfrecords/ --to tfrecord
      dsprep convert train.rec wds/train.tar
      dsprep convert 'wds/train-{000000..000146}.tar' rec/ --to recordio --drop width,height
      dsprep convert train-00000.parquet images/ --to folder
      cat train.tar | dsprep convert --from webdataset --to tfrecord - - > train.tfrecord
    """
    if dest == "-" or "-" in sources:
        from dsprep.cli.convert_stream import convert_stdin

        return convert_stdin(
            sources,
            dest,
            renamed=renamed,
            only=only,
            drop=drop,
            keep_fields=keep_fields,
            quiet=quiet,
            **options,
        )
    from dsprep.commands import convert as command
    from dsprep.progress import progress_for

    report = command.convert(
        sources,
        dest,
        label_columns=split_commas(label_column),
        extensions=split_commas(extensions),
        pairs=parse_pairs(pairs, "--pair"),
        rename=parse_pairs(renamed, "--rename"),
        only=split_commas(only),
        drop=split_commas(drop),
        keep_fields=split_commas(keep_fields),
        transform=take_transform(options),
        progress=progress_for(sys.stderr, quiet),
        **options,
    )
    return end(report, sources[0], as_json, quiet)

"""``dsprep convert``."""

from __future__ import annotations

from typing import Any

import click

from dsprep.cli.help import GroupedCommand
from dsprep.cli.options import (
    image_options,
    options_of,
    output_options,
    sources_argument,
    take_transform,
)
from dsprep.keywords import ConvertOptions


@click.command(cls=GroupedCommand, alias={"format": "to"})
@sources_argument
@click.argument("dest", metavar="DEST")
@options_of(ConvertOptions)
@image_options
@output_options
def convert(**options: Any) -> int:
    """Convert SOURCE to another format, without loss.

    SOURCE is shards (a file, a pattern like 'train-{000000..000146}.tar', a directory, a manifest),
    or anything else that holds samples: a directory or an archive of images, Parquet, CIFAR, MNIST,
    a SageMaker manifest. Each shard becomes one shard of the same name, unless a size is given.
    DEST is a directory or a file. Shards can be written to S3: s3://bucket/prefix/.

    All fields are carried over, with their types. A field that the format cannot hold is listed,
    and refused until --drop names it. With - for SOURCE and DEST, one shard is read from stdin and
    written to stdout, record by record.

    \b
    Examples:
      dsprep convert wds/ tfrecords/ --to tfrecord
      dsprep convert train.rec wds/train.tar
      dsprep convert 'wds/train-{000000..000146}.tar' rec/ --to recordio --drop width,height
      dsprep convert train-00000.parquet images/ --to folder
      cat train.tar | dsprep convert --from webdataset --to tfrecord - - > train.tfrecord
    """
    options["transform"] = take_transform(options)
    if "-" in (*options["sources"], options["dest"]):
        from dsprep.cli.convert_stream import convert_stdin

        return convert_stdin(**options)
    from dsprep.cli.report import write
    from dsprep.commands.write import convert

    return write(convert, **options)

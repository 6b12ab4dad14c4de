"""``dsprep pack``."""

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
from dsprep.keywords import PackOptions


@click.command(cls=GroupedCommand, alias={"format": "to"})
@sources_argument
@click.argument("dest", metavar="DEST")
@options_of(PackOptions)
@image_options
@output_options
def pack(**options: Any) -> int:
    """Pack the images in SOURCE into shards at DEST.

    SOURCE is a directory or an archive (zip, tar) of images. Each directory in it is a class,
    numbered in sorted order; or labels come from --list or --labels. SOURCE can also be anything
    that convert reads: shards, Parquet, CIFAR, MNIST. DEST is a directory, or one file: train.tar,
    train.rec, train.tfrecord. All of these can be on S3, s3://bucket/prefix/: each shard is
    uploaded while the next one is written.

    Without a transform option, the bytes of images are copied untouched. The same command gives
    the same bytes on any machine with any number of workers. After a kill, give it again to
    continue.

    \b
    Examples:
      dsprep pack photos/ shards/ --to webdataset
      dsprep pack dogs.zip shards/ --to webdataset
      dsprep pack s3://bucket/photos/ shards/ --to webdataset
      dsprep pack photos/ rec/train.rec --list train.lst
      dsprep pack photos/ shards/ --to tfrecord --labels train.csv --target-size 100MB
      dsprep pack photos/ shards/ --to recordio --resize 256 --encode jpeg
      dsprep pack photos/ s3://bucket/train/ --to webdataset
      dsprep pack photos/ shards/ --to webdataset --dry-run
    """
    from dsprep.cli.report import write
    from dsprep.commands.write import pack

    return write(pack, transform=take_transform(options), **options)

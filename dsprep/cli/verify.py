"""``dsprep verify``."""

from __future__ import annotations

from typing import Any

import click

from dsprep.cli.help import GroupedCommand
from dsprep.cli.options import options_of, output_options, source_options, take_source
from dsprep.verifying.options import VerifyOptions


@click.command(cls=GroupedCommand)
@click.argument("dest", metavar="DEST")
@options_of(VerifyOptions)
@source_options
@output_options
def verify(dest: str, against: str | None, **options: Any) -> int:
    """Prove that the shards at DEST are whole.

    DEST is a directory that dsprep wrote, or a directory, a shard or a pattern of shards that
    others wrote, such as a Hugging Face repository. With a manifest, files, sizes and checksums
    are compared with it. Each shard is read from its first byte to its last. Problems are named by
    shard, offset and sample, and make the exit code 3. Without a manifest, the report shows the
    fields as convert would read them.

    --against compares all fields of every sample with SOURCE; after a transform, all but the image.
    After shard append, SOURCE can be either source: the shards that were made of it are compared,
    and the report counts the samples that were not.

    On S3, DEST is a prefix, a manifest or a shard. All files that the manifest names are compared
    with it without reading them, by the checksums that S3 keeps or that dsprep stored in the
    metadata. --download reads everything, and so proves files that have neither. The environment
    and AWS's files tell how to connect.

    \b
    Examples:
      dsprep verify shards/
      dsprep verify 'shards/train-*.tar'
      dsprep verify shards/ --decode --against photos/
      dsprep verify shards/ --against dogs.zip --labels train.csv
      dsprep verify train.rec --loader mxnet
      dsprep verify s3://bucket/shards/
    """
    from dsprep.cli.report import check, verify_lines
    from dsprep.verifying.verify import verify

    source = take_source(options, dest if against is None else against)
    options |= {"choice": source.choice} if against is None else {"against": source}
    return check(verify, verify_lines, dest, **options)

"""``convert``: samples from any format to any other, without loss."""

from __future__ import annotations

from dataclasses import replace

from dsprep.commands.write import WriteReport, new_job, write
from dsprep.keywords import ConvertOptions, called_with
from dsprep.plan.cut import ShardSize
from dsprep.plan.job import images_of

# Options that change encoded samples, which then are not copied as they are.
_CHANGES = frozenset(
    ("--features", "--metadata", "--only", "--drop", "--rename", "--label-type", "--schema")
)


@called_with(ConvertOptions)
def convert(options: ConvertOptions) -> WriteReport:
    """Convert samples to another format.

    ``sources`` is shards (a file, a pattern, a directory, a manifest; also several of these), or
    anything that :func:`dsprep.pack` takes. ``dest`` is a directory, or one file; either may be on
    S3: ``s3://bucket/shards/``. Shards become one shard each, with their names, in their order,
    unless a size is given; anything else becomes shards of the usual size.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense, or the format cannot hold all fields.
        SourceError: If the sources cannot be read.
        DestinationError: If the destination refuses.
        RunStopped: If it ended early; calling again continues.
    """
    job = new_job("convert", options)
    copies = (
        options.transform is None
        and options.check in (None, "none")
        and options.key == "path"
        and not _CHANGES.intersection(job.given)
    )
    size = ShardSize(by_file=True) if job.size == ShardSize() else job.size
    return write(replace(job, images=images_of(options), size=size, copies=copies), options)

"""``pack``: images in; sized, checked, reproducible shards out."""

from __future__ import annotations

from dataclasses import replace

from dsprep.commands.write import WriteReport, new_job, write
from dsprep.keywords import PackOptions, called_with
from dsprep.plan.job import images_of


@called_with(PackOptions)
def pack(options: PackOptions) -> WriteReport:
    """Pack images into shards.

    ``sources`` is the directory that holds the images, each directory in it being a class, or
    anything else that samples are read from, also several of these. ``dest`` is a directory for the
    shards, or one file: ``train.tar``, ``train.rec``, ``train.tfrecord``. Both may be on S3:
    ``s3://bucket/shards/``.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the source cannot be packed.
        DestinationError: If the destination refuses.
        RunStopped: If it ended early; calling again continues.
    """
    job = new_job("pack", options)
    seed = (options.seed or 0) if options.shuffle else None
    return write(replace(job, images=images_of(options), seed=seed), options)

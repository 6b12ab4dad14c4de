"""``shard``: cut a data set again, shuffle it, take a part of it."""

from __future__ import annotations

from dataclasses import replace

from dsprep.commands.write import WriteReport, new_job, source_with, write
from dsprep.errors import OptionError, SourceError
from dsprep.formats import CONCATENATIVE
from dsprep.keywords import ClassOptions, ShardOptions, called_with, values_of
from dsprep.pipeline import Images
from dsprep.sources.archive import require_there
from dsprep.sources.kinds import shards_of
from dsprep.sources.reading import Source
from dsprep.sources.shardset import require_no_index

# Options that change encoded samples, which then are not copied as they are.
_CHANGES = frozenset(
    (
        *("--features", "--only", "--drop", "--rename"),
        *("--label-field", "--image-field", "--label-type", "--schema"),
    )
)


@called_with(ShardOptions)
def shard(options: ShardOptions) -> WriteReport:
    """Cut samples into shards of another size, in another order, or a part of them.

    ``sources`` is shards (a file, a pattern, a directory, a manifest; also several of these), or
    anything that :func:`dsprep.pack` takes. ``dest`` is a directory, or one file; either may be on
    S3: ``s3://bucket/shards/``. In the format that they have, encoded samples are copied as they
    are, without being parsed.

    Returns:
        What was done.

    Raises:
        OptionError: If the arguments make no sense.
        SourceError: If the sources cannot be read.
        DestinationError: If the destination refuses.
        RunStopped: If it ended early; calling again continues.
    """
    source = source_with(options, **values_of(options, ClassOptions))
    own = _format_of(source)
    try:
        job = new_job("shard", options, own_format=own)
    except OptionError:
        if own is None:
            require_there(source.root)  # the names of missing files tell no format
        raise
    size = job.size
    if options.multiple_of is not None and not job.destination.single:
        size = replace(size, multiple_of=options.multiple_of)
    copies = (
        own == job.layout.name and options.key == "path" and not _CHANGES.intersection(job.given)
    )
    whole = options.filter is not None or (not copies and job.layout.class_names_in == "header")
    job = replace(
        job,
        source=replace(job.source, whole=whole),
        images=Images(check="none" if copies else None),
        size=size,
        seed=(options.seed or 0) if options.shuffle else None,
        filter=options.filter,
        filter_table=options.filter_table,
        copies=copies,
    )
    return write(job, options)


def _format_of(source: Source) -> str | None:
    """Return the format of the shards that a source is; None if it is something else."""
    try:
        found = shards_of(source)
    except OSError as error:
        raise SourceError(f"{error.filename}: cannot be read ({error.strerror})") from None
    if found is not None:
        require_no_index(found)
    return found.layout.name if found and found.layout.name in CONCATENATIVE else None

"""``dsprep shard index``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import dry_run_option, output_options, workers_option

_index = option_group("Index")


@click.command(cls=GroupedCommand)
@click.argument("dest", metavar="DATASET")
@_index(
    "--kind",
    "kinds",
    type=click.Choice(["mxnet", "dali", "wids", "manifest"]),
    multiple=True,
    help="Write only this index; can be repeated.  [default: all of the format]",
)
@_index(
    "--check", is_flag=True, help="Write nothing; report missing and wrong indexes as problems."
)
@_index(
    "--overwrite",
    is_flag=True,
    help="Replace a manifest that is not of these shards, and a file with the name of the wids "
    "index.",
)
@workers_option
@dry_run_option
@output_options
def index(dest: str, as_json: bool, quiet: bool, **options: Any) -> int:
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
    from dsprep.cli.check_report import end
    from dsprep.progress import progress_for
    from dsprep.verifying import indexing

    report = indexing.index(dest, progress=progress_for(sys.stderr, quiet), **options)
    return end(report, as_json, quiet)

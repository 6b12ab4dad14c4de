"""``dsprep shard append``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import (
    Count,
    Size,
    fields_options,
    labels_options,
    output_options,
    parse_pairs,
    source_kind_options,
    sources_argument,
    split_commas,
    workers_option,
)
from dsprep.cli.writing_options import (
    end,
    error_options,
    keep_fields_option,
    plan_option,
    selection_options,
)

_shards = option_group("Shards")
_samples = option_group("Samples")


@click.command(cls=GroupedCommand)
@sources_argument
@click.argument("dest", metavar="DATASET")
@source_kind_options
@labels_options
@fields_options
@_shards("--target-size", type=Size(), help="Maximum size of a new shard.  [default: as before]")
@_shards("--shards", type=Count(), help="Or: how many new shards.")
@_shards("--samples-per-shard", type=Count(), help="Or: how many samples in each.")
@_samples("--shuffle/--no-shuffle", default=True, help="Shuffle the new samples (default), or not.")
@_samples("--seed", type=int, help="Seed of the shuffle.  [default: 0]")
@selection_options
@keep_fields_option
@error_options
@plan_option
@workers_option
@output_options
def append(
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
    """Add the samples of SOURCE, as new shards, to DATASET.

    DATASET is a directory that pack, convert or shard wrote; its shards are left as they are. The
    new ones have its format, its classes and the transform that it was made with; a class that it
    does not have is an error. The manifest and the indexes are replaced when all is there.

    \b
    Examples:
      dsprep shard append more-photos/ shards/
      dsprep shard append new.zip shards/ --target-size 100MB --dry-run
    """
    from dsprep.commands.append import append as append_samples
    from dsprep.progress import progress_for

    report = append_samples(
        sources,
        dest,
        label_columns=split_commas(label_column),
        extensions=split_commas(extensions),
        pairs=parse_pairs(pairs, "--pair"),
        rename=parse_pairs(renamed, "--rename"),
        only=split_commas(only),
        drop=split_commas(drop),
        keep_fields=split_commas(keep_fields),
        progress=progress_for(sys.stderr, quiet),
        **options,
    )
    return end(report, sources[0], as_json, quiet)

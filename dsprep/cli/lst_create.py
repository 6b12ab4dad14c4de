"""``dsprep lst create`` and ``dsprep lst append``."""

from __future__ import annotations

from typing import Any

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import (
    Count,
    dry_run_option,
    output_options,
    source_options,
    take_source,
    workers_option,
)
from dsprep.errors import REJECTS_EXIT_CODE, OptionError

_list = option_group("List")
_run = option_group("Run")


@click.command(cls=GroupedCommand)
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True)
@source_options
@_list("-o", "--output", metavar="FILE", required=True, help='The list, or "-" for stdout.')
@_list("--under", default="", metavar="DIR", help="Only what lies in this directory of ROOT.")
@_list("--shuffle/--no-shuffle", default=True, help="Shuffle the rows.  [default: shuffle]")
@_list("--seed", type=int, default=0, show_default=True, help="What the order depends on.")
@_list("--chunks", type=Count(), default=1, help="Cut the list into so many, _0.lst, _1.lst, ….")
@_list(
    "--train-ratio",
    type=float,
    default=1.0,
    help="Share of training samples: writes _train.lst, and _val.lst with what is left over.",
)
@_list("--test-ratio", type=float, default=0.0, help="Share of test samples: writes _test.lst.")
@_run("--overwrite", is_flag=True, help="Replace lists and classes.txt.")
@dry_run_option
@workers_option
@output_options
def create(
    roots: tuple[str, ...],
    output: str,
    under: str,
    shuffle: bool,
    seed: int,
    chunks: int,
    train_ratio: float,
    test_ratio: float,
    overwrite: bool,
    dry_run: bool,
    workers: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Make the list of the images in ROOT.

    ROOT is a directory or an archive of images, or anything else that convert reads. Each directory
    in it is a class, numbered in sorted order, or --labels tells the labels. The names of the
    classes are written to classes.txt beside the list. Ids number the images in sorted order, from
    0. Samples of shards are called by their keys or, if these repeat, SHARD/KEY.

    --train-ratio, --test-ratio and --chunks are those of MXNet's im2rec, and every image lands in
    exactly one list. dsprep split can do more.

    \b
    Examples:
      dsprep lst create photos/ -o train.lst
      dsprep lst create photos/ -o data.lst --train-ratio 0.8 --test-ratio 0.1
      dsprep lst create photos/ -o - --labels train.csv --no-shuffle
    """
    from dsprep.cli.lst_report import print_create_report
    from dsprep.listing.creating import create_list

    report = create_list(
        take_source(options, *roots),
        output,
        under=under,
        seed=seed if shuffle else None,
        chunks=chunks,
        train_ratio=train_ratio,
        test_ratio=test_ratio,
        overwrite=overwrite,
        dry_run=dry_run,
        workers=workers,
    )
    print_create_report(report, as_json, quiet)
    return REJECTS_EXIT_CODE if report.rejects else 0


@click.command(cls=GroupedCommand)
@click.argument("lst", metavar="LIST")
@click.argument("roots", metavar="ROOT...", nargs=-1, required=True)
@source_options
@_list("--label", help="Label of all new rows: a class, or numbers separated by commas.")
@dry_run_option
@workers_option
@output_options
def append(
    lst: str,
    roots: tuple[str, ...],
    label: str | None,
    dry_run: bool,
    workers: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Add to LIST the images in ROOT that it does not name.

    They get the ids that follow its largest, and stand at its end. The classes are those of
    classes.txt beside the list, or of --classes: an image of another class is an error. Appending
    twice is the same as once.

    \b
    Examples:
      dsprep lst append train.lst photos/
      dsprep lst append train.lst photos/ --labels new.csv
      dsprep lst append train.lst inbox/ --label unknown
    """
    from dsprep.cli.lst_report import print_append_report
    from dsprep.listing.creating import append_to_list

    if lst == "-":
        raise OptionError("append edits a list in place; name its file")
    report = append_to_list(
        lst,
        take_source(options, *roots),
        label=label,
        dry_run=dry_run,
        workers=workers,
    )
    print_append_report(report, as_json, quiet)
    return REJECTS_EXIT_CODE if report.rejects else 0

"""``dsprep split``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import options_of, output_options
from dsprep.errors import REJECTS_EXIT_CODE
from dsprep.keywords import SplitOptions


@click.command(cls=GroupedCommand)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@options_of(SplitOptions)
@option_group("Split")(
    "--ratio",
    metavar="NAME=SHARE[,...]",
    help="Sides and their shares, which sum to 1; 1/3 is a share, too.  "
    "[default: train=0.8,val=0.1,test=0.1]",
)
@option_group("Output")(
    "-o", "--output", metavar="DIR", required=True, help="Directory of the lists."
)
@output_options
def split(
    sources: tuple[str, ...],
    ratio: str | None,
    output: str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Split a data set into training, validation and test lists.

    SOURCE is a directory or an archive of images, with --list or --labels if its directories are
    not the classes; or anything else that convert reads; or a .lst. The files of a .lst are looked
    at only with --root. dsprep writes a list for each side, NAME.lst, and classes.txt. Pass such a
    list to any command with --list to use its samples of SOURCE.

    Each class is divided by the ratios: its counts are less than one from their exact shares. Every
    sample is in exactly one list. The same samples and the same seed give the same split, in any
    order.

    \b
    Examples:
      dsprep split photos/ -o lists/
      dsprep split all.lst -o lists/ --ratio train=0.9,val=0.1
      dsprep split photos/ -o lists/ --group '(patient[0-9]+)' --leaks together
      dsprep split photos/ -o folds/ --folds 5
      dsprep split 'wds/train-{000000..000146}.tar' -o lists/
      dsprep split photos/ -o tree/ --materialize hardlink
    """
    from dsprep.cli.split_report import print_split_report
    from dsprep.commands import split as command
    from dsprep.progress import progress_for
    from dsprep.splits.ratios import parse_ratios

    report = command.split(
        sources,
        output,
        ratios=None if ratio is None else parse_ratios(ratio),
        progress=progress_for(sys.stderr, quiet),
        **options,
    )
    print_split_report(report, as_json, quiet)
    return REJECTS_EXIT_CODE if report.rejects or report.leaks else 0

"""``dsprep split``."""

from __future__ import annotations

import sys
from typing import Any

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import (
    Count,
    dry_run_option,
    output_options,
    source_options,
    workers_option,
)
from dsprep.errors import REJECTS_EXIT_CODE

_source = option_group("Source")
_split = option_group("Split")
_leaks = option_group("Leaks")
_output = option_group("Output")


@click.command(cls=GroupedCommand)
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True)
@source_options
@_source("--root", metavar="DIR", help="Directory of the files of SOURCE, if that is a list.")
@_split(
    "--ratio",
    metavar="NAME=SHARE[,...]",
    help="Sides and their shares, which sum to 1; 1/3 is a share, too.  "
    "[default: train=0.8,val=0.1,test=0.1]",
)
@_split(
    "--folds",
    type=Count(2),
    help="Number of pairs of lists for cross-validation, instead of sides.",
)
@_split(
    "--stratify/--no-stratify",
    default=True,
    help="Divide each class by the ratios (default), or only the whole data set.",
)
@_split(
    "--group",
    metavar="REGEX|COLUMN",
    help="Keep each group on one side. A group is what a regular expression matches in a path (its "
    "first parentheses, or the whole match), or a value in a column of --labels.",
)
@_split(
    "--stable",
    is_flag=True,
    help="Choose the side of a sample only by the hash of its key or group, so a data set that "
    "grows never moves a sample.",
)
@_split(
    "--seed", type=int, help="Random seed; a different seed gives a different split.  [default: 0]"
)
@_split(
    "--assign",
    metavar="FILE",
    help="Take sides from a column of a CSV or TSV file; or classes from ImageNet's "
    "ILSVRC2012_validation_ground_truth.txt or LOC_val_solution.csv.",
)
@_split("--assign-column", metavar="NAME", help="Column of sides in --assign.")
@_split("--skip-unmatched", is_flag=True, help="Skip rows of --assign that name no sample.")
@_leaks(
    "--leaks",
    type=click.Choice(["report", "together"]),
    help="Find copies of images by their bytes; report copies on different sides, or keep them on "
    "one side.",
)
@_leaks(
    "--near",
    is_flag=True,
    help="Also find images that look alike; needs dsprep[near].",
)
@_leaks(
    "--near-distance",
    type=Count(0),
    help="Bits of 64-bit perceptual hashes that may differ, at most 16.  [default: 4]",
)
@_output("-o", "--output", metavar="DIR", required=True, help="Directory of the lists.")
@_output(
    "--materialize",
    type=click.Choice(["hardlink", "symlink", "copy"]),
    help="Also make a tree SIDE/CLASS/NAME in that directory; the lists name its files.",
)
@_output("--overwrite", is_flag=True, help="Replace lists and classes.txt.")
@dry_run_option
@workers_option
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

"""``dsprep lst check``, ``stats`` and ``sample``."""

from __future__ import annotations

import sys

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import Count, dry_run_option, output_options
from dsprep.cli.streams import until_nobody_reads
from dsprep.errors import REJECTS_EXIT_CODE

_check = option_group("Check")
_list = option_group("List")
_rows = option_group("Rows")
_run = option_group("Run")

_classes_option = _list(
    "--classes",
    metavar="FILE",
    help="Names of the classes.  [default: classes.txt beside LIST]",
)


@click.command(cls=GroupedCommand)
@click.argument("lst", metavar="LIST")
@_check(
    "--root",
    metavar="DIR",
    help="Look for the files below this directory, or for samples in these shards: none may be "
    "missing, no file empty.",
)
@_check(
    "--for",
    "reader",
    type=click.Choice(["sagemaker", "mxnet"]),
    help="Check what SageMaker's image classification requires, or MXNet's readers.",
)
@_classes_option
@output_options
def check(
    lst: str, root: str | None, reader: str | None, classes: str | None, as_json: bool, quiet: bool
) -> int:
    """Find everything that is wrong with LIST, line by line.

    Lines that cannot be read; ids, files and paths that stand there twice; paths that lead out of
    the root, or that the format cannot hold; labels that differ in number, are not in classes.txt,
    or, where no classes.txt tells the numbers, leave a gap between them. Faults make the exit code
    3.

    \b
    Examples:
      dsprep lst check train.lst
      dsprep lst check train.lst --root photos/ --for mxnet
      dsprep lst check - --for sagemaker --json < train.lst
    """
    from dsprep.cli.lst_inspect_report import print_check_report
    from dsprep.listing.inspecting import check_list

    report = check_list(lst, root=root, classes=classes, reader=reader)
    print_check_report(report, as_json, quiet)
    return REJECTS_EXIT_CODE if report.faults else 0


@click.command(cls=GroupedCommand)
@click.argument("lst", metavar="LIST")
@_classes_option
@_run("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def stats(lst: str, classes: str | None, as_json: bool) -> int:
    """Count the rows and the classes of LIST, and draw how many each class has.

    Of a list for detection the objects are counted, too.

    \b
    Examples:
      dsprep lst stats train.lst
      dsprep lst sample train.lst --fraction 0.1 | dsprep lst stats - --classes classes.txt
    """
    from dsprep.cli.lst_inspect_report import print_statistics
    from dsprep.listing.inspecting import list_stats

    print_statistics(list_stats(lst, classes=classes), as_json)
    return 0


@click.command(cls=GroupedCommand)
@click.argument("lst", metavar="LIST")
@_rows("--fraction", type=float, metavar="F", help="About this share of the rows, 0 to 1.")
@_rows("--count", type=Count(), help="So many rows.")
@_rows("--per-class", type=Count(), help="So many rows of each class, or all that it has.")
@_rows("--balanced", is_flag=True, help="As many of each class as the smallest has.")
@_rows("--seed", type=int, default=0, show_default=True, help="Another seed takes other rows.")
@_rows("--strict", is_flag=True, help="Fewer rows than were asked for are an error.")
@_list(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    help='Write here, with classes.txt beside it; "-" is stdout.  [default: -]',
)
@_classes_option
@_run("--overwrite", is_flag=True, help="Replace the file of -o, and classes.txt beside it.")
@dry_run_option
@output_options
def sample(
    lst: str,
    fraction: float | None,
    count: int | None,
    per_class: int | None,
    balanced: bool,
    seed: int,
    strict: bool,
    output: str,
    classes: str | None,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Take some of the rows of LIST; ids, labels and order stay.

    The seed and a row's path alone decide its chance, so that a sample is stable when the list
    grows: with --fraction, rows stay in the sample or out of it whatever else is listed; otherwise
    only new rows can replace rows of it. A larger sample holds every smaller one.

    \b
    Examples:
      dsprep lst sample train.lst --fraction 0.1 > tenth.lst
      dsprep lst sample train.lst --per-class 20 -o small/train.lst
      dsprep lst sample train.lst --balanced --seed 1 -o even/train.lst
    """
    from dsprep.cli.lst_inspect_report import print_sample_report
    from dsprep.listing.inspecting import sample_list

    with until_nobody_reads(sys.stdout):
        report = sample_list(
            lst,
            output,
            fraction=fraction,
            count=count,
            per_class=per_class,
            balanced=balanced,
            seed=seed,
            classes=classes,
            strict=strict,
            overwrite=overwrite,
            dry_run=dry_run,
        )
        print_sample_report(report, as_json, quiet)
    return 0

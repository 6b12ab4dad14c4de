"""``dsprep lst diff``, ``patch`` and ``merge``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import dry_run_option, output_options
from dsprep.errors import OptionError

if TYPE_CHECKING:
    from dsprep.lists.merge import Side

DIFFERENT_EXIT_CODE = 1
"""As with diff(1): the lists differ. As with merge(1): conflicts wait to be decided."""

_compare = option_group("Compare")
_decide = option_group("Conflicts")
_list = option_group("List")

_classes_option = _list(
    "--classes",
    metavar="FILE",
    help="Names of the classes.  [default: classes.txt beside each list]",
)


@click.command(cls=GroupedCommand)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@_compare("--ignore-ids", is_flag=True, help="Other ids are no difference; rows keep those of A.")
@_compare("--ignore-order", is_flag=True, help="Another order is no difference.")
@_compare(
    "--content",
    is_flag=True,
    help="Look into the files of rows that no path pairs: those with equal bytes were moved.",
)
@_compare(
    "--root",
    "roots",
    multiple=True,
    metavar="DIR",
    help="For --content: where the files are; given twice, those of A and those of B.",
)
@_compare("--summary", is_flag=True, help="Print the summary alone, not the rows.")
@_classes_option
@output_options
def diff(
    a: str,
    b: str,
    ignore_ids: bool,
    ignore_order: bool,
    content: bool,
    roots: tuple[str, ...],
    summary: bool,
    classes: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Tell what differs between the lists A and B: what makes B of A.

    Rows are of one sample if they have the same path, or else the same id: then the file was moved.
    Labels are compared by number; the summary says which numbers have another name in B. What is
    printed is a patch:

    \b
      - row          gone
      < row, > row   changed where it stands: relabeled, moved, renumbered
      + LINE row     new, as this line of B
      ^ LINE ID      put elsewhere: the row that has this id in B is this line of B

    The exit code is 0 if nothing differs, and then nothing is printed, and 1 if anything does.

    \b
    Examples:
      dsprep lst diff monday.lst train.lst
      dsprep lst diff monday.lst train.lst > week.patch
      dsprep lst diff old.lst new.lst --content --root photos/ --summary
    """
    from dsprep.cli.lst_compare_report import print_diff_report
    from dsprep.listing.changes import diff_lists

    report = diff_lists(
        a,
        b,
        ids=not ignore_ids,
        order=not ignore_order,
        content=content,
        roots=roots,
        classes=classes,
    )
    print_diff_report(report, summary, as_json, quiet)
    return 0 if report.diff.is_empty else DIFFERENT_EXIT_CODE


@click.command(cls=GroupedCommand)
@click.argument("lst", metavar="LIST")
@click.argument("patch", metavar="PATCH")
@_list("-o", "--output", metavar="FILE", help='Write here; "-" is stdout.  [default: LIST]')
@dry_run_option
@output_options
def patch(
    lst: str, patch: str, output: str | None, dry_run: bool, as_json: bool, quiet: bool
) -> int:
    """Do to LIST what PATCH says, which dsprep lst diff has printed.

    Rows that the patch removes or changes have to be in LIST as the patch has them: a patch that
    does not fit changes nothing.

    \b
    Examples:
      dsprep lst patch monday.lst week.patch -o train.lst
      dsprep lst diff old.lst new.lst | dsprep lst patch old.lst - -o new-again.lst
    """
    from dsprep.cli.lst_compare_report import print_patch_report
    from dsprep.listing.changes import patch_list

    report = patch_list(lst, patch, output, dry_run=dry_run)
    print_patch_report(report, as_json, quiet)
    return 0


@click.command(cls=GroupedCommand)
@click.argument("base", metavar="BASE")
@click.argument("ours", metavar="OURS")
@click.argument("theirs", metavar="THEIRS")
@_decide("--ours", "take_ours", is_flag=True, help="Decide conflicts as OURS has it.")
@_decide("--theirs", "take_theirs", is_flag=True, help="Decide conflicts as THEIRS has it.")
@_list(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    help='Write here; one of the lists may be replaced, "-" is stdout.  [default: -]',
)
@_classes_option
@output_options
def merge(
    base: str,
    ours: str,
    theirs: str,
    take_ours: bool,
    take_theirs: bool,
    output: str,
    classes: str | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Merge two edits of the list BASE, OURS and THEIRS, row by row and field by field.

    Rows that one of them changed are as that one left them. Where both did, in different ways, the
    conflict is listed on stderr, and stands in the list between markers as git's, to be decided by
    hand; the exit code is 1 then. New rows of THEIRS with ids that OURS gave to other rows get the
    next free ids.

    \b
    Examples:
      dsprep lst merge monday.lst mine.lst theirs.lst -o train.lst
      dsprep lst merge monday.lst mine.lst theirs.lst --theirs > train.lst
      git config merge.lst.driver 'dsprep lst merge %O %A %B -o %A'
    """
    from dsprep.cli.lst_compare_report import print_merge_report
    from dsprep.listing.changes import merge_lists

    if take_ours and take_theirs:
        raise OptionError("--ours and --theirs contradict each other: give one")
    decide: Side | None = "ours" if take_ours else "theirs" if take_theirs else None
    report = merge_lists(base, ours, theirs, output, decide=decide, classes=classes)
    print_merge_report(report, as_json, quiet)
    return DIFFERENT_EXIT_CODE if report.conflicts and report.decided is None else 0

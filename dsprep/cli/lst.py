"""The commands of ``dsprep lst``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

import dsprep
from dsprep.cli.help import LazyGroup, option_group
from dsprep.cli.options import command, source_options, take_source, workers_option
from dsprep.cli.streams import until_nobody_reads
from dsprep.declared import unchecked
from dsprep.errors import REJECTS_EXIT_CODE, OptionError
from dsprep.lists import options as of

T = TypeVar("T")

COMMANDS = {
    "create": (__name__, "Make the list of a folder or a table."),
    "append": (__name__, "Add new files to a list; its ids and classes stay as they are."),
    "set": (__name__, "Change the label or the path of rows."),
    "remove": (__name__, "Remove rows."),
    "replace": (__name__, "Replace the prefix of paths."),
    "relabel": (__name__, "Rename, merge and refine classes."),
    "diff": (__name__, "Show what differs between two lists."),
    "patch": (__name__, "Apply a diff to a list."),
    "merge": (__name__, "Merge two people's edits of a list."),
    "check": (__name__, "Find what is wrong with a list."),
    "stats": (__name__, "Count rows and classes."),
    "sample": (__name__, "Take some of the rows."),
}
"""The modules of the commands, and what ``dsprep lst --help`` says about them."""

DIFFERENT_EXIT_CODE = 1
"""As with diff(1): the lists differ. As with merge(1): there are conflicts to decide."""

_conflicts, _IN_FAVOR = option_group("Conflicts"), "Resolve conflicts in favor of "
_ROWS, _CHANGES, _FILES = ("paths", "ids", "chosen"), ("label", "new_path"), ("missing", "root")


def _call(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call a public function and print its report, which is returned."""
    from dsprep.cli.lst_report import print_report

    names = options.keys() & {"as_json", "quiet", "summary"}
    shown = {name: options.pop(name) for name in names}
    report = unchecked(function)(*arguments, **options)
    print_report(function.__name__, report, **shown)
    return report


@click.group(cls=LazyGroup, lazy=COMMANDS)
def lst() -> None:
    """Create, edit, compare and check lists.

    A list is an MXNet .lst: a line per sample, with its id, its label or labels and its path,
    separated by tabs. Beside it, classes.txt names the classes, one a line.

    Lists are edited in place, or -o names another file; "-" is stdin or stdout. A list is
    replaced when the new one is complete and on the disk, by one writer at a time.

    \b
    Examples:
      dsprep lst create photos/ -o train.lst
      dsprep lst append train.lst photos/
      dsprep lst set train.lst --path 'cat/0*' --label dog
      dsprep lst diff old.lst train.lst
    """


@command(
    "ROOT...",
    source_options,
    option_group("List")(
        "-o", "--output", metavar="FILE", required=True, help='The list, or "-" for stdout.'
    ),
    of.CreateOptions,
    workers_option,
)
def create(root: tuple[str, ...], output: str, **options: Any) -> int:
    """Make the list of the images in ROOT.

    ROOT is a directory or an archive of images, or anything else that convert reads. Each directory
    in it is a class, numbered in sorted order, or --labels gives the labels. The names of the
    classes are written to classes.txt beside the list. Ids number the images in sorted order, from
    0. A sample of shards is named by its key or, if keys repeat, SHARD/KEY.

    --train-ratio, --test-ratio and --chunks are those of MXNet's im2rec, and every image is in
    exactly one list. dsprep split can do more.

    \b
    Examples:
      dsprep lst create photos/ -o train.lst
      dsprep lst create photos/ -o data.lst --train-ratio 0.8 --test-ratio 0.1
      dsprep lst create photos/ -o - --labels train.csv --no-shuffle
    """
    report = _call(dsprep.create_list, take_source(options, *root), output, **options)
    return REJECTS_EXIT_CODE if report.rejects else 0


@command(
    "LIST ROOT...",
    source_options,
    of.ListAppendOptions,
    workers_option,
    without=("keep_classes", "keep_numbers"),
)
def append(list: str, root: tuple[str, ...], **options: Any) -> int:
    """Add the images in ROOT that are not in LIST yet.

    New rows go to the end, and their ids continue after the largest one. The classes come from
    classes.txt beside the list, or from --classes: an image of another class is an error. A second
    run adds nothing.

    \b
    Examples:
      dsprep lst append train.lst photos/
      dsprep lst append train.lst photos/ --labels new.csv
      dsprep lst append train.lst inbox/ --label unknown
    """
    if list == "-":
        raise OptionError("append edits a list in place; name its file")
    report = _call(dsprep.append_to_list, list, take_source(options, *root), **options)
    return REJECTS_EXIT_CODE if report.rejects else 0


@command("LIST", of.EditOptions, without=_FILES, name="set")
def set_(list: str, label: str | None, new_path: str | None, **options: Any) -> None:
    """Change the label or the path of the rows that meet all conditions.

    \b
    Examples:
      dsprep lst set train.lst --path 'inbox/cat*' --label cat
      dsprep lst set train.lst --id 4711 --label dog
      dsprep lst set train.lst --id 4711 --new-path dog/4711.jpg
    """
    if label is None and new_path is None:
        raise OptionError("no change is given: give --label or --new-path")
    _call(dsprep.edit_list, list, label=label, new_path=new_path, **options)


@command("LIST", of.EditOptions, without=_CHANGES)
def remove(list: str, **options: Any) -> None:
    """Remove the rows that meet all conditions.

    With --missing, a list without such rows stays as it is. If no file of the list is found, the
    root is probably wrong, and the command fails.

    \b
    Examples:
      dsprep lst remove train.lst --missing --root photos/ --dry-run
      dsprep lst remove train.lst --path 'blurred/**'
      dsprep lst remove train.lst --class 3 --id 100-199
      dsprep lst remove - --path '*.gif' < train.lst > still.lst
    """
    _call(dsprep.edit_list, list, **options)


@command("LIST OLD NEW", of.EditOptions, without=_CHANGES + _ROWS + _FILES, name="replace")
def replace_(list: str, old: str, new: str, **options: Any) -> None:
    """Replace the prefix OLD of paths by NEW.

    \b
    Examples:
      dsprep lst replace train.lst v1/ v2/
      dsprep lst replace train.lst images/ ''
    """
    _call(dsprep.edit_list, list, prefix=(old, new), **options)


@command(
    "LIST...",
    option_group("Change")(
        "--map",
        "map_file",
        required=True,
        metavar="FILE",
        help="A line per change: the old class or a pattern of paths, a tab or a comma, and the "
        "new class.",
    ),
    of.RelabelOptions,
)
def relabel(list: tuple[str, ...], **options: Any) -> None:
    """Rename, merge and refine the classes of lists.

    Two old classes with one new name are merged; a pattern of paths such as dog/poodle/** refines a
    class, and wins over its name. The new classes are numbered without gaps, in sorted order, and
    written to classes.txt beside the list. Lists that share a classes.txt are relabeled together.

    \b
    Examples:
      dsprep lst relabel train.lst val.lst --map merge.tsv
      dsprep lst relabel train.lst --map fine.tsv -o fine/train.lst --keep-unmatched
    """
    _call(dsprep.relabel_lists, list, **options)


@command(
    "A B",
    of.DiffOptions,
    option_group("Compare")(
        "--summary", is_flag=True, help="Print only the summary, without the rows."
    ),
)
def diff(a: str, b: str, **options: Any) -> int:
    """Show what differs between the lists A and B, as a patch that turns A into B.

    Rows are of one sample if they have the same path, or else the same id: then the file was moved.
    Labels are compared by number; the summary says which numbers have another name in B. The lines
    of the patch:

    \b
      - row          removed
      < row, > row   changed where it stands: relabeled, moved, renumbered
      + LINE row     new, as this line of B
      ^ LINE ID      moved: the row that has this id in B is this line of B

    The exit code is 0 if nothing differs, and then nothing is printed, and 1 if anything does.

    \b
    Examples:
      dsprep lst diff monday.lst train.lst
      dsprep lst diff monday.lst train.lst > week.patch
      dsprep lst diff old.lst new.lst --content --root photos/ --summary
    """
    report = _call(dsprep.diff_lists, a, b, **options)
    return 0 if report.diff.is_empty else DIFFERENT_EXIT_CODE


@command("LIST PATCH", of.PatchOptions)
def patch(list: str, patch: str, **options: Any) -> None:
    """Apply PATCH, the output of dsprep lst diff, to LIST.

    Each row that the patch removes or changes must be in LIST exactly as in the patch. Otherwise,
    nothing is changed.

    \b
    Examples:
      dsprep lst patch monday.lst week.patch -o train.lst
      dsprep lst diff old.lst new.lst | dsprep lst patch old.lst - -o new-again.lst
    """
    _call(dsprep.patch_list, list, patch, **options)


@command(
    "BASE OURS THEIRS",
    _conflicts("--ours", "take_ours", is_flag=True, help=_IN_FAVOR + "OURS."),
    _conflicts("--theirs", "take_theirs", is_flag=True, help=_IN_FAVOR + "THEIRS."),
    of.MergeOptions,
)
def merge(
    base: str, ours: str, theirs: str, take_ours: bool, take_theirs: bool, **options: Any
) -> int:
    """Merge two edits of the list BASE, OURS and THEIRS, row by row and field by field.

    A change of one side is kept. If both sides changed the same in different ways, the conflict is
    printed on stderr, and written to the list between markers like git's, to be decided by hand;
    the exit code is then 1. New rows of THEIRS with ids that OURS gave to other rows get the next
    free ids.

    \b
    Examples:
      dsprep lst merge monday.lst mine.lst theirs.lst -o train.lst
      dsprep lst merge monday.lst mine.lst theirs.lst --theirs > train.lst
      git config merge.lst.driver 'dsprep lst merge %O %A %B -o %A'
    """
    if take_ours and take_theirs:
        raise OptionError("--ours and --theirs contradict each other: give one")
    decide = "ours" if take_ours else "theirs" if take_theirs else None
    report = _call(dsprep.merge_lists, base, ours, theirs, decide=decide, **options)
    return DIFFERENT_EXIT_CODE if report.undecided else 0


@command("LIST", of.CheckOptions)
def check(list: str, **options: Any) -> int:
    """Find everything that is wrong with LIST, line by line.

    Faults are lines that cannot be read; repeated ids and paths; paths that lead out of the root,
    or that the format cannot hold; labels that differ in number or are not in classes.txt; and gaps
    between class numbers, if there is no classes.txt. The exit code is 3 if there are any.

    \b
    Examples:
      dsprep lst check train.lst
      dsprep lst check train.lst --root photos/ --for mxnet
      dsprep lst check - --for sagemaker --json < train.lst
    """
    report = _call(dsprep.check_list, list, **options)
    return REJECTS_EXIT_CODE if report.faults else 0


@command("LIST", of.StatsOptions, without=["quiet"])
def stats(list: str, **options: Any) -> None:
    """Count the rows and the classes of LIST, and draw how many rows each class has.

    In a list for detection, the objects are counted as well.

    \b
    Examples:
      dsprep lst stats train.lst
      dsprep lst sample train.lst --fraction 0.1 | dsprep lst stats - --classes classes.txt
    """
    _call(dsprep.list_stats, list, **options)


@command("LIST", of.SampleOptions)
def sample(list: str, **options: Any) -> None:
    """Take some of the rows of LIST; ids, labels and order stay.

    The choice depends only on the seed and the paths, so a sample is stable when the list grows.
    With --fraction, new rows do not change which old rows are taken; otherwise, only new rows can
    replace rows of the sample. A larger sample has all rows of a smaller one.

    \b
    Examples:
      dsprep lst sample train.lst --fraction 0.1 > tenth.lst
      dsprep lst sample train.lst --per-class 20 -o small/train.lst
      dsprep lst sample train.lst --balanced --seed 1 -o even/train.lst
    """
    with until_nobody_reads(sys.stdout):
        _call(dsprep.sample_list, list, **options)

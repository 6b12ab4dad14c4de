"""``dsprep lst set``, ``remove``, ``replace`` and ``relabel``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from dsprep.cli.help import GroupedCommand, option_group
from dsprep.cli.options import dry_run_option, output_options
from dsprep.errors import OptionError

F = TypeVar("F", bound=Callable[..., Any])

_select = option_group("Rows")
_change = option_group("Change")
_list = option_group("List")
_run = option_group("Run")


def _selection_options(function: F) -> F:
    options = (
        _select(
            "--path",
            "paths",
            multiple=True,
            metavar="GLOB",
            help="Whose path matches; * and ? do not stand for /, ** does. Without a / it is "
            "matched with the file name; repeatable.",
        ),
        _select("--id", "ids", multiple=True, metavar="N[-N]", help="With these ids; repeatable."),
        _select(
            "--class",
            "chosen",
            multiple=True,
            metavar="CLASS",
            help="Of this class, a name or a number; repeatable.",
        ),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


def _list_options(function: F) -> F:
    options = (
        _list("-o", "--output", metavar="FILE", help='Write here; "-" is stdout. [default: LIST]'),
        _list(
            "--classes",
            metavar="FILE",
            help="Names of the classes.  [default: classes.txt beside LIST]",
        ),
        dry_run_option,
        output_options,
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


@click.command("set", cls=GroupedCommand)
@click.argument("lst", metavar="LIST")
@_selection_options
@_change("--label", help="The new label: a class, or numbers separated by commas.")
@_change("--new-path", metavar="PATH", help="The new path, of one row.")
@_list_options
def set_(
    lst: str,
    paths: tuple[str, ...],
    ids: tuple[str, ...],
    chosen: tuple[str, ...],
    label: str | None,
    new_path: str | None,
    **options: Any,
) -> int:
    """Change the label or the path of the rows that fulfill all conditions.

    \b
    Examples:
      dsprep lst set train.lst --path 'inbox/cat*' --label cat
      dsprep lst set train.lst --id 4711 --label dog
      dsprep lst set train.lst --id 4711 --new-path dog/4711.jpg
    """
    if label is None and new_path is None:
        raise OptionError("say what to change: --label or --new-path")
    return _edit(lst, (paths, ids, chosen), options, label=label, new_path=new_path)


@click.command(cls=GroupedCommand)
@click.argument("lst", metavar="LIST")
@_selection_options
@_list_options
def remove(
    lst: str,
    paths: tuple[str, ...],
    ids: tuple[str, ...],
    chosen: tuple[str, ...],
    **options: Any,
) -> int:
    """Remove the rows that fulfill all conditions.

    \b
    Examples:
      dsprep lst remove train.lst --path 'blurred/**'
      dsprep lst remove train.lst --class 3 --id 100-199
      dsprep lst remove - --path '*.gif' < train.lst > still.lst
    """
    return _edit(lst, (paths, ids, chosen), options)


@click.command("replace", cls=GroupedCommand)
@click.argument("lst", metavar="LIST")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@_list_options
def replace_(lst: str, old: str, new: str, **options: Any) -> int:
    """Let the paths that begin with OLD begin with NEW.

    \b
    Examples:
      dsprep lst replace train.lst v1/ v2/
      dsprep lst replace train.lst images/ ''
    """
    return _edit(lst, None, options, prefix=(old, new))


@click.command(cls=GroupedCommand)
@click.argument("lists", metavar="LIST...", nargs=-1, required=True)
@_change(
    "--map",
    "map_file",
    required=True,
    metavar="FILE",
    help="A line for each change: the old class or a pattern of paths, a tab or a comma, and the "
    "new class.",
)
@_change(
    "--new-classes",
    metavar="FILE",
    help="The new classes in their order.  [default: sorted]",
)
@_change("--keep-unmatched", is_flag=True, help="Rows that the map leaves out keep their class.")
@_change("--renumber", is_flag=True, help="Close gaps between class numbers without names.")
@_list("-o", "--output", metavar="FILE", help='Write here; "-" is stdout. [default: LIST]')
@_list(
    "--classes",
    metavar="FILE",
    help="Names of the old classes.  [default: classes.txt beside LIST]",
)
@_run("--overwrite", is_flag=True, help="Replace the file of -o, and classes.txt beside it.")
@dry_run_option
@output_options
def relabel(
    lists: tuple[str, ...],
    map_file: str,
    new_classes: str | None,
    keep_unmatched: bool,
    renumber: bool,
    output: str | None,
    classes: str | None,
    overwrite: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Rename, merge and refine the classes of lists.

    Two old classes with one new name are merged; a pattern of paths such as dog/poodle/** refines a
    class, and wins over its name. The new classes are numbered without gaps, in sorted order, and
    written to classes.txt beside the list. Lists that share a classes.txt are relabeled together.

    \b
    Examples:
      dsprep lst relabel train.lst val.lst --map merge.tsv
      dsprep lst relabel train.lst --map fine.tsv -o fine/train.lst --keep-unmatched
    """
    from dsprep.cli.lst_report import print_relabel_report
    from dsprep.listing.relabeling import relabel_lists

    report = relabel_lists(
        lists,
        map_file,
        output,
        classes=classes,
        new_classes=new_classes,
        keep_unmatched=keep_unmatched,
        renumber=renumber,
        overwrite=overwrite,
        dry_run=dry_run,
    )
    print_relabel_report(report, as_json, quiet)
    return 0


def _edit(
    lst: str,
    selection: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None,
    options: dict[str, Any],
    **changes: Any,
) -> int:
    from dsprep.cli.lst_report import print_edit_report
    from dsprep.listing.editing import edit_list

    as_json, quiet = options.pop("as_json"), options.pop("quiet")
    if selection is not None:
        changes["paths"], changes["ids"], changes["chosen"] = selection
    report = edit_list(lst, options.pop("output"), **changes, **options)
    print_edit_report(report, as_json, quiet)
    return 0

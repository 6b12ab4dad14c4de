"""The group of commands ``dsprep lst``."""

from __future__ import annotations

import click

from dsprep.cli.help import LazyGroup

_MAKE, _EDIT = "dsprep.cli.lst_create", "dsprep.cli.lst_edit"
_COMPARE, _INSPECT = "dsprep.cli.lst_compare", "dsprep.cli.lst_inspect"

COMMANDS = {
    "create": (_MAKE, "Make the list of a folder or a table."),
    "append": (_MAKE, "Add new files to a list; its ids and classes stay as they are."),
    "set": (_EDIT, "Change the label or the path of rows."),
    "remove": (_EDIT, "Remove rows."),
    "replace": (_EDIT, "Replace what paths begin with."),
    "relabel": (_EDIT, "Rename, merge and refine classes."),
    "diff": (_COMPARE, "Tell what differs between two lists."),
    "patch": (_COMPARE, "Do to a list what a diff says."),
    "merge": (_COMPARE, "Merge two people's edits of a list."),
    "check": (_INSPECT, "Find what is wrong with a list."),
    "stats": (_INSPECT, "Count rows and classes."),
    "sample": (_INSPECT, "Take some of the rows."),
}
"""The commands: where each is, and what ``dsprep lst --help`` says of it."""


@click.group(cls=LazyGroup, lazy=COMMANDS)
def lst() -> None:
    """Make, edit, compare and check lists.

    A list is an MXNet .lst: a line a sample, with its id, its label or labels and its path,
    separated by tabs. Beside it, classes.txt names the classes, one a line.

    Lists are edited in place, or -o names another file; "-" is stdin or stdout. A list is
    replaced when the new one is whole and on the disk, by one writer at a time.

    \b
    Examples:
      dsprep lst create photos/ -o train.lst
      dsprep lst append train.lst photos/
      dsprep lst set train.lst --path 'cat/0*' --label dog
      dsprep lst diff old.lst train.lst
    """

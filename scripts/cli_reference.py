"""Write docs/cli.md: the `--help-all` of every command, as one page.

python -m scripts.cli_reference           writes the page
python -m scripts.cli_reference --check   fails, with the difference, if the page is not current
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from dsprep.cli.help import HELP_ALL
from dsprep.cli.main import cli

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"

HEAD = """\
# Command line

What `dsprep COMMAND --help-all` prints; `--help` leaves out the options that few need. This page is
written by `make docs`.

"""


def contexts(
    command: click.Command, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """List a command and those below it, in the order of its help.

    Args:
        command: The command, or a group of them.
        parent: The context of the group that it belongs to.

    Yields:
        Each command's context, as wide as a terminal of 88 columns.
    """
    name = (command.name or "") if parent else "dsprep"
    context = click.Context(
        command,
        parent,
        name,
        terminal_width=88,
        max_content_width=88,
        **command.context_settings,
    )
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from contexts(found, context)


def help_text(context: click.Context) -> str:
    """Return what a command's `--help-all` prints."""
    context.meta[HELP_ALL] = True
    return click.unstyle(context.command.get_help(context))


def page() -> str:
    """Return the whole page."""
    sections = (
        f"## {each.command_path}\n\n```text\n{help_text(each)}\n```\n" for each in contexts(cli)
    )
    return HEAD + "\n".join(sections)


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description="Write docs/cli.md from the commands' --help.")
    parser.add_argument("--check", action="store_true", help="only say whether it is current")
    new = page()
    if not parser.parse_args().check:
        PAGE.write_text(new, "utf-8")
        return
    old = PAGE.read_text("utf-8") if PAGE.exists() else ""
    if old != new:
        difference = difflib.unified_diff(
            old.splitlines(), new.splitlines(), "docs/cli.md", "--help", lineterm=""
        )
        sys.exit("\n".join(["docs/cli.md is not current: run `make docs`", *difference]))


if __name__ == "__main__":
    main()

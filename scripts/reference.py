"""Write what the docs have from the code: the `--help-all` of all commands, and tables.

python -m scripts.reference           writes docs/cli.md, and tables in docs/formats.md and a guide
python -m scripts.reference --check   fails, with the difference, if they are not current
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from dsprep.cli.help import HELP_ALL
from dsprep.cli.main import cli
from dsprep.formats import FORMATS
from dsprep.images.augment import OPS
from dsprep.sources.annotation_kind import AnnotationKind
from dsprep.sources.annotation_kinds import own_annotation_kinds
from dsprep.sources.kinds import own_kinds

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FORMATS_PAGE, GUIDE = DOCS / "cli.md", DOCS / "formats.md", DOCS / "guides" / "augment.md"
_TABLE = r"(?<=<!-- {} -->\n).*?(?=<!-- end -->)"

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
        command, parent, name, terminal_width=88, max_content_width=88, **command.context_settings
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


def formats_page(text: str) -> str:
    """Return the page of formats with tables of formats, of kinds of sources and of annotations."""
    rows = ["| format | a sample is | a shard of 8 |", "|---|---|---|"]
    for name, kind in FORMATS.items():
        shard = "–" if kind.is_tree else f"`{kind().shard_name('train', 0, 8)}`"
        rows.append(f"| `{name}` | {summary_of(kind)} | {shard} |")
    kinds = ["| `--from` | what it is |", "|---|---|"]
    for source in filter(lambda source: source.names, own_kinds().kinds):
        names = ", ".join(f"`{name}`" for name in source.names)
        kinds.append(f"| {names} | {summary_of(source)} |")
    columns = "`--annotation-format`", "what it is", "recognized", "read", "not read", "example"
    drawn = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for tool in own_annotation_kinds().kinds:
        names = ", ".join(f"`{name}`" for name in tool.names)
        is_claimed = tool.claim is not AnnotationKind.claim
        is_recognized = "✓" if is_claimed else "–"
        told = tool.contents, tool.not_read or "–", f"`{tool.example}`"
        drawn.append(f"| {' | '.join((names, sentence_of(tool), is_recognized, *told))} |")
    for name, table in (("formats", rows), ("kinds", kinds), ("annotations", drawn)):
        text = with_table(text, name, table)
    return text


def summary_of(kind: type) -> str:
    """Return the first sentence about a class, as a cell of a table that goes on in a row."""
    text = sentence_of(kind)
    return text[:1].lower() + text[1:]


def sentence_of(kind: type) -> str:
    """Return the first sentence about a class, as a cell of a table."""
    return (kind.__doc__ or "").partition(".\n")[0].removesuffix(".").replace("``", "`")


def with_table(text: str, name: str, rows: list[str]) -> str:
    """Return a page with other rows in its table of this name."""
    return re.sub(
        _TABLE.format(name), lambda _: "".join(f"{row}\n" for row in rows), text, flags=re.S
    )


def guide(text: str) -> str:
    """Return the guide on augmentation with a table of the operations."""
    rows = ["| operation | V is a | drawn for each copy | what it does |", "|---|---|---|---|"]
    for name, op in OPS.items():
        shown = f"`{name}`, `{name}=V`" if op.default else f"`{name}=V`"
        rows.append(f"| {shown} | {op.unit} | {op.drawn} | {op.effect} |")
    return with_table(text, "operations", rows)


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description="Write what the docs have from the code.")
    parser.add_argument("--check", action="store_true", help="only say whether it is current")
    is_check = parser.parse_args().check
    tables = {FORMATS_PAGE: formats_page, GUIDE: guide}
    written = ((path, make(path.read_text("utf-8"))) for path, make in tables.items())
    for path, new in ((PAGE, page()), *written):
        if not is_check:
            path.write_text(new, "utf-8")
        elif new != (old := path.read_text("utf-8") if path.exists() else ""):
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), f"docs/{path.name}", "the code", lineterm=""
            )
            sys.exit("\n".join([f"docs/{path.name} is not current: run `make docs`", *lines]))


if __name__ == "__main__":
    main()

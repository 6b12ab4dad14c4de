"""The documentation is true: commands, options, links and the command line's reference."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
import pytest

import dsprep
from dsprep.cli.help import DefaultGroup
from dsprep.cli.main import cli
from scripts.reference import PAGE, contexts, help_text

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = {context.command_path: context for context in contexts(cli)}


def options(context: click.Context) -> set[str]:
    """The options of a command; a group's are those of the command that needs no name, too."""
    command = context.command
    params = command.get_params(context)
    if isinstance(command, DefaultGroup):
        params += command.get_command(context, "").get_params(context)
    return {name for param in params for name in (*param.opts, *param.secondary_opts)}


def examples(page: Path) -> Iterator[list[str]]:
    """Yield the calls of dsprep in a page's shell blocks, as words."""
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.shlex(line, posix=True, punctuation_chars=True)
            words.whitespace_split = True
            for is_call, call in groupby(words, lambda word: not re.fullmatch("[|&;<>()]+", word)):
                found = list(call)
                if is_call and found[0] == "dsprep":
                    yield found


def title_to_anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {
        title_to_anchor(title) for title in re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)
    }


def test_reference_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.reference", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_reference(name: str) -> None:
    words = set(re.findall(r"[\w-]+", PAGE.read_text("utf-8")))
    assert {o for o in options(COMMANDS[name]) if o.startswith("-")} <= words


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, each in COMMANDS.items()
        if isinstance(each.command, DefaultGroup) or not isinstance(each.command, click.Group)
    ],
)
def test_every_command_has_examples(name: str) -> None:
    assert re.search(rf"^  Examples:\n    {name} ", help_text(COMMANDS[name]), re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_in_the_docs_exist(page: Path) -> None:
    for line in examples(page):
        words = line[: line.index("--")] if "--" in line else line  # another program's follow
        name = next(" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in COMMANDS)
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        unknown = used - options(COMMANDS[name])
        assert not unknown, f"{shlex.join(words)}: no such option: {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        if path.startswith("https://"):
            continue  # of others
        target = page.parent / path if path else page
        assert target.exists(), f"{link}: no such file"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


def test_readme_names_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text("utf-8")))
    assert linked >= {page.relative_to(ROOT).as_posix() for page in PAGES if page.parent != ROOT}


@pytest.mark.parametrize("name", dsprep.__all__)
def test_the_python_api_has_every_public_name(name: str) -> None:
    assert f"::: dsprep.{name}\n" in (ROOT / "docs" / "api.md").read_text("utf-8")

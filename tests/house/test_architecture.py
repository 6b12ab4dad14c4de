"""docs/architecture.md and the docstrings of rooms name what exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

import dsprep
from dsprep.cli.help import DefaultGroup
from dsprep.cli.main import cli
from tests.house.test_imports import MODULES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "dsprep"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)


def table_below(heading: str) -> list[list[str]]:
    """Return the cells of the first table of a chapter, a list for each row."""
    lines = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0].splitlines()
    rows = [line for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


COMMANDS = table_below("Where a command lies")
MOST_LINES = 15
"""Of the docstring of a room."""

# `run/state.py: commit, RunState`, or a file alone.
NAMED = sorted(set(re.findall(r"`((?:\w+/)*\w+\.py)(?:: ([\w., ]+))?`", PAGE)))
PROMISES = table_below("What keeps each promise")
# The tests of each module that has none of its name: files, and functions in them or none.
TESTED = {
    module: re.findall(r"`(tests/[\w/]+\.py)(?:: ([\w., ]+))?`", tests)
    for modules, tests in table_below("Which test proves which module")
    for module in re.findall(r"`([\w.]+)`", modules)
}


@cache
def definitions(path: Path) -> set[str]:
    """Return the names of what a module defines: functions, classes, their methods, and values."""
    found = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for name in members(node)}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {each.id for each in targets if isinstance(each, ast.Name)}
        if isinstance(node, ast.ImportFrom) and path.name == "__init__.py":
            found |= {each.asname or each.name for each in node.names}
    return found


def members(node: ast.ClassDef) -> set[str]:
    """Return the names of the methods and of the annotated attributes of a class."""
    found = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    attributes = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
    return found | {each.id for each in attributes if isinstance(each, ast.Name)}


def files_of(name: str) -> list[Path]:
    """Return the files that a page may mean: from the repository, the package, or any room."""
    exact = [place / name for place in (ROOT, PACKAGE) if (place / name).is_file()]
    return exact or [path for path in PACKAGE.rglob(name) if path.is_file()]


@pytest.mark.parametrize(("file", "names"), NAMED)
def test_what_the_page_names_exists(file: str, names: str) -> None:
    paths = files_of(file)
    assert paths, f"{file}: no such file"
    known = set[str]().union(*map(definitions, paths))
    missing = {name.strip() for name in names.split(",")} - known - {""}
    assert not missing, f"{file}: defines no {', '.join(sorted(missing))}"


def test_each_promise_is_kept_and_attacked() -> None:
    promises = (ROOT / "README.md").read_text("utf-8").split("\n## What dsprep promises\n")[1]
    promised = re.findall(r"^- \*\*(.+?)\*\*", promises.split("\n## ")[0], re.M)
    assert [promise for promise, *_ in PROMISES] == promised
    for promise, code, tests in PROMISES:
        assert ".py" in code, promise
        assert "tests/" not in code, promise
        assert "`tests/" in tests, promise


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_a_room_says_what_it_is(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text("utf-8"))) or ""
    assert len(text.splitlines()) <= MOST_LINES
    found = re.fullmatch(r"(.+)\n\nEntry: (.+)\nAlways: (.+)\nTests: (.+)", text, re.S)
    assert found is not None, "its docstring has no lines that begin with Entry:, Always:, Tests:"
    _, entry, _, tests = found.groups()
    names = re.findall(r"`([\w.]+)`", entry)
    assert names
    for name in names:
        assert is_in(room, name) or is_in(PACKAGE, name), f"{name}: is not there"
    paths = re.findall(r"tests/[\w/]+(?:\.py)?", tests)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def untested() -> list[str]:
    """List the modules that neither a test of their name nor a row of the page's table proves."""
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    return [
        module
        for module, path in MODULES.items()
        if path.stem not in tests and path.name != "__init__.py" and module not in TESTED
    ]


def test_each_module_is_tested() -> None:
    assert untested() == [], "name a test after it, or add it to the page's table"


def test_the_tests_of_a_module_mention_it() -> None:
    assert [module for module in TESTED if module not in MODULES or not TESTED[module]] == []
    silent = [
        f"{test}: does not mention {module}"
        for module, tests in TESTED.items()
        for test, functions in tests
        if not functions and not words_of(module).search((ROOT / test).read_text("utf-8"))
    ]
    assert not silent


def words_of(module: str) -> re.Pattern[str]:
    """Return what matches the name of a module, or of what it defines, also as an option."""
    path = MODULES[module]
    words = {name.rpartition(".")[2] for name in definitions(path)} | {path.stem}
    return re.compile(rf"\b({'|'.join(map(re.escape, words))})\b".replace("_", "[_-]"))


def is_in(place: Path, name: str) -> bool:
    """Return whether a package has a module, or what a dotted name says a module defines."""
    first, _, rest = name.partition(".")
    path = place / f"{first}.py"
    if (place / first / "__init__.py").exists():
        return not rest or is_in(place / first, rest)
    if path.exists():
        return not rest or rest in definitions(path)
    return name == "dsprep" or name in definitions(place / "__init__.py")


def test_the_page_says_where_each_command_lies() -> None:
    functions = {
        name: module.split(".")[1]
        for module, names in dsprep._PUBLIC.items()
        for name in names.split()
        if name.islower()
    }
    named = {
        name: room.strip("`")
        for room, _, _, public in COMMANDS
        for name in re.findall(r"`(\w+)`", public)
    }
    assert named == functions
    listed = [name for *_, commands, _ in COMMANDS for name in re.findall(r"`([\w ]+)`", commands)]
    assert sorted(listed) == sorted(commands_below(cli))


def commands_below(group: click.Group, above: str = "") -> Iterator[str]:
    """Yield the names of all commands."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if not isinstance(command, click.Group) or isinstance(command, DefaultGroup):
            yield above + name
        if isinstance(command, click.Group):
            yield from commands_below(command, f"{above}{name} ")

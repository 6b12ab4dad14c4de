"""One place prints: no module can forget to make names visible, or to cut secrets out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "dsprep"

# `progress` has a stream of its own; `guard` runs alone, without dsprep.
PRINT = {"cli/streams.py", "progress.py", "training/guard.py"}

CALLS = {"click.echo", "click.secho", "print", "sys.stderr.write", "sys.stdout.write", "tqdm.write"}


def calls(path: Path) -> Iterator[ast.Call]:
    return (
        each for each in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(each, ast.Call)
    )


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.stem)
def test_only_streams_print_and_a_message_has_an_argument_for_each_line(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    called = {ast.unparse(each.func): each for each in calls(path)}
    if name not in PRINT:
        assert CALLS.isdisjoint(called), f"{name}: call echo or echo_as_is of dsprep/cli/streams.py"
    for each in calls(path):
        if ast.unparse(each.func).endswith("Error") and ast.unparse(each.func) != "RuntimeError":
            breaks = [
                part.value
                for argument in each.args
                for part in ast.walk(argument)
                if isinstance(part, ast.Constant) and "\n" in str(part.value)
            ]
            assert not breaks, f"{name}, line {each.lineno}: a line break would be escaped"

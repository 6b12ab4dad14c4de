"""Functions take few parameters: what travels together is an object."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dsprep"
MOST = 8


def functions() -> Iterator[tuple[str, int]]:
    """Yield the functions that are no commands, and how many parameters they take."""
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                given = node.args
                names = [*given.posonlyargs, *given.args, *given.kwonlyargs]
                count = sum(name.arg not in ("self", "cls") for name in names)
                yield f"{module}.{node.name}", count


def test_no_function_takes_more_than_eight_parameters() -> None:
    assert {name for name, count in functions() if count > MOST} == set()

"""What is written to disk or printed as JSON has names of its own: no attribute names by chance."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dsprep"
ROOMS = ("dataset", "run", "plan", "commands", "cli")


def test_attribute_names_are_not_written() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for room in ROOMS
        for path in (PACKAGE / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("asdict", "_asdict")
    }
    assert not found, "write an explicit to_json with fixed names instead"

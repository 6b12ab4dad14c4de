"""Files are opened for reading in one room: a pipe, a device or a huge file may have any name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "dsprep"

ROOM = PACKAGE / "storage" / "local.py"


def test_files_are_opened_for_reading_in_one_room() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {what}"
        for path in PACKAGE.rglob("*.py")
        if path != ROOM
        for node, what in _openings(ast.parse(path.read_text("utf-8")))
    ]

    assert not found, "use open_regular or read_whole of dsprep.storage.local instead"


def test_each_way_to_open_a_file_is_seen() -> None:
    bare = [
        *("path.read_text()", "path.read_bytes()", "open(path)", "open(path, 'rb')"),
        *("path.open()", "path.open('rb')", "os.open(path, os.O_RDONLY)", "io.FileIO(path)"),
    ]
    fine = [
        *("open(path, 'wb')", "open(path, 'rb', opener=open_regular)", "store.open(key)"),
        *("os.open(path, os.O_RDONLY | os.O_DIRECTORY)", "open(path, 'rb', closefd=False)"),
    ]

    assert [bool(list(_openings(ast.parse(text)))) for text in bare] == [True] * len(bare)
    assert [bool(list(_openings(ast.parse(text)))) for text in fine] == [False] * len(fine)


def _openings(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("read_text", "read_bytes", "open", "FileIO") and _is_bare(node):
                yield node, ast.unparse(node)


def _is_bare(call: ast.Call) -> bool:
    """Whether a call opens a file to read it, and might wait for ever, or for a file's end."""
    name = ast.unparse(call.func)
    owner, _, method = name.rpartition(".")
    if method in ("read_text", "read_bytes"):
        return bool(owner)
    words = {each.arg for each in call.keywords}
    if name == "os.open":
        flags = ast.unparse(call.args[1])
        return "O_RDONLY" in flags and "O_DIRECTORY" not in flags and "O_NONBLOCK" not in flags
    if name == "io.FileIO":
        return not words & {"opener", "closefd"}
    mode = [each.value for each in call.args if isinstance(each, ast.Constant)]
    if name == "open":
        reads = not any(set(str(each)) & set("wax") for each in mode)
        return reads and not words & {"opener", "closefd"}
    is_path = owner.endswith("path") or owner.startswith("Path(") or bool(mode)
    return method == "open" and is_path and not any(set(str(each)) & set("wax") for each in mode)

"""Directories as values: what lies in them, and what was touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def contents(directory: Path) -> dict[str, bytes]:
    """The bytes of every file below a directory, hidden ones included, by path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def places(directory: Path) -> dict[str, tuple[int, int]]:
    """What changes when a file is written again: inode and mtime of every file, by path."""
    return {
        path.relative_to(directory).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def names(directory: Path) -> list[str]:
    """The names of all that lies in a directory, hidden or not; none if it does not exist."""
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def manifest(directory: Path) -> dict[str, Any]:
    """What `manifest.json` says."""
    return json.loads((directory / "manifest.json").read_bytes())


def rejects(directory: Path) -> dict[str, str]:
    """The reasons in `rejects.jsonl` by path."""
    lines = (directory / "rejects.jsonl").read_text().removesuffix("\n").split("\n")
    return {entry["path"]: entry["reason"] for entry in map(json.loads, lines)}

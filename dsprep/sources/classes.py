"""Class names: the list that fixes their numbers, as a file and as a value."""

from __future__ import annotations

from collections.abc import Iterable

from dsprep.errors import SourceError
from dsprep.stores.local import LARGEST
from dsprep.text import read_text


def number_classes(names: Iterable[str], source: str) -> tuple[str, ...]:
    """Put class names into the order that numbers them: by code point, which is UTF-8's by byte.

    Args:
        names: The names, each of them once.
        source: Where they come from, for the message.

    Raises:
        SourceError: If a list of classes with one name a line cannot hold one of them.
    """
    classes = tuple(sorted(names))
    for name in classes:
        if not name.strip() or "\n" in name or "\r" in name:
            raise SourceError(
                f"{source}: the class name {name!r} does not fit on a line of classes.txt: rename"
            )
    return classes


def format_classes(classes: Iterable[str]) -> str:
    """Write the names one a line, the class number being the line number from 0."""
    return "".join(f"{name}\n" for name in classes)


def read_classes(path: str) -> tuple[str, ...]:
    """Read what :func:`format_classes` wrote, or anyone did in an editor.

    Args:
        path: The file: UTF-8, with or without a byte order mark; lines may end as on Windows.

    Returns:
        The names, in their order.

    Raises:
        SourceError: If the file cannot be read, is empty, or has a blank or a repeated line.
    """
    names = [line.removesuffix("\r") for line in read_text(path, LARGEST).split("\n")]
    while names and not names[-1].strip():
        names.pop()
    if not names:
        raise SourceError(f"{path}: names no class: give a file with one class name a line")
    first_lines: dict[str, int] = {}
    for line, name in enumerate(names, 1):
        if not name.strip():
            raise SourceError(f"{path}:{line}: blank; each line before the last names a class")
        first = first_lines.setdefault(name, line)
        if first != line:
            raise SourceError(f"{path}:{line}: {name!r} stands in line {first} already")
    return tuple(names)

"""Labels as text: a line of a ``.lst``, and a number in it."""

from __future__ import annotations

from collections.abc import Sequence


def format_number(value: float) -> str:
    """Write a label: a whole number without a point, any other as its shortest exact decimal."""
    return str(int(value)) if value == int(value) else repr(value)


def format_lst_line(index: int, labels: Sequence[float], path: str) -> str:
    """Write one line of a ``.lst``: id, labels and path, separated by tabs."""
    return "\t".join((str(index), *map(format_number, labels), path)) + "\n"

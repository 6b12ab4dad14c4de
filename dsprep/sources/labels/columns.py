"""The columns of tables of text: the types of their cells, and what their names mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any, ClassVar

from dsprep.formats.folder import Folder

NUMBERS = ("int", "wide", "float64")
_WIDER = {frozenset(("int", "float64")): "float64", frozenset(("int", "wide")): "wide"}
_TRUTH = {"true": True, "false": False}
_EXACT = 1 << 53  # above it, 64-bit floats do not hold all whole numbers


class Columns(Folder):
    """The raw format of a table of text: each column is a field of its name."""

    name: ClassVar[str] = "table"


def joined(one: str, other: str) -> str:
    """Return the type of the cells of two parts of a column."""
    if not one or not other or one == other:
        return one or other
    return _WIDER.get(frozenset((one, other)), "text")


def kind_of(cells: Sequence[str]) -> str:
    """Return the type of cells without missing values; empty if there are no cells."""
    if not cells:
        return ""
    try:
        numbers = list(map(int, cells))
    except ValueError:
        pass
    else:
        if list(map(str, numbers)) != list(cells):
            return "text"  # 007, +1 and 1_000 would change if they were read as numbers
        most = max(max(numbers), -min(numbers))
        return "int" if most <= _EXACT else "wide" if most < 1 << 63 else "text"
    try:
        floats = list(map(float, cells))
    except ValueError:
        return "bool" if {cell.lower() for cell in cells} <= _TRUTH.keys() else "text"
    if "_" in "".join(cells) or (sum(floats) != sum(floats) and any(map(isnan, floats))):
        return "text"
    whole = [cell for cell in cells if "." not in cell and cell.strip("+-").isdecimal()]
    return joined("float64", kind_of(whole))


CONVERT: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "wide": int,
    "float64": lambda cell: value if (value := float(cell)) == value else None,
    "bool": lambda cell: _TRUTH[cell.strip().lower()],
    "text": lambda cell: cell or None,
}


_FLAGS = {"", "0", "1", "-1", "0.0", "1.0", "-1.0"}


def columns_of_tags(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the columns of rows whose cells are 0, 1, -1 or empty, if some are not empty."""
    found = []
    for at, name in enumerate(names):
        cells = {row[at].strip() for row in rows if at < len(row)}
        if cells <= _FLAGS and cells != {""}:
            found.append(name)
    return found

"""Objects whose classes have names, as a file for each image tells them, and rows of such files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from dsprep.annotations.objects import Extent, Object, Objects, numbers, to_json
from dsprep.tuples import NamedTuple
from dsprep.units import lines_of

Named: TypeAlias = tuple[str, Object]
"""The name of a class, and an object whose class number is open."""

Made = TypeVar("Made")


class NamedObjects(NamedTuple):
    """What a file tells of its image."""

    items: Sequence[Named]
    extent: Extent | None = None  # the size of the image, if the file tells it
    left_out: Mapping[str, int] = {}  # what else is there and is not kept, as nouns, with counts
    remarks: Mapping[str, int] = {}  # what is kept as polygons, as nouns, with counts
    image: str = ""  # what the file calls its image
    flags: Mapping[str, bool] = {}  # whether the image has each of these tags
    holds_image: bool = False  # whether the file holds the image itself


def numbered(found: NamedObjects, classes: Mapping[str, int]) -> Objects:
    """Return the objects of an image, given class numbers by name."""
    items = []
    for name, each in found.items:
        if name not in classes:
            raise ValueError(f"the class {name!r:.60} is not among the {len(classes)} classes")
        items.append(each._replace(number=classes[name]))
    return Objects(tuple(items), found.extent)


def most_json(found: NamedObjects) -> int:
    """Return how many bytes the objects take as JSON, at most, besides those with boxes alone."""
    more = [each for _, each in found.items if any(each[2:])]
    return len(to_json(Objects(tuple(more))).encode()) if more else 0


def read_rows(
    data: bytes, read: Callable[[Sequence[str]], Made], between: str | None = None
) -> list[Made]:
    """Return what a function makes of the cells of each line, which have blanks between them.

    ``between`` is what else lies between them. A ValueError tells the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8: save the file as UTF-8") from None
    made = []
    for number, line in enumerate(lines_of(text), 1):
        if stripped := line.strip():
            try:
                made.append(read(stripped.split(between)))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    return made


def numbers_in(cells: Sequence[str]) -> tuple[float, ...]:
    """Return cells as finite numbers."""
    try:
        found = [*map(float, cells)]
    except ValueError:
        raise ValueError(f"{' '.join(cells)!r:.60} are not numbers") from None
    return numbers(found)

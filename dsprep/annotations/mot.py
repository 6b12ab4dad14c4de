"""MOT's ground truth: a text for each sequence, with a row for each object in a frame.

A row has the frame, a track, left, top, width and height of the box, a 0 if evaluation ignores the
object, the number of its class, and how much of it is seen ("MOT16: A Benchmark for Multi-Object
Tracking", section 2.3). Rows of MOT15 have a place in space instead of the last two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsprep.annotations.named import Named, NamedObjects, numbers_in
from dsprep.annotations.objects import Object, box_of_sides
from dsprep.patterns import pattern
from dsprep.tuples import NamedTuple

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"

ROW = pattern(rf"\d+(?:\.0*)?[ \t]*,[ \t]*-?\d+(?:\.0*)?(?:[ \t]*,[ \t]*{_NUMBER}){{4,8}}")
"""What a row is like."""

PEDESTRIAN = "pedestrian"
CLASSES: Mapping[int, str] = dict(
    enumerate(
        (
            *(PEDESTRIAN, "person on vehicle", "car", "bicycle", "motorbike"),
            *("non motorized vehicle", "static person", "distractor", "occluder"),
            *("occluder on the ground", "occluder full", "reflection", "crowd"),
        ),
        1,
    )
)
"""The names of classes by their numbers; MOT20 has the last one."""

_COLUMNS = range(6, 11)
_OF_MOT15 = 10  # columns; the last three are a place in space
_IGNORED, _CLASS, _SEEN = 6, 7, 8  # columns


class FrameRow(NamedTuple):
    """A row of ground truth.

    Attributes:
        frame: The number of its frame, from 1.
        values: The track, the box, 0 if the object is ignored, and how much of it is seen.
        name: The name of its class.
    """

    frame: int
    values: Sequence[float]
    name: str


def read_row(cells: Sequence[str], classes: Mapping[int, str]) -> FrameRow:
    """Read the cells of a row, given the names of classes by their numbers."""
    if len(cells) not in _COLUMNS:
        raise ValueError(f"has {len(cells)} columns: a row of MOT has 6 to 10, mostly 9")
    values = numbers_in(cells)
    frame, width = int(values[0]), len(values)
    if frame < 0 or frame != values[0]:
        raise ValueError(f"{cells[0]:.40} is no number of a frame")
    box_of_sides([*values[2:6]])
    considered = values[_IGNORED] if width > _IGNORED else 1.0
    has_class = _CLASS < width < _OF_MOT15 and values[_CLASS] > 0
    number = int(values[_CLASS]) if has_class else 0
    name = classes.get(number, str(number)) if has_class else classes.get(1, PEDESTRIAN)
    seen = values[_SEEN] if _SEEN < width < _OF_MOT15 else -1.0
    return FrameRow(frame, (*values[1:6], considered, seen), name)


def line_of(row: FrameRow) -> str:
    """Return a row without its frame as a line that :func:`parse` reads."""
    return f"{' '.join(map(repr, row.values))} {row.name}"


def parse(data: bytes) -> NamedObjects:
    """Return the objects of a frame, given its lines as :func:`line_of` writes them."""
    return NamedObjects([_object(line) for line in data.decode().split("\n") if line])


def _object(line: str) -> Named:
    *cells, name = line.split(" ", 7)
    track, *sides, considered, seen = map(float, cells)
    more: dict[str, float] = {} if track < 0 else {"track_id": int(track)}
    more |= {} if seen < 0 else {"visibility": seen}
    flags = frozenset[str]() if considered else frozenset({"difficult"})
    return name, Object(box_of_sides(sides), -1, flags, more=more)

"""YOLO's annotations: a text for each image, with a row for each object, and ``data.yaml``.

A row is the number of a class, then shares of the image's width and height: the center, width and
height of a box; or the corners of a polygon; or a box and its keypoints, if ``data.yaml`` says how
many (docs.ultralytics.com, "Datasets").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from dsprep.annotations.objects import MOST_CLASSES, SHARES, Object, Objects, box_of
from dsprep.patterns import pattern
from dsprep.tuples import NamedTuple
from dsprep.units import lines_of

if TYPE_CHECKING:
    import yaml

Pose: TypeAlias = tuple[int, int]  # how many keypoints, and the numbers of each: 2, or 3 with v

NAME_LISTS = ("classes.txt", "obj.names", "_darknet.labels")  # Darknet's, a class name a line
OBJ_DATA = "obj.data"  # Darknet's, with the lists of the images of each side
_LOW, _HIGH = -0.01, 1.01  # shares that ultralytics accepts
_BOX = 5  # numbers in a row of a box: class, x, y, width, height
_QUAD = 9  # numbers in a row of a rotated box: class and four corners


def parse(data: bytes, classes: int | None = None, pose: Pose | None = None) -> Objects:
    """Return the objects of an image, given how many classes there are; equal rows are one."""
    rows: dict[tuple[float, ...], int] = {}
    for line, row in _rows(_text(data)):
        rows.setdefault(row, line)
    widths = set(map(len, rows))
    if len(widths) > 1 and _BOX in widths:
        raise ValueError("has rows of boxes and of polygons: keep those of one kind")
    items = []
    for row, line in rows.items():
        try:
            items.append(_object(row, classes, pose))
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from None
    return Objects(tuple(items), SHARES)


def count_rows(data: bytes) -> int:
    """Return how many rows a text has."""
    return sum(map(bool, map(str.strip, lines_of(_text(data)))))


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8: save the file as UTF-8") from None


def may_be_rotated(objects: Objects) -> bool:
    """Return whether there are objects, and each has four corners, as a rotated box has."""
    return bool(objects.items) and all(
        len(each.polygons) == 1 and len(each.polygons[0]) == _QUAD - 1 for each in objects.items
    )


def _rows(data: str) -> Iterator[tuple[int, tuple[float, ...]]]:
    for number, line in enumerate(lines_of(data), 1):
        if cells := line.split():
            try:
                yield number, tuple(map(float, cells))
            except ValueError:
                raise ValueError(f"line {number}: {line!r:.60} has what is not a number") from None


def _object(row: Sequence[float], classes: int | None, pose: Pose | None) -> Object:
    number, width = row[0], len(row)
    if not 0 <= number < (MOST_CLASSES if classes is None else classes) or number != int(number):
        most = "" if classes is None else f" 0 to {classes - 1}"
        raise ValueError(f"the class {number:g} is none of the classes{most}")
    shares: Sequence[float] = row[1:]
    if pose is not None:
        count, each = pose
        if width != _BOX + count * each:
            raise ValueError(
                f"has {width} columns: a box with {count} keypoints of {each} numbers has "
                f"{_BOX + count * each}"
            )
        across, down, seen = (row[_BOX + at :: each] if at < each else () for at in range(3))
        shares = (*row[1:_BOX], *across, *down)
    elif width == _BOX + 1:
        raise ValueError("has 6 columns: leave out the confidence, which predictions have")
    elif width < _BOX or width % 2 == 0:
        raise ValueError(f"has {width} columns: a box has 5, a polygon 7, 9, 11 or more")
    if not all(_LOW <= share <= _HIGH for share in shares):
        wrong = next(share for share in shares if not _LOW <= share <= _HIGH)
        raise ValueError(f"{wrong:g} is not from 0 to 1: coordinates are shares of the image")
    if pose is None and width > _BOX:
        polygon = tuple(shares)
        return Object(box_of([polygon]), int(number), polygons=(polygon,))
    x, y, w, h = row[1:_BOX]
    if w < 0 or h < 0:
        raise ValueError(f"the box is {w:g} wide and {h:g} high")
    box = x - w / 2, y - h / 2, x + w / 2, y + h / 2
    if pose is None:
        return Object(box, int(number))
    # Keypoints without visibility are labeled, except where nothing is: at 0 0, or below 0.
    places = zip(across, down, strict=True)
    seen = seen or [2.0 * (min(place) >= 0 and any(place)) for place in places]
    if not set(seen) <= {0, 1, 2}:
        raise ValueError("the visibility of a keypoint is 0, 1 or 2")
    points = (value for point in zip(across, down, seen, strict=True) for value in point)
    return Object(box, int(number), keypoints=tuple(points))


# data.yaml

SIDES = ("train", "val", "test")


class DataYaml(NamedTuple):
    """What ``data.yaml`` tells."""

    path: str  # the directory that the paths of sides start from; empty if it names none
    sides: Mapping[str, Sequence[str]]  # directories of images, or lists of them, by side
    names: tuple[str, ...] | None  # class names, by number
    pose: Pose | None
    nc: int | None = None  # number of classes, if the file has that instead of names
    task: str = ""  # what models are trained for, if it tells: detect, segment, pose, obb


def parse_data_yaml(text: str) -> DataYaml:
    """Read ``data.yaml``: the few keys of it that tell of images and classes."""
    values = _top_level(text)
    sides = _sides_in(values)
    path = values.get("path") or ""
    if not isinstance(path, str):
        raise ValueError("path is no text")
    names, count = _names(values.get("names"), values.get("nc"))
    task = values.get("task") or ""
    if not isinstance(task, str):
        raise ValueError("task is no text")
    return DataYaml(path, sides, names, _pose(values.get("kpt_shape")), count, task)


def _sides_in(values: Mapping[str, Value]) -> dict[str, list[str]]:
    return {
        name: [value] if isinstance(value, str) else list(value)
        for name, other in zip(SIDES, ("train", "valid", "test"), strict=True)
        if (value := values.get(name) or values.get(other)) and not isinstance(value, Mapping)
    }


def parse_obj_data(text: str) -> DataYaml:
    """Read Darknet's ``obj.data``: lines such as ``train = data/train.txt``."""
    pairs = (line.partition("=") for line in lines_of(text))
    values = {name.strip().lower(): value.strip() for name, _, value in pairs if value.strip()}
    values.setdefault("valid", values.get("validation", ""))  # a subset of CVAT's
    return DataYaml("", _sides_in(values), None, None)


def _names(found: Value | None, count: Value | None) -> tuple[tuple[str, ...] | None, int | None]:
    """Return the names of classes, or else how many there are."""
    if isinstance(found, dict):
        by_number = {int(number): name for number, name in found.items() if number.isdecimal()}
        if sorted(by_number) != list(range(len(found))):
            raise ValueError("names has other keys than the numbers from 0 on")
        found = [by_number[number] for number in range(len(found))]
    elif found and not isinstance(found, list):
        raise ValueError("names is no list and no map of class names")
    names = tuple(found) if found and isinstance(found, list) else None
    if count is not None:
        if not isinstance(count, str) or not count.isdecimal() or int(count) > MOST_CLASSES:
            raise ValueError(f"nc is {count!r:.40}, not a number of classes")
        if names and int(count) != len(names):
            raise ValueError(f"nc is {count}, but names has {len(names)} classes")
    if names and len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise ValueError(f"names has {twice!r:.60} twice")
    return names, int(count) if names is None and isinstance(count, str) else None


def _pose(shape: Value | None) -> Pose | None:
    if not shape:
        return None
    if not isinstance(shape, list) or len(shape) != 2 or not all(map(str.isdecimal, shape)):
        raise ValueError("kpt_shape is not two numbers, as in [17, 3]")
    count, each = map(int, shape)
    if not count or each not in (2, 3):
        raise ValueError(f"kpt_shape is {shape}: a keypoint has 2 or 3 numbers")
    return count, each


_KEYS = frozenset(("path", "train", "val", "valid", "test", "names", "nc", "kpt_shape", "task"))
_NULL = ("", "~", "null")
_DEEPEST = 32  # lists and maps in one another
_TAG_DIRECTIVE = pattern("^%TAG", re.MULTILINE)

Value: TypeAlias = "str | list[str] | dict[str, str]"


def _top_level(text: str) -> dict[str, Value]:
    """Return the values of the keys that matter; others are passed over, whatever they have."""
    document = _compose(text)
    if document is None or document.id != "mapping":
        return {}
    entries = _entries(document)
    return {name: _value(node, name) for name, node in entries.items() if name in _KEYS}


def _compose(text: str) -> yaml.Node | None:
    """Return the one document of a text as PyYAML's nodes, from which nothing is constructed.

    An anchor costs a hostile text nothing: its node is there once, however many aliases name it.
    """
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    if _TAG_DIRECTIVE.search(text):  # libyaml's time grows with the square of the number of tags
        raise ValueError("has a %TAG directive, which is not read: leave it out")
    try:
        _refuse_nesting(yaml.parse(text, Loader=loader))  # the YAML parser recurses once a level
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        said = ", ".join(filter(None, (error.context, error.problem)))
        raise ValueError(f"{_line(error.problem_mark)}is no YAML: {said}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"is no YAML: {getattr(error, 'reason', error)}") from None


def _refuse_nesting(events: Iterable[yaml.Event]) -> None:
    import yaml

    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(
                f"{_line(event.start_mark)}more than {_DEEPEST} lists and maps in one another"
            )


def _entries(mapping: yaml.Node) -> dict[str, yaml.Node]:
    """Return the values of a map by their keys, which are texts."""
    entries: dict[str, yaml.Node] = {}
    for key, value in mapping.value:
        line = _line(key.start_mark)
        if key.id != "scalar":
            raise ValueError(f"{line}has a list or a map as a key, which is not read")
        if key.value == "<<" and not key.style:
            raise ValueError(f"{line}merges (<<) are not read: write the keys in full")
        if key.value in entries:
            raise ValueError(f"{line}the key {key.value!r:.40} is there twice")
        entries[key.value] = value
    return entries


def _line(mark: yaml.Mark) -> str:
    return f"line {mark.line + 1}: "


def _value(node: yaml.Node, key: str) -> Value:
    """Return a text, a list of texts or a map of texts; the texts are as they are written."""
    if node.id == "mapping":
        return {name: _text_of(item, key) for name, item in _entries(node).items()}
    if node.id == "sequence":
        return [_text_of(item, key) for item in node.value]
    text = _text_of(node, key)
    return "" if text in _NULL and not node.style else text


def _text_of(node: yaml.Node, key: str) -> str:
    if node.id != "scalar":
        line = _line(node.start_mark)
        raise ValueError(f"{line}{key} has lists or maps in it, which are not read")
    return str(node.value)

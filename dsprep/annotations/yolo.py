"""YOLO's annotations: a text for each image, with a row for each object, and ``data.yaml``.

A row is the number of a class, then shares of the image's width and height: the center, width and
height of a box; or the corners of a polygon; or a box and its keypoints, if ``data.yaml`` says how
many (docs.ultralytics.com, "Datasets").
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dsprep.annotations.objects import MOST_CLASSES, SHARES, Object, Objects, box_of

Pose: TypeAlias = tuple[int, int]  # how many keypoints, and the numbers of each: 2, or 3 with v

_LOW, _HIGH = -0.01, 1.01  # shares that ultralytics accepts
_BOX = 5  # columns
_QUAD = 9


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
    return sum(map(bool, map(str.strip, _text(data).splitlines())))


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
    for number, line in enumerate(data.splitlines(), 1):
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
    nc: int | None = None  # how many classes there are, if it tells that alone
    task: str = ""  # what models are trained for, if it tells: detect, segment, pose, obb


def parse_data_yaml(text: str) -> DataYaml:
    """Read ``data.yaml``: the few keys of it that tell of images and classes."""
    values = _top_level(text)
    sides = {
        name: [value] if isinstance(value, str) else list(value)
        for name, other in zip(SIDES, ("train", "valid", "test"), strict=True)
        if (value := values.get(name) or values.get(other)) and not isinstance(value, Mapping)
    }
    path = values.get("path") or ""
    if not isinstance(path, str):
        raise ValueError("path is no text")
    names, count = _names(values.get("names"), values.get("nc"))
    task = values.get("task") or ""
    if not isinstance(task, str):
        raise ValueError("task is no text")
    return DataYaml(path, sides, names, _pose(values.get("kpt_shape")), count, task)


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
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"names has {twice!r:.60} twice")
    return names, int(count) if names is None and isinstance(count, str) else None


def _pose(shape: Value | None) -> Pose | None:
    if not shape:
        return None
    if not isinstance(shape, list) or len(shape) != 2 or not "".join(shape).isdecimal():
        raise ValueError("kpt_shape is not two numbers, as in [17, 3]")
    count, each = map(int, shape)
    if not count or each not in (2, 3):
        raise ValueError(f"kpt_shape is {shape}: a keypoint has 2 or 3 numbers")
    return count, each


# None of these tries a text in more ways than it has characters, whoever wrote it.
_KEY = re.compile(
    r"""((?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*+"""
    r"""|[^\s#"'\[\]{},&*!|>%@`-][^#:]*+(?::(?=\S)[^#:]*+)*+):(?=\s|$)"""
)
_KEYS = frozenset(("path", "train", "val", "valid", "test", "names", "nc", "kpt_shape", "task"))
_TOKEN = re.compile(
    r"""\s*+("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[\[\]{},]|:(?=[\s,\[\]{}]|$)"""
    r"""|[^\s,\[\]{}:"'](?:[^,\[\]{}:]|:(?=[^\s,\[\]{}]))*)"""
)
_BEFORE_COMMENT = re.compile(
    r"""(?:[^"'#]|(?<!\s)#|(?<=[^\s\[{,:])["']|"(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+')*+(?=#|$)"""
)

Value: TypeAlias = "str | list[str] | dict[str, str]"


def _top_level(text: str) -> dict[str, Value]:
    """Return the values of the keys that matter; others are passed over, whatever they have."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.removeprefix("\ufeff").splitlines():
        key = None if line[:1] in " \t#-]}" else _KEY.match(line)
        if key is not None:
            name = _scalar(key[1].strip())
            if name in found:
                raise ValueError(f"the key {name!r:.40} is there twice")
            lines = found[name] = [line[key.end() :]]
        elif line[:1] not in ("", "#") and line[:3] not in ("---", "..."):
            lines.append(line)
    return {name: _value(lines, name) for name, lines in found.items() if name in _KEYS}


def _value(lines: Sequence[str], key: str) -> Value:
    """Return the value of a key, which begins on its line."""
    head, *rest = (_without_comment(line) for line in lines)
    head, rest = head.strip(), [line for line in rest if line.strip()]
    if head[:1] in ("[", "{"):
        return _flow(" ".join([head, *rest]), key)
    if head or not rest:
        if rest:
            raise ValueError(f"the text of {key} has several lines, which are not read")
        return "" if head in ("~", "null") else _scalar(head)
    indents = {len(line) - len(line.lstrip()) for line in rest}
    items = [line.strip() for line in rest]
    if items[0][:1] in ("[", "{"):
        return _flow(" ".join(items), key)
    if len(indents) > 1:
        raise ValueError(f"{key} has lists or maps in it, which are not read")
    if all(item == "-" or item.startswith("- ") for item in items):
        return [_scalar(item[1:].strip()) for item in items]
    found: dict[str, str] = {}
    for item in items:
        match = _KEY.match(item)
        name = _scalar(match[1].strip()) if match else ""
        if match is None or name in found:
            raise ValueError(
                f"{key}: {item!r:.60} is no line of a list or a map, or is there twice"
            )
        found[name] = _scalar(item[match.end() :].strip())
    return found


def _without_comment(line: str) -> str:
    found = _BEFORE_COMMENT.match(line)
    if found is None:
        raise ValueError(f"{line!r:.60} has a quote that does not end")
    return found[0]


def _flow(text: str, key: str) -> Value:
    """Return a list or a map as JSON has them, also with plain texts."""
    tokens, end = list[str](), 0
    while (found := _TOKEN.match(text, end)) is not None:
        tokens.append(found[1].strip())
        end = found.end()
    if text[end:].strip():
        raise ValueError(f"{key}: {text!r:.60} is not read")
    close = "]" if tokens[0] == "[" else "}"
    if tokens[-1] != close or {"[", "]", "{", "}"}.intersection(tokens[1:-1]):
        raise ValueError(f"{key} has lists or maps in it, or does not end")
    items, item = list[list[str]](), list[str]()
    for token in (*tokens[1:-1], ","):
        if token != ",":
            item.append(token)
        elif item:
            items.append(item)
            item = []
    if close == "]" and all(len(item) == 1 for item in items):
        return [_scalar(item[0]) for item in items]
    if close == "}" and all(len(item) == 3 and item[1] == ":" for item in items):
        return {_scalar(item[0]): _scalar(item[2]) for item in items}
    raise ValueError(f"{key}: {text!r:.60} is no list and no map of texts")


def _scalar(text: str) -> str:
    """Return a text, without its quotes; a number or ``no`` stays as it is written."""
    if text[:1] == "'" and text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if text[:1] == '"':
        try:
            return str(json.loads(text))
        except ValueError:
            raise ValueError(f"{text:.60} is no text that is read") from None
    if text[:1] in ("&", "*", "!", "|", ">", "%", "@", "`"):
        raise ValueError(f"{text:.60}: anchors, tags and texts of several lines are not read")
    if ": " in text:
        raise ValueError(f"{text:.60} is a map in a list or a map, which is not read")
    return text

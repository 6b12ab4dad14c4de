"""A look at raw samples: their names, and the types of their values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import isfinite
from typing import Any, Protocol, TypeAlias, runtime_checkable

from dsprep.annotations import hugging_face, mxnet, objects
from dsprep.annotations.objects import APART, Objects
from dsprep.errors import BadImage, BadSample
from dsprep.images.header import read_header
from dsprep.sample import Blobs, Floats, Ints, Sample, Value
from dsprep.schema.choice import Choice
from dsprep.schema.fields import LABEL, TYPES, Place, Schema, parse_label
from dsprep.tuples import NamedTuple
from dsprep.units import quoted

OBJECTS = "objects"  # the field of the objects of images
IMAGE_ID = "image_id"  # the field that is the number of an image in COCO's files

# in a `Meaning`: the type shows in a text, which holds a number, numbers, or a name
LABEL_TEXT = "label text"
# in a `Meaning`: floats may hold the label, which is a class if it is one whole number
LABEL_FLOATS = "label floats"
_SHOWN = 60
_MOST_BOXES = 100_000  # that show their order


class Meaning(NamedTuple):
    """The field, type and role that a raw name stands for in a format."""

    field: str  # the name of the field; empty for what is no field: bookkeeping
    # its type, `LABEL_TEXT`, `LABEL_FLOATS`, or None if its values tell
    type: str | None = None
    role: str = ""  # `IMAGE`, `LABEL`, or empty if the name says nothing of it


@runtime_checkable
class Table(Protocol):
    """The reading table of a format: the meaning of each raw name."""

    @property
    def name(self) -> str:
        """The name of the format."""

    def place_of(self, raw: str) -> str:
        """Return the place that a raw name stands for: several names may be one place."""

    def meaning(self, place: str) -> Meaning:
        """Return what a place means."""

    def placeholders(self, schema: Schema) -> frozenset[str]:
        """Return the raw names of the labels that samples of a schema without a label have."""

    @property
    def parts(self) -> tuple[Place, ...]:
        """The parts of JSON that are fields by convention."""

    @property
    def has_class_ids(self) -> bool:
        """Whether objects have the ids of their classes, where other formats have numbers."""

    def combined(self, fields: dict[str, Value]) -> dict[str, Value]:
        """Return the fields of a raw sample, several that are one value together made that one."""


BoxSeen: TypeAlias = tuple[str, float, float, float, float, float | None, float | None]
"""The key of a sample, four numbers of a box in it, and the size of its image."""


@dataclass
class PlaceSummary:
    """What samples of a look have at a place."""

    count: int = 0  # how many samples have it
    # the types of values, each with the first sample and its value, for messages
    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)
    width: int = 0  # the length of the first list
    keys: dict[str, None] = field(default_factory=dict)  # some keys of JSON objects
    flags: bool = False  # whether some objects have a flag by which they are not like others
    # boxes of objects as Hugging Face has them: the sample, four numbers, width and height
    boxes: list[BoxSeen] = field(default_factory=list)


@dataclass
class Observed:
    """What a look at samples found. Plain data: workers return it."""

    samples: int = 0  # how many samples were looked at
    # what they have, by place, in the order of the first appearance
    places: dict[Place, PlaceSummary] = field(default_factory=dict)
    # places that stand for several raw names of one sample
    together: set[str] = field(default_factory=set)

    def add(self, other: Observed) -> None:
        """Add what was found in later samples."""
        self.samples += other.samples
        self.together |= other.together
        for place, seen in other.places.items():
            own = self.places.setdefault(place, PlaceSummary())
            own.count += seen.count
            own.width = own.width or seen.width
            for kind, example in seen.kinds.items():
                own.kinds.setdefault(kind, example)
            own.keys |= seen.keys
            own.flags |= seen.flags
            own.boxes += seen.boxes


def observe(samples: Iterable[Sample], table: Table, choice: Choice) -> Observed:
    """Look at raw samples."""
    found = Observed()
    hints: dict[str, str | None] = {}
    known = choice.schema.by_place if choice.schema else ()
    parts = dict.fromkeys((*choice.paths, *(place for place in known if place[1:])))
    roots = {path[0] for path in parts}
    for sample in samples:
        found.samples += 1
        try:
            fields = table.combined(sample.fields)
        except BadSample:  # reading the sample reports the error
            continue
        names = Counter(map(table.place_of, fields))
        found.together.update(name for name, count in names.items() if count > 1)
        for raw, value in fields.items():
            # Whether a place stands for one raw name or more shows when all samples are seen.
            for name in dict.fromkeys((raw, table.place_of(raw))):
                if name not in hints:
                    meant, hint, role = table.meaning(name)
                    if choice.label and choice.label in (name, meant) and role != LABEL:
                        hint = LABEL_TEXT
                    is_text = hint == LABEL_TEXT and choice.label_type == "text"
                    # Who says what labels are, wants no boxes of them.
                    hint = None if hint == LABEL_FLOATS and choice.label_type else hint
                    hints[name] = "text" if is_text else hint
                _see(found, (name,), value, hints[name], sample.key)
                _see_boxes(found.places[name,], value, sample)
        wholes = {raw: parsed(sample.fields.get(raw)) for raw in roots}
        for path in parts:
            if (value := below(wholes[path[0]], path)) is not None:
                _see(found, path, value, LABEL_TEXT, sample.key)
        for path in table.parts:
            if not isinstance(whole := parsed(sample.fields.get(path[0])), dict):
                continue
            found.places[path[:1]].keys |= dict.fromkeys(whole)
            if type_of(value := below(whole, path)) == OBJECTS:
                _see(found, path, value, OBJECTS, sample.key)
                _see_boxes(found.places[path], value, sample)
            if type(number := whole.get(IMAGE_ID)) is int and (path[0], IMAGE_ID) not in parts:
                _see(found, (path[0], IMAGE_ID), number, None, sample.key)
        for (name, *_), seen in found.places.items() if choice.label else ():
            if "json" in seen.kinds and isinstance(keys := part_of(sample.fields, (name,)), dict):
                seen.keys |= dict.fromkeys(islice(keys, 100))
    return found


def _see(found: Observed, place: Place, value: Value, hint: str | None, key: str) -> None:
    seen = found.places.setdefault(place, PlaceSummary())
    kind = type_of(value, hint)
    if kind:
        seen.count += 1
        seen.kinds.setdefault(kind, (key, shown(value)))
        if kind == OBJECTS and not seen.flags:
            with suppress(ValueError, TypeError, KeyError):  # reading the sample reports the error
                items = (TYPES[OBJECTS].convert(value) or Objects()).items
                seen.flags = any(each.flags & APART for each in items)
        if not seen.width and kind.startswith("list<"):
            listed: Any = parse_label(value) if isinstance(value, bytes | str) else value
            seen.width = len(listed)


def _see_boxes(seen: PlaceSummary, value: Value, sample: Sample) -> None:
    """Take the boxes of objects as Hugging Face has them, with the size of the image."""
    if not hugging_face.has_form(value) or len(seen.boxes) >= _MOST_BOXES:
        return
    from dsprep.images.transform import size_either_way  # only boxes need it

    images = (each for each in sample.fields.values() if isinstance(each, bytes))
    width, height = next(filter(all, map(size_either_way, images)), (None, None))
    with suppress(ValueError, TypeError, LookupError):  # reading the sample reports the error
        for each in hugging_face.structs_of(value):
            a, b, c, d = numbers = tuple(map(float, each[hugging_face.BOX]))
            if all(map(isfinite, numbers)):
                seen.boxes.append((sample.key, a, b, c, d, width, height))


def part_of(fields: Mapping[str, Value], path: Place) -> Value | None:
    """Return the part of a raw value at a path: a key of JSON, a number of a list; or None."""
    return below(parsed(fields.get(path[0])), path)


def parsed(value: Value | None) -> Value | None:
    """Return a raw value that has parts: what JSON says, or a list."""
    if isinstance(value, Floats):
        return value
    value = value[0] if isinstance(value, tuple | list) and len(value) == 1 else value
    if isinstance(value, bytes | str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value


def below(value: Value | None, path: Place) -> Value | None:
    """Return what a parsed value has at a path, which begins with its own name."""
    if isinstance(value, Floats):
        at = int(path[1]) if path[1].isdecimal() else len(value)
        return value[at] if at < len(value) else None
    for name in path[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def type_of(value: Value, hint: str | None = None) -> str:
    """Return the type of a raw value; the empty string if it is a missing one."""
    if value is None or (isinstance(value, tuple | list) and not value):
        return ""
    if isinstance(value, Objects):
        return OBJECTS
    if hint is not None:
        return _BY_HINT[hint](value) if hint in _BY_HINT else hint
    for kind, type_of_kind in _BY_KIND:
        if isinstance(value, kind):
            return type_of_kind(value)
    return _type_of_json(value)


def _label_type(value: Value) -> str:
    """Return the type of a label, which may be written as text."""
    if isinstance(value, bytes | str):
        try:
            value = parse_label(value)
        except ValueError:
            return "bytes"
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str) and value[:1] == "{":
        with suppress(ValueError, RecursionError):
            return "json" if isinstance(json.loads(value), dict) else "text"
    kind = _float32(type_of(value))
    return "class" if kind == "int" else kind


def _type_of_floats(value: Value) -> str:
    """Return the type of a label that formats have as floats, whole numbers included."""
    if isinstance(value, tuple) and mxnet.is_detection(value) and mxnet.in_shares(value):
        return OBJECTS
    kind = _float32(type_of(value))
    number = value[0] if isinstance(value, tuple) else value
    is_whole = kind in ("int", "float32") and number % 1 == 0 and abs(number) < 2**63
    return "class" if is_whole else kind


_PLAIN = {bool: "bool", int: "int", float: "float64", str: "text"}


def _float32(kind: str) -> str:
    return kind.replace("float64", "float32")  # labels are 32-bit in most formats


def _type_of_numbers(item: str, value: Value) -> str:
    return item if len(value) == 1 else f"list<{item}>"


def _type_of_blobs(value: Value) -> str:
    kinds = set(map(_type_of_blob, value))
    if len(value) == 1:
        return kinds.pop()
    return "list<text>" if kinds == {"text"} else "list<bytes>"


def _type_of_blob(data: bytes) -> str:
    if is_image(data):
        return "image"
    try:
        return "bytes" if "\0" in data.decode() else "text"
    except UnicodeDecodeError:
        return "bytes"


def _type_of_bytes(data: Value) -> str:
    return "image" if is_image(data) else "bytes"


def _type_of_json(value: Value) -> str:
    """Return the type of a value of JSON, or of a cell of a table."""
    if hugging_face.has_form(value) or objects.has_form(value):
        return OBJECTS
    if not isinstance(value, tuple | list):
        return _PLAIN.get(type(value), "json")
    if any(isinstance(each, tuple | list) for each in value):
        return "json"  # without a look into them, which may be as deep as JSON can be
    kinds = set(map(type_of, value))
    joined = kinds.pop() if len(kinds) == 1 else ""
    joined = "float64" if kinds == {"int", "float64"} else joined
    return f"list<{joined}>" if f"list<{joined}>" in TYPES else "json"


# The type of a value by what its raw name means; another hint is itself the type.
_BY_HINT: Mapping[str, Callable[[Value], str]] = {
    LABEL_TEXT: _label_type,
    LABEL_FLOATS: _type_of_floats,
}
# The type of a value by its kind, if its raw name means nothing; others are as JSON has them.
_BY_KIND: tuple[tuple[type, Callable[[Value], str]], ...] = (
    (Ints, partial(_type_of_numbers, "int")),
    (Floats, partial(_type_of_numbers, "float32")),
    (Blobs, _type_of_blobs),
    (bytes, _type_of_bytes),
)


def is_image(data: bytes) -> bool:
    """Return whether bytes are an encoded image: their whole header parses."""
    try:
        read_header(data)
    except BadImage:
        return False
    return True


def shown(value: Value) -> str:
    """Return a value as messages quote it."""
    if isinstance(value, Blobs | Ints | Floats) and len(value) == 1:
        value = value[0]
    if isinstance(value, bytes) and len(value) > _SHOWN:
        return f"{len(value):,} bytes"
    return quoted(value, _SHOWN)
